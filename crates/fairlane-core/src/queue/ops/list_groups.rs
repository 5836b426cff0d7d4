//! `list_groups`: lists the groups that have unfinished jobs and, on request, those that have
//! settings of their own.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::kernel::page::behind;
use crate::kernel::{Access, Context, Operation, PageSize, Permission};
use crate::limits::LIST_GROUPS_MAX;
use crate::names::GroupId;
use crate::queue::lane::GroupKey;
use crate::queue::{GroupSettings, Machine};

/// Lists groups that have unfinished jobs, and with `all` also groups without jobs that have
/// settings of their own, by name, at most 500 at a time; the last page is shorter than `limit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListGroups {
    /// The last group of the page before; `None` for the first page.
    pub after: Option<GroupId>,
    /// The most groups to return.
    pub limit: usize,
    /// Whether to list also groups without unfinished jobs that have settings of their own.
    pub all: bool,
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
        machine.groups_page(self.after.as_ref(), self.limit, self.all)
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
    fn groups_page(&self, after: Option<&GroupId>, limit: usize, all: bool) -> Vec<GroupLine> {
        let mut names: BTreeSet<&GroupId> = self.active_groups.range(behind(after)).take(limit).collect();
        if all {
            names.extend(self.configured_groups.range(behind(after)).take(limit));
        }
        names.into_iter().take(limit).map(|name| self.group_line(name)).collect()
    }

    /// Adds a group to those that have settings of their own, or removes it.
    pub(in crate::queue) fn list_settings(&mut self, key: GroupKey) {
        let group = &self.groups[key];
        if group.settings == GroupSettings::default() {
            self.configured_groups.remove(&group.name);
        } else {
            self.configured_groups.insert(group.name.clone());
        }
    }
}
