//! Bulk actions: many jobs of one group that finish together.
//!
//! A bulk action has a mode, which is read when one of its jobs is popped: run the job, hold it (it
//! moves to the bulk action's own list) or drop it (it becomes cancelled).
//!
//! Invariants: the counts change exactly once per job. A bulk action becomes complete exactly once,
//! when it is sealed and every job has ended. It can be leased for aggregation from then on. One
//! that was dropped can be leased once the last of its jobs has ended. After its aggregation is
//! settled, it cannot be leased again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::names::{BulkId, GroupId, JobId, WorkerId};
use crate::numbers::{Fence, Micros};

use super::Machine;
use super::job::{End, JobKey, Place};
use super::lane::GroupKey;

/// A bulk action, by group and id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BulkRef {
    /// The group of the bulk action.
    pub group: GroupId,
    /// The id of the bulk action, unique within its group.
    pub id: BulkId,
}

/// The state of a bulk action.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum BulkState {
    /// No job was leased or admitted yet.
    #[default]
    Created,
    /// The first job was admitted.
    Dispatched,
    /// The first job was leased.
    Running,
    /// Sealed, and every job has ended: ready for aggregation.
    Aggregating,
    /// The aggregation is done.
    Completed,
    /// Ended by too many failures, a passed deadline or a failed aggregation.
    Failed,
    /// Ended by a cancellation.
    Cancelled,
}

impl BulkState {
    /// Every state, in the order in which a bulk action passes through them.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Dispatched,
        Self::Running,
        Self::Aggregating,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name of the state as shown to users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Dispatched => "dispatched",
            Self::Running => "running",
            Self::Aggregating => "aggregating",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The word for the state in a store.
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

    /// Whether the state is final.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// What happens to a bulk action's jobs when their turn comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BulkMode {
    /// They run.
    #[default]
    Run,
    /// They are set aside.
    Hold,
    /// They are cancelled.
    Drop,
}

impl BulkMode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Run, Self::Hold, Self::Drop];

    /// The name of the mode: `run`, `hold` or `drop`.
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
#[serde(rename_all = "lowercase")]
pub enum BulkCause {
    /// More jobs failed than `failures_max` allows.
    Failures,
    /// Its deadline passed.
    Deadline,
    /// Its aggregation failed.
    Aggregation,
}

impl BulkCause {
    /// Every cause.
    pub const ALL: [Self; 3] = [Self::Failures, Self::Deadline, Self::Aggregation];

    /// The name of the cause: `failures`, `deadline` or `aggregation`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::Deadline => "deadline",
            Self::Aggregation => "aggregation",
        }
    }
}

/// The current state of a bulk action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkView {
    /// The bulk action, by group and id.
    pub bulk: BulkRef,
    /// The state of the bulk action.
    pub state: BulkState,
    /// What happens to its jobs when their turn comes.
    pub mode: BulkMode,
    /// Whether adding jobs is no longer possible.
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
    /// When it reached its final state.
    pub finished_at: Option<Micros>,
    /// The time at which it fails unless it has finished.
    pub deadline: Option<Micros>,
    /// The number of failed jobs above which it fails.
    pub failures_max: Option<u64>,
    /// Why it failed.
    pub cause: Option<BulkCause>,
    /// Opaque bytes for the aggregator.
    #[serde(with = "crate::encoding::bytes")]
    pub payload: Arc<[u8]>,
    /// The result of its aggregation.
    #[serde(with = "crate::encoding::bytes")]
    pub summary: Arc<[u8]>,
}

#[derive(Debug, Clone)]
pub(super) struct Bulk {
    pub name: BulkId,
    pub group: GroupKey,
    pub state: BulkState,
    pub mode: BulkMode,
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
    /// The fence of its last aggregation lease; 0 if it was not leased since it became ready.
    pub fence: Fence,
    /// Whether its aggregation was settled.
    pub aggregated: bool,
    /// When it can be leased for aggregation, for the first time or again.
    pub take_at: Option<Micros>,
    /// The worker that has leased it and has neither settled nor released it.
    pub worker: Option<WorkerId>,
    pub payload: Arc<[u8]>,
    pub summary: Arc<[u8]>,
    pub on_hold: VecDeque<JobKey>,
    /// Jobs that wait for a time, by place name.
    pub waiting: BTreeMap<Box<str>, JobKey>,
    /// Jobs that have ended, oldest first, in the chunks in which they ended.
    pub ended: VecDeque<(Micros, Vec<JobId>)>,
}

impl Bulk {
    /// A bulk action that was just opened.
    pub fn new(name: BulkId, group: GroupKey, created_at: Micros) -> Self {
        Self {
            name,
            group,
            state: BulkState::Created,
            mode: BulkMode::Run,
            sealed: false,
            total: 0,
            succeeded: 0,
            failed: 0,
            cancelled: 0,
            created_at,
            started_at: None,
            finished_at: None,
            deadline: None,
            failures_max: None,
            cause: None,
            fence: Fence(0),
            aggregated: false,
            take_at: None,
            worker: None,
            payload: Arc::from(&[][..]),
            summary: Arc::from(&[][..]),
            on_hold: VecDeque::new(),
            waiting: BTreeMap::new(),
            ended: VecDeque::new(),
        }
    }

    pub fn ended_jobs(&self) -> u64 {
        self.succeeded + self.failed + self.cancelled
    }

    /// Whether it waits for aggregation or is leased for it.
    pub fn is_to_be_taken(&self) -> bool {
        let dropped_wholly = self.state.is_final() && self.ended_jobs() == self.total;
        !self.aggregated && (self.state == BulkState::Aggregating || dropped_wholly)
    }
}

/// What to do with a popped job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disposition {
    Run,
    /// Move it to the list of its bulk action, which has this number.
    Hold(u64),
    /// Cancel it, because its bulk action drops its jobs.
    Drop,
    /// End it, because it was cancelled while it was in the list.
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
            mode: bulk.mode,
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

    /// What to do with a job that was just popped. Jobs of a bulk action that no longer
    /// exists are dropped.
    pub(super) fn disposition(&self, key: JobKey) -> Disposition {
        let job = &self.jobs[key];
        if job.cancelled {
            return Disposition::Cancelled;
        }
        let Some(number) = job.bulk else { return Disposition::Run };
        match self.bulks.get(&number).map_or(BulkMode::Drop, |bulk| bulk.mode) {
            BulkMode::Run => Disposition::Run,
            BulkMode::Hold => Disposition::Hold(number),
            BulkMode::Drop => Disposition::Drop,
        }
    }

    /// Whether a running job was cancelled, or is dropped by its bulk action.
    pub(super) fn is_unwanted(&self, key: JobKey) -> bool {
        let cancelled = matches!(&self.jobs[key].place, Place::InFlight(held) if held.cancelled);
        cancelled || self.disposition(key) == Disposition::Drop
    }

    /// Updates the state of a bulk action when one of its jobs was leased or admitted.
    pub(super) fn bulk_reached(&mut self, number: u64, state: BulkState) {
        let now = self.now;
        let current = self.bulks.get(&number).map(|bulk| bulk.state);
        let moves = match current {
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

    /// Counts the end of one job.
    pub(super) fn bulk_counts(&mut self, number: u64, end: End) {
        let Some(bulk) = self.bulk_mut(number) else { return };
        match end {
            End::Succeeded => bulk.succeeded += 1,
            End::Failed => bulk.failed += 1,
            End::Cancelled => bulk.cancelled += 1,
        }
    }

    /// Checks whether a bulk action has ended after its counts or its seal have changed.
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
            // Jobs still on hold were cancelled there and only have to leave.
            bulk.mode = BulkMode::Run;
            let set_aside = !bulk.on_hold.is_empty();
            self.hand_out(number);
            if set_aside {
                self.sweep_later(number);
            }
        }
    }

    /// Makes a dropped bulk action available for aggregation once the last of its jobs has ended.
    fn hand_out_dropped(&mut self, number: u64) {
        let waits = |bulk: &Bulk| bulk.is_to_be_taken() && bulk.take_at.is_none();
        if self.bulks.get(&number).is_some_and(waits) {
            self.hand_out(number);
        }
    }

    /// Makes a bulk action available for aggregation now.
    pub(super) fn hand_out(&mut self, number: u64) {
        self.hand_out_at(number, self.now);
    }

    /// Makes a bulk action available for aggregation from `at` on.
    pub(super) fn hand_out_at(&mut self, number: u64, at: Micros) {
        self.take_no_more(number);
        let Some(bulk) = self.bulk_mut(number) else { return };
        bulk.take_at = Some(at);
        self.aggregating.insert((at, number));
    }

    /// Makes a bulk action unavailable for aggregation.
    pub(super) fn take_no_more(&mut self, number: u64) {
        self.let_go(number);
        let Some(bulk) = self.bulk_mut(number) else { return };
        if let Some(take_at) = bulk.take_at.take() {
            self.aggregating.remove(&(take_at, number));
        }
    }

    /// Ends the lease that a worker has on a bulk action.
    pub(super) fn let_go(&mut self, number: u64) {
        if let Some(worker) = self.bulk_mut(number).and_then(|bulk| bulk.worker.take()) {
            self.taken.remove(&(worker, number));
        }
    }

    /// Whether a bulk action can be leased, now or when its current lease has expired.
    pub(super) fn is_takeable(&self, number: u64) -> bool {
        let take_at = self.bulks.get(&number).and_then(|bulk| bulk.take_at);
        take_at.is_some_and(|at| self.aggregating.contains(&(at, number)))
    }

    /// Makes a bulk action available for aggregation exactly if it is ready for it. A worker that
    /// has leased one that is not ready loses its lease.
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

    /// Fails an unfinished bulk action; its remaining jobs are dropped.
    pub(super) fn fail_bulk(&mut self, number: u64, cause: BulkCause) {
        if let Some(bulk) = self.bulk_mut(number) {
            bulk.cause = Some(cause);
        }
        self.drop_bulk(number, BulkState::Failed);
    }

    /// Ends a bulk action in a state that drops its remaining jobs. A running aggregation becomes
    /// stale, because it has not seen the final state.
    pub(super) fn drop_bulk(&mut self, number: u64, state: BulkState) {
        self.finish(number, state);
        let Some(bulk) = self.bulk_mut(number) else { return };
        bulk.mode = BulkMode::Drop;
        bulk.fence = Fence(0);
        if bulk.ended_jobs() < bulk.total || !bulk.on_hold.is_empty() {
            self.sweep_later(number);
        }
        self.hand_out_dropped(number);
    }

    /// Adds a bulk action to the list of those to sweep, once.
    pub(super) fn sweep_later(&mut self, number: u64) {
        if !self.sweeping.contains(&number) {
            self.sweeping.push_back(number);
        }
    }

    /// Sets the final state of a bulk action.
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
