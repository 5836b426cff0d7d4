//! `resume_bulk`: lets the jobs of a held bulk action run again; those on hold go to the
//! head of their lanes.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::numbers::Micros;
use crate::queue::{BulkMode, BulkRef, BulkView, Machine};

/// Resumes a bulk action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumeBulk {
    /// The bulk action, by group and id.
    pub bulk: BulkRef,
}

/// The reply: the bulk action after the command, or `None` if it does not exist. One that has
/// ended is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkResumed(pub Option<BulkView>);

impl Operation for ResumeBulk {
    type Machine = Machine;
    type Reply = BulkResumed;

    const STEM: &'static str = "resume_bulk";

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Produce, &self.bulk.group)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> BulkResumed {
        machine.resume_bulk(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn resume_bulk(&mut self, command: ResumeBulk, _: Micros) -> BulkResumed {
        let Some(number) = self.find_bulk(&command.bulk) else { return BulkResumed(None) };
        let bulk = &self.bulks[&number];
        if bulk.mode == BulkMode::Hold && !bulk.state.is_final() {
            let set_aside = !bulk.on_hold.is_empty();
            self.bulk_mut(number).expect("it was just found").mode = BulkMode::Run;
            if set_aside {
                self.sweep_later(number);
            }
        }
        BulkResumed(Some(self.bulk_view(number)))
    }
}
