//! `list_groups`: lists the groups that have unfinished jobs.

use serde::{Deserialize, Serialize};

use crate::kernel::page::behind;
use crate::kernel::{Access, Context, Operation, PageSize, Permission};
use crate::limits::LIST_GROUPS_MAX;
use crate::names::GroupId;
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
    const READ_ONLY: bool = true;

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize { what: "the limit of a page", items: self.limit, items_max: LIST_GROUPS_MAX })
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
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
        let names = self.active_groups.range(behind(after)).take(limit);
        names.map(|name| self.group_line(name)).collect()
    }
}
