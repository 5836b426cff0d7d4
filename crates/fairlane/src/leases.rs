//! Leases without a pool: leases jobs, extends their leases, settles and releases them.
//!
//! - `leases/attempts.rs`: leases for the clients of a server. `leases/release_on_drop.rs`: jobs on
//!   their way to a client, released if it is gone.
//!
//! Nothing here renews a lease or runs the background loops: a [`Worker`](crate::Worker) does.

mod attempts;
mod release_on_drop;

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::kernel::Operation;
use fairlane_core::limits::TIMER_BACKSTOP_MS;
use fairlane_core::queue::{
    Extend, Extension, JobRef, LeasedJob, Outcome, Progress, ProgressReport, ReportProgress, Settlement,
    Verdict,
};
use fairlane_core::{Fence, TypeId, WorkerId};
use fairlane_engine::{Engine, EngineError, lease_pause};
use uuid::Uuid;

use crate::error::Error;
pub use attempts::{LeaseAttempt, LeaseAttempts, LeaseRequest};
pub use release_on_drop::ReleaseOnDrop;

/// The default length of a lease.
const LEASE: Duration = Duration::from_secs(30);

/// Leases jobs without a pool, made with [`Fairlane::leases`](crate::Fairlane::leases).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use fairlane::{Fairlane, Job, Outcome, Verdict};
///
/// let fairlane = Fairlane::open("memory:").await?;
/// fairlane.enqueue(Job::new("customer-7", "resize", &"cat.png")).await?.accepted()?;
///
/// let leases = fairlane.leases();
/// let mut leaser = leases.leaser("resizer", ["resize"])?;
/// let jobs = leaser.lease(10, Duration::from_secs(20)).await?;
/// leases.extend(&jobs, Duration::from_secs(60)).await?;
/// let done = jobs.iter().map(|job| Outcome::done(&job.payload.len()).settlement(job));
/// assert_eq!(leases.settle(done).await?, [Verdict::Applied]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Leases {
    engine: Arc<dyn Engine>,
}

/// A lease that is held, and how far its attempt is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    /// The job, by group and id.
    pub job: JobRef,
    /// The fence of the lease.
    pub fence: Fence,
    /// The progress of the attempt, if there is news of it.
    pub progress: Option<Progress>,
}

impl HeldLease {
    /// Reports progress with the extension: `done` of `total`, in a unit of the worker's choice.
    pub fn progress(self, done: u64, total: u64) -> Self {
        Self { progress: Some(Progress { done, total }), ..self }
    }
}

impl From<&LeasedJob> for HeldLease {
    fn from(job: &LeasedJob) -> Self {
        Self { job: job.job.clone(), fence: job.fence, progress: None }
    }
}

impl Leases {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// Leases jobs of these types for one worker. The number of this leaser is added to the name of
    /// the worker, so several may have the same name.
    pub fn leaser(
        &self,
        worker: impl Display,
        types: impl IntoIterator<Item = impl Display>,
    ) -> Result<Leaser, Error> {
        let worker = WorkerId::new(worker.to_string())?.of_process(Uuid::now_v7().as_u64_pair().1);
        let types = types.into_iter().map(|name| TypeId::new(name.to_string()));
        let types = types.collect::<Result<_, _>>()?;
        let leaser = fairlane_engine::Leaser::new(self.engine.clone(), worker);
        Ok(Leaser { leases: self.clone(), leaser, types, length: LEASE })
    }

    /// The leases of one request of a client, for a server that leases for workers elsewhere.
    pub fn attempts(&self, request: LeaseRequest) -> Result<LeaseAttempts, Error> {
        LeaseAttempts::new(self.clone(), request)
    }

    /// Extends up to 500 leases, each job once, to this length from now, and stores the reported
    /// progress. A job that is [`Lost`](Extension::Lost) may run elsewhere: stop working on it.
    /// Extend leases well before they end, a third of their length after the last time.
    pub async fn extend(
        &self,
        leases: impl IntoIterator<Item = impl Into<HeldLease>>,
        length: Duration,
    ) -> Result<Vec<Extension>, Error> {
        let (mut held, mut reports) = (Vec::new(), Vec::new());
        for lease in leases {
            let HeldLease { job, fence, progress } = lease.into();
            reports.extend(progress.map(|progress| ProgressReport { job: job.clone(), fence, progress }));
            held.push((job, fence));
        }
        let extend = Extend { leases: held, lease_ms: length.as_millis() as u64 };
        extend.validate().map_err(EngineError::from)?;
        if !reports.is_empty() {
            self.engine.call(ReportProgress { reports }).await?;
        }
        Ok(self.engine.call(extend).await?.extensions)
    }

    /// Settles up to 500 jobs, each once, and none if one of the settlements is invalid. It is safe
    /// to repeat after an error: a settlement that took effect is applied only once.
    pub async fn settle(
        &self,
        settlements: impl IntoIterator<Item = Settlement>,
    ) -> Result<Vec<Verdict>, Error> {
        Ok(self.engine.settle_all(settlements.into_iter().collect()).await?.verdicts)
    }

    /// Releases up to 500 jobs that were not worked on: they can run again at once, and the attempt
    /// does not count.
    pub async fn release(
        &self,
        leases: impl IntoIterator<Item = impl Into<HeldLease>>,
    ) -> Result<Vec<Verdict>, Error> {
        let released = |HeldLease { job, fence, .. }| Settlement { job, fence, outcome: Outcome::Released };
        self.settle(leases.into_iter().map(|lease| released(lease.into()))).await
    }
}

/// Leases jobs for one worker, made with [`Leases::leaser`].
pub struct Leaser {
    leases: Leases,
    leaser: fairlane_engine::Leaser,
    types: Vec<TypeId>,
    length: Duration,
}

impl Leaser {
    /// Sets the length of the leases, 30 s by default.
    pub fn length(self, length: Duration) -> Self {
        Self { length, ..self }
    }

    /// Leases up to `jobs_max` jobs (at most 500), and waits up to `wait` for the first. The jobs run
    /// elsewhere when their leases end: settle them before, or [`extend`](Leases::extend) their
    /// leases.
    ///
    /// After an error or a dropped future, the next call returns the jobs whose reply was missed, so
    /// it is safe in a `select!` and no job waits for the end of its lease.
    pub async fn lease(&mut self, jobs_max: usize, wait: Duration) -> Result<Vec<LeasedJob>, Error> {
        let (begun, lease_ms) = (Instant::now(), self.length.as_millis() as u64);
        let mut batch = self.leaser.lease(&self.types, jobs_max, lease_ms).await?;
        let mut empty_waits = 0;
        loop {
            let left = wait.saturating_sub(begun.elapsed());
            if !batch.jobs.is_empty() || left.is_zero() {
                return Ok(batch.jobs);
            }
            let backstop = Duration::from_millis(TIMER_BACKSTOP_MS);
            let at_most = left.min(lease_pause(batch.wake_at, empty_waits, backstop));
            batch = if batch.wake_at.is_some() {
                // A store's timers may be coarse, so the request does not wait there for a time.
                let is_woken = self.leases.engine.wait(&self.types, at_most).await?;
                empty_waits = if is_woken { 0 } else { empty_waits + 1 };
                self.leaser.lease(&self.types, jobs_max, lease_ms).await?
            } else {
                // A time that it returns was not known before, such as that of a delayed job.
                empty_waits = 0;
                self.leaser.lease_when_woken(&self.types, jobs_max, lease_ms, at_most).await?
            };
        }
    }
}
