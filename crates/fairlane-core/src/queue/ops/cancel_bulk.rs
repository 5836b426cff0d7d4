//! `cancel_bulk`: replies at once, regardless of the number of jobs. The jobs are dropped when
//! their turn comes, or by `sweep`.
//!
//! The bulk action becomes available for aggregation when the last job has ended. If an aggregator
//! has leased it already, it becomes available again.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::numbers::Micros;
use crate::queue::{BulkRef, BulkState, BulkView, Machine};

/// Cancels a bulk action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelBulk {
    /// The bulk action, by group and id.
    pub bulk: BulkRef,
}

/// The reply: the bulk action after the command, or `None` if it does not exist. One that has
/// ended is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkCancelled(pub Option<BulkView>);

impl Operation for CancelBulk {
    type Machine = Machine;
    type Reply = BulkCancelled;

    const STEM: &'static str = "cancel_bulk";

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Produce, &self.bulk.group)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> BulkCancelled {
        machine.cancel_bulk(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn cancel_bulk(&mut self, command: CancelBulk, _: Micros) -> BulkCancelled {
        let Some(number) = self.find_bulk(&command.bulk) else { return BulkCancelled(None) };
        let bulk = &self.bulks[&number];
        if !bulk.state.is_final() {
            self.drop_bulk(number, BulkState::Cancelled);
        }
        BulkCancelled(Some(self.bulk_view(number)))
    }
}
