//! One job: to look at, to cancel, to ask why it is not running.

use std::sync::Arc;

use fairlane_core::queue::{
    CancelJob, Cancellation, Explain, Explanation, Inspect, Inspected, JobRef, JobState, JobView,
};
use fairlane_core::{GroupId, JobId};
use fairlane_engine::Engine;

use crate::error::Error;
use crate::fairlane::broken;
use crate::patience::{Looks, Patience, Waiter};

/// One job, made with [`Fairlane::job`](crate::Fairlane::job).
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
pub struct OneJob {
    engine: Arc<dyn Engine>,
    group: String,
    id: String,
}

impl OneJob {
    pub(crate) fn new(engine: Arc<dyn Engine>, group: String, id: String) -> Self {
        Self { engine, group, id }
    }

    /// The job as it stands with its payload and result; none if there is no such job (any more).
    pub async fn view(&self) -> Result<Option<JobView>, Error> {
        match self.engine.inspect(Inspect::Job(self.name()?)).await? {
            Inspected::Job(view) => Ok(view),
            _ => Err(broken("inspect was answered with something else")),
        }
    }

    /// Waits until it is completed, dead or cancelled, and gives it with its result; none if there is no such job
    /// (any more). Goes on for a minute when the engine does not answer.
    pub async fn finished(&self) -> Result<Option<JobView>, Error> {
        let name = self.name()?;
        let (mut waiter, mut looks) = (Waiter::new(Patience::default(), None), Looks::new());
        loop {
            let asked = self.engine.inspect(Inspect::Job(name.clone())).await;
            match waiter.answered(asked).await? {
                None => {}
                Some(Inspected::Job(view)) => match view.as_ref().map(|view| view.state) {
                    None | Some(JobState::Completed | JobState::Failed | JobState::Cancelled) => {
                        return Ok(view);
                    }
                    Some(_) => looks.pause().await,
                },
                Some(_) => return Err(broken("inspect was answered with something else")),
            }
        }
    }

    /// Cancels it. A running job is told by its worker, and not tried again.
    pub async fn cancel(&self) -> Result<Cancellation, Error> {
        let cancelled = self.engine.cancel_job(CancelJob { jobs: vec![self.name()?] }).await?;
        cancelled.cancellations.first().copied().ok_or_else(|| broken("cancel_job was answered with nothing"))
    }

    /// Why it is not running: [`Explanation::sentence`] says it in words. None if there is no such job.
    pub async fn explain(&self) -> Result<Option<Explanation>, Error> {
        let explained = self.engine.explain(Explain { job: self.name()? }).await?;
        Ok(explained.0.map(|explanation| *explanation))
    }

    fn name(&self) -> Result<JobRef, Error> {
        Ok(JobRef { group: GroupId::new(&self.group)?, id: JobId::new(&self.id)? })
    }
}
