//! `settle`: ends attempts. The fence decides: the current one applies, the one settled last is
//! answered again without effect, anything older is stale.

use std::sync::Arc;

use crate::limits::{DELAY_MS_MAX, NOTE_BYTES_MAX, PURGED_CHUNKS_MAX, RETRY_AFTER_MS_MAX, SETTLE_JOBS_MAX};
use crate::numbers::{Fence, Micros, within};
use crate::queue::job::{Job, JobKey, Place, Run};
use crate::queue::lane::{GroupKey, LaneKey, TypeKey};
use crate::queue::{JobRef, Machine, Settings};

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

/// What one settle has learned so far.
#[derive(Default)]
pub(super) struct Ended {
    pub touched: Vec<(GroupKey, TypeKey)>,
    pub completed: Vec<JobKey>,
    pub failed: Vec<JobKey>,
}

impl Ended {
    pub fn touch(&mut self, group: GroupKey, type_key: TypeKey) {
        // Jobs of one group come in runs: looking at the last one first saves most searches.
        if self.touched.last() != Some(&(group, type_key)) && !self.touched.contains(&(group, type_key)) {
            self.touched.push((group, type_key));
        }
    }
}

impl Machine {
    pub(in crate::queue) fn settle(&mut self, command: Settle, now: Micros) -> Settled {
        let mut ended = Ended::default();
        let mut verdicts = Vec::with_capacity(command.settlements.len());
        for settlement in command.settlements {
            verdicts.push(self.settle_one(settlement, &mut ended, now));
        }
        self.record_ended(ended, now);
        self.purge(now);
        Settled { verdicts }
    }

    fn settle_one(&mut self, settlement: Settlement, ended: &mut Ended, now: Micros) -> Verdict {
        let Some(key) = self.find_job(&settlement.job) else { return Verdict::Gone };
        let fence = settlement.fence;
        let job = &mut self.jobs[key];
        let Some(held) = job.held_under(fence).cloned() else {
            let settled = job.run.as_ref().map(|run| run.settled);
            return if settled == Some(fence) { Verdict::Applied } else { Verdict::Stale };
        };
        let (group, type_key) = (job.group, job.type_key);
        let run = job.run.get_or_insert_with(|| Run::none(held.worker.clone()));
        run.settled = fence;
        run.settled_at = now;
        self.end_lease(&held);
        run_mut(&mut self.jobs[key]).worker = held.worker;
        self.free_seats(group, type_key, 1);
        ended.touch(group, type_key);
        self.note_answer(type_key, fence, &settlement.outcome, now);
        self.apply_outcome(key, settlement.outcome, ended, now);
        Verdict::Applied
    }

    /// Tells the type's downstream what it has answered.
    fn note_answer(&mut self, type_key: TypeKey, fence: Fence, outcome: &Outcome, now: Micros) {
        let newest = self.fence;
        let state = &mut self.types[type_key];
        match outcome {
            Outcome::Throttled { retry_after_ms, .. } => {
                state.downstream.refused(state.settings.rate, fence, newest, *retry_after_ms, now);
            }
            Outcome::Released => {}
            _ => state.downstream.count_goodput(1, now),
        }
    }

    fn apply_outcome(&mut self, key: JobKey, outcome: Outcome, ended: &mut Ended, now: Micros) {
        let most_throttles = self.settings.max_throttle_count;
        let run = run_mut(&mut self.jobs[key]);
        match outcome {
            Outcome::Succeeded { result } => {
                run.attempts += 1;
                run.note = result;
                self.jobs[key].place = Place::Completed;
                ended.completed.push(key);
            }
            Outcome::Failed { reason } => {
                run.attempts += 1;
                self.fail(key, reason, ended);
            }
            Outcome::Retry { delay_ms, reason } => self.retry(key, delay_ms, reason, ended, now),
            Outcome::Throttled { delay_ms, .. } => {
                run.throttles += 1;
                if run.throttles <= most_throttles {
                    self.wait_again(key, now.plus_ms(delay_ms));
                } else {
                    self.retry(key, delay_ms, Arc::from(&b"throttled too often"[..]), ended, now);
                }
            }
            Outcome::Released => self.release(key),
        }
    }

    fn retry(&mut self, key: JobKey, delay_ms: u64, reason: Arc<[u8]>, ended: &mut Ended, now: Micros) {
        let most = self.settings.max_retry_count;
        let run = run_mut(&mut self.jobs[key]);
        run.attempts += 1;
        if run.attempts > most {
            return self.fail(key, reason, ended);
        }
        run.note = reason;
        self.wait_again(key, now.plus_ms(delay_ms));
    }

    /// Makes a job dead.
    pub(super) fn fail(&mut self, key: JobKey, reason: Arc<[u8]>, ended: &mut Ended) {
        run_mut(&mut self.jobs[key]).note = reason;
        self.jobs[key].place = Place::Failed;
        ended.failed.push(key);
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
        let lane = LaneKey { group, lane: self.groups[group].lane_index(type_key, level) };
        self.refund_lane(lane, cost);
        self.return_to_lane(key, true);
    }

    fn count_backlog(&mut self, key: JobKey) {
        self.backlog += 1;
        let group = self.jobs[key].group;
        self.groups[group].backlog += 1;
    }

    /// Files what has finished and wakes whoever waited for a seat of these groups or types.
    pub(super) fn record_ended(&mut self, ended: Ended, now: Micros) {
        self.completed.push(now, ended.completed);
        self.failed.push(now, ended.failed);
        let mut types: Vec<TypeKey> = Vec::new();
        for (group, type_key) in ended.touched {
            self.wake_seat_parked(group);
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

    /// Removes finished jobs that are past their time or number, oldest first, a few chunks at a time.
    fn purge(&mut self, now: Micros) {
        let Settings { completed_kept_max, completed_retention_ms, .. } = self.settings;
        let Settings { failed_kept_max, failed_retention_ms, .. } = self.settings;
        for _ in 0..PURGED_CHUNKS_MAX {
            let completed = self.completed.pop_outlived(completed_kept_max, completed_retention_ms, now);
            let failed = self.failed.pop_outlived(failed_kept_max, failed_retention_ms, now);
            for key in completed.into_iter().chain(failed).flatten() {
                self.remove_job(key);
            }
        }
    }
}

fn run_mut(job: &mut Job) -> &mut Run {
    job.run.as_mut().expect("a job whose lease has ended has a run")
}
