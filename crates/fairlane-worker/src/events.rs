//! What a hook hears, and what is logged.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::TypeId;
use fairlane_core::queue::{BulkRef, BulkView, JobRef, Verdict};

use crate::context::CancelReason;
use crate::outcome::Outcome;

/// Something happened in a worker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// An attempt begins.
    Started {
        /// Which job.
        job: JobRef,
        /// Of which type.
        type_id: TypeId,
        /// 1 for the first.
        attempt: u32,
    },
    /// A processor told how far it has come.
    Progress {
        /// Which job.
        job: JobRef,
        /// So much …
        done: u64,
        /// … of this.
        total: u64,
    },
    /// An attempt is told to stop.
    Cancelling {
        /// Which job.
        job: JobRef,
        /// Why.
        reason: CancelReason,
    },
    /// A processor goes on although it was told to stop and its outcome no longer counts; it keeps its slot.
    Ignoring {
        /// Which job.
        job: JobRef,
        /// Of which type.
        type_id: TypeId,
    },
    /// An attempt has ended and the engine knows.
    Settled {
        /// Which job.
        job: JobRef,
        /// Of which type.
        type_id: TypeId,
        /// How it ended.
        outcome: Outcome,
        /// What the engine made of it.
        verdict: Verdict,
        /// How long it took.
        took: Duration,
    },
    /// A result was dropped: the engine says that the settlement is malformed, or it did not take it before the lease was
    /// lost or the worker stopped. The job runs again when its lease has run out.
    Unsettled {
        /// Which job.
        job: JobRef,
        /// Of which type.
        type_id: TypeId,
        /// How it ended.
        outcome: Outcome,
        /// What the engine says.
        error: String,
    },
    /// The engine does not answer; the worker waits and asks again.
    EngineDown {
        /// What was being done.
        doing: &'static str,
        /// What it says.
        error: String,
    },
    /// It answers again.
    EngineBack {
        /// After this long.
        after: Duration,
    },
    /// The engine answers that it cannot do something; the worker asks again, but somebody should look.
    EngineRefuses {
        /// What was being done.
        doing: &'static str,
        /// What it says.
        error: String,
    },
    /// A bulk action was aggregated.
    BulkEnded {
        /// As it stood when it was taken.
        view: Box<BulkView>,
        /// Its summary as JSON.
        summary: Arc<[u8]>,
    },
    /// A bulk action has not moved for a while.
    BulkStuck {
        /// Whose and which.
        bulk: BulkRef,
        /// What to do about it.
        advice: String,
    },
    /// Jobs of these types wait, and no worker has asked for them.
    Unattended {
        /// Which, each with how many lanes wait for it (in `classic`, jobs that are ready).
        types: Vec<(TypeId, u64)>,
    },
    /// The worker takes no more jobs.
    Stopping,
    /// The worker has stopped.
    Stopped(StopReport),
}

/// What a worker left when it stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Attempts that ended within the grace period.
    pub finished: usize,
    /// Jobs that were handed back and can run elsewhere at once.
    pub handed_back: usize,
    /// Jobs whose end the engine could not be told: they run again when their lease runs out.
    pub left: usize,
}

/// Hears events; quick, because it is called where they happen.
pub type Hook = Arc<dyn Fn(&Event) + Send + Sync>;

/// All hooks of a worker.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Arc<[Hook]>);

impl Hooks {
    pub fn new(hooks: Vec<Hook>) -> Self {
        Self(hooks.into())
    }

    /// Tells every hook; the event is made only if there is one. A hook that panics harms nobody else.
    pub fn tell(&self, event: impl FnOnce() -> Event) {
        if self.0.is_empty() {
            return;
        }
        let event = event();
        for hook in self.0.iter() {
            if catch_unwind(AssertUnwindSafe(|| hook(&event))).is_err() {
                tracing::error!(?event, "a hook panicked");
            }
        }
    }
}
