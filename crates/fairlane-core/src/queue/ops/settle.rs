//! `settle`: ends attempts. The fence decides: the current one applies, the one settled last gets
//! the same reply without effect, and an older one is stale.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernel::operation::{at_most, bytes_at_most};
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{
    DELAY_MS_MAX, NOTE_BYTES_MAX, PURGED_CHUNKS_MAX, PURGED_DEAD_MAX, RETRY_AFTER_MS_MAX, SETTLE_JOBS_MAX,
};
use crate::names::JobId;
use crate::numbers::{Fence, Micros, within};
use crate::queue::job::{End, Job, JobKey, Place, Run};
use crate::queue::lane::{GroupKey, LaneKey, TypeKey};
use crate::queue::{JobRef, Machine, Settings};

use super::each_once;

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The job is done.
    Succeeded {
        /// The result, kept with the job.
        #[serde(with = "crate::encoding::bytes")]
        result: Arc<[u8]>,
    },
    /// The job failed permanently and is dead.
    Failed {
        /// The reason, kept with the job.
        #[serde(with = "crate::encoding::bytes")]
        reason: Arc<[u8]>,
    },
    /// The job was cancelled, whether or not its cancellation was requested.
    Cancelled {
        /// The reason, kept with the job.
        #[serde(with = "crate::encoding::bytes")]
        reason: Arc<[u8]>,
    },
    /// The attempt failed; the job is retried unless its retries are used up.
    Retry {
        /// The delay before the retry, in milliseconds.
        delay_ms: u64,
        /// The reason, kept with the job.
        #[serde(with = "crate::encoding::bytes")]
        reason: Arc<[u8]>,
    },
    /// The downstream refused the job for now. This costs no attempt, but slows the type.
    Throttled {
        /// The delay before the next attempt, in milliseconds.
        delay_ms: u64,
        /// The Retry-After of the downstream in milliseconds, before which no job of this type
        /// starts; 0 if there was none.
        retry_after_ms: u64,
    },
    /// The worker returned the job without working on it; it goes to the head of its lane.
    Released,
}

/// The end of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settlement {
    /// The job, by group and id.
    pub job: JobRef,
    /// The fence of the lease.
    pub fence: Fence,
    /// How the attempt ended.
    pub outcome: Outcome,
}

/// Ends up to 500 attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settle {
    /// The settlements, each job at most once.
    #[serde(deserialize_with = "crate::encoding::list::<SETTLE_JOBS_MAX, _, _>")]
    pub settlements: Vec<Settlement>,
}

/// The result for one settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The settlement applies, now or since an earlier call.
    Applied,
    /// The job has a newer lease, or was never leased under this fence.
    Stale,
    /// The job does not exist, or no longer exists.
    Gone,
}

/// The reply to [`Settle`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The results, in the order of the command's settlements.
    pub verdicts: Vec<Verdict>,
}

impl Operation for Settle {
    type Machine = Machine;
    type Reply = Settled;

    const STEM: &'static str = "settle";

    fn validate(&self) -> Result<(), Invalid> {
        at_most("settle", self.settlements.len(), SETTLE_JOBS_MAX)?;
        for settlement in &self.settlements {
            settlement.outcome.validate()?;
        }
        each_once(self.settlements.iter().map(|settlement| &settlement.job))
    }

    fn access(&self) -> Access<'_> {
        Access::groups(Permission::Work, self.settlements.iter().map(|one| &one.job.group))
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight {
            jobs: self.settlements.len(),
            bytes: self.settlements.iter().map(|one| one.outcome.note_bytes()).sum(),
        }
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> Settled {
        machine.settle(self, context.now)
    }
}

impl Outcome {
    /// The size of the result or reason in bytes.
    fn note_bytes(&self) -> usize {
        match self {
            Self::Succeeded { result: note }
            | Self::Failed { reason: note }
            | Self::Cancelled { reason: note }
            | Self::Retry { reason: note, .. } => note.len(),
            Self::Throttled { .. } | Self::Released => 0,
        }
    }

    fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::Succeeded { result: note }
            | Self::Failed { reason: note }
            | Self::Cancelled { reason: note } => {
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

/// What one command has ended so far.
#[derive(Default)]
pub(in crate::queue) struct Ended {
    pub touched: Vec<(GroupKey, TypeKey)>,
    /// Completed and cancelled jobs that belong to no bulk action.
    pub completed: Vec<JobKey>,
    /// Bulk actions to review, with their jobs that have ended.
    bulks: Vec<(u64, Vec<JobId>)>,
    /// Number of jobs that were filed as ended.
    pub filed: usize,
}

impl Ended {
    pub fn touch(&mut self, group: GroupKey, type_key: TypeKey) {
        // Jobs of one group are often adjacent, so comparing with the last one first
        // saves most searches.
        if self.touched.last() != Some(&(group, type_key)) && !self.touched.contains(&(group, type_key)) {
            self.touched.push((group, type_key));
        }
    }

    /// Marks a bulk action for review because its counts have changed.
    pub fn review(&mut self, number: u64) -> &mut Vec<JobId> {
        let found = self.bulks.iter().rposition(|(known, _)| *known == number);
        let at = found.unwrap_or_else(|| {
            self.bulks.push((number, Vec::new()));
            self.bulks.len() - 1
        });
        &mut self.bulks[at].1
    }

    /// Files a job of a bulk action as ended.
    pub fn file(&mut self, number: u64, id: JobId) {
        self.review(number).push(id);
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
        let job = &self.jobs[key];
        let Some(held) = job.held_under(fence).cloned() else {
            let settled = job.run.as_ref().map(|run| run.settled);
            return if settled == Some(fence) { Verdict::Applied } else { Verdict::Stale };
        };
        let (group, type_key) = (job.group, job.type_key);
        let unwanted = self.is_unwanted(key);
        let run = self.jobs[key].run.get_or_insert_with(Run::none);
        run.settled = fence;
        run.settled_at = now;
        run.worker = Some(held.worker.clone());
        self.end_lease(&held);
        self.free_seats(group, type_key, 1);
        ended.touch(group, type_key);
        self.note_answer(type_key, fence, &settlement.outcome, now);
        self.apply_outcome(key, settlement.outcome, unwanted, ended);
        Verdict::Applied
    }

    /// Passes the outcome of an attempt on to the state of the type's downstream.
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

    fn apply_outcome(&mut self, key: JobKey, outcome: Outcome, unwanted: bool, ended: &mut Ended) {
        let most_throttles = self.settings.max_throttle_count;
        let run = run_mut(&mut self.jobs[key]);
        match outcome {
            Outcome::Succeeded { result } => {
                run.attempts += 1;
                self.set_note(key, result);
                self.end_job(key, End::Succeeded, ended);
            }
            Outcome::Failed { reason } => {
                run.attempts += 1;
                self.fail(key, reason, ended);
            }
            Outcome::Cancelled { reason } => {
                run.attempts += 1;
                self.set_note(key, reason);
                self.end_job(key, End::Cancelled, ended);
            }
            Outcome::Retry { delay_ms, reason } => self.retry(key, delay_ms, reason, unwanted, ended),
            Outcome::Throttled { delay_ms, .. } => {
                run.throttles += 1;
                let spent = run.throttles > most_throttles;
                let delay_ms = delay_ms.max(self.congestion_delay_ms(key, unwanted));
                if !spent {
                    self.wait_again(key, delay_ms, unwanted, ended);
                } else {
                    self.retry(key, delay_ms, Arc::from(&b"throttled too often"[..]), unwanted, ended);
                }
            }
            Outcome::Released if unwanted => self.end_job(key, End::Cancelled, ended),
            Outcome::Released => self.release(key),
        }
    }

    fn retry(&mut self, key: JobKey, delay_ms: u64, reason: Arc<[u8]>, unwanted: bool, ended: &mut Ended) {
        let of_type = self.types[self.jobs[key].type_key].settings.max_retry_count;
        let most = of_type.unwrap_or(self.settings.max_retry_count);
        let run = run_mut(&mut self.jobs[key]);
        run.attempts += 1;
        if run.attempts > most {
            return self.fail(key, reason, ended);
        }
        self.set_note(key, reason);
        self.wait_again(key, delay_ms, unwanted, ended);
    }

    /// Makes a job dead.
    pub(super) fn fail(&mut self, key: JobKey, reason: Arc<[u8]>, ended: &mut Ended) {
        self.set_note(key, reason);
        self.end_job(key, End::Failed, ended);
    }

    /// Ends a job that is in no list.
    pub(super) fn end_job(&mut self, key: JobKey, end: End, ended: &mut Ended) {
        self.jobs[key].place = match end {
            End::Succeeded => Place::Completed,
            End::Failed => Place::Failed(self.now),
            End::Cancelled => Place::Cancelled,
        };
        self.count_end(key, end, ended);
        self.file_end(key, end, ended);
    }

    /// Returns a job that is no longer in flight and has not ended to the backlog, unless
    /// it was cancelled.
    pub(super) fn wait_again(&mut self, key: JobKey, delay_ms: u64, unwanted: bool, ended: &mut Ended) {
        if unwanted {
            return self.end_job(key, End::Cancelled, ended);
        }
        self.count_backlog(self.jobs[key].group, 1);
        self.start_waiting(key, self.now.plus_ms(delay_ms));
    }

    /// The delay of a refused or lost job in `classic`, which returns through congestion control.
    pub(super) fn congestion_delay_ms(&mut self, key: JobKey, unwanted: bool) -> u64 {
        if unwanted || !self.is_classic() {
            return 0;
        }
        self.refuse(self.jobs[key].group).1
    }

    fn release(&mut self, key: JobKey) {
        let job = &self.jobs[key];
        let (group, type_key, level, cost) = (job.group, job.type_key, job.level, job.cost.get());
        self.count_backlog(group, 1);
        let lane = LaneKey { group, lane: self.groups[group].lane_index(type_key, level) };
        if !self.is_classic() {
            self.refund_lane(lane, cost);
        }
        self.return_to_lane(key, true);
    }

    /// Files the ended jobs and wakes the lanes and workers that waited for a seat of these
    /// groups or types.
    pub(in crate::queue) fn record_ended(&mut self, ended: Ended, now: Micros) {
        self.completed.push(now, ended.completed);
        for (number, ids) in ended.bulks {
            if let Some(bulk) = self.bulk_mut(number).filter(|_| !ids.is_empty()) {
                bulk.ended.push_back((now, ids));
            }
            self.review_bulk(number);
        }
        let mut types: Vec<TypeKey> = Vec::new();
        for (group, type_key) in ended.touched {
            self.wake_seat_parked(group);
            if !types.contains(&type_key) {
                types.push(type_key);
            }
        }
        for type_key in types {
            let state = &self.types[type_key];
            if state.settings.concurrency.is_some() && (state.is_active() || !state.ready.is_empty()) {
                self.push_token(type_key);
            }
        }
    }

    /// Removes finished jobs beyond their retention or number, oldest first, a few at a time, and
    /// returns their number. Dead jobs of a bulk action stay with it.
    pub(in crate::queue) fn purge(&mut self, now: Micros) -> usize {
        let mut removed = 0;
        let Settings { completed_kept_max, completed_retention_ms, .. } = self.settings;
        for _ in 0..PURGED_CHUNKS_MAX {
            let completed = self.completed.pop_outlived(completed_kept_max, completed_retention_ms, now);
            for key in completed.into_iter().flatten() {
                self.remove_job(key);
                removed += 1;
            }
        }
        let Settings { failed_kept_max, failed_retention_ms, .. } = self.settings;
        for _ in 0..PURGED_DEAD_MAX {
            let spare = self.dead.len() as u64 > failed_kept_max;
            let Some(first) = self.dead.first_entry() else { break };
            if !spare && first.key().0.plus_ms(failed_retention_ms) > now {
                break;
            }
            let key = first.remove();
            if self.bulk_name(self.jobs[key].bulk).is_none() {
                self.remove_job(key);
                removed += 1;
            } else {
                self.jobs.touch(key);
            }
        }
        removed
    }
}

fn run_mut(job: &mut Job) -> &mut Run {
    job.run.as_mut().expect("a job whose lease has ended has a run")
}
