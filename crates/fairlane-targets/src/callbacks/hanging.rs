//! A group has one exchange at a time in a worker until one of its receivers answers, and again after one that
//! did not answer in time. So the receivers of one customer cannot hold the slots of all callbacks, whatever
//! addresses they have, not even with their first attempts.

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
    /// The last exchange that has ended got an answer in time.
    answers: bool,
}

/// An exchange with a receiver. One that is dropped without an answer was one that hangs.
pub(super) struct Exchange<'a> {
    groups: &'a HangingGroups,
    group: GroupId,
    is_answered: bool,
}

impl HangingGroups {
    /// Begins an exchange, unless the group has one and its receivers are not known to answer.
    pub fn begin(&self, group: &GroupId) -> Option<Exchange<'_>> {
        let mut groups = self.groups();
        if groups.len() >= REMEMBERED_MAX {
            groups.retain(|_, group| group.exchanges > 0);
        }
        let entry = groups.entry(group.clone()).or_default();
        if !entry.answers && entry.exchanges > 0 {
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
        entry.answers = self.is_answered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &str) -> GroupId {
        GroupId::new(name).unwrap()
    }

    #[test]
    fn a_group_has_one_exchange_at_a_time_until_a_receiver_answers() {
        let groups = HangingGroups::default();
        let (a, b) = (group("a"), group("b"));
        let first = groups.begin(&a).unwrap();
        assert!(groups.begin(&a).is_none(), "nothing is known of its receivers");
        assert!(groups.begin(&b).is_some(), "other groups have their own");
        first.answered();
        let second = groups.begin(&a).unwrap();
        let third = groups.begin(&a).unwrap();
        drop(second);
        assert!(groups.begin(&a).is_none(), "a receiver has not answered, and an exchange is under way");
        third.answered();
        assert!(groups.begin(&a).is_some());
    }

    #[test]
    fn idle_groups_are_forgotten_when_there_are_many() {
        let groups = HangingGroups::default();
        for number in 0..2 * REMEMBERED_MAX {
            groups.begin(&group(&number.to_string())).unwrap().answered();
        }
        assert!(groups.groups().len() <= REMEMBERED_MAX);
    }
}
