//! `settle`: ends attempts. The fence decides: the current one applies, the one settled last is
//! answered again without effect, anything older is stale.

use std::sync::Arc;

use crate::limits::{DELAY_MS_MAX, NOTE_BYTES_MAX, PURGES_PER_SETTLED, RETRY_AFTER_MS_MAX, SETTLE_JOBS_MAX};
use crate::numbers::{Fence, Micros, within};
use crate::queue::job::{JobKey, Place, Run};
use crate::queue::lane::{GroupKey, LaneKey, TypeKey};
use crate::queue::{JobRef, Machine};

use super::{Invalid, at_most, bytes_at_most, each_once};

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Succeeded {
        /// Kept with the job.
        result: Arc<[u8]>,
    },
    /// Failed for good: the job is dead.
    Failed {
        /// Kept with the job.
        reason: Arc<[u8]>,
    },
    /// Failed; to be tried again unless its retries are used up.
    Retry {
        /// After this long.
        delay_ms: u64,
        /// Kept with the job.
        reason: Arc<[u8]>,
    },
    /// The downstream refused it for now: costs no attempt, but slows the type.
    Throttled {
        /// After this long.
        delay_ms: u64,
        /// What the downstream asked for; nothing of this type starts before. 0: it did not say.
        retry_after_ms: u64,
    },
    /// Handed back unworked; goes to the head of its lane.
    Released,
}

/// One attempt's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Which job.
    pub job: JobRef,
    /// Under which lease.
    pub fence: Fence,
    /// How.
    pub outcome: Outcome,
}

/// Ends up to 500 attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// Each job at most once.
    pub settlements: Vec<Settlement>,
}

/// What became of one settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It counts (now, or since it was first said).
    Applied,
    /// The job has moved on under a younger lease, or was never leased so.
    Stale,
    /// There is no such job (any more).
    Gone,
}

/// The reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// In the command's order.
    pub verdicts: Vec<Verdict>,
}

impl Settle {
    pub(super) fn validate(&self) -> Result<(), Invalid> {
        at_most("settle", self.settlements.len(), SETTLE_JOBS_MAX)?;
        for settlement in &self.settlements {
            settlement.outcome.validate()?;
        }
        each_once(self.settlements.iter().map(|settlement| &settlement.job))
    }
}

impl Outcome {
    fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Succeeded { result: note } | Self::Failed { reason: note } => {
                bytes_at_most("a result or reason", note.len(), NOTE_BYTES_MAX)
            }
            Self::Retry { delay_ms, reason } => {
                within("a delay in ms", *delay_ms, 0, DELAY_MS_MAX)?;
                bytes_at_most("a result or reason", reason.len(), NOTE_BYTES_MAX)
            }
            Self::Throttled { delay_ms, retry_after_ms } => {
                within("a delay in ms", *delay_ms, 0, DELAY_MS_MAX)?;
                within("Retry-After in ms", *retry_after_ms, 0, RETRY_AFTER_MS_MAX)?;
                Ok(())
            }
            Self::Released => Ok(()),
        }
    }
}

impl Machine {
    pub(in crate::queue) fn settle(&mut self, command: Settle, now: Micros) -> Settled {
        let count = command.settlements.len();
        let mut touched: Vec<(GroupKey, TypeKey)> = Vec::new();
        let mut verdicts = Vec::with_capacity(count);
        for settlement in command.settlements {
            verdicts.push(self.settle_one(settlement, &mut touched, now));
        }
        self.wake_for_freed_seats(&touched);
        self.purge(count * PURGES_PER_SETTLED, now);
        Settled { verdicts }
    }

    fn settle_one(
        &mut self,
        settlement: Settlement,
        touched: &mut Vec<(GroupKey, TypeKey)>,
        now: Micros,
    ) -> Verdict {
        let Some(key) = self.find_job(&settlement.job) else { return Verdict::Gone };
        let fence = settlement.fence;
        let Some(deadline) = self.deadline_under(key, fence) else {
            let settled = self.jobs[key].run.as_ref().map(|run| run.settled);
            return if settled == Some(fence) { Verdict::Applied } else { Verdict::Stale };
        };
        self.in_flight.remove(&(deadline, fence));
        let (group, type_key) = (self.jobs[key].group, self.jobs[key].type_key);
        self.free_seats(group, type_key, 1);
        if !touched.contains(&(group, type_key)) {
            touched.push((group, type_key));
        }
        let run = self.run_mut(key);
        run.settled = fence;
        run.settled_at = now;
        self.apply_outcome(key, fence, settlement.outcome, now);
        Verdict::Applied
    }

    fn run_mut(&mut self, key: JobKey) -> &mut Run {
        self.jobs[key].run.as_mut().expect("a leased job has a run")
    }

    fn apply_outcome(&mut self, key: JobKey, fence: Fence, outcome: Outcome, now: Micros) {
        let type_key = self.jobs[key].type_key;
        let newest = self.fence;
        let downstream = &mut self.types[type_key].downstream;
        match &outcome {
            Outcome::Throttled { retry_after_ms, .. } => {
                let rate = self.types[type_key].settings.rate;
                let downstream = &mut self.types[type_key].downstream;
                downstream.refused(rate, fence, newest, *retry_after_ms, now);
            }
            Outcome::Released => {}
            _ => downstream.count_goodput(1, now),
        }
        match outcome {
            Outcome::Succeeded { result } => self.finish(key, true, result, now),
            Outcome::Failed { reason } => self.finish(key, false, reason, now),
            Outcome::Retry { delay_ms, reason } => self.retry(key, delay_ms, reason, now),
            Outcome::Throttled { delay_ms, .. } => {
                let most = self.settings.max_throttle_count;
                let run = self.run_mut(key);
                run.throttles += 1;
                if run.throttles <= most {
                    run.attempts -= 1;
                    self.wait_again(key, now.plus_ms(delay_ms));
                } else {
                    self.retry(key, delay_ms, Arc::from(&b"throttled too often"[..]), now);
                }
            }
            Outcome::Released => {
                self.run_mut(key).attempts -= 1;
                self.release(key);
            }
        }
    }

    fn retry(&mut self, key: JobKey, delay_ms: u64, reason: Arc<[u8]>, now: Micros) {
        if self.run_mut(key).attempts > self.settings.max_retry_count {
            return self.finish(key, false, reason, now);
        }
        self.run_mut(key).note = reason;
        self.wait_again(key, now.plus_ms(delay_ms));
    }

    /// A job that is not in flight any more and not at its end counts as backlog again.
    pub(super) fn wait_again(&mut self, key: JobKey, due: Micros) {
        self.count_backlog(key);
        self.start_waiting(key, due);
    }

    fn release(&mut self, key: JobKey) {
        self.count_backlog(key);
        let job = &self.jobs[key];
        let (group, type_key, level, cost) = (job.group, job.type_key, job.level, job.cost.get());
        let lane = LaneKey { group, lane: self.groups[group as usize].lane_index(type_key, level) };
        self.refund_lane(lane, cost);
        self.return_to_lane(key, true);
    }

    fn count_backlog(&mut self, key: JobKey) {
        self.backlog += 1;
        let group = self.jobs[key].group;
        self.groups[group as usize].backlog += 1;
    }

    /// Brings a job to its end: completed, or dead.
    pub(super) fn finish(&mut self, key: JobKey, succeeded: bool, note: Arc<[u8]>, now: Micros) {
        let run = self.run_mut(key);
        run.note = note;
        run.settled_at = now;
        if succeeded {
            self.jobs[key].place = Place::Completed;
            self.completed.push_back((now, key));
        } else {
            self.jobs[key].place = Place::Failed;
            self.failed.push_back((now, key));
        }
    }

    /// Whoever waited for a seat of these groups or types may look again.
    pub(super) fn wake_for_freed_seats(&mut self, touched: &[(GroupKey, TypeKey)]) {
        let mut groups: Vec<GroupKey> = Vec::new();
        let mut types: Vec<TypeKey> = Vec::new();
        for &(group, type_key) in touched {
            if !groups.contains(&group) {
                groups.push(group);
                self.wake_seat_parked(group);
            }
            if !types.contains(&type_key) {
                types.push(type_key);
            }
        }
        for type_key in types {
            let state = &self.types[type_key];
            if state.settings.concurrency.is_some() && state.is_active() {
                self.push_token(type_key);
            }
        }
    }

    /// Removes finished jobs that are past their time or number, oldest first.
    fn purge(&mut self, most: usize, now: Micros) {
        let settings = &self.settings;
        let (kept_max, oldest) = (settings.completed_kept_max, settings.completed_retention_ms);
        let (failed_max, failed_oldest) = (settings.failed_kept_max, settings.failed_retention_ms);
        for _ in 0..most {
            let Some(&(at, key)) = self.completed.front() else { break };
            if self.completed.len() as u64 <= kept_max && at.plus_ms(oldest) > now {
                break;
            }
            self.completed.pop_front();
            self.remove_job(key);
        }
        for _ in 0..most {
            let Some(&(at, key)) = self.failed.front() else { break };
            if self.failed.len() as u64 <= failed_max && at.plus_ms(failed_oldest) > now {
                break;
            }
            self.failed.pop_front();
            self.remove_job(key);
        }
    }
}
