//! `hold_bulk`: sets the bulk action's jobs aside when their turn comes; running jobs continue.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::numbers::Micros;
use crate::queue::{BulkMode, BulkRef, BulkState, BulkView, Machine};

/// Holds a bulk action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldBulk {
    /// The bulk action, by group and id.
    pub bulk: BulkRef,
}

/// The reply: the bulk action after the command, or `None` if it does not exist. One that has
/// ended is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkHeld(pub Option<BulkView>);

impl Operation for HoldBulk {
    type Machine = Machine;
    type Reply = BulkHeld;

    const STEM: &'static str = "hold_bulk";

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Produce, &self.bulk.group)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> BulkHeld {
        machine.hold_bulk(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn hold_bulk(&mut self, command: HoldBulk, _: Micros) -> BulkHeld {
        let Some(number) = self.find_bulk(&command.bulk) else { return BulkHeld(None) };
        let bulk = &self.bulks[&number];
        if !bulk.state.is_final() && bulk.state != BulkState::Aggregating {
            self.bulk_mut(number).expect("it was just found").mode = BulkMode::Hold;
        }
        BulkHeld(Some(self.bulk_view(number)))
    }
}
