//! Streams jobs into a bulk action.
//!
//! Invariant: jobs arrive in the order they were pushed. If a push was dropped half-way, or the
//! process was killed, pushing the same source again completes the ingestion: existing jobs are
//! counted as such and not added twice. An existing job that differs is an error, so that a
//! different source is not mistaken for the same one.

use std::time::Duration;

use fairlane_core::queue::{BulkView, Difference, JobReceipt, NewJob, SealBulk};

use crate::error::Error;
use crate::job::Job;
use crate::retry_budget::{Backpressure, RetryBudget};
use crate::sender::JobSender;

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
    /// Each job is tagged with the position that its id was derived from; `None` if it was given an
    /// id.
    sender: JobSender<Option<u64>>,
    /// The position of the job pushed last, counted from 1.
    position: u64,
    counts: Ingested,
}

/// The progress of an ingestion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Number of jobs acknowledged or skipped: the number to seal with.
    pub jobs: u64,
    /// Number of jobs that were created.
    pub created: u64,
    /// Number of jobs that were in the bulk action before.
    pub existing: u64,
}

impl Ingest {
    pub(super) fn new(bulk: Bulk) -> Self {
        let sender = JobSender::new(bulk.engine.clone());
        Self { bulk, sender, position: 0, counts: Ingested::default() }
    }

    /// Sets how long to retry when the queue is full or does not reply.
    pub fn retry_budget(self, budget: RetryBudget) -> Self {
        Self { sender: self.sender.retry_budget(budget), ..self }
    }

    /// Sets a callback that is called each time the stream has to wait.
    pub fn on_backpressure(self, callback: impl Fn(&Backpressure) + Send + Sync + 'static) -> Self {
        Self { sender: self.sender.on_backpressure(callback), ..self }
    }

    /// Counts the first `jobs` of the source as existing. Do not push them.
    pub fn skip(mut self, jobs: u64) -> Self {
        (self.position, self.counts.jobs) = (jobs, jobs);
        self
    }

    /// Adds a job. It is sent together with others, at the latest by [`finish`](Self::finish) or
    /// [`seal`](Self::seal).
    ///
    /// A job without an id gets one from the bulk action and its position: `newsletter-1` is the
    /// first. An invalid job ([`Error::Job`], [`Error::OtherGroup`]) is left out, but uses up its
    /// position. After any other error the job is buffered and must not be pushed again; the next
    /// push, or `flush`, continues. A job whose id a different job already has is left out:
    /// [`Error::Differs`], or [`Error::OtherSource`] if its id comes from its position. The latter
    /// means that a different source was pushed before.
    pub async fn push(&mut self, job: Job) -> Result<(), Error> {
        self.position += 1;
        let (id, position) = (&self.bulk.name.id, self.position);
        let unnamed = job.given_id().is_none().then_some(position);
        let new = job.into_new(Some(id.clone()), || format!("{id}-{position}"), Some(position))?;
        if new.job.group != self.bulk.name.group {
            return Err(Error::OtherGroup { group: new.job.group, bulk: self.bulk.name.clone() });
        }
        let sent = self.sender.push(unnamed, new).await;
        self.count_sent(sent)
    }

    /// Sends the buffered jobs.
    pub async fn flush(&mut self) -> Result<(), Error> {
        let sent = self.sender.flush().await;
        self.count_sent(sent)
    }

    /// Sends the buffered jobs, and returns the counts.
    pub async fn finish(mut self) -> Result<Ingested, Error> {
        self.flush().await?;
        Ok(self.counts)
    }

    /// Sends the buffered jobs and seals the bulk action with the number of its jobs, with the same
    /// retry budget.
    pub async fn seal(mut self) -> Result<(Ingested, BulkView), Error> {
        self.flush().await?;
        let (bulk, expected) = (&self.bulk, Some(self.counts.jobs));
        let sealed = self.sender.retrying(|| async move {
            let sealed = bulk.engine.call(SealBulk { bulk: bulk.name.clone(), expected }).await?;
            bulk.sealed(sealed, expected)
        });
        Ok((self.counts, sealed.await?))
    }

    /// The counts so far; buffered jobs do not count.
    pub fn counts(&self) -> Ingested {
        self.counts
    }

    /// Counts the jobs that have receipts, and returns the first error of the send or of a job.
    fn count_sent(&mut self, sent: Result<(), Error>) -> Result<(), Error> {
        let taken = self.sender.take_sent().into_iter();
        let counted: Vec<_> = taken.map(|job| self.count(job.new, job.tag, job.receipt)).collect();
        sent.and(counted.into_iter().collect())
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
