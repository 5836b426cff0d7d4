//! What a processor is told about its job, and how it is told to stop.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane_core::queue::{Extend, Extension, JobRef, LeasedJob};
use fairlane_core::{BulkId, Cost, Fence, GroupId, JobId, Level, Micros, Trace, TypeId};
use fairlane_engine::{Engine, EngineError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::events::{Event, Hooks};

/// Why an attempt is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// The job or its bulk action was cancelled.
    Cancelled,
    /// The lease was lost: another worker may have the job by now, and nothing said here counts.
    Lost,
    /// Its time is up.
    TimedOut,
    /// The worker stops and its grace period is over; the job goes back to the queue.
    Stopping,
}

impl CancelReason {
    /// The word for metrics and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::TimedOut => "timed_out",
            Self::Stopping => "stopping",
        }
    }
}

/// A heartbeat found that the lease is gone, or could not be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatLost {
    /// The job is no longer leased to this attempt; stop.
    #[error("the lease is lost: another worker may have the job")]
    Lost,
    /// The lease holds, but nobody wants the job any more; stop.
    #[error("the job was cancelled")]
    Cancelled,
    /// The engine did not answer; the lease holds until it runs out.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// One attempt at one job.
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
    /// Threads that work on the job and cannot be stopped from outside.
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

    /// The customer it belongs to.
    pub fn group(&self) -> &GroupId {
        &self.shared.job.job.group
    }

    /// Its id within the group: the same in every attempt, and so the key to make work idempotent by.
    pub fn id(&self) -> &JobId {
        &self.shared.job.job.id
    }

    /// Group and id.
    pub fn job(&self) -> &JobRef {
        &self.shared.job.job
    }

    /// Its type.
    pub fn type_id(&self) -> &TypeId {
        &self.shared.job.type_id
    }

    /// Its level.
    pub fn level(&self) -> Level {
        self.shared.job.level
    }

    /// Its cost.
    pub fn cost(&self) -> Cost {
        self.shared.job.cost
    }

    /// Its payload as it was enqueued.
    pub fn payload(&self) -> &[u8] {
        &self.shared.job.payload
    }

    /// The bulk action it belongs to.
    pub fn bulk(&self) -> Option<&BulkId> {
        self.shared.job.bulk.as_ref()
    }

    /// The W3C `traceparent` it was enqueued with: the parent of whatever spans this attempt opens.
    pub fn trace(&self) -> Option<&str> {
        self.shared.job.trace.as_ref().map(Trace::as_str)
    }

    /// 1 for the first.
    pub fn attempt(&self) -> u32 {
        self.shared.job.attempt
    }

    /// Grows with every lease of the job: a resource that remembers the highest one it has seen can refuse a
    /// worker that was thought dead.
    pub fn fence(&self) -> Fence {
        self.shared.job.fence
    }

    /// When it was enqueued, in the engine's time.
    pub fn created_at(&self) -> Micros {
        self.shared.job.created_at
    }

    /// When this attempt's time is up.
    pub fn deadline(&self) -> Instant {
        self.shared.deadline
    }

    /// How long this attempt may take.
    pub fn timeout(&self) -> Duration {
        self.shared.timeout
    }

    /// Resolves when the attempt is to stop, with the reason.
    pub async fn cancelled(&self) -> CancelReason {
        self.shared.token.cancelled().await;
        self.cancel_reason().unwrap_or(CancelReason::Cancelled)
    }

    /// Whether the attempt is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.shared.token.is_cancelled()
    }

    /// Why, if it is.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        *self.shared.reason.lock().expect("nothing panics while it holds the reason")
    }

    /// Asks the engine now whether the lease still holds, and renews it. The worker does so by itself; this is
    /// for the moment before something that cannot be undone.
    pub async fn heartbeat(&self) -> Result<(), HeartbeatLost> {
        let leases = vec![(self.job().clone(), self.fence())];
        let extended = self.shared.engine.extend(Extend { leases, lease_ms: self.shared.lease_ms }).await?;
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

    /// Tells hooks how far the attempt has come: `done` of `total`, in whatever unit.
    pub fn progress(&self, done: u64, total: u64) {
        self.shared.hooks.tell(|| Event::Progress { job: self.job().clone(), done, total });
    }

    /// The job is worked on in a thread until the guard is dropped.
    pub(crate) fn enter_thread(&self) -> OnThread {
        self.shared.threads.send_modify(|threads| *threads += 1);
        OnThread(self.clone())
    }

    /// Whether a thread works on the job.
    pub(crate) fn is_on_thread(&self) -> bool {
        *self.shared.threads.borrow() > 0
    }

    /// Resolves when none does.
    pub(crate) async fn off_threads(&self) {
        // It cannot close: the sender is right here.
        let _ = self.shared.threads.subscribe().wait_for(|threads| *threads == 0).await;
    }

    /// The first reason stays.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        self.shared.reason.lock().expect("nothing panics while it holds the reason").get_or_insert(reason);
        self.shared.token.cancel();
    }
}

/// A thread works on a job.
pub(crate) struct OnThread(Context);

impl Drop for OnThread {
    fn drop(&mut self) {
        self.0.shared.threads.send_modify(|threads| *threads -= 1);
    }
}
