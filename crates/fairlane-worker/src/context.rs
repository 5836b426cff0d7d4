//! The context of an attempt: what a processor knows about its job, and how it learns to stop.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane_core::queue::{Extend, Extension, JobRef, LeasedJob};
use fairlane_core::{BulkId, Cost, Fence, GroupId, JobId, Level, Micros, Trace, TypeId};
use fairlane_engine::{Engine, EngineError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::events::{Event, Hooks};

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
    engine: Arc<dyn Engine>,
    lease_ms: u64,
    timeout: Duration,
    deadline: Instant,
    token: CancellationToken,
    reason: Mutex<Option<CancelReason>>,
    hooks: Hooks,
    /// Number of threads that work on the job and cannot be stopped from outside.
    threads: watch::Sender<usize>,
}

impl Context {
    pub(crate) fn new(
        job: LeasedJob,
        engine: Arc<dyn Engine>,
        lease_ms: u64,
        timeout: Duration,
        hooks: Hooks,
    ) -> Self {
        let (token, reason) = (CancellationToken::new(), Mutex::new(None));
        let (deadline, threads) = (Instant::now() + timeout, watch::Sender::new(0));
        Self {
            shared: Arc::new(Shared {
                job,
                engine,
                lease_ms,
                timeout,
                deadline,
                token,
                reason,
                hooks,
                threads,
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
        self.shared.deadline
    }

    /// The timeout of this attempt.
    pub fn timeout(&self) -> Duration {
        self.shared.timeout
    }

    /// Resolves with the reason when the attempt must stop.
    pub async fn cancelled(&self) -> CancelReason {
        self.shared.token.cancelled().await;
        self.cancel_reason().unwrap_or(CancelReason::Cancelled)
    }

    /// Whether the attempt must stop.
    pub fn is_cancelled(&self) -> bool {
        self.shared.token.is_cancelled()
    }

    /// Why the attempt must stop; `None` while it may go on.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        *self.shared.reason.lock().expect("nothing panics while it holds the reason")
    }

    /// Checks with the engine that the lease still holds, and renews it. The worker renews leases
    /// by itself; call this right before a side effect that cannot be undone.
    pub async fn heartbeat(&self) -> Result<(), HeartbeatLost> {
        let leases = vec![(self.job().clone(), self.fence())];
        let extended = self.shared.engine.call(Extend { leases, lease_ms: self.shared.lease_ms }).await?;
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

    /// Reports progress to the event hooks: `done` of `total`, in a unit of the processor's choice.
    pub fn progress(&self, done: u64, total: u64) {
        self.shared.hooks.emit(|| Event::Progress { job: self.job().clone(), done, total });
    }

    /// Counts a thread that works on the job until the guard is dropped.
    pub(crate) fn enter_thread(&self) -> ThreadGuard {
        self.shared.threads.send_modify(|threads| *threads += 1);
        ThreadGuard(self.clone())
    }

    /// Whether a thread still works on the job.
    pub(crate) fn is_on_thread(&self) -> bool {
        *self.shared.threads.borrow() > 0
    }

    /// Resolves when no thread works on the job.
    pub(crate) async fn threads_finished(&self) {
        // The channel cannot close: `self` owns the sender.
        let _ = self.shared.threads.subscribe().wait_for(|threads| *threads == 0).await;
    }

    /// Requests a stop. Only the first reason is kept.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        self.shared.reason.lock().expect("nothing panics while it holds the reason").get_or_insert(reason);
        self.shared.token.cancel();
    }
}

/// Counts one thread that works on a job.
pub(crate) struct ThreadGuard(Context);

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        self.0.shared.threads.send_modify(|threads| *threads -= 1);
    }
}
