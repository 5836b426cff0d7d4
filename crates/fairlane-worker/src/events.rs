//! The events that a worker emits to its hooks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::TypeId;
use fairlane_core::queue::{BulkRef, BulkView, JobRef, Verdict};

use crate::context::CancelReason;
use crate::outcome::Outcome;

/// An event in a worker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// An attempt started.
    Started {
        /// The job's group and id.
        job: JobRef,
        /// The job's type.
        type_id: TypeId,
        /// The number of the attempt, counted from 1.
        attempt: u32,
    },
    /// A processor reported its progress.
    Progress {
        /// The job's group and id.
        job: JobRef,
        /// Units done so far.
        done: u64,
        /// Units in total.
        total: u64,
    },
    /// An attempt was requested to stop.
    Cancelling {
        /// The job's group and id.
        job: JobRef,
        /// Why the attempt must stop.
        reason: CancelReason,
    },
    /// A processor keeps running after a stop request. It keeps its slot, but its outcome is
    /// ignored.
    Ignoring {
        /// The job's group and id.
        job: JobRef,
        /// The job's type.
        type_id: TypeId,
    },
    /// An attempt ended and the engine acknowledged its settlement.
    Settled {
        /// The job's group and id.
        job: JobRef,
        /// The job's type.
        type_id: TypeId,
        /// The outcome that the processor returned.
        outcome: Outcome,
        /// The engine's verdict on the settlement.
        verdict: Verdict,
        /// The duration of the attempt.
        took: Duration,
    },
    /// A result was dropped: the engine rejected the settlement as malformed, or did not accept it
    /// before the lease was lost or the worker stopped. The job runs again after its lease expires.
    Unsettled {
        /// The job's group and id.
        job: JobRef,
        /// The job's type.
        type_id: TypeId,
        /// The outcome that the processor returned.
        outcome: Outcome,
        /// The engine's error message.
        error: String,
    },
    /// The engine does not reply; the worker waits and retries.
    EngineDown {
        /// What the worker was doing, such as `settling jobs`.
        doing: &'static str,
        /// The engine's error message.
        error: String,
    },
    /// The engine replies again after an outage.
    EngineBack {
        /// The length of the outage.
        after: Duration,
    },
    /// The engine rejected a command. The worker retries, but an operator should investigate.
    EngineRefuses {
        /// What the worker was doing, such as `settling jobs`.
        doing: &'static str,
        /// The engine's error message.
        error: String,
    },
    /// A bulk action was aggregated.
    BulkEnded {
        /// The bulk action as it was when its aggregation was leased.
        view: Box<BulkView>,
        /// The summary of the bulk action, as JSON.
        summary: Arc<[u8]>,
    },
    /// A bulk action makes no progress.
    BulkStuck {
        /// The bulk action's group and id.
        bulk: BulkRef,
        /// What an operator can do about it.
        advice: String,
    },
    /// Jobs of these types are waiting, and no worker has requested them recently. Emitted when the
    /// set of these types changes.
    Unattended {
        /// Each type with the number of its lanes that wait (in `classic`, of its ready jobs).
        types: Vec<(TypeId, u64)>,
    },
    /// The worker stops leasing jobs.
    Stopping,
    /// The worker has stopped.
    Stopped(StopReport),
}

/// The result of stopping a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Number of attempts that ended within the grace period.
    pub finished: usize,
    /// Number of jobs handed back; other workers can lease them at once.
    pub handed_back: usize,
    /// Number of jobs whose settlement the engine did not acknowledge. They run again after their
    /// leases expire.
    pub left: usize,
}

/// A callback for events. It must return quickly, because it runs where the event occurs.
pub type Hook = Arc<dyn Fn(&Event) + Send + Sync>;

/// The event hooks of a worker.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Arc<[Hook]>);

impl Hooks {
    pub fn new(hooks: Vec<Hook>) -> Self {
        Self(hooks.into())
    }

    /// Whether there is no hook.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls every hook. The event is only built if there is a hook, and a panic in one hook does
    /// not affect the others.
    pub fn emit(&self, event: impl FnOnce() -> Event) {
        if self.0.is_empty() {
            return;
        }
        let event = event();
        for hook in self.0.iter() {
            if catch_unwind(AssertUnwindSafe(|| hook(&event))).is_err() {
                tracing::error!(?event, "an event hook panicked");
            }
        }
    }
}
