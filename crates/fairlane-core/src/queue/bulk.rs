//! Bulk actions: many jobs of one group that finish together.
//!
//! A bulk action has a course, read when its jobs are popped: run them, hold them (they move to the bulk
//! action's own list) or drop them (they become cancelled). Its counts change exactly once per job, and it is
//! complete exactly once: when it is sealed and every job has ended. It is handed out for aggregation then, or, if
//! it was dropped before, when the last of its jobs has ended; and not again once that is finished.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::names::{BulkId, GroupId, JobId, WorkerId};
use crate::numbers::{Fence, Micros};

use super::Machine;
use super::job::{End, JobKey, Place};
use super::lane::GroupKey;

/// A bulk action's full name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BulkRef {
    /// Whose it is.
    pub group: GroupId,
    /// Which of theirs.
    pub id: BulkId,
}

/// How far a bulk action has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkState {
    /// No job was leased or admitted yet.
    #[default]
    Created,
    /// The first job was admitted.
    Dispatched,
    /// The first job was leased.
    Running,
    /// Sealed, and every job has ended: to be aggregated.
    Aggregating,
    /// Aggregated.
    Completed,
    /// Ended by too many failures, its deadline or a failed aggregation.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl BulkState {
    /// Every state, in the order of the road.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Dispatched,
        Self::Running,
        Self::Aggregating,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word shown to people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Dispatched => "DISPATCHED",
            Self::Running => "RUNNING",
            Self::Aggregating => "AGGREGATING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// Whether nothing changes it any more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// What becomes of a bulk action's jobs when their turn comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Course {
    /// They run.
    #[default]
    Run,
    /// They are set aside.
    Hold,
    /// They are cancelled.
    Drop,
}

impl Course {
    /// Every course.
    pub const ALL: [Self; 3] = [Self::Run, Self::Hold, Self::Drop];

    /// `run`, `hold` or `drop`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Hold => "hold",
            Self::Drop => "drop",
        }
    }
}

/// Why a bulk action has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkCause {
    /// More jobs failed than may.
    Failures,
    /// Its deadline passed.
    Deadline,
    /// Its aggregation failed.
    Aggregation,
}

impl BulkCause {
    /// Every cause.
    pub const ALL: [Self; 3] = [Self::Failures, Self::Deadline, Self::Aggregation];

    /// `failures`, `deadline` or `aggregation`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::Deadline => "deadline",
            Self::Aggregation => "aggregation",
        }
    }
}

/// A bulk action as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkView {
    /// Whose and which.
    pub bulk: BulkRef,
    /// How far it has come.
    pub state: BulkState,
    /// What becomes of its jobs.
    pub course: Course,
    /// Whether no job can be added any more.
    pub sealed: bool,
    /// Jobs added.
    pub total: u64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that are dead.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs set aside while it is held.
    pub on_hold: u64,
    /// When it was opened.
    pub created_at: Micros,
    /// When its first job was leased.
    pub started_at: Option<Micros>,
    /// When it reached its last state.
    pub finished_at: Option<Micros>,
    /// When it fails unless it has finished.
    pub deadline: Option<Micros>,
    /// It fails when more jobs than this have.
    pub failures_max: Option<u64>,
    /// Why it failed.
    pub cause: Option<BulkCause>,
    /// Opaque bytes for whoever aggregates it.
    #[serde(with = "crate::encoding::bytes")]
    pub payload: Arc<[u8]>,
    /// What its aggregation gave.
    #[serde(with = "crate::encoding::bytes")]
    pub summary: Arc<[u8]>,
}

#[derive(Debug, Clone)]
pub(super) struct Bulk {
    pub name: BulkId,
    pub group: GroupKey,
    pub state: BulkState,
    pub course: Course,
    pub sealed: bool,
    pub total: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub created_at: Micros,
    pub started_at: Option<Micros>,
    pub finished_at: Option<Micros>,
    pub deadline: Option<Micros>,
    pub failures_max: Option<u64>,
    pub cause: Option<BulkCause>,
    /// The fence of its aggregation's last lease; 0 if it was not taken since it can be.
    pub fence: Fence,
    /// Whether its aggregation is finished.
    pub aggregated: bool,
    /// When it can be taken for aggregation (again).
    pub take_at: Option<Micros>,
    /// Who took it and has neither finished it nor given it back.
    pub worker: Option<WorkerId>,
    pub payload: Arc<[u8]>,
    pub summary: Arc<[u8]>,
    pub on_hold: VecDeque<JobKey>,
    /// Jobs that wait for a time, by their placed names.
    pub waiting: BTreeMap<Box<str>, JobKey>,
    /// Jobs that have ended, oldest first, in the chunks they ended in.
    pub ended: VecDeque<(Micros, Vec<JobId>)>,
}

impl Bulk {
    pub fn ended_jobs(&self) -> u64 {
        self.succeeded + self.failed + self.cancelled
    }

    /// Whether it waits for its aggregation, or is in an aggregator's hands.
    pub fn is_to_be_taken(&self) -> bool {
        let dropped_wholly = self.state.is_final() && self.ended_jobs() == self.total;
        !self.aggregated && (self.state == BulkState::Aggregating || dropped_wholly)
    }
}

/// What is to be done with a job that was popped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Run,
    /// To the list of its bulk action.
    Hold(u64),
    /// Its bulk action drops it.
    Drop,
    /// It was cancelled while it stood there.
    Cancelled,
}

impl Machine {
    pub(super) fn find_bulk(&self, bulk: &BulkRef) -> Option<u64> {
        let group = *self.groups_by_name.get(&bulk.group)?;
        self.groups[group].bulks.get(&bulk.id).copied()
    }

    pub(super) fn bulk_mut(&mut self, number: u64) -> Option<&mut Bulk> {
        if let Some(marks) = &mut self.marks
            && marks.bulks.last() != Some(&number)
        {
            marks.bulks.push(number);
        }
        self.bulks.get_mut(&number)
    }

    pub(super) fn bulk_view(&self, number: u64) -> BulkView {
        let bulk = &self.bulks[&number];
        BulkView {
            bulk: BulkRef { group: self.groups[bulk.group].name.clone(), id: bulk.name.clone() },
            state: bulk.state,
            course: bulk.course,
            sealed: bulk.sealed,
            total: bulk.total,
            succeeded: bulk.succeeded,
            failed: bulk.failed,
            cancelled: bulk.cancelled,
            on_hold: bulk.on_hold.len() as u64,
            created_at: bulk.created_at,
            started_at: bulk.started_at,
            finished_at: bulk.finished_at,
            deadline: bulk.deadline,
            failures_max: bulk.failures_max,
            cause: bulk.cause,
            payload: bulk.payload.clone(),
            summary: bulk.summary.clone(),
        }
    }

    /// What is to be done with a job that was just popped. A bulk action that is gone drops its jobs.
    pub(super) fn fate(&self, key: JobKey) -> Fate {
        let job = &self.jobs[key];
        if job.cancelled {
            return Fate::Cancelled;
        }
        let Some(number) = job.bulk else { return Fate::Run };
        match self.bulks.get(&number).map_or(Course::Drop, |bulk| bulk.course) {
            Course::Run => Fate::Run,
            Course::Hold => Fate::Hold(number),
            Course::Drop => Fate::Drop,
        }
    }

    /// Whether a running job has nobody who wants it any more.
    pub(super) fn is_unwanted(&self, key: JobKey) -> bool {
        let cancelled = matches!(&self.jobs[key].place, Place::InFlight(held) if held.cancelled);
        cancelled || self.fate(key) == Fate::Drop
    }

    /// A job of a bulk action was leased or admitted.
    pub(super) fn bulk_reached(&mut self, number: u64, state: BulkState) {
        let now = self.now;
        let stands = self.bulks.get(&number).map(|bulk| bulk.state);
        let moves = match stands {
            Some(BulkState::Created) => true,
            Some(BulkState::Dispatched) => state == BulkState::Running,
            _ => false,
        };
        if !moves {
            return;
        }
        let Some(bulk) = self.bulk_mut(number) else { return };
        bulk.state = state;
        if state == BulkState::Running {
            bulk.started_at = Some(now);
        }
    }

    /// Counts one job's end.
    pub(super) fn bulk_counts(&mut self, number: u64, end: End) {
        let Some(bulk) = self.bulk_mut(number) else { return };
        match end {
            End::Succeeded => bulk.succeeded += 1,
            End::Failed => bulk.failed += 1,
            End::Cancelled => bulk.cancelled += 1,
        }
    }

    /// Sees whether a bulk action whose counts or seal have changed has come to its end.
    pub(super) fn review_bulk(&mut self, number: u64) {
        let Some(bulk) = self.bulks.get(&number) else { return };
        if bulk.state.is_final() {
            return self.hand_out_dropped(number);
        }
        if bulk.state == BulkState::Aggregating {
            return;
        }
        if bulk.failures_max.is_some_and(|most| bulk.failed > most) {
            return self.fail_bulk(number, BulkCause::Failures);
        }
        if bulk.sealed && bulk.ended_jobs() == bulk.total {
            let Some(bulk) = self.bulk_mut(number) else { return };
            bulk.state = BulkState::Aggregating;
            // What is still set aside was cancelled there and has only to leave.
            bulk.course = Course::Run;
            let set_aside = !bulk.on_hold.is_empty();
            self.hand_out(number);
            if set_aside {
                self.sweep_later(number);
            }
        }
    }

    /// Lets a bulk action that was dropped be taken when the last of its jobs has ended.
    fn hand_out_dropped(&mut self, number: u64) {
        let waits = |bulk: &Bulk| bulk.is_to_be_taken() && bulk.take_at.is_none();
        if self.bulks.get(&number).is_some_and(waits) {
            self.hand_out(number);
        }
    }

    /// Lets a bulk action be taken from now on.
    pub(super) fn hand_out(&mut self, number: u64) {
        self.hand_out_at(number, self.now);
    }

    /// Lets a bulk action be taken from a time on.
    pub(super) fn hand_out_at(&mut self, number: u64, at: Micros) {
        self.take_no_more(number);
        let Some(bulk) = self.bulk_mut(number) else { return };
        bulk.take_at = Some(at);
        self.aggregating.insert((at, number));
    }

    /// Lets nobody take a bulk action any more.
    pub(super) fn take_no_more(&mut self, number: u64) {
        self.let_go(number);
        let Some(bulk) = self.bulk_mut(number) else { return };
        if let Some(take_at) = bulk.take_at.take() {
            self.aggregating.remove(&(take_at, number));
        }
    }

    /// Nobody has a bulk action in hand any more.
    pub(super) fn let_go(&mut self, number: u64) {
        if let Some(worker) = self.bulk_mut(number).and_then(|bulk| bulk.worker.take()) {
            self.taken.remove(&(worker, number));
        }
    }

    /// Whether somebody can take a bulk action, now or when its lease has run out.
    pub(super) fn is_takeable(&self, number: u64) -> bool {
        let take_at = self.bulks.get(&number).and_then(|bulk| bulk.take_at);
        take_at.is_some_and(|at| self.aggregating.contains(&(at, number)))
    }

    /// Lets a bulk action be taken if it is to be, and else by nobody. Whoever has one that is not is too early.
    pub(super) fn mend_taking(&mut self, number: u64) {
        let Some(bulk) = self.bulks.get(&number) else { return };
        match (bulk.is_to_be_taken(), self.is_takeable(number)) {
            (true, false) => self.hand_out(number),
            (false, true) => {
                self.take_no_more(number);
                if let Some(bulk) = self.bulk_mut(number).filter(|bulk| !bulk.aggregated) {
                    bulk.fence = Fence(0);
                }
            }
            _ => {}
        }
    }

    /// Ends a bulk action that has not ended; its remaining jobs are dropped.
    pub(super) fn fail_bulk(&mut self, number: u64, cause: BulkCause) {
        if let Some(bulk) = self.bulk_mut(number) {
            bulk.cause = Some(cause);
        }
        self.drop_bulk(number, BulkState::Failed);
    }

    /// Ends a bulk action in a state that drops what is left of it. An aggregation under way is called off: what it
    /// has seen is not how the bulk action ended.
    pub(super) fn drop_bulk(&mut self, number: u64, state: BulkState) {
        self.finish(number, state);
        let Some(bulk) = self.bulk_mut(number) else { return };
        bulk.course = Course::Drop;
        bulk.fence = Fence(0);
        if bulk.ended_jobs() < bulk.total || !bulk.on_hold.is_empty() {
            self.sweep_later(number);
        }
        self.hand_out_dropped(number);
    }

    /// Puts a bulk action on the list of those to be swept, once.
    pub(super) fn sweep_later(&mut self, number: u64) {
        if !self.sweeping.contains(&number) {
            self.sweeping.push_back(number);
        }
    }

    /// Gives a bulk action its last state.
    pub(super) fn finish(&mut self, number: u64, state: BulkState) {
        let now = self.now;
        let Some(bulk) = self.bulk_mut(number) else { return };
        bulk.state = state;
        bulk.finished_at = Some(now);
        let (deadline, group) = (bulk.deadline, bulk.group);
        self.groups[group].unfinished.remove(&number);
        self.finished_bulks.insert((now, number));
        if let Some(deadline) = deadline {
            self.bulk_deadlines.remove(&(deadline, number));
        }
        self.take_no_more(number);
    }
}
