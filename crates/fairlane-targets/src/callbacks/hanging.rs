//! Groups whose receivers hang have one exchange at a time in a worker, until a receiver of theirs answers. So one
//! customer's receivers cannot hold the slots of all callbacks, whatever addresses they have.

use std::collections::HashMap;
use std::sync::Mutex;

use fairlane_core::GroupId;

/// Groups that are remembered while they have no exchange.
const REMEMBERED_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct HangingGroups(Mutex<HashMap<GroupId, Group>>);

#[derive(Default)]
struct Group {
    exchanges: usize,
    /// The last exchange that has ended got no answer in time.
    hangs: bool,
}

/// An exchange with a receiver. One that is dropped without an answer was one that hangs.
pub(super) struct Exchange<'a> {
    groups: &'a HangingGroups,
    group: GroupId,
    is_answered: bool,
}

impl HangingGroups {
    /// Begins an exchange, unless the group hangs and has one.
    pub fn begin(&self, group: &GroupId) -> Option<Exchange<'_>> {
        let mut groups = self.groups();
        if groups.len() >= REMEMBERED_MAX {
            groups.retain(|_, group| group.exchanges > 0);
        }
        let entry = groups.entry(group.clone()).or_default();
        if entry.hangs && entry.exchanges > 0 {
            return None;
        }
        entry.exchanges += 1;
        Some(Exchange { groups: self, group: group.clone(), is_answered: false })
    }

    fn groups(&self) -> std::sync::MutexGuard<'_, HashMap<GroupId, Group>> {
        self.0.lock().expect("nothing panics while it holds the groups")
    }
}

impl Exchange<'_> {
    /// The receiver answered in time, or refused the connection.
    pub fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let mut groups = self.groups.groups();
        let Some(entry) = groups.get_mut(&self.group) else { return };
        entry.exchanges -= 1;
        entry.hangs = !self.is_answered;
        if entry.exchanges == 0 && !entry.hangs {
            groups.remove(&self.group);
        }
    }
}
