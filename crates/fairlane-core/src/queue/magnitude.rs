//! The index of groups by the magnitude of their backlog, so that the largest groups are found
//! without reading the others.
//!
//! A magnitude is a number of binary digits: a backlog of 8 to 15 jobs has magnitude 4. A group
//! rises at once, and falls only when its backlog is below half of the smallest backlog of its
//! magnitude. So a backlog that oscillates around a power of two changes nothing, and a group that
//! falls has lost at least as many jobs as it keeps. Groups below [`LARGE_MAGNITUDE`] are not in
//! the index, so a group with an occasional job costs nothing.
//!
//! Invariant: after every command, the magnitude of every group is the one that [`magnitude`] keeps.

use crate::limits::LARGE_MAGNITUDE;
use crate::names::GroupId;

use super::Machine;
use super::lane::{GroupKey, Record};
use super::ops::GroupLine;

/// The magnitude of a group that had magnitude `before` and now has this backlog; 0 if it is not in
/// the index.
pub(super) fn magnitude(before: u32, backlog: u64) -> u32 {
    let digits = u64::BITS - backlog.leading_zeros();
    if before > 0 && (before - 1..=before).contains(&digits) {
        return before;
    }
    if digits >= LARGE_MAGNITUDE { digits } else { 0 }
}

impl Machine {
    /// Moves a group within the index if its backlog requires it.
    pub(super) fn index_group(&mut self, key: GroupKey) {
        let group = &self.groups[key];
        let (before, after) = (group.magnitude, magnitude(group.magnitude, group.backlog));
        if before == after {
            return;
        }
        let group = &mut self.groups[key];
        group.magnitude = after;
        self.large_groups.remove(&(before, group.name.clone()));
        if after > 0 {
            self.large_groups.insert((after, group.name.clone()));
        }
    }

    /// Puts a group into the index after its row and its jobs were read. Rows that were written
    /// before there was an index have no magnitude.
    pub(super) fn restore_index(&mut self, key: GroupKey) {
        let group = &mut self.groups[key];
        group.magnitude = magnitude(group.magnitude, group.backlog);
        if group.magnitude > 0 {
            self.large_groups.insert((group.magnitude, group.name.clone()));
        }
    }

    /// The line of a group in a list.
    pub(super) fn group_line(&self, name: &GroupId) -> GroupLine {
        let group = &self.groups[self.groups_by_name[name]];
        let Record { waiting, total, done, backoff_ms, .. } = group.record;
        let (backlog, in_flight) = (group.backlog, group.in_flight);
        let settings = group.settings.clone();
        GroupLine { group: name.clone(), backlog, in_flight, waiting, total, done, backoff_ms, settings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_around_a_power_of_two_keeps_its_magnitude() {
        let mut now = magnitude(0, 1024);
        assert_eq!(now, 11);
        for backlog in [1023, 1024, 1025, 1023, 512, 2047] {
            now = magnitude(now, backlog);
            assert_eq!(now, 11, "{backlog}");
        }
        assert_eq!((magnitude(now, 511), magnitude(now, 2048)), (9, 12));
    }

    #[test]
    fn small_groups_are_not_in_the_index() {
        assert_eq!((magnitude(0, 0), magnitude(0, 7), magnitude(0, 8)), (0, 0, 4));
        assert_eq!((magnitude(4, 4), magnitude(4, 3), magnitude(11, 5)), (4, 0, 0));
    }

    #[test]
    fn a_drained_group_is_moved_once_for_two_powers_of_two() {
        let (mut now, mut moves) = (magnitude(0, 100_000), 0);
        for backlog in (0..100_000).rev() {
            let next = magnitude(now, backlog);
            moves += u32::from(next != now);
            now = next;
        }
        assert_eq!((now, moves), (0, 7));
    }
}
