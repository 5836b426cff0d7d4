//! Bulk actions: many jobs of one group that finish together.
//!
//! - `bulk/ingest.rs`: streams jobs in. `bulk/export.rs`: streams results out.
//!
//! Invariant: every call is idempotent. Opening an open bulk action changes nothing, jobs have ids,
//! and ending an ended bulk action returns its view.

mod export;
mod ingest;

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::queue::{
    BulkOpened, BulkRef, BulkSealed, BulkView, CancelBulk, HoldBulk, InspectBulk, OpenBulk, ResumeBulk,
    SealBulk,
};
use fairlane_core::{BulkId, GroupId, Trace};
use fairlane_engine::{Engine, EngineError};
use fairlane_worker::{BulkPlan, CallbackPlan, Summary};
use serde::Serialize;

use crate::error::Error;
use crate::job::Job;
use crate::retry_budget::{RetryLoop, Waiting, poll_backoff};

pub use export::Filter;
pub use ingest::{Ingest, Ingested};

/// Builds a bulk action, made with [`Fairlane::bulk`](crate::Fairlane::bulk).
#[derive(Clone)]
pub struct NewBulk {
    engine: Arc<dyn Engine>,
    group: String,
    id: String,
    deadline: Option<Duration>,
    failures_max: Option<u64>,
    plan: BulkPlan,
}

impl NewBulk {
    pub(crate) fn new(engine: Arc<dyn Engine>, group: String, id: String) -> Self {
        Self { engine, group, id, deadline: None, failures_max: None, plan: BulkPlan::default() }
    }

    /// The bulk action fails if it has not finished after this long.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// The bulk action fails when more than this many jobs have failed; jobs that have not started
    /// are then dropped.
    pub fn failures_max(self, failures_max: u64) -> Self {
        Self { failures_max: Some(failures_max), ..self }
    }

    /// Notifies this http or https URL when the bulk action has ended. The callback is a job of its
    /// own, of the type `fairlane-callback`, so a worker that processes this type delivers it.
    pub fn callback(mut self, url: impl Into<String>) -> Self {
        self.plan.callback = Some(CallbackPlan { url: url.into() });
        self
    }

    /// Adds the value of this fold to the summary; every worker must register it with
    /// `Worker::fold`.
    pub fn fold(mut self, name: impl Into<String>) -> Self {
        self.plan.fold = Some(name.into());
        self
    }

    /// Stores the fingerprint of the source's first line
    /// ([`NdjsonReader::first`](crate::NdjsonReader::first)), so that a different source is
    /// detected.
    pub fn source(mut self, fingerprint: impl Into<String>) -> Self {
        self.plan.source = Some(fingerprint.into());
        self
    }

    /// The W3C `traceparent` of the callback. Jobs have traces of their own ([`Job::trace`]).
    pub fn trace(mut self, traceparent: impl Into<String>) -> Self {
        self.plan.trace = Some(traceparent.into());
        self
    }

    /// Opens the bulk action. One that was opened before is returned unchanged.
    pub async fn open(self) -> Result<Bulk, Error> {
        let deadline_ms =
            self.deadline.map(|deadline| u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX));
        let bulk = self.named()?;
        if let Some(CallbackPlan { url }) = &self.plan.callback
            && !url.starts_with("http://")
            && !url.starts_with("https://")
        {
            return Err(Error::Callback(url.clone()));
        }
        if let Some(trace) = &self.plan.trace {
            Trace::new(trace)?;
        }
        let command = OpenBulk {
            bulk: bulk.name.clone(),
            deadline_ms,
            failures_max: self.failures_max,
            payload: self.plan.to_bytes(),
        };
        match bulk.engine.call(command).await? {
            BulkOpened::Created(_) => Ok(Bulk { is_new: true, ..bulk }),
            BulkOpened::Exists(_) => Ok(bulk),
            BulkOpened::TooMany => Err(Error::TooManyBulks(bulk.name.group)),
            BulkOpened::Full { refusal, retry_after_ms } => {
                let retry_after = Duration::from_millis(retry_after_ms);
                Err(Error::BulkRefused { bulk: bulk.name, refusal, retry_after })
            }
        }
    }

    /// A handle to a bulk action that was opened before, without checking that it exists.
    pub fn opened_before(self) -> Result<Bulk, Error> {
        self.named()
    }

    fn named(&self) -> Result<Bulk, Error> {
        let name = BulkRef { group: GroupId::new(&self.group)?, id: BulkId::new(&self.id)? };
        Ok(Bulk { engine: self.engine.clone(), name, is_new: false })
    }
}

/// A handle to a bulk action.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// # let fairlane = fairlane::Fairlane::open("memory:").await?;
/// let bulk = fairlane.bulk("customer-7", "newsletter").failures_max(100).open().await?;
/// let ingested = bulk.add_all((0..1000).map(|number| bulk.job("mail", &number))).await?;
/// let view = bulk.seal(Some(ingested.jobs)).await?;
/// assert_eq!((view.total, view.sealed), (1000, true));
/// // Cancelling costs one call, however many jobs there are.
/// assert_eq!(bulk.cancel().await?.state.name(), "cancelled");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Bulk {
    engine: Arc<dyn Engine>,
    name: BulkRef,
    is_new: bool,
}

impl Bulk {
    /// The group and id of the bulk action.
    pub fn name(&self) -> &BulkRef {
        &self.name
    }

    /// Whether the call that made this handle opened the bulk action.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// A job of the same group, with a payload that is serialised as JSON. A job without an id gets
    /// one from its position in the source.
    pub fn job(&self, job_type: impl Into<String>, payload: &impl Serialize) -> Job {
        Job::new(self.name.group.to_string(), job_type, payload)
    }

    /// A stream into the bulk action, for any number of jobs in constant memory.
    pub fn ingest(&self) -> Ingest {
        Ingest::new(self.clone())
    }

    /// Adds all jobs in order, and waits while the queue is full.
    pub async fn add_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Ingested, Error> {
        let mut ingest = self.ingest();
        for job in jobs {
            ingest.push(job).await?;
        }
        ingest.finish().await
    }

    /// Seals the bulk action: no more jobs will be added. If `expected` is not the number of its
    /// jobs, it stays open. Sealing it again changes nothing, and is an error if `expected` differs
    /// from the number it was sealed with.
    pub async fn seal(&self, expected: Option<u64>) -> Result<BulkView, Error> {
        let sealed = self.engine.call(SealBulk { bulk: self.name.clone(), expected }).await?;
        let view = self.sealed(sealed, expected)?;
        match expected {
            Some(expected) if expected != view.total => {
                Err(Error::SealedWithOthers { bulk: self.name.clone(), expected, total: view.total })
            }
            _ => Ok(view),
        }
    }

    /// The view in a reply. A bulk action that was sealed before may also have jobs of other
    /// sources.
    fn sealed(&self, sealed: BulkSealed, expected: Option<u64>) -> Result<BulkView, Error> {
        match sealed {
            BulkSealed::Sealed(view) => Ok(view),
            BulkSealed::Mismatch { total } => {
                let (bulk, expected) = (self.name.clone(), expected.unwrap_or_default());
                Err(Error::Mismatch { bulk, expected, total })
            }
            BulkSealed::Unknown => Err(Error::NoSuchBulk(self.name.clone())),
        }
    }

    /// The current state and counts.
    pub async fn view(&self) -> Result<BulkView, Error> {
        self.found(self.inspect().await?)
    }

    /// Holds its jobs back; running jobs continue.
    pub async fn hold(&self) -> Result<BulkView, Error> {
        self.found(self.engine.call(HoldBulk { bulk: self.name.clone() }).await?.0)
    }

    /// Lets its jobs run again after [`hold`](Self::hold).
    pub async fn resume(&self) -> Result<BulkView, Error> {
        self.found(self.engine.call(ResumeBulk { bulk: self.name.clone() }).await?.0)
    }

    /// Cancels the bulk action: jobs that have not started are dropped, running jobs are requested
    /// to stop.
    pub async fn cancel(&self) -> Result<BulkView, Error> {
        self.found(self.engine.call(CancelBulk { bulk: self.name.clone() }).await?.0)
    }

    /// Waits until it is completed, failed or cancelled.
    pub async fn finished(&self) -> Result<BulkView, Error> {
        self.finished_with(|_| {}).await
    }

    /// Waits until the bulk action is completed, failed or cancelled, and calls `progress` with its
    /// view at each poll. Retries for a minute while the engine does not reply.
    pub async fn finished_with(&self, mut progress: impl FnMut(&BulkView)) -> Result<BulkView, Error> {
        let mut retries = RetryLoop::new(Waiting::default());
        let mut backoff = poll_backoff();
        loop {
            if let Some(found) = retries.reply_or_wait(self.inspect().await).await? {
                let view = self.found(found)?;
                progress(&view);
                if view.state.is_final() {
                    return Ok(view);
                }
                backoff.sleep().await;
            }
        }
    }

    /// The plan that the bulk action was opened with.
    pub async fn plan(&self) -> Result<BulkPlan, Error> {
        BulkPlan::from_bytes(&self.view().await?.payload).map_err(|error| Error::Unreadable {
            what: format!("the plan of bulk action {}", self.name.id),
            reason: error.to_string(),
        })
    }

    /// The summary; `None` until the bulk action is aggregated. A failed or cancelled bulk action
    /// is aggregated when its last job has ended, which is after [`finished`](Self::finished)
    /// returns.
    pub async fn summary(&self) -> Result<Option<Summary>, Error> {
        let summary = self.view().await?.summary;
        if summary.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&summary).map(Some).map_err(|error| Error::Unreadable {
            what: format!("the summary of bulk action {}", self.name.id),
            reason: error.to_string(),
        })
    }

    async fn inspect(&self) -> Result<Option<BulkView>, EngineError> {
        self.engine.call(InspectBulk { bulk: self.name.clone() }).await
    }

    fn found(&self, view: Option<BulkView>) -> Result<BulkView, Error> {
        view.ok_or_else(|| Error::NoSuchBulk(self.name.clone()))
    }
}
