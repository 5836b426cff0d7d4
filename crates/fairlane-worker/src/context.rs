//! The context of an attempt: what a processor knows about its job, and how it learns to stop.
//!
//! It is also the state of the attempt, which takes one allocation: flags, and one signal for all
//! changes of them. Nothing is registered anywhere for an attempt that ends before it has to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fairlane_core::queue::{Extend, Extension, JobRef, LeasedJob};
use fairlane_core::{BulkId, Cost, Fence, GroupId, JobId, Level, Micros, Trace, TypeId};
use fairlane_engine::EngineError;
use tokio::sync::Notify;

use crate::events::Event;
use crate::pool::TypeEntry;

/// Why an attempt must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// The job or its bulk action was cancelled.
    Cancelled,
    /// The lease was lost: another worker may have the job by now, and this outcome is ignored.
    Lost,
    /// The attempt exceeded its timeout.
    TimedOut,
    /// The worker is stopping and its grace period is over; the job returns to the queue.
    Stopping,
}

impl CancelReason {
    const ALL: [Self; 4] = [Self::Cancelled, Self::Lost, Self::TimedOut, Self::Stopping];

    /// The label in metrics and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::TimedOut => "timed_out",
            Self::Stopping => "stopping",
        }
    }
}

/// Why a heartbeat did not renew the lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatLost {
    /// The job is no longer leased to this attempt; the processor must stop.
    #[error("the lease is lost: another worker may have the job")]
    Lost,
    /// The lease holds, but the job was cancelled; the processor should stop.
    #[error("the job was cancelled")]
    Cancelled,
    /// The engine did not reply; the lease holds until it expires.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// One attempt at one job, as its processor sees it.
#[derive(Clone)]
pub struct Context {
    shared: Arc<Shared>,
}

struct Shared {
    job: LeasedJob,
    entry: Arc<TypeEntry>,
    started: tokio::time::Instant,
    /// The position of the reason in [`CancelReason::ALL`], counted from 1; 0 if there is none.
    reason: AtomicU8,
    /// Whether the processor must be dropped.
    is_dropped: AtomicBool,
    /// One of the stages below.
    stage: AtomicU8,
    /// Number of threads that work on the job and cannot be stopped from outside.
    threads: AtomicUsize,
    /// Signals every change of the fields above.
    changed: Notify,
}

/// The processor runs.
const RUNNING: u8 = 0;
/// The processor runs, but its outcome is ignored.
const ABANDONED: u8 = 1;
/// The processor has returned or was dropped.
const ENDED: u8 = 2;

impl Context {
    pub(crate) fn new(job: LeasedJob, entry: Arc<TypeEntry>, started: tokio::time::Instant) -> Self {
        Self {
            shared: Arc::new(Shared {
                job,
                entry,
                started,
                reason: AtomicU8::new(0),
                is_dropped: AtomicBool::new(false),
                stage: AtomicU8::new(RUNNING),
                threads: AtomicUsize::new(0),
                changed: Notify::new(),
            }),
        }
    }

    /// The group (customer) that the job belongs to.
    pub fn group(&self) -> &GroupId {
        &self.shared.job.job.group
    }

    /// The job's id within its group. It is the same in every attempt, so use it as the
    /// idempotency key of the work.
    pub fn id(&self) -> &JobId {
        &self.shared.job.job.id
    }

    /// The job's group and id.
    pub fn job(&self) -> &JobRef {
        &self.shared.job.job
    }

    /// The job's type.
    pub fn type_id(&self) -> &TypeId {
        &self.shared.job.type_id
    }

    /// The job's level.
    pub fn level(&self) -> Level {
        self.shared.job.level
    }

    /// The job's cost, in units of its group's share.
    pub fn cost(&self) -> Cost {
        self.shared.job.cost
    }

    /// The payload, byte for byte as it was enqueued.
    pub fn payload(&self) -> &[u8] {
        &self.shared.job.payload
    }

    /// The bulk action that the job belongs to, if any.
    pub fn bulk(&self) -> Option<&BulkId> {
        self.shared.job.bulk.as_ref()
    }

    /// The W3C `traceparent` that the job was enqueued with: the parent of this attempt's spans.
    pub fn trace(&self) -> Option<&str> {
        self.shared.job.trace.as_ref().map(Trace::as_str)
    }

    /// The number of this attempt, counted from 1.
    pub fn attempt(&self) -> u32 {
        self.shared.job.attempt
    }

    /// The fence of this lease. It grows with every lease of the job, so a resource that remembers
    /// the highest fence it has seen can reject a worker whose lease was lost.
    pub fn fence(&self) -> Fence {
        self.shared.job.fence
    }

    /// The time of the job's enqueue, by the engine's clock.
    pub fn created_at(&self) -> Micros {
        self.shared.job.created_at
    }

    /// When this attempt times out.
    pub fn deadline(&self) -> Instant {
        self.due().into_std()
    }

    /// The timeout of this attempt.
    pub fn timeout(&self) -> Duration {
        self.shared.entry.timeout
    }

    /// Resolves with the reason when the attempt must stop.
    pub async fn cancelled(&self) -> CancelReason {
        self.until(Self::cancel_reason).await
    }

    /// Whether the attempt must stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel_reason().is_some()
    }

    /// Why the attempt must stop; `None` while it may go on.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        let reason = usize::from(self.shared.reason.load(Ordering::Acquire));
        CancelReason::ALL.get(reason.wrapping_sub(1)).copied()
    }

    /// Checks with the engine that the lease still holds, and renews it. The worker renews leases
    /// by itself; call this right before a side effect that cannot be undone.
    pub async fn heartbeat(&self) -> Result<(), HeartbeatLost> {
        let leases = vec![(self.job().clone(), self.fence())];
        let entry = &self.shared.entry;
        let extended = entry.engine.call(Extend { leases, lease_ms: entry.lease_ms }).await?;
        match extended.extensions.first() {
            Some(Extension::Until(_)) => Ok(()),
            Some(Extension::Cancelled(_)) => {
                self.cancel(CancelReason::Cancelled);
                Err(HeartbeatLost::Cancelled)
            }
            _ => {
                self.cancel(CancelReason::Lost);
                Err(HeartbeatLost::Lost)
            }
        }
    }

    /// Reports progress: `done` of `total`, in a unit of the processor's choice. The hooks get every
    /// report. The queue stores the latest one with the lease, at most twice a second, and shows it
    /// with the job.
    pub fn progress(&self, done: u64, total: u64) {
        self.shared.entry.reports.add(self.job(), self.fence(), done, total);
        self.shared.entry.hooks.emit(|| Event::Progress { job: self.job().clone(), done, total });
    }

    /// What attempts at jobs of this type share.
    pub(crate) fn entry(&self) -> &TypeEntry {
        &self.shared.entry
    }

    /// When the attempt was started, by the runtime's clock.
    pub(crate) fn started(&self) -> tokio::time::Instant {
        self.shared.started
    }

    /// When the attempt times out, by the runtime's clock.
    pub(crate) fn due(&self) -> tokio::time::Instant {
        self.shared.started + self.shared.entry.timeout
    }

    /// Whether both are the same attempt.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Counts a thread that works on the job until the guard is dropped.
    pub(crate) fn enter_thread(&self) -> ThreadGuard {
        self.shared.threads.fetch_add(1, Ordering::AcqRel);
        ThreadGuard(self.clone())
    }

    /// Whether a thread still works on the job.
    pub(crate) fn is_on_thread(&self) -> bool {
        self.shared.threads.load(Ordering::Acquire) > 0
    }

    /// Resolves when no thread works on the job.
    pub(crate) async fn threads_finished(&self) {
        self.until(|context| (!context.is_on_thread()).then_some(())).await
    }

    /// Requests a stop. Only the first reason is kept.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        let position = CancelReason::ALL.iter().position(|other| *other == reason);
        let code = position.expect("every reason is in the list") as u8 + 1;
        let is_first = self.shared.reason.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        if is_first.is_err() {
            return;
        }
        if !self.has_ended() {
            self.shared.entry.hooks.emit(|| Event::Cancelling { job: self.job().clone(), reason });
            // Fails after the worker has stopped, which waits for no processor.
            let _ = self.shared.entry.stops.send(self.clone());
        }
        self.shared.changed.notify_waiters();
    }

    /// Whether the processor runs and was not requested to stop.
    pub(crate) fn may_go_on(&self) -> bool {
        self.shared.stage.load(Ordering::Acquire) == RUNNING && !self.is_cancelled()
    }

    /// Records that the processor has returned or was dropped; false if its outcome is ignored.
    pub(crate) fn end(&self) -> bool {
        let counts = self.shared.stage.swap(ENDED, Ordering::AcqRel) == RUNNING;
        self.shared.changed.notify_waiters();
        counts
    }

    /// Ignores the outcome of a processor that goes on; false if it has just ended.
    pub(crate) fn abandon(&self) -> bool {
        let stage = &self.shared.stage;
        stage.compare_exchange(RUNNING, ABANDONED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Resolves when the processor has returned or was dropped.
    pub(crate) async fn ended(&self) {
        self.until(|context| context.has_ended().then_some(())).await
    }

    /// Requests that the processor is dropped.
    pub(crate) fn drop_processor(&self) {
        self.shared.is_dropped.store(true, Ordering::Release);
        self.shared.changed.notify_waiters();
    }

    /// Resolves when the processor must be dropped.
    pub(crate) async fn dropped(&self) {
        self.until(|context| context.shared.is_dropped.load(Ordering::Acquire).then_some(())).await
    }

    fn has_ended(&self) -> bool {
        self.shared.stage.load(Ordering::Acquire) == ENDED
    }

    /// Resolves when `check` returns something, which only a signalled change can bring about.
    async fn until<T>(&self, check: impl Fn(&Self) -> Option<T>) -> T {
        loop {
            let changed = self.shared.changed.notified();
            if let Some(found) = check(self) {
                return found;
            }
            changed.await;
        }
    }
}

/// Counts one thread that works on a job.
pub(crate) struct ThreadGuard(Context);

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        self.0.shared.threads.fetch_sub(1, Ordering::AcqRel);
        self.0.shared.changed.notify_waiters();
    }
}
