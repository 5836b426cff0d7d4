//! `list_activity`: lists the changes in the activity log, the newest first.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::activity::{ActivityEntry, ActivitySubject, Machine};
use crate::kernel::operation::line_of;
use crate::kernel::{Access, Context, Invalid, Operation, PageSize, Permission};
use crate::limits::{ACTIVITY_NAME_BYTES_MAX, LIST_ACTIVITY_MAX};
use crate::numbers::Micros;

/// Lists changes, the newest first. It may read the entire log, whose size is bounded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListActivity {
    /// Only changes before this time: the `next` of the page before.
    pub before: Option<Micros>,
    /// Only changes of this group, type, lock, room or board.
    pub subject: Option<ActivitySubject>,
    /// The most changes to return.
    pub limit: usize,
}

/// The reply to [`ListActivity`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityListed {
    /// The changes, the newest first.
    pub entries: Vec<ActivityEntry>,
    /// Where the next page begins, if this one is full.
    pub next: Option<Micros>,
}

impl Operation for ListActivity {
    type Machine = Machine;
    type Reply = ActivityListed;

    const STEM: &'static str = "list_activity";
    const READ_ONLY: bool = true;

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize { what: "the changes of a page", items: self.limit, items_max: LIST_ACTIVITY_MAX })
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.validate_page()?;
        if let Some(subject) = &self.subject {
            line_of("the name of a changed thing", &subject.name, ACTIVITY_NAME_BYTES_MAX)?;
        }
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> ActivityListed {
        let end = self.before.map_or(Bound::Unbounded, Bound::Excluded);
        let older = machine.entries.range((Bound::Unbounded, end)).rev().map(|(_, entry)| entry);
        let is_wanted = |entry: &&ActivityEntry| self.subject.is_none() || entry.subject == self.subject;
        let entries: Vec<ActivityEntry> = older.filter(is_wanted).take(self.limit).cloned().collect();
        let next = entries.last().filter(|_| entries.len() == self.limit).map(|entry| entry.at);
        ActivityListed { entries, next }
    }
}
