//! `list_largest_groups`: lists the groups with unfinished jobs, those with the largest backlogs
//! first.
//!
//! Groups come by the magnitude of their backlog (`queue/magnitude.rs`), which is its power of two
//! with some delay, so a page is not sorted by the exact backlog. Groups that are too small for the
//! index follow by name. The cost of a page grows with its length only.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::GroupLine;
use crate::kernel::page::behind;
use crate::kernel::{Access, Context, Invalid, Operation, PageSize, Permission};
use crate::limits::LIST_GROUPS_MAX;
use crate::names::GroupId;
use crate::numbers::within;
use crate::queue::Machine;

/// Lists groups that have unfinished jobs, by descending magnitude of their backlog, at most 500 at
/// a time. A group that moves between two pages may be missing or listed twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListLargestGroups {
    /// The `next` of the page before; `None` for the first page.
    pub after: Option<LargestCursor>,
    /// The most groups to return.
    pub limit: usize,
}

/// A position in the list of the largest groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestCursor {
    /// The magnitude of the last group; 0 among the groups that come by name.
    pub magnitude: u32,
    /// The last group.
    pub group: GroupId,
}

/// The reply to [`ListLargestGroups`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargestGroups {
    /// The groups. A page may have fewer than `limit`, or none, although more follow.
    pub groups: Vec<GroupLine>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<LargestCursor>,
}

impl Operation for ListLargestGroups {
    type Machine = Machine;
    type Reply = LargestGroups;

    const STEM: &'static str = "list_largest_groups";
    const READ_ONLY: bool = true;

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize { what: "the limit of a page", items: self.limit, items_max: LIST_GROUPS_MAX })
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.validate_page()?;
        if let Some(after) = &self.after {
            within("the magnitude of a position", after.magnitude.into(), 0, u64::BITS.into())?;
        }
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> LargestGroups {
        match self.after {
            Some(LargestCursor { magnitude: 0, group }) => machine.small_groups(Some(&group), self.limit),
            after => machine.largest_groups(after, self.limit),
        }
    }
}

impl Machine {
    fn largest_groups(&self, after: Option<LargestCursor>, limit: usize) -> LargestGroups {
        let end = after.map_or(Bound::Unbounded, |after| Bound::Excluded((after.magnitude, after.group)));
        let behind = self.large_groups.range((Bound::Unbounded, end)).rev();
        let page: Vec<&(u32, GroupId)> = behind.take(limit).collect();
        let groups: Vec<GroupLine> = page.iter().map(|(_, name)| self.group_line(name)).collect();
        if let Some((magnitude, group)) = page.last().filter(|_| page.len() == limit) {
            let next = LargestCursor { magnitude: *magnitude, group: group.clone() };
            return LargestGroups { groups, next: Some(next) };
        }
        let rest = self.small_groups(None, limit - groups.len());
        LargestGroups { groups: [groups, rest.groups].concat(), next: rest.next }
    }

    /// The groups that are not in the index among `limit` active groups after `after`.
    fn small_groups(&self, after: Option<&GroupId>, limit: usize) -> LargestGroups {
        let names: Vec<&GroupId> = self.active_groups.range(behind(after)).take(limit).collect();
        let is_small = |name: &&&GroupId| self.groups[self.groups_by_name[**name]].magnitude == 0;
        let groups = names.iter().filter(is_small).map(|name| self.group_line(name)).collect();
        let last = names.last().filter(|_| names.len() == limit);
        let next = last.map(|name| LargestCursor { magnitude: 0, group: (*name).clone() });
        LargestGroups { groups, next }
    }
}
