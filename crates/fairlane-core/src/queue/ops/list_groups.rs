//! `list_groups`: lists the groups that have unfinished jobs.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::LIST_GROUPS_MAX;
use crate::names::GroupId;
use crate::numbers::within;
use crate::queue::{GroupSettings, Machine};

/// Lists groups that have unfinished jobs, by name, at most 500 at a time; the last page is
/// shorter than `limit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListGroups {
    /// The last group of the page before; `None` for the first page.
    pub after: Option<GroupId>,
    /// The most groups to return.
    pub limit: usize,
}

impl Operation for ListGroups {
    type Machine = Machine;
    type Reply = Vec<GroupLine>;

    const STEM: &'static str = "list_groups";

    fn validate(&self) -> Result<(), Invalid> {
        within("the limit of a page", self.limit as u64, 1, LIST_GROUPS_MAX as u64)?;
        Ok(())
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.limit)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> Self::Reply {
        machine.groups_page(self.after.as_ref(), self.limit)
    }
}

/// One group of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLine {
    /// The id of the group.
    pub group: GroupId,
    /// Unfinished jobs that are not in flight.
    pub backlog: u64,
    /// Leased jobs.
    pub in_flight: u64,
    /// Jobs of the backlog that must not run yet.
    pub waiting: u64,
    /// Jobs enqueued since the group was last idle.
    pub total: u64,
    /// Jobs of `total` that have ended.
    pub done: u64,
    /// The newest backoff or predicted wait, in milliseconds.
    pub backoff_ms: u64,
    /// The settings of the group.
    pub settings: GroupSettings,
}

impl Machine {
    fn groups_page(&self, after: Option<&GroupId>, limit: usize) -> Vec<GroupLine> {
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.active_groups.range((first, Bound::Unbounded)).take(limit);
        names.map(|name| self.group_line(name)).collect()
    }
}
