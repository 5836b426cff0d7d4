//! Groups whose receivers may hang. Such a group is limited to one concurrent request per worker:
//! at first until one of its receivers responds, and again after a request that got no response in
//! time. So the receivers of one customer cannot occupy the slots of all callbacks, whatever their
//! addresses, not even with their first attempts.

use std::collections::HashMap;
use std::sync::Mutex;

use fairlane_core::GroupId;

/// Most groups remembered while they have no running request.
const REMEMBERED_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct HangingGroups(Mutex<HashMap<GroupId, Group>>);

#[derive(Default)]
struct Group {
    exchanges: usize,
    /// Whether the last finished request got a response in time.
    responds: bool,
}

/// A running request to a receiver. One that is dropped without completion counts as hanging.
pub(super) struct Exchange<'a> {
    groups: &'a HangingGroups,
    group: GroupId,
    is_completed: bool,
}

impl HangingGroups {
    /// Begins a request, unless the group already has one and its receivers are not known to
    /// respond.
    pub fn begin(&self, group: &GroupId) -> Option<Exchange<'_>> {
        let mut groups = self.groups();
        if groups.len() >= REMEMBERED_MAX {
            groups.retain(|_, group| group.exchanges > 0);
        }
        let entry = groups.entry(group.clone()).or_default();
        if !entry.responds && entry.exchanges > 0 {
            return None;
        }
        entry.exchanges += 1;
        Some(Exchange { groups: self, group: group.clone(), is_completed: false })
    }

    fn groups(&self) -> std::sync::MutexGuard<'_, HashMap<GroupId, Group>> {
        self.0.lock().expect("nothing panics while it holds the groups")
    }
}

impl Exchange<'_> {
    /// Records that the receiver responded in time, or refused the connection.
    pub fn completed(mut self) {
        self.is_completed = true;
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let mut groups = self.groups.groups();
        let Some(entry) = groups.get_mut(&self.group) else { return };
        entry.exchanges -= 1;
        entry.responds = self.is_completed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> GroupId {
        GroupId::new(name).unwrap()
    }

    #[test]
    fn a_group_has_one_request_at_a_time_until_a_receiver_responds() {
        let groups = HangingGroups::default();
        let (a, b) = (group("a"), group("b"));
        let first = groups.begin(&a).unwrap();
        assert!(groups.begin(&a).is_none(), "its receivers are unknown");
        assert!(groups.begin(&b).is_some(), "other groups have their own");
        first.completed();
        let second = groups.begin(&a).unwrap();
        let third = groups.begin(&a).unwrap();
        drop(second);
        assert!(groups.begin(&a).is_none(), "a receiver did not respond, and a request is running");
        third.completed();
        assert!(groups.begin(&a).is_some());
    }

    #[test]
    fn idle_groups_are_forgotten_when_there_are_many() {
        let groups = HangingGroups::default();
        for number in 0..2 * REMEMBERED_MAX {
            groups.begin(&group(&number.to_string())).unwrap().completed();
        }
        assert!(groups.groups().len() <= REMEMBERED_MAX);
    }
}
