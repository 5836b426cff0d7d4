//! Idle groups are forgotten.
//!
//! `sweep` checks a group some time after its last job has ended, and again at intervals. It
//! forgets the group once that makes no difference: the group has no kept jobs, no bulk actions and
//! no settings, and it would gain nothing by returning as a new group. Until the virtual time has
//! passed the tags of its lanes, the group is therefore kept.

use crate::limits::{CREDIT, GROUP_IDLE_MS, SWEEP_GROUPS_MAX, UNITS};
use crate::numbers::Micros;

use super::Machine;
use super::lane::{GroupKey, Lane, Standing};
use super::settings::GroupSettings;

impl Machine {
    /// Schedules the check of an idle group, unless one is scheduled.
    pub(super) fn watch_idle(&mut self, key: GroupKey) {
        if self.groups[key].idle_at.is_none() {
            self.look_at_group(key, self.now.plus_ms(GROUP_IDLE_MS));
        }
    }

    pub(super) fn look_at_group(&mut self, key: GroupKey, at: Micros) {
        let group = &mut self.groups[key];
        group.idle_at = Some(at);
        self.idle_groups.insert((at, group.name.escaped().into()), key);
    }

    /// Forgets idle groups and returns their number.
    pub(super) fn forget_idle_groups(&mut self, now: Micros) -> usize {
        let mut forgotten = 0;
        for _ in 0..SWEEP_GROUPS_MAX {
            let Some(first) = self.idle_groups.first_entry() else { break };
            if first.key().0 > now {
                break;
            }
            let key = first.remove();
            let group = &mut self.groups[key];
            group.idle_at = None;
            let has_jobs = group.active || group.backlog + group.in_flight > 0;
            if has_jobs || group.settings != GroupSettings::default() {
                continue;
            }
            if !self.is_forgettable(key, now) {
                self.look_at_group(key, now.plus_ms(GROUP_IDLE_MS));
                continue;
            }
            let group = self.groups.remove(key);
            self.groups_by_name.remove(&group.name);
            forgotten += 1;
        }
        forgotten
    }

    fn is_forgettable(&self, key: GroupKey, now: Micros) -> bool {
        let group = &self.groups[key];
        let is_empty = group.jobs.is_empty() && group.bulks.is_empty();
        is_empty
            && group.window.0 != Self::second(now)
            && group.lanes.iter().all(|lane| self.is_lane_forgettable(lane))
    }

    /// Whether the lane would enter its order at the same position as a new lane.
    fn is_lane_forgettable(&self, lane: &Lane) -> bool {
        let state = &self.types[lane.type_key];
        let order = &state.orders[lane.level.index()];
        let is_void = state.is_removed || self.is_classic() || lane.epoch != order.epoch;
        let is_passed = lane.remainder == 0 && lane.tag + CREDIT * UNITS <= order.virtual_time;
        lane.standing == Standing::Idle && (is_void || is_passed)
    }
}
