//! `list_snapshots`: lists the snapshots of a group's congestion.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, PageSize, Permission};
use crate::limits::STATS_RETENTION_MS_MAX;
use crate::names::GroupId;
use crate::queue::{Machine, Snapshot};

/// Lists the newest snapshots of a group's congestion, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListSnapshots {
    /// The group whose snapshots are listed.
    pub group: GroupId,
    /// The most snapshots to return.
    pub limit: usize,
}

impl Operation for ListSnapshots {
    type Machine = Machine;
    type Reply = Vec<Snapshot>;

    const STEM: &'static str = "list_snapshots";
    const READ_ONLY: bool = true;

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize {
            what: "the limit of a history",
            items: self.limit,
            items_max: (STATS_RETENTION_MS_MAX / 1000) as usize,
        })
    }

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Read, &self.group)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> Self::Reply {
        machine.history(&self.group, self.limit)
    }
}

impl Machine {
    fn history(&self, name: &GroupId, limit: usize) -> Vec<Snapshot> {
        let Some(&key) = self.groups_by_name.get(name) else { return Vec::new() };
        let history = &self.groups[key].record.history;
        history.iter().skip(history.len().saturating_sub(limit)).copied().collect()
    }
}
