//! Streams jobs into a bulk action.
//!
//! Invariant: jobs arrive in the order they were pushed, at most one step of them is in memory, and a step is
//! forgotten only when it was answered. So a push that was dropped half-way, or a program that was killed, is
//! made good by pushing the same source again: what is there is counted as such and not added twice. What is there and
//! is another job is an error: another source is not taken for the same one.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::limits::{ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX};
use fairlane_core::queue::{BulkView, Difference, JobReceipt, NewJob, SealBulk};

use crate::error::Error;
use crate::job::Job;
use crate::patience::{Obstacle, OnObstacle, Patience, Waiter, send, step_length};

use super::Bulk;

/// A stream into a bulk action, made with [`Bulk::ingest`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), fairlane::Error> {
/// # let fairlane = fairlane::Fairlane::open("memory:").await?;
/// # let rows = 0..500;
/// let bulk = fairlane.bulk("customer-7", "newsletter").open().await?;
/// let mut ingest = bulk.ingest();
/// for row in rows {
///     ingest.push(bulk.job("mail", &row)).await?;
/// }
/// let (ingested, view) = ingest.seal().await?;
/// assert_eq!((ingested.created, ingested.existing, view.total), (500, 0, 500));
/// # Ok(())
/// # }
/// ```
#[must_use = "jobs are buffered; end with `finish` or `seal`"]
pub struct Ingest {
    bulk: Bulk,
    patience: Patience,
    heard: Option<OnObstacle>,
    /// Jobs that are not answered yet; more than one step only while errors are not heeded.
    step: Vec<NewJob>,
    /// Of each of these, the position it has its id from, if it was given none.
    positions: Vec<Option<u64>>,
    step_bytes: usize,
    /// Of the job pushed last, counted from 1.
    position: u64,
    counts: Ingested,
}

/// How far an ingestion has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Jobs the queue has answered for, with those that were skipped: the number to seal with.
    pub jobs: u64,
    /// Of these, new ones.
    pub created: u64,
    /// Of these, those that were in the bulk action before.
    pub existing: u64,
}

impl Ingest {
    pub(super) fn new(bulk: Bulk) -> Self {
        Self {
            bulk,
            patience: Patience::default(),
            heard: None,
            step: Vec::new(),
            positions: Vec::new(),
            step_bytes: 0,
            position: 0,
            counts: Ingested::default(),
        }
    }

    /// How long to go on when the queue is full or does not answer.
    pub fn patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// Tells each time it has to wait.
    pub fn on_obstacle(self, heard: impl Fn(&Obstacle) + Send + Sync + 'static) -> Self {
        Self { heard: Some(Arc::new(heard)), ..self }
    }

    /// The first `jobs` of the source are known to be there and will not be pushed.
    pub fn skip(mut self, jobs: u64) -> Self {
        (self.position, self.counts.jobs) = (jobs, jobs);
        self
    }

    /// Adds a job. It is sent with others, at the latest by [`finish`](Self::finish) or [`seal`](Self::seal).
    ///
    /// A job without an id gets that of the bulk action and its position: `newsletter-1` is the first. One that
    /// cannot be a job ([`Error::Job`], [`Error::OtherGroup`]) is left out, and has used up its position. After any
    /// other error the job is in hand and not to be pushed again; the next push, or `flush`, goes on. When another job
    /// is there under its id it is left out: [`Error::Differs`], or [`Error::OtherSource`] if it was known by its
    /// position alone. Then the source is not the one that was pushed before.
    pub async fn push(&mut self, job: Job) -> Result<(), Error> {
        self.position += 1;
        let (id, position) = (&self.bulk.name.id, self.position);
        let unnamed = job.given_id().is_none().then_some(position);
        let new = job.into_new(Some(id.clone()), || format!("{id}-{position}"), Some(position))?;
        if new.job.group != self.bulk.name.group {
            return Err(Error::OtherGroup { group: new.job.group, bulk: self.bulk.name.clone() });
        }
        self.step_bytes += new.payload.len();
        self.step.push(new);
        self.positions.push(unnamed);
        if self.step.len() > ENQUEUE_JOBS_MAX || self.step_bytes > ENQUEUE_BYTES_MAX {
            self.send_all_but(1).await?;
        }
        Ok(())
    }

    /// Sends what is buffered.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.send_all_but(0).await
    }

    /// Sends what is buffered, and says what became of all.
    pub async fn finish(mut self) -> Result<Ingested, Error> {
        self.flush().await?;
        Ok(self.counts)
    }

    /// Sends what is buffered and seals the bulk action with the number of its jobs, with the same patience.
    pub async fn seal(mut self) -> Result<(Ingested, BulkView), Error> {
        self.flush().await?;
        let (bulk, expected) = (self.bulk.name.clone(), Some(self.counts.jobs));
        let mut waiter = Waiter::new(self.patience, self.heard.clone());
        loop {
            let command = SealBulk { bulk: bulk.clone(), expected };
            let asked = self.bulk.engine.seal_bulk(command).await;
            if let Some(sealed) = waiter.answered(asked).await? {
                return Ok((self.counts, self.bulk.sealed(sealed, expected)?));
            }
        }
    }

    /// How far it has come; jobs that are buffered do not count.
    pub fn counts(&self) -> Ingested {
        self.counts
    }

    /// Jobs leave the buffer when they are answered, and not before: this may be dropped half-way.
    async fn send_all_but(&mut self, kept: usize) -> Result<(), Error> {
        while self.step.len() > kept {
            let jobs = step_length(&self.step[..self.step.len() - kept]);
            let mut waiter = Waiter::new(self.patience, self.heard.clone());
            let receipts = send(&*self.bulk.engine, &self.step[..jobs], &mut waiter).await?.receipts;
            let answered: Vec<_> = self.step.drain(..jobs).zip(self.positions.drain(..jobs)).collect();
            self.step_bytes = self.step.iter().map(|new| new.payload.len()).sum();
            let counted: Vec<_> = answered
                .into_iter()
                .zip(receipts)
                .map(|((new, position), receipt)| self.count(new, position, receipt))
                .collect();
            counted.into_iter().collect::<Result<(), Error>>()?;
        }
        Ok(())
    }

    fn count(&mut self, new: NewJob, position: Option<u64>, receipt: JobReceipt) -> Result<(), Error> {
        let (job, wanted) = (new.job, &self.bulk.name.id);
        match receipt {
            JobReceipt::Created => self.counts.created += 1,
            JobReceipt::Exists { bulk: Some(owner) } if owner == *wanted => self.counts.existing += 1,
            JobReceipt::Exists { bulk: owner }
            | JobReceipt::Differs { difference: Difference::Bulk, bulk: owner } => {
                return Err(Error::Conflict { job, wanted: wanted.clone(), owner });
            }
            JobReceipt::Differs { difference, bulk: owner } => {
                return Err(match position {
                    Some(position) => Error::OtherSource { job, position, difference },
                    None => Error::Differs { job, difference, owner },
                });
            }
            JobReceipt::Refused { refusal, retry_after_ms } => {
                let retry_after = Duration::from_millis(retry_after_ms);
                return Err(Error::Refused { job, refusal, retry_after });
            }
        }
        self.counts.jobs += 1;
        Ok(())
    }
}
