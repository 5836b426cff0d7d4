//! `list_bulks`: lists a group's bulk actions.

use serde::{Deserialize, Serialize};

use crate::kernel::page::behind;
use crate::kernel::{Access, Context, Invalid, Operation, PageSize, Permission};
use crate::limits::{INTEGER_MAX, LIST_GROUPS_MAX};
use crate::names::GroupId;
use crate::numbers::within;
use crate::queue::{BulkView, Machine};

/// Lists a group's bulk actions in the order they were opened, at most 500 at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListBulks {
    /// The group whose bulk actions are listed.
    pub group: GroupId,
    /// The cursor: 0 for the first page, then [`BulkPage::next`].
    pub after: u64,
    /// The most bulk actions to return.
    pub limit: usize,
    /// Whether to return only bulk actions that have not ended; the others are not read then.
    pub unfinished: bool,
}

impl Operation for ListBulks {
    type Machine = Machine;
    type Reply = BulkPage;

    const STEM: &'static str = "list_bulks";
    const READ_ONLY: bool = true;

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize { what: "the limit of a page", items: self.limit, items_max: LIST_GROUPS_MAX })
    }

    fn validate(&self) -> Result<(), Invalid> {
        within("the cursor of a page", self.after, 0, INTEGER_MAX - 1)?;
        self.validate_page()
    }

    fn access(&self) -> Access<'_> {
        Access::group(Permission::Read, &self.group)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> Self::Reply {
        machine.bulks_page(&self.group, self.after, self.limit, self.unfinished)
    }
}

/// A page of bulk actions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkPage {
    /// The bulk actions, in the order they were opened.
    pub bulks: Vec<BulkView>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<u64>,
}

impl Machine {
    fn bulks_page(&self, group: &GroupId, after: u64, limit: usize, unfinished: bool) -> BulkPage {
        let group = self.groups_by_name.get(group).map(|&key| &self.groups[key]);
        let mut numbers: Vec<u64> = match group {
            None => Vec::new(),
            Some(group) if unfinished => {
                let numbers = group.unfinished.range(behind(Some(after)));
                numbers.take(limit + 1).copied().collect()
            }
            Some(group) => group.bulks.values().copied().filter(|number| *number > after).collect(),
        };
        numbers.sort_unstable();
        let next = (numbers.len() > limit).then(|| numbers[limit - 1]);
        numbers.truncate(limit);
        BulkPage { bulks: numbers.into_iter().map(|number| self.bulk_view(number)).collect(), next }
    }
}
