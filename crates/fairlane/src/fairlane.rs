//! The way in: a queue, and everything that can be done with it.

use std::fmt::Display;
use std::sync::Arc;

use fairlane_core::GroupId;
use fairlane_core::queue::{Enqueued, GroupLine, Inspect, Inspected, JobRef, NewJob, Settings, WholeView};
use fairlane_engine::{Engine, EngineError};
use fairlane_worker::Worker;

use crate::bulk::NewBulk;
use crate::dead::Dead;
use crate::error::Error;
use crate::group::Group;
use crate::job::{Job, Receipt};
use crate::job_type::JobType;
use crate::one_job::OneJob;
use crate::patience::{Patience, Waiter, send, step_length};

/// A queue. Clones are the same queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// use fairlane::{Fairlane, Job};
///
/// let fairlane = Fairlane::open("memory:").await?;
/// let job = Job::new("customer-7", "mail", &serde_json::json!({"to": "ada@example.com"}));
/// fairlane.enqueue(job).await?.accepted()?;
/// assert_eq!(fairlane.whole().await?.backlog, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Fairlane {
    engine: Arc<dyn Engine>,
}

impl Fairlane {
    /// Opens the queue at an address, with default settings.
    ///
    /// `memory:` keeps it in this process; `./data` (or `dir:data`) in a directory that one process at a time can
    /// own; `redis://host:port` on a Redis or Valkey; `redis+cluster://host:port,host:port` on a cluster.
    /// `http://host:port` or `https://host` is a queue behind a Fairlane server, as is a directory that a server owns;
    /// its settings are left as they are, as by [`attach`](Self::attach).
    pub async fn open(url: &str) -> Result<Self, Error> {
        Ok(Self::from_engine(fairlane_engine::open_default(url).await?))
    }

    /// Opens the queue at an address and gives the whole of it these settings. Behind a server too: there it needs
    /// the key of an admin.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), fairlane::Error> {
    /// use fairlane::{Fairlane, Settings};
    ///
    /// let settings = Settings { rate: Some(fairlane::parse_rate("1000/s")?), ..Settings::default() };
    /// let fairlane = Fairlane::open_with("memory:", settings).await?;
    /// # assert!(fairlane.whole().await?.settings.rate.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open_with(url: &str, settings: Settings) -> Result<Self, Error> {
        Ok(Self::from_engine(fairlane_engine::open(url, settings).await?))
    }

    /// Opens the queue at an address and leaves its settings as they are: for tools beside the application that
    /// owns it. A directory without a queue in it is refused, and nothing made there.
    pub async fn attach(url: &str) -> Result<Self, Error> {
        Ok(Self::from_engine(fairlane_engine::attach(url).await?))
    }

    /// A queue on an engine that is open already.
    pub fn from_engine(engine: Arc<dyn Engine>) -> Self {
        Self { engine }
    }

    /// The engine, which takes every command there is.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Adds a job. A refusal is part of the receipt, with the time to try again; see
    /// [`accepted`](Receipt::accepted).
    pub async fn enqueue(&self, job: Job) -> Result<Receipt, Error> {
        let mut receipts = self.enqueue_all([job]).await?;
        let receipt = receipts.pop();
        receipt.ok_or_else(|| broken("enqueue was answered without a receipt"))
    }

    /// Adds any number of jobs in their order and gives a receipt for each. Nothing is sent if one of them cannot
    /// be a job; after any other error all may be sent again, for what has an id is not added twice.
    pub async fn enqueue_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<Receipt>, Error> {
        let jobs = into_new(jobs)?;
        let names: Vec<_> = jobs.iter().map(|new| new.job.clone()).collect();
        let enqueued = self.engine.enqueue_all(jobs).await?;
        Ok(receipts(names, enqueued).collect())
    }

    /// As [`enqueue_all`](Self::enqueue_all), but waits while the queue is full or does not answer. What is still
    /// refused in a receipt will not pass by waiting.
    pub async fn enqueue_patiently(
        &self,
        jobs: impl IntoIterator<Item = Job>,
        patience: Patience,
    ) -> Result<Vec<Receipt>, Error> {
        let jobs = into_new(jobs)?;
        let mut all = Vec::with_capacity(jobs.len());
        let mut waiter = Waiter::new(patience, None);
        let mut rest = &jobs[..];
        while !rest.is_empty() {
            let (step, others) = rest.split_at(step_length(rest));
            rest = others;
            let enqueued = send(&*self.engine, step, &mut waiter).await?;
            all.extend(receipts(step.iter().map(|new| new.job.clone()), enqueued));
        }
        Ok(all)
    }

    /// A bulk action of a group: many jobs that finish together. To be opened, or found again.
    pub fn bulk(&self, group: impl Display, id: impl Display) -> NewBulk {
        NewBulk::new(self.engine.clone(), group.to_string(), id.to_string())
    }

    /// One group (customer): what is set for it, and how it stands.
    pub fn group(&self, group: impl Display) -> Group {
        Group::new(self.engine.clone(), group.to_string())
    }

    /// One type of job: what is set for it, and how it stands.
    pub fn job_type(&self, job_type: impl Display) -> JobType {
        JobType::new(self.engine.clone(), job_type.to_string())
    }

    /// One job: to look at, to cancel, to ask why it is not running.
    pub fn job(&self, group: impl Display, id: impl Display) -> OneJob {
        OneJob::new(self.engine.clone(), group.to_string(), id.to_string())
    }

    /// Dead jobs: to look at, to let run again, to remove.
    pub fn dead(&self) -> Dead {
        Dead::new(self.engine.clone())
    }

    /// A worker for this queue: say what it does with which types, and start it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use fairlane::{Context, Fairlane};
    /// # let fairlane = Fairlane::open("memory:").await?;
    /// let pool = fairlane
    ///     .worker()
    ///     .process("mail", |to: String, job: Context| async move { println!("{to}: {}", job.id()) })
    ///     .start()?;
    /// // … until the program is told to stop:
    /// pool.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn worker(&self) -> Worker {
        Worker::new(self.engine.clone())
    }

    /// The whole queue as it stands. Behind a server a key that is bound to groups gets its settings and types; the
    /// counts, which are of all groups, are then 0.
    pub async fn whole(&self) -> Result<WholeView, Error> {
        match self.engine.inspect(Inspect::Whole).await? {
            Inspected::Whole(whole) => Ok(whole),
            _ => Err(broken("inspect was answered with something else")),
        }
    }

    /// Groups that have unfinished jobs, by name, at most 500 behind `after`.
    pub async fn groups(&self, after: Option<GroupId>, limit: usize) -> Result<Vec<GroupLine>, Error> {
        match self.engine.inspect(Inspect::Groups { after, limit }).await? {
            Inspected::Groups(groups) => Ok(groups),
            _ => Err(broken("inspect was answered with something else")),
        }
    }
}

/// An answer that does not belong to its question.
pub(crate) fn broken(reason: &str) -> Error {
    Error::Engine(EngineError::Broken { reason: reason.to_owned() })
}

fn receipts(names: impl IntoIterator<Item = JobRef>, enqueued: Enqueued) -> impl Iterator<Item = Receipt> {
    let answers = enqueued.receipts.into_iter().zip(enqueued.backlogs);
    names.into_iter().zip(answers).map(|(job, (receipt, backlog))| Receipt { job, receipt, backlog })
}

fn into_new(jobs: impl IntoIterator<Item = Job>) -> Result<Vec<NewJob>, Error> {
    jobs.into_iter().map(Job::into_alone).collect()
}
