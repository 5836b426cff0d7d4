//! The entry point of the library: a queue, and everything that can be done with it.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use fairlane_core::activity::{ActivityListed, ActivitySubject, ListActivity};
use fairlane_core::queue::{
    CancelJob, Cancellation, GroupLine, InspectQueue, JobLine, JobRef, LargestCursor, LargestGroups,
    ListGroups, ListJobs, Listed, Listing, NewJob, QueueSet, QueueView, SetQueue, Settings,
};
use fairlane_core::ranking::{BoardsListed, ListBoards};
use fairlane_core::room::{ListRooms, RoomsListed};
use fairlane_core::{BoardName, GroupId, Micros, RoomName, TypeId};
use fairlane_engine::{AuditProgress, AuditReport, Engine, EngineError};
use fairlane_worker::Worker;

use crate::activity;
use crate::bulk::NewBulk;
use crate::dead::Dead;
use crate::enqueue_batcher::EnqueueBatcher;
use crate::error::Error;
use crate::group::Group;
use crate::job::{Job, Receipt};
use crate::job_handle::JobHandle;
use crate::job_type::JobType;
use crate::leases::Leases;
use crate::lock::LockClient;
use crate::ranking::Ranking;
use crate::retry_budget::RetryBudget;
use crate::room::Room;
use crate::sender::{JobSender, Sent};

/// The least number of jobs that a list of any state scans in each place.
const SCANNED_MIN: usize = 100;

/// A handle to a queue. Clones refer to the same queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// use fairlane::{Fairlane, Job};
///
/// let fairlane = Fairlane::open("memory:").await?;
/// let job = Job::new("customer-7", "mail", &serde_json::json!({"to": "ada@example.com"}));
/// fairlane.enqueue(job).await?.accepted()?;
/// assert_eq!(fairlane.queue_view().await?.backlog, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Fairlane {
    engine: Arc<dyn Engine>,
    /// The address that the engine was opened at; `None` if the caller opened the engine.
    address: Option<Arc<str>>,
    /// Sends small enqueues together.
    enqueues: Arc<EnqueueBatcher>,
    /// The client for locks, started when the first lock is acquired.
    locks: Arc<OnceLock<LockClient>>,
}

impl Fairlane {
    /// Opens the queue at an address, with default settings.
    ///
    /// `memory:` keeps the queue in this process. `./data` (or `dir:data`) keeps it in a directory
    /// that one process at a time can own. `redis://host:port` is a Redis or Valkey server,
    /// `redis+cluster://host:port,host:port` a cluster. `http://host:port` or `https://host` is a
    /// queue behind a Fairlane server, as is a directory that a server owns; the settings of a
    /// server stay as they are, as with [`attach`](Self::attach).
    pub async fn open(url: &str) -> Result<Self, Error> {
        Ok(Self::at(url, fairlane_engine::open_default(url).await?))
    }

    /// Opens the queue at an address and applies these settings to it. Behind a server this needs
    /// an admin key.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), fairlane::Error> {
    /// use fairlane::{Fairlane, Settings};
    ///
    /// let settings = Settings { rate: Some(fairlane::parse_rate("1000/s")?), ..Settings::default() };
    /// let fairlane = Fairlane::open_with("memory:", settings).await?;
    /// # assert!(fairlane.queue_view().await?.settings.rate.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open_with(url: &str, settings: Settings) -> Result<Self, Error> {
        Ok(Self::at(url, fairlane_engine::open(url, settings).await?))
    }

    /// Opens the queue at an address and leaves its settings as they are: for tools beside the
    /// application that owns it. A directory without a queue is refused, and nothing is created in
    /// it.
    pub async fn attach(url: &str) -> Result<Self, Error> {
        Ok(Self::at(url, fairlane_engine::attach(url).await?))
    }

    /// A queue on an engine that is already open.
    pub fn from_engine(engine: Arc<dyn Engine>) -> Self {
        let enqueues = EnqueueBatcher::new(engine.clone());
        Self { engine, address: None, enqueues, locks: Arc::default() }
    }

    fn at(url: &str, engine: Arc<dyn Engine>) -> Self {
        Self { address: Some(url.into()), ..Self::from_engine(engine) }
    }

    #[cfg(test)]
    pub(crate) fn with_lock_client(engine: Arc<dyn Engine>, client: LockClient) -> Self {
        Self { locks: Arc::new(OnceLock::from(client)), ..Self::from_engine(engine) }
    }

    pub(crate) fn lock_client(&self) -> Result<&LockClient, Error> {
        if let Some(client) = self.locks.get() {
            return Ok(client);
        }
        let client = LockClient::start(self.engine.clone(), self.address.as_deref().map(str::to_owned))?;
        Ok(self.locks.get_or_init(|| client))
    }

    /// The engine that carries out every operation.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Adds a job. A refusal is part of the receipt, with the delay before a retry; see
    /// [`accepted`](Receipt::accepted).
    pub async fn enqueue(&self, job: Job) -> Result<Receipt, Error> {
        let mut receipts = self.enqueue_all([job]).await?;
        let receipt = receipts.pop();
        receipt.ok_or_else(|| broken("the reply to enqueue has no receipt"))
    }

    /// Adds any number of jobs, those of a group in order, and returns a receipt for each. Nothing is sent if one of
    /// the jobs is invalid. After any other error all jobs may be sent again, since a job with an
    /// id is not added twice.
    pub async fn enqueue_all(&self, jobs: impl IntoIterator<Item = Job>) -> Result<Vec<Receipt>, Error> {
        self.enqueue_commands(into_new(jobs)?).await
    }

    /// As [`enqueue_all`](Self::enqueue_all), for jobs as the engine's operation takes them
    /// ([`Job::into_command`]).
    pub async fn enqueue_commands(&self, jobs: Vec<NewJob>) -> Result<Vec<Receipt>, Error> {
        let names: Vec<_> = jobs.iter().map(|new| new.job.clone()).collect();
        let enqueued = self.enqueues.enqueue(jobs).await?;
        let replies = names.into_iter().zip(enqueued.receipts.into_iter().zip(enqueued.backlogs));
        Ok(replies.map(|(job, (receipt, backlog))| Receipt { job, receipt, backlog }).collect())
    }

    /// As [`enqueue_all`](Self::enqueue_all), but retries while the queue is full or does not
    /// reply. A refusal in a receipt is one that no retry would change.
    pub async fn enqueue_with_retry(
        &self,
        jobs: impl IntoIterator<Item = Job>,
        budget: RetryBudget,
    ) -> Result<Vec<Receipt>, Error> {
        let jobs = into_new(jobs)?;
        let mut sender = self.sender().retry_budget(budget);
        for new in jobs {
            sender.push((), new).await?;
        }
        sender.flush().await?;
        let receipt = |Sent { new, receipt, backlog, .. }| Receipt { job: new.job, receipt, backlog };
        Ok(sender.take_sent().into_iter().map(receipt).collect())
    }

    /// A sender of jobs, in order within each group, for streams of any length in constant memory.
    pub fn sender<T>(&self) -> JobSender<T> {
        JobSender::new(self.engine.clone())
    }

    /// A bulk action of a group: many jobs that finish together. Open it, or refer to one opened
    /// before.
    pub fn bulk(&self, group: impl Display, id: impl Display) -> NewBulk {
        NewBulk::new(self.engine.clone(), group.to_string(), id.to_string())
    }

    /// A handle to a group (customer): its settings and its view.
    pub fn group(&self, group: impl Display) -> Group {
        Group::new(self.engine.clone(), group.to_string())
    }

    /// A handle to a type of job: its settings and its view.
    pub fn job_type(&self, job_type: impl Display) -> JobType {
        JobType::new(self.engine.clone(), job_type.to_string())
    }

    /// A handle to a job: to inspect it, to cancel it, to explain why it is not running.
    pub fn job(&self, group: impl Display, id: impl Display) -> JobHandle {
        JobHandle::new(self.engine.clone(), group.to_string(), id.to_string())
    }

    /// A handle to a waiting room.
    pub fn room(&self, room: impl Display) -> Room {
        Room::new(self.engine.clone(), room.to_string())
    }

    /// A page of waiting rooms in the order of their names.
    pub async fn rooms(&self, after: Option<RoomName>, rooms_max: usize) -> Result<RoomsListed, Error> {
        Ok(self.engine.call(ListRooms { after, rooms_max }).await?)
    }

    /// A handle to a board.
    pub fn ranking(&self, board: impl Display) -> Ranking {
        Ranking::new(self.engine.clone(), board.to_string())
    }

    /// A page of boards in the order of their names.
    pub async fn rankings(&self, after: Option<BoardName>, boards_max: usize) -> Result<BoardsListed, Error> {
        Ok(self.engine.call(ListBoards { after, boards_max }).await?)
    }

    /// Dead jobs: to list, requeue or discard them.
    pub fn dead(&self) -> Dead {
        Dead::new(self.engine.clone())
    }

    /// A worker for this queue: add processors for its types, and start it.
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
    /// // … until the program is to stop:
    /// pool.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn worker(&self) -> Worker {
        Worker::new(self.engine.clone())
    }

    /// Leases without a pool, for a worker of your own.
    pub fn leases(&self) -> Leases {
        Leases::new(self.engine.clone())
    }

    /// The settings, types and counts of the queue. Behind a server, a key that is bound to groups
    /// gets the settings and types; the counts, which cover all groups, are then 0.
    pub async fn queue_view(&self) -> Result<QueueView, Error> {
        Ok(self.engine.call(InspectQueue).await?)
    }

    /// Changes the settings of the queue. The discipline can only be changed while no job is
    /// unfinished ([`Error::DisciplineInUse`]).
    pub async fn set_queue(&self, settings: Settings) -> Result<(), Error> {
        match self.engine.call(SetQueue { settings }).await? {
            QueueSet::Set => Ok(()),
            QueueSet::DisciplineInUse => Err(Error::DisciplineInUse),
        }
    }

    /// A page of jobs in one place, such as those in flight, without their payloads.
    pub async fn jobs(&self, page: ListJobs) -> Result<Listed, Error> {
        Ok(self.engine.call(page).await?)
    }

    /// Up to `limit` (at most 500) jobs of any state, without their payloads: running ones first,
    /// then those that wait for a worker or for their time, dead ones and finished ones. Jobs in
    /// the lanes of a group are listed only with the group.
    pub async fn jobs_of_any_state(
        &self,
        group: Option<GroupId>,
        type_id: Option<TypeId>,
        limit: usize,
    ) -> Result<Vec<JobLine>, Error> {
        let lanes = group.clone().map(Listing::Pending);
        let places = [Listing::InFlight, Listing::Ready].into_iter().chain(lanes);
        let mut jobs = Vec::new();
        for listing in places.chain([Listing::Waiting, Listing::Dead, Listing::Finished]) {
            if jobs.len() < limit {
                // Jobs that have left a place, and those that a filter drops, count as scanned.
                let (group, type_id, limit) = (group.clone(), type_id.clone(), limit.max(SCANNED_MIN));
                jobs.extend(self.jobs(ListJobs { listing, group, type_id, cursor: 0, limit }).await?.jobs);
            }
        }
        jobs.truncate(limit);
        Ok(jobs)
    }

    /// Cancels up to 500 jobs, each named once, and returns the outcome for each.
    pub async fn cancel_jobs(&self, jobs: Vec<JobRef>) -> Result<Vec<Cancellation>, Error> {
        Ok(self.engine.call(CancelJob { jobs }).await?.cancellations)
    }

    /// Checks the consistency of the store and, with `repair`, repairs it. It is safe while
    /// producers and workers are active, and it can be stopped at any time and repeated.
    pub async fn audit(
        &self,
        repair: bool,
        progress: impl FnMut(AuditProgress) + Send,
    ) -> Result<AuditReport, Error> {
        Ok(self.engine.audit_all(repair, progress).await?)
    }

    /// A page of groups that have unfinished jobs, ordered by name: at most `limit` (up to 500)
    /// after `after`.
    pub async fn groups(&self, after: Option<GroupId>, limit: usize) -> Result<Vec<GroupLine>, Error> {
        Ok(self.engine.list_groups(ListGroups { after, limit, all: false }).await?)
    }

    /// A page of groups that have unfinished jobs or settings of their own, ordered by name: at most
    /// `limit` (up to 500) after `after`.
    pub async fn all_groups(&self, after: Option<GroupId>, limit: usize) -> Result<Vec<GroupLine>, Error> {
        Ok(self.engine.list_groups(ListGroups { after, limit, all: true }).await?)
    }

    /// A page of groups that have unfinished jobs, those with the largest backlogs first: at most
    /// `limit` (up to 500). They are ordered by the power of two of their backlog, and groups with
    /// fewer than eight jobs by name. A page may be shorter although more follow.
    pub async fn largest_groups(
        &self,
        after: Option<LargestCursor>,
        limit: usize,
    ) -> Result<LargestGroups, Error> {
        Ok(self.engine.list_largest_groups(after, limit).await?)
    }

    /// A page of the activity log, the newest change first: at most `limit` (up to 500) before
    /// `before`, of one subject or of all.
    pub async fn activity(
        &self,
        before: Option<Micros>,
        subject: Option<ActivitySubject>,
        limit: usize,
    ) -> Result<ActivityListed, Error> {
        Ok(self.engine.call(ListActivity { before, subject, limit }).await?)
    }

    /// The same queue with changes recorded in its activity log, as made by `actor`. A server
    /// records changes itself, under the name of the key.
    pub fn recording(self, actor: &str) -> Self {
        if self.engine.name() == "http" {
            return self;
        }
        Self { engine: activity::recorded(self.engine, actor), ..self }
    }
}

/// The error of a reply that violates the protocol.
pub(crate) fn broken(reason: &str) -> Error {
    Error::Engine(EngineError::Broken { reason: reason.to_owned() })
}

fn into_new(jobs: impl IntoIterator<Item = Job>) -> Result<Vec<NewJob>, Error> {
    jobs.into_iter().map(Job::into_alone).collect()
}
