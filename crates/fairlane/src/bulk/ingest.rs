//! Streams jobs into a bulk action.
//!
//! Invariant: jobs arrive in the order they were pushed, at most one step of them is in memory, and
//! a step is dropped only when it was acknowledged. So a push that was dropped half-way, or a
//! process that was killed, is repaired by pushing the same source again: existing jobs are counted
//! as such and not added twice. An existing job that differs is an error: another source is not
//! mistaken for the same one.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::limits::{ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX};
use fairlane_core::queue::{BulkView, Difference, JobReceipt, NewJob, SealBulk};

use crate::error::Error;
use crate::job::Job;
use crate::retry_budget::{Backpressure, OnBackpressure, RetryBudget, RetryLoop, enqueue_step, step_length};

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
    budget: RetryBudget,
    on_backpressure: Option<OnBackpressure>,
    /// Jobs without a receipt yet; more than one step only if the caller ignores errors.
    step: Vec<NewJob>,
    /// For each of these jobs, the position that its id was derived from, if it was given none.
    positions: Vec<Option<u64>>,
    step_bytes: usize,
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
        Self {
            bulk,
            budget: RetryBudget::default(),
            on_backpressure: None,
            step: Vec::new(),
            positions: Vec::new(),
            step_bytes: 0,
            position: 0,
            counts: Ingested::default(),
        }
    }

    /// Sets how long to retry when the queue is full or does not reply.
    pub fn retry_budget(self, budget: RetryBudget) -> Self {
        Self { budget, ..self }
    }

    /// Sets a callback that is called each time the stream has to wait.
    pub fn on_backpressure(self, callback: impl Fn(&Backpressure) + Send + Sync + 'static) -> Self {
        Self { on_backpressure: Some(Arc::new(callback)), ..self }
    }

    /// Counts the first `jobs` of the source as existing; they are not to be pushed.
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
    /// [`Error::Differs`], or [`Error::OtherSource`] if its id comes from its position. Then the
    /// source is not the one that was pushed before.
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

    /// Sends the buffered jobs.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.send_all_but(0).await
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
        let (bulk, expected) = (self.bulk.name.clone(), Some(self.counts.jobs));
        let mut retries = RetryLoop::new(self.budget, self.on_backpressure.clone());
        loop {
            let command = SealBulk { bulk: bulk.clone(), expected };
            let reply = self.bulk.engine.call(command).await;
            if let Some(sealed) = retries.reply_or_wait(reply).await? {
                return Ok((self.counts, self.bulk.sealed(sealed, expected)?));
            }
        }
    }

    /// The counts so far; buffered jobs do not count.
    pub fn counts(&self) -> Ingested {
        self.counts
    }

    /// Sends all buffered jobs but `kept`. Jobs leave the buffer only when they are acknowledged,
    /// so this future may be dropped half-way.
    async fn send_all_but(&mut self, kept: usize) -> Result<(), Error> {
        while self.step.len() > kept {
            let jobs = step_length(&self.step[..self.step.len() - kept]);
            let mut retries = RetryLoop::new(self.budget, self.on_backpressure.clone());
            let receipts = enqueue_step(&*self.bulk.engine, &self.step[..jobs], &mut retries).await?.receipts;
            let acknowledged: Vec<_> = self.step.drain(..jobs).zip(self.positions.drain(..jobs)).collect();
            self.step_bytes = self.step.iter().map(|new| new.payload.len()).sum();
            let counted: Vec<_> = acknowledged
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
