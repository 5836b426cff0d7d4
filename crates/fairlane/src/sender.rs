//! Sends jobs in order within each group, a step at a time, and retries while the queue is full or does not reply.
//!
//! Invariant: at most one step of jobs is in memory, and a job leaves the buffer only with its
//! receipt. So a call that failed or was dropped half-way continues where it stopped, and no receipt
//! is lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::limits::{ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX};
use fairlane_core::queue::{Enqueue, JobReceipt, NewJob};
use fairlane_engine::{BoxFuture, Engine, by_group};

use crate::error::Error;
use crate::retry_budget::{Backpressure, RetryBudget, RetryLoop, Waiting};

/// Sends jobs, in order within each group, each with a tag of the caller, made with
/// [`Fairlane::sender`](crate::Fairlane::sender).
#[must_use = "jobs are buffered; end with `flush`"]
pub struct JobSender<T> {
    engine: Arc<dyn Engine>,
    waiting: Waiting,
    /// Jobs that `take_sent` has not returned yet. It returns those before the first one without a
    /// receipt.
    buffer: VecDeque<Buffered<T>>,
    /// Jobs at the front of the buffer that have receipts.
    sent: usize,
    /// Payload bytes of the jobs behind them.
    bytes: usize,
    is_in_doubt: bool,
}

struct Buffered<T> {
    tag: T,
    new: NewJob,
    receipt: Option<(JobReceipt, u64)>,
}

/// A job that was sent, with its tag and its receipt.
#[derive(Debug)]
pub struct Sent<T> {
    /// The tag that the caller gave it.
    pub tag: T,
    /// The job.
    pub new: NewJob,
    /// The receipt, which no retry would change.
    pub receipt: JobReceipt,
    /// The backlog of its group right after the enqueue.
    pub backlog: u64,
}

impl<T> JobSender<T> {
    pub(crate) fn new(engine: Arc<dyn Engine>) -> Self {
        let (waiting, buffer) = (Waiting::default(), VecDeque::new());
        Self { engine, waiting, buffer, sent: 0, bytes: 0, is_in_doubt: false }
    }

    /// Sets how long to retry when the queue is full or does not reply.
    pub fn retry_budget(mut self, budget: RetryBudget) -> Self {
        self.waiting.budget = budget;
        self
    }

    /// Sets a callback that is called each time the sender has to wait.
    pub fn on_backpressure(mut self, callback: impl Fn(&Backpressure) + Send + Sync + 'static) -> Self {
        self.waiting.on_backpressure = Some(Arc::new(callback));
        self
    }

    /// Ends waits with [`Error::Interrupted`] when the future that this makes completes.
    pub fn interrupted_by(
        mut self,
        interrupt: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        self.waiting.interrupt = Some(Arc::new(interrupt));
        self
    }

    /// The buffered jobs that have no receipt yet, in order.
    pub fn unsent(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.buffer.iter().skip(self.sent).map(|job| &job.tag)
    }

    /// Whether the engine did not reply to the latest attempt, which may have added jobs.
    pub fn is_in_doubt(&self) -> bool {
        self.is_in_doubt
    }

    /// Adds a job, and sends the jobs before it if they fill a step. After an error the job is
    /// buffered, and another call continues.
    pub async fn push(&mut self, tag: T, new: NewJob) -> Result<(), Error> {
        self.bytes += new.payload.len();
        self.buffer.push_back(Buffered { tag, new, receipt: None });
        if self.buffer.len() - self.sent > ENQUEUE_JOBS_MAX || self.bytes > ENQUEUE_BYTES_MAX {
            self.send_all_but(1).await?;
        }
        Ok(())
    }

    /// Sends the buffered jobs.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.send_all_but(0).await
    }

    /// Takes the jobs that have receipts, in the order they were pushed, up to the first one that
    /// has none.
    pub fn take_sent(&mut self) -> Vec<Sent<T>> {
        let sent = self.buffer.drain(..std::mem::take(&mut self.sent));
        let with_receipt = |job: Buffered<T>| {
            let (receipt, backlog) = job.receipt?;
            Some(Sent { tag: job.tag, new: job.new, receipt, backlog })
        };
        sent.filter_map(with_receipt).collect()
    }

    /// Repeats a call while the engine does not reply, with the same budget.
    pub async fn retrying<R, F>(&self, call: impl Fn() -> F) -> Result<R, Error>
    where
        F: Future<Output = Result<R, Error>>,
    {
        let mut retries = RetryLoop::new(self.waiting.clone());
        loop {
            match call().await {
                Err(Error::Engine(error)) if error.is_retryable() => {
                    retries.wait(Backpressure::Down(error), Duration::ZERO).await?;
                }
                reply => return reply,
            }
        }
    }

    /// Sends jobs until all but the last `kept` have receipts. Jobs that are refused because the
    /// queue is full are sent again in order, so the order within a group is kept.
    async fn send_all_but(&mut self, kept: usize) -> Result<(), Error> {
        let mut retries = RetryLoop::new(self.waiting.clone());
        while self.buffer.len() - self.sent > kept {
            let step = self.step(kept);
            let jobs = step.iter().map(|at| self.buffer[*at].new.clone()).collect();
            let replies = match self.engine.call(Enqueue { jobs }).await {
                Ok(enqueued) => enqueued.receipts.into_iter().zip(enqueued.backlogs),
                Err(error) => {
                    self.is_in_doubt |= error.is_retryable();
                    retries.wait_for(error).await?;
                    continue;
                }
            };
            self.is_in_doubt = false;
            let mut full = None;
            for (at, reply) in step.into_iter().zip(replies) {
                match reply.0 {
                    JobReceipt::Refused { refusal, retry_after_ms } if refusal.is_full() => {
                        full.get_or_insert((refusal, retry_after_ms));
                    }
                    _ => {
                        retries.progress();
                        self.buffer[at].receipt = Some(reply);
                    }
                }
            }
            self.count_sent();
            if let Some((refusal, retry_after_ms)) = full {
                retries.wait(Backpressure::Full(refusal), Duration::from_millis(retry_after_ms)).await?;
            }
        }
        Ok(())
    }

    /// The positions of the first jobs without a receipt that fit into one command, at least one,
    /// group by group.
    fn step(&self, kept: usize) -> Vec<usize> {
        let mut bytes = 0;
        let open = (self.sent..self.buffer.len() - kept).filter(|at| self.buffer[*at].receipt.is_none());
        let fits = |at: &usize| {
            let is_first = bytes == 0;
            bytes += self.buffer[*at].new.payload.len().max(1);
            is_first || bytes <= ENQUEUE_BYTES_MAX
        };
        let step: Vec<usize> = open.take(ENQUEUE_JOBS_MAX).take_while(fits).collect();
        let order = by_group(step.iter().map(|at| &self.buffer[*at].new.job.group));
        order.into_iter().map(|index| step[index]).collect()
    }

    fn count_sent(&mut self) {
        while let Some(Buffered { new, receipt: Some(_), .. }) = self.buffer.get(self.sent) {
            self.bytes -= new.payload.len();
            self.sent += 1;
        }
    }
}
