//! A handle to one job: to inspect it, to cancel it, to explain why it is not running.

use std::sync::Arc;

use fairlane_core::queue::{
    CancelJob, Cancellation, Explain, Explanation, InspectJob, JobRef, JobState, JobView, RequeueDead,
    Requeued,
};
use fairlane_core::{GroupId, JobId};
use fairlane_engine::Engine;
use fairlane_worker::Problem;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::fairlane::broken;
use crate::retry_budget::{RetryLoop, Waiting, poll_backoff};

/// A handle to one job, made with [`Fairlane::job`](crate::Fairlane::job).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// # use fairlane::{Fairlane, Job};
/// # let fairlane = Fairlane::open("memory:").await?;
/// fairlane.enqueue(Job::new("customer-7", "mail", &()).id("welcome-42")).await?.accepted()?;
/// let job = fairlane.job("customer-7", "welcome-42");
/// let why = job.explain().await?.expect("it was enqueued");
/// assert!(why.sentence().contains("no worker"));
/// assert_eq!(job.cancel().await?, fairlane::Cancellation::Cancelled);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct JobHandle {
    engine: Arc<dyn Engine>,
    group: String,
    id: String,
}

impl JobHandle {
    pub(crate) fn new(engine: Arc<dyn Engine>, group: String, id: String) -> Self {
        Self { engine, group, id }
    }

    /// The job with its state, payload and result; `None` if the job does not exist or was removed.
    pub async fn view(&self) -> Result<Option<JobView>, Error> {
        Ok(self.engine.call(InspectJob { job: self.name()? }).await?)
    }

    /// Waits until the job is completed, dead or cancelled, and returns it with its result; `None`
    /// if the job does not exist or was removed. Retries for a minute while the engine does not
    /// reply.
    pub async fn finished(&self) -> Result<Option<JobView>, Error> {
        let job = self.name()?;
        let mut retries = RetryLoop::new(Waiting::default());
        let mut backoff = poll_backoff();
        loop {
            let reply = self.engine.call(InspectJob { job: job.clone() }).await;
            let Some(view) = retries.reply_or_wait(reply).await? else { continue };
            match view.as_ref().map(|view| view.state) {
                None | Some(JobState::Completed | JobState::Failed | JobState::Cancelled) => {
                    return Ok(view);
                }
                Some(_) => backoff.sleep().await,
            }
        }
    }

    /// Waits as [`finished`](Self::finished) does, and returns the result that the processor passed
    /// to [`Outcome::done`](crate::Outcome::done); a processor that returned `()` has the result
    /// null. [`Error::NoResult`] if the job did not complete.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, Error> {
        match self.finished().await? {
            Some(view) => view.result(),
            None => Err(Error::NoResult {
                job: self.name()?,
                reason: "it does not exist, or is past its retention".to_owned(),
            }),
        }
    }

    /// Cancels the job. A running job is requested to stop, and is not retried.
    pub async fn cancel(&self) -> Result<Cancellation, Error> {
        let cancelled = self.engine.call(CancelJob { jobs: vec![self.name()?] }).await?;
        let cancellation = cancelled.cancellations.first().copied();
        cancellation.ok_or_else(|| broken("the reply to cancel_job has no cancellation"))
    }

    /// Requeues the job with all its attempts, if it is dead. It goes before the rest of its lane,
    /// and leaves its bulk action, which has counted its failure.
    pub async fn requeue(&self) -> Result<Requeued, Error> {
        let requeued = self.engine.call(RequeueDead { jobs: vec![self.name()?] }).await?;
        let requeued = requeued.jobs.first().copied();
        requeued.ok_or_else(|| broken("the reply to requeue_dead is empty"))
    }

    /// Explains why the job is not running; [`Explanation::sentence`] says it in words. `None` if
    /// there is no such job.
    pub async fn explain(&self) -> Result<Option<Explanation>, Error> {
        let explained = self.engine.call(Explain { job: self.name()? }).await?;
        Ok(explained.0.map(|explanation| *explanation))
    }

    /// Its group and id; an error if one of them is invalid.
    pub fn name(&self) -> Result<JobRef, Error> {
        Ok(JobRef { group: GroupId::new(&self.group)?, id: JobId::new(&self.id)? })
    }
}

/// Reads the result from the view of a job.
///
/// ```
/// use fairlane::{Fairlane, JobViewExt};
///
/// async fn total(fairlane: &Fairlane) -> Result<Option<u64>, fairlane::Error> {
///     let view = fairlane.job("customer-7", "invoice-4711").view().await?;
///     view.map(|view| view.result()).transpose()
/// }
/// ```
pub trait JobViewExt {
    /// The result that the processor returned; null if it returned `()`. [`Error::NoResult`] if the
    /// job has not completed, or its result is not a `T`.
    fn result<T: DeserializeOwned>(&self) -> Result<T, Error>;
}

impl JobViewExt for JobView {
    fn result<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let reason = match self.state {
            JobState::Completed => {
                let json = if self.note.is_empty() { &b"null"[..] } else { &*self.note };
                match serde_json::from_slice(json) {
                    Ok(result) => return Ok(result),
                    Err(error) => format!("its result has another form: {error}"),
                }
            }
            JobState::Failed => format!("it failed: {}", Problem::from_bytes(&self.note)),
            JobState::Cancelled => "it was cancelled".to_owned(),
            _ => "it has not ended; `finished` waits for its end".to_owned(),
        };
        Err(Error::NoResult { job: self.job.clone(), reason })
    }
}
