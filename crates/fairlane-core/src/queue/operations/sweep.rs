//! `sweep`: the janitor's step. Jobs that were dropped leave the heads of their lanes, jobs of resumed bulk
//! actions go back to theirs, overdue bulk actions fail, and what is outlived is removed: a bounded number
//! at a time.

use serde::{Deserialize, Serialize};

use crate::limits::{SWEEP_BULKS_MAX, SWEEP_JOBS_MAX};
use crate::numbers::{Micros, within};
use crate::queue::bulk::Fate;
use crate::queue::job::JobKey;
use crate::queue::lane::{GroupKey, LaneKey};
use crate::queue::{BulkCause, Course, Machine};

use super::{Ended, Invalid};

/// Tidies up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// Moves or removes about this many jobs.
    pub jobs_max: usize,
}

/// The reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Jobs that were dropped.
    pub dropped: usize,
    /// Jobs of resumed bulk actions that went back to their lanes.
    pub resumed: usize,
    /// Jobs that were past their time or number and were removed.
    pub removed: usize,
    /// Bulk actions that failed because their deadline has passed.
    pub overdue: usize,
    /// Whether it is worth sweeping again at once.
    pub more: bool,
}

impl Sweep {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        within("the jobs of one sweep", self.jobs_max as u64, 1, SWEEP_JOBS_MAX as u64)?;
        Ok(())
    }
}

impl Machine {
    pub(in crate::queue) fn sweep(&mut self, command: Sweep, now: Micros) -> Swept {
        let overdue = self.fail_overdue(now);
        let mut swept = Swept { dropped: 0, resumed: 0, removed: 0, overdue, more: false };
        let mut left = command.jobs_max;
        let mut ended = Ended::default();
        for _ in 0..SWEEP_BULKS_MAX.min(self.sweeping.len()) {
            if left == 0 {
                break;
            }
            let Some(number) = self.sweeping.pop_front() else { break };
            self.sweep_bulk(number, &mut left, &mut swept, &mut ended);
        }
        self.record_ended(ended, now);
        swept.removed = self.remove_outlived(&mut left, now);
        swept.removed += self.purge(now);
        swept.more = left == 0 || overdue == SWEEP_BULKS_MAX;
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

    /// Does what is left to do for one bulk action; it comes again if that was not all.
    fn sweep_bulk(&mut self, number: u64, left: &mut usize, swept: &mut Swept, ended: &mut Ended) {
        let Some(bulk) = self.bulks.get(&number) else { return };
        let (group, course) = (bulk.group, bulk.course);
        let before = *left;
        match course {
            Course::Hold => return,
            Course::Run => {
                swept.resumed += self.bring_back_held(number, left);
                if self.bulks[&number].on_hold.is_empty() {
                    return;
                }
            }
            Course::Drop => {
                self.drop_held(number, left, ended);
                self.drop_heads(group, left, ended);
                swept.dropped += before - *left;
                let bulk = &self.bulks[&number];
                if bulk.ended_jobs() == bulk.total && bulk.on_hold.is_empty() {
                    return;
                }
            }
        }
        self.sweeping.push_back(number);
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
            self.step_over(key, ended);
            *left -= 1;
        }
    }

    /// Takes jobs that are not to run off the heads of a group's lanes. A lane that is empty then stays where it
    /// stands until the next lease meets it.
    fn drop_heads(&mut self, group: GroupKey, left: &mut usize, ended: &mut Ended) {
        for lane in self.lanes_by_place(group) {
            let lane = LaneKey { group, lane };
            while *left > 0
                && let Some(key) = self.first_of(lane)
                && matches!(self.fate(key), Fate::Drop | Fate::Cancelled)
            {
                let lane = self.lane_mut(lane);
                let _ = lane.returned.pop_front().or_else(|| lane.backlog.pop_front());
                self.step_over(key, ended);
                *left -= 1;
            }
        }
    }

    fn first_of(&self, lane: LaneKey) -> Option<JobKey> {
        let lane = self.lane(lane);
        lane.returned.front().or_else(|| lane.backlog.front()).copied()
    }

    /// Removes the jobs of bulk actions that ended long ago, a chunk at a time, and then the bulk actions.
    fn remove_outlived(&mut self, left: &mut usize, now: Micros) -> usize {
        let mut removed = 0;
        while *left > 0
            && let Some(&(finished_at, number)) = self.finished_bulks.first()
            && finished_at.plus_ms(self.settings.bulk_retention_ms) <= now
        {
            let Some(bulk) = self.bulk_mut(number) else { break };
            let (group, held, chunk) = (bulk.group, !bulk.on_hold.is_empty(), bulk.ended.pop_front());
            let Some((_, ids)) = chunk else {
                if held {
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
        }
    }
}
