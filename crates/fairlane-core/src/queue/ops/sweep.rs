//! `sweep`: the housekeeping of the queue, in bounded steps. It removes unrunnable jobs from
//! the heads of lanes, ends dropped jobs that wait for a time, returns jobs of resumed bulk
//! actions to their lanes, fails overdue bulk actions, removes what is past its retention, and
//! forgets idle groups.
//!
//! A bulk action is swept until none of its jobs can be reached any more. Its running jobs end when
//! they are settled, and jobs behind runnable ones when their turn comes.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::one_to;
use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::{SWEEP_BULKS_MAX, SWEEP_GROUPS_MAX, SWEEP_JOBS_MAX, SWEEP_LANES_MAX};
use crate::numbers::Micros;
use crate::queue::job::{JobKey, Place};
use crate::queue::lane::{Entry, GroupKey, Head, LaneKey, Standing};
use crate::queue::{BulkCause, BulkMode, Machine};

use super::Ended;

/// Performs one step of housekeeping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// About how many jobs to move or remove at most.
    pub jobs_max: usize,
}

/// The reply to [`Sweep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Jobs that were dropped.
    pub dropped: usize,
    /// Jobs of resumed bulk actions that went back to their lanes.
    pub resumed: usize,
    /// Jobs beyond their retention or number that were removed.
    pub removed: usize,
    /// Bulk actions that failed because their deadline passed.
    pub overdue: usize,
    /// Whether another call would find more to do at once.
    pub more: bool,
}

impl Operation for Sweep {
    type Machine = Machine;
    type Reply = Swept;

    const STEM: &'static str = "sweep";

    fn validate(&self) -> Result<(), Invalid> {
        one_to("the jobs of one sweep", self.jobs_max, SWEEP_JOBS_MAX)
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Work)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> Swept {
        machine.sweep(self, context.now)
    }
}

impl Machine {
    pub(in crate::queue) fn sweep(&mut self, command: Sweep, now: Micros) -> Swept {
        let overdue = self.fail_overdue(now);
        let mut swept = Swept { dropped: 0, resumed: 0, removed: 0, overdue, more: false };
        let (mut ended, mut cleared) = (Ended::default(), Vec::new());
        // Bulk actions and lanes each have their own half of the budget.
        let for_lanes = if self.clearing.is_empty() { 0 } else { command.jobs_max / 2 };
        let mut left = command.jobs_max - for_lanes;
        for _ in 0..SWEEP_BULKS_MAX.min(self.sweeping.len()) {
            if left == 0 {
                break;
            }
            let Some(number) = self.sweeping.pop_front() else { break };
            swept.resumed += self.sweep_bulk(number, &mut left, &mut ended, &mut cleared);
        }
        left += for_lanes;
        self.clear_lanes(&mut left, &mut ended);
        swept.dropped = ended.filed;
        self.record_ended(ended, now);
        swept.removed = self.remove_outlived(&mut left, now);
        swept.removed += self.purge(now);
        let forgotten = self.forget_idle_groups(now);
        let unswept = !self.sweeping.is_empty() || !self.clearing.is_empty();
        let in_full = left == 0 || overdue == SWEEP_BULKS_MAX || forgotten == SWEEP_GROUPS_MAX;
        swept.more = in_full || unswept;
        swept
    }

    /// Fails bulk actions whose deadline has passed.
    fn fail_overdue(&mut self, now: Micros) -> usize {
        let mut overdue = 0;
        while overdue < SWEEP_BULKS_MAX {
            let Some(&(deadline, number)) = self.bulk_deadlines.first() else { break };
            if deadline > now {
                break;
            }
            self.bulk_deadlines.pop_first();
            self.fail_bulk(number, BulkCause::Deadline);
            overdue += 1;
        }
        overdue
    }

    /// Performs the pending work of one bulk action and returns the number of jobs that went back
    /// to their lanes. It is scheduled again if work remains. `cleared` are the groups with lanes
    /// that were cleared before.
    fn sweep_bulk(
        &mut self,
        number: u64,
        left: &mut usize,
        ended: &mut Ended,
        cleared: &mut Vec<GroupKey>,
    ) -> usize {
        let Some(bulk) = self.bulks.get(&number) else { return 0 };
        let (group, mode) = (bulk.group, bulk.mode);
        let mut resumed = 0;
        match mode {
            BulkMode::Hold => return 0,
            BulkMode::Run => {
                resumed = self.bring_back_held(number, left);
                if self.bulks[&number].on_hold.is_empty() {
                    return resumed;
                }
            }
            BulkMode::Drop => {
                self.drop_held(number, left, ended);
                self.drop_waiting(number, left, ended);
                if !cleared.contains(&group) {
                    cleared.push(group);
                    self.clear_heads(group, left, ended);
                }
                let bulk = &self.bulks[&number];
                let all_ended = bulk.ended_jobs() == bulk.total && bulk.on_hold.is_empty();
                if *left > 0 || all_ended {
                    return 0;
                }
            }
        }
        self.sweeping.push_back(number);
        resumed
    }

    fn bring_back_held(&mut self, number: u64, left: &mut usize) -> usize {
        let mut moved = 0;
        while *left > 0
            && let Some(key) = self.bulk_mut(number).and_then(|bulk| bulk.on_hold.pop_front())
        {
            self.return_to_lane(key, false);
            *left -= 1;
            moved += 1;
        }
        moved
    }

    fn drop_held(&mut self, number: u64, left: &mut usize, ended: &mut Ended) {
        while *left > 0
            && let Some(key) = self.bulk_mut(number).and_then(|bulk| bulk.on_hold.pop_front())
        {
            self.skip_unrunnable(key, ended);
            *left -= 1;
        }
    }

    /// Ends dropped jobs that wait for a time.
    fn drop_waiting(&mut self, number: u64, left: &mut usize, ended: &mut Ended) {
        while *left > 0
            && let Some((_, &key)) = self.bulks.get(&number).and_then(|bulk| bulk.waiting.first_key_value())
        {
            let Place::Waiting(due) = self.jobs[key].place else { return };
            self.stop_waiting(key, due);
            self.skip_unrunnable(key, ended);
            *left -= 1;
        }
    }

    /// Removes unrunnable jobs from the heads of a group's lanes. A lane that is empty then stays
    /// in its order until the next lease visits it.
    fn clear_heads(&mut self, group: GroupKey, left: &mut usize, ended: &mut Ended) {
        for lane in self.lanes_by_place(group) {
            self.clear_head(LaneKey { group, lane }, left, ended);
        }
    }

    /// Clears the heads of lanes that left their order for it. A lane returns to its order with its
    /// first runnable job. A lane that exceeds the remaining budget goes to the end of the list.
    fn clear_lanes(&mut self, left: &mut usize, ended: &mut Ended) {
        for _ in 0..SWEEP_LANES_MAX {
            let Some(((_, name), key)) = self.clearing.pop_first() else { return };
            match self.clear_head(key, left, ended) {
                Head::Runnable(_) => {
                    self.enter_order(key, Entry::Back);
                    self.push_token(self.lane(key).type_key);
                }
                Head::Empty => self.lane_mut(key).standing = Standing::Idle,
                Head::Blocked => {
                    self.lane_mut(key).standing = Standing::Clearing(self.now);
                    self.clearing.insert((self.now, name), key);
                    return;
                }
            }
        }
    }

    /// Removes bulk actions beyond their retention: first their jobs, a chunk at a time, and then
    /// the bulk actions.
    fn remove_outlived(&mut self, left: &mut usize, now: Micros) -> usize {
        let mut removed = 0;
        while *left > 0
            && let Some(&(finished_at, number)) = self.finished_bulks.first()
            && finished_at.plus_ms(self.settings.bulk_retention_ms) <= now
        {
            let Some(bulk) = self.bulk_mut(number) else { break };
            let unswept = !bulk.on_hold.is_empty() || !bulk.waiting.is_empty();
            let (group, chunk) = (bulk.group, bulk.ended.pop_front());
            let Some((_, ids)) = chunk else {
                if unswept {
                    break;
                }
                self.finished_bulks.pop_first();
                self.forget_bulk(number);
                *left -= 1;
                continue;
            };
            *left = left.saturating_sub(ids.len());
            for id in ids {
                let key = self.groups[group].jobs.get(&id).copied();
                let Some(key) = key.filter(|key| self.is_ended_of(*key, number)) else { continue };
                self.forget_dead(key);
                self.remove_job(key);
                removed += 1;
            }
        }
        removed
    }

    /// Whether a job has ended and still belongs to this bulk action.
    pub(super) fn is_ended_of(&self, key: JobKey, number: u64) -> bool {
        let job = &self.jobs[key];
        job.bulk == Some(number) && job.place.is_end()
    }

    fn forget_bulk(&mut self, number: u64) {
        self.take_no_more(number);
        if let Some(bulk) = self.bulks.remove(&number) {
            self.groups[bulk.group].bulks.remove(&bulk.name);
            self.subtract_bytes(bulk.group, bulk.stored_bytes());
            self.watch_idle(bulk.group);
        }
    }
}
