//! Bulk actions: many jobs of one group that finish together.
//!
//! - `bulk/ingest.rs`: streams jobs in. `bulk/export.rs`: streams results out.
//!
//! Invariant: everything here may be repeated. Opening what is open changes nothing, jobs have ids, and ending what
//! has ended says how it stands.

mod export;
mod ingest;

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::queue::{
    BulkOpened, BulkRef, BulkSealed, BulkView, CancelBulk, HoldBulk, Inspect, Inspected, OpenBulk,
    ResumeBulk, SealBulk, SetType, TypePatch, TypeSet,
};
use fairlane_core::{BulkId, GroupId, Trace, TypeId};
use fairlane_engine::{Engine, EngineError};
use fairlane_worker::{BulkPlan, CALLBACK_TYPE, CallbackPlan, Summary};
use serde::Serialize;

use crate::error::Error;
use crate::job::Job;
use crate::patience::{Looks, Patience, Waiter};

pub use export::Filter;
pub use ingest::{Ingest, Ingested};

/// A bulk action to be opened, made with [`Fairlane::bulk`](crate::Fairlane::bulk).
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

    /// It fails unless it has finished after this long.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// It fails when more jobs than this have; what has not started is then dropped.
    pub fn failures_max(self, failures_max: u64) -> Self {
        Self { failures_max: Some(failures_max), ..self }
    }

    /// Tells this address (http or https) when it has ended. The callback is a job of its own, of the type
    /// `fairlane-callback`, and so delivered by a worker that processes these.
    pub fn callback(mut self, url: impl Into<String>) -> Self {
        self.plan.callback = Some(CallbackPlan { url: url.into() });
        self
    }

    /// Adds to its summary what this fold makes of its jobs; every worker must know it (`Worker::fold`).
    pub fn fold(mut self, name: impl Into<String>) -> Self {
        self.plan.fold = Some(name.into());
        self
    }

    /// Keeps with it what its source begins with ([`NdjsonReader::first`](crate::NdjsonReader::first)), so that another
    /// source can be told from it.
    pub fn source(mut self, fingerprint: impl Into<String>) -> Self {
        self.plan.source = Some(fingerprint.into());
        self
    }

    /// The W3C `traceparent` it is opened in: its callback belongs to that trace. Its jobs have traces of their own
    /// ([`Job::trace`]).
    pub fn trace(mut self, traceparent: impl Into<String>) -> Self {
        self.plan.trace = Some(traceparent.into());
        self
    }

    /// Opens it, or finds it if it was opened before; then it stays as it is.
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
        if self.plan.callback.is_some() {
            bulk.claim_callback_type().await?;
        }
        let command = OpenBulk {
            bulk: bulk.name.clone(),
            deadline_ms,
            failures_max: self.failures_max,
            payload: self.plan.to_bytes(),
        };
        match bulk.engine.open_bulk(command).await? {
            BulkOpened::Created(_) => Ok(Bulk { is_new: true, ..bulk }),
            BulkOpened::Exists(_) => Ok(bulk),
            BulkOpened::TooMany => Err(Error::TooManyBulks(bulk.name.group)),
            BulkOpened::Full { refusal, retry_after_ms } => {
                let retry_after = Duration::from_millis(retry_after_ms);
                Err(Error::BulkRefused { bulk: bulk.name, refusal, retry_after })
            }
        }
    }

    /// One that was opened before, without asking whether there is one.
    pub fn opened_before(self) -> Result<Bulk, Error> {
        self.named()
    }

    fn named(&self) -> Result<Bulk, Error> {
        let name = BulkRef { group: GroupId::new(&self.group)?, id: BulkId::new(&self.id)? };
        Ok(Bulk { engine: self.engine.clone(), name, is_new: false })
    }
}

/// A bulk action.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// # let fairlane = fairlane::Fairlane::open("memory:").await?;
/// let bulk = fairlane.bulk("customer-7", "newsletter").failures_max(100).open().await?;
/// let ingested = bulk.add_all((0..1000).map(|number| bulk.job("mail", &number))).await?;
/// let view = bulk.seal(Some(ingested.jobs)).await?;
/// assert_eq!((view.total, view.sealed), (1000, true));
/// // A change of mind costs one call, however many jobs there are.
/// assert_eq!(bulk.cancel().await?.state.as_str(), "CANCELLED");
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
    /// Whose and which.
    pub fn name(&self) -> &BulkRef {
        &self.name
    }

    /// Whether it was opened by the call that made this value, and not before.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// A job of its group, with a payload that is written as JSON. Without an id it gets one from its position.
    pub fn job(&self, job_type: impl Into<String>, payload: &impl Serialize) -> Job {
        Job::new(self.name.group.to_string(), job_type, payload)
    }

    /// A stream into it, for any number of jobs in constant memory.
    pub fn ingest(&self) -> Ingest {
        Ingest::new(self.clone())
    }

    /// Adds all of these jobs in their order, and waits while the queue is full.
    pub async fn add_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Ingested, Error> {
        let mut ingest = self.ingest();
        for job in jobs {
            ingest.push(job).await?;
        }
        ingest.finish().await
    }

    /// Says that no more jobs come, and how many there are: with any other number it stays open. To seal it again
    /// changes nothing, and is an error if it was sealed with another number.
    pub async fn seal(&self, expected: Option<u64>) -> Result<BulkView, Error> {
        let sealed = self.engine.seal_bulk(SealBulk { bulk: self.name.clone(), expected }).await?;
        let view = self.sealed(sealed, expected)?;
        match expected {
            Some(expected) if expected != view.total => {
                Err(Error::SealedWithOthers { bulk: self.name.clone(), expected, total: view.total })
            }
            _ => Ok(view),
        }
    }

    /// One that was sealed before may have jobs of other sources besides.
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

    /// How it stands.
    pub async fn view(&self) -> Result<BulkView, Error> {
        self.known(self.look().await?)
    }

    /// Sets its jobs aside; those that run go on.
    pub async fn hold(&self) -> Result<BulkView, Error> {
        self.known(self.engine.hold_bulk(HoldBulk { bulk: self.name.clone() }).await?.0)
    }

    /// Lets them run again.
    pub async fn resume(&self) -> Result<BulkView, Error> {
        self.known(self.engine.resume_bulk(ResumeBulk { bulk: self.name.clone() }).await?.0)
    }

    /// Ends it; what has not started is dropped, what runs is told.
    pub async fn cancel(&self) -> Result<BulkView, Error> {
        self.known(self.engine.cancel_bulk(CancelBulk { bulk: self.name.clone() }).await?.0)
    }

    /// Waits until it is completed, failed or cancelled.
    pub async fn finished(&self) -> Result<BulkView, Error> {
        self.finished_with(|_| {}).await
    }

    /// Waits until it is completed, failed or cancelled, and tells at each look how it stands. Goes on for a minute
    /// when the engine does not answer.
    pub async fn finished_with(&self, mut progress: impl FnMut(&BulkView)) -> Result<BulkView, Error> {
        let mut waiter = Waiter::new(Patience::default(), None);
        let mut looks = Looks::new();
        loop {
            if let Some(found) = waiter.answered(self.look().await).await? {
                let view = self.known(found)?;
                progress(&view);
                if view.state.is_final() {
                    return Ok(view);
                }
                looks.pause().await;
            }
        }
    }

    /// What its opener asked for.
    pub async fn plan(&self) -> Result<BulkPlan, Error> {
        BulkPlan::from_bytes(&self.view().await?.payload).map_err(|error| Error::Unreadable {
            what: format!("the plan of bulk action {}", self.name.id),
            reason: error.to_string(),
        })
    }

    /// What its aggregation made of it; none before that. One that failed or was cancelled is aggregated when the last
    /// of its jobs has ended, which is after [`finished`](Self::finished) has said so.
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

    /// Makes sure that the job of its callback will find room among the types: when the bulk action has ended, nobody
    /// is there any more to be told that it has not.
    async fn claim_callback_type(&self) -> Result<(), Error> {
        let command = SetType { type_id: TypeId::new(CALLBACK_TYPE)?, patch: TypePatch::default() };
        match self.engine.set_type(command).await? {
            TypeSet::Set(_) => Ok(()),
            TypeSet::TooManyTypes => Err(Error::NoTypeForCallbacks),
        }
    }

    async fn look(&self) -> Result<Option<BulkView>, EngineError> {
        match self.engine.inspect(Inspect::Bulk(self.name.clone())).await? {
            Inspected::Bulk(view) => Ok(view),
            _ => Err(EngineError::Broken { reason: "inspect was answered with something else".to_owned() }),
        }
    }

    fn known(&self, view: Option<BulkView>) -> Result<BulkView, Error> {
        view.ok_or_else(|| Error::NoSuchBulk(self.name.clone()))
    }
}
