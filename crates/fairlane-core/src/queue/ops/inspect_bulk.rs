//! `inspect_bulk`: reads one bulk action.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::queue::{BulkRef, BulkView, Machine};

/// Reads one bulk action; `None` if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectBulk {
    /// The bulk action to read.
    pub bulk: BulkRef,
}

impl Operation for InspectBulk {
    type Machine = Machine;
    type Reply = Option<BulkView>;

    const STEM: &'static str = "inspect_bulk";
    const READ_ONLY: bool = true;

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Read, &self.bulk.group)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> Self::Reply {
        machine.find_bulk(&self.bulk).map(|number| machine.bulk_view(number))
    }
}
