//! Groups that have nothing left are forgotten.
//!
//! A group that has no jobs is looked at after a while, and then from time to time. It is forgotten once nothing is
//! left that could make a difference: no kept jobs, no bulk actions, no settings of its own, and nothing that it would
//! gain by coming back as a new one. So a group that others serve past its lanes' tags keeps them until then.

use crate::limits::{CREDIT, GROUP_IDLE_MS, SWEEP_GROUPS_MAX, UNITS};
use crate::numbers::Micros;

use super::Machine;
use super::lane::{GroupKey, Lane, Standing};
use super::settings::GroupSettings;

impl Machine {
    /// Has a group looked at later, unless it is to be already.
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

    /// Forgets groups that have nothing left; gives how many.
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

    /// Whether a lane would come into its order as a new one does.
    fn is_lane_forgettable(&self, lane: &Lane) -> bool {
        let state = &self.types[lane.type_key];
        let order = &state.orders[lane.level.index()];
        let is_void = state.is_removed || self.is_classic() || lane.epoch != order.epoch;
        let is_passed = lane.remainder == 0 && lane.tag + CREDIT * UNITS <= order.virtual_time;
        lane.standing == Standing::Idle && (is_void || is_passed)
    }
}
