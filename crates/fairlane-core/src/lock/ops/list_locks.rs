//! `list_locks`: locks in the order of their names, page by page.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::kernel::page::page_of;
use crate::kernel::{Access, Context, Operation, PageSize, Permission};
use crate::limits::LIST_LOCKS_MAX;
use crate::lock::{LockName, LockView, Machine};
use crate::names::GroupId;
use crate::numbers::Micros;

/// Lists locks that have holders or waiters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListLocks {
    /// Lists only locks of this group; `None` for all locks.
    pub group: Option<GroupId>,
    /// Lists only locks after this name; `None` for the first page.
    pub after: Option<LockName>,
    /// The most locks to read. Those that are no longer in use are not returned.
    pub locks_max: usize,
}

/// The reply to [`ListLocks`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocksListed {
    /// The locks, ordered by name.
    pub locks: Vec<LockView>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<LockName>,
}

impl Operation for ListLocks {
    type Machine = Machine;
    type Reply = LocksListed;

    const STEM: &'static str = "list_locks";
    const READ_ONLY: bool = true;

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize { what: "the locks of a page", items: self.locks_max, items_max: LIST_LOCKS_MAX })
    }

    fn access(&self) -> Access<'_> {
        Access::group_or_all(Permission::Read, self.group.as_ref())
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> LocksListed {
        machine.list_locks(&self, context.now)
    }
}

impl Machine {
    fn list_locks(&self, command: &ListLocks, now: Micros) -> LocksListed {
        let prefix = command.group.as_ref().map(|group| format!("{}:", group.escaped())).unwrap_or_default();
        let from = match &command.after {
            Some(after) if after.as_str() >= prefix.as_str() => Bound::Excluded(after.clone()),
            _ => LockName::new(&prefix).map_or(Bound::Unbounded, Bound::Included),
        };
        let of_group = self.locks.range((from, Bound::Unbounded));
        let of_group = of_group.take_while(|(name, _)| name.as_str().starts_with(&prefix));
        let (page, next) = page_of(of_group, command.locks_max);
        let views = page.into_iter().map(|(name, lock)| LockView::of(name, lock, now));
        LocksListed { locks: views.filter(LockView::is_in_use).collect(), next }
    }
}
