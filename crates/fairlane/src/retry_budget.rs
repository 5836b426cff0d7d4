//! Retries when the queue is full or does not reply.
//!
//! Invariant: a retry loop gives up after a given time without progress, and reports what it waited
//! for. Jobs that were sent before an error may have been accepted; sending them again changes
//! nothing, since they have ids.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::limits::{ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX};
use fairlane_core::queue::{Enqueue, Enqueued, JobReceipt, NewJob, Refusal};
use fairlane_engine::{Backoff, Engine, EngineError};
use tokio::time::Instant;

use crate::error::{Error, is_full, refusal_text};

/// How long to retry without progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBudget {
    /// How long to retry while the engine does not reply; a minute by default.
    pub while_down: Duration,
    /// How long to retry while the queue is full; without limit by default.
    pub while_full: Option<Duration>,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { while_down: Duration::from_secs(60), while_full: None }
    }
}

impl RetryBudget {
    /// No retries: a full queue or an engine that does not reply is an error at once.
    pub const NONE: Self = Self { while_down: Duration::ZERO, while_full: Some(Duration::ZERO) };
}

/// Why there is no progress at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backpressure {
    /// The queue accepts no more jobs until some are done.
    Full(Refusal),
    /// The engine does not reply.
    Down(EngineError),
}

/// A callback that is called before each retry.
pub(crate) type OnBackpressure = Arc<dyn Fn(&Backpressure) + Send + Sync>;

/// The first delay between two polls.
const POLL_DELAY_MIN: Duration = Duration::from_millis(10);
/// The longest delay between two polls.
const POLL_DELAY_MAX: Duration = Duration::from_secs(1);

/// The delays between polls of something that has not ended yet.
pub(crate) fn poll_backoff() -> Backoff {
    Backoff::new(POLL_DELAY_MIN, POLL_DELAY_MAX)
}

/// Waits between retries, until the budget is used up.
pub(crate) struct RetryLoop {
    budget: RetryBudget,
    on_backpressure: Option<OnBackpressure>,
    /// Whether the engine is down, or else the queue is full, and since when.
    stalled: Option<(bool, Instant)>,
    backoff: Backoff,
}

impl RetryLoop {
    pub fn new(budget: RetryBudget, on_backpressure: Option<OnBackpressure>) -> Self {
        Self { budget, on_backpressure, stalled: None, backoff: Backoff::default() }
    }

    /// Records progress, which renews the budget.
    fn progress(&mut self) {
        self.stalled = None;
        self.backoff.reset();
    }

    /// Sleeps before the next retry; an error if the budget is used up.
    async fn wait(&mut self, backpressure: Backpressure, retry_after: Duration) -> Result<(), Error> {
        let (most, reason) = match &backpressure {
            Backpressure::Down(error) => (Some(self.budget.while_down), error.to_string()),
            Backpressure::Full(refusal) => (self.budget.while_full, refusal_text(*refusal, retry_after)),
        };
        let is_down = matches!(backpressure, Backpressure::Down(_));
        // An outage in the middle of a long wait for room has a budget of its own.
        let before = self.stalled.filter(|(was_down, _)| *was_down == is_down);
        let (_, since) = *self.stalled.insert(before.unwrap_or_else(|| (is_down, Instant::now())));
        let waited = since.elapsed();
        let left = most.map(|most| most.saturating_sub(waited));
        if left == Some(Duration::ZERO) {
            return Err(Error::GaveUp { waited, reason });
        }
        if let Some(on_backpressure) = &self.on_backpressure {
            on_backpressure(&backpressure);
        }
        tracing::debug!(%reason, "waiting before a retry");
        let delay = match backpressure {
            Backpressure::Down(_) => self.backoff.next_delay(),
            Backpressure::Full(_) => retry_after,
        };
        tokio::time::sleep(left.map_or(delay, |left| delay.min(left))).await;
        Ok(())
    }

    /// The reply; or `None` after a wait, if there was no reply and the caller should retry. Any
    /// other error is returned.
    pub async fn reply_or_wait<T>(&mut self, reply: Result<T, EngineError>) -> Result<Option<T>, Error> {
        match reply {
            Ok(reply) => {
                self.progress();
                Ok(Some(reply))
            }
            Err(error) if error.is_retryable() => {
                self.wait(Backpressure::Down(error), Duration::ZERO).await?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The number of jobs, from the first, that fit into one command; at least one.
pub(crate) fn step_length(jobs: &[NewJob]) -> usize {
    let mut bytes = 0;
    let fits = |new: &&NewJob| {
        bytes += new.payload.len();
        bytes <= ENQUEUE_BYTES_MAX
    };
    jobs.iter().take(ENQUEUE_JOBS_MAX).take_while(fits).count().max(1)
}

/// Enqueues at most one command's worth of jobs, and retries until each has a final receipt. Jobs
/// that are refused because the queue is full are sent again in order, so the order within a group
/// is kept.
pub(crate) async fn enqueue_step(
    engine: &dyn Engine,
    jobs: &[NewJob],
    retries: &mut RetryLoop,
) -> Result<Enqueued, Error> {
    let mut receipts: Vec<Option<(JobReceipt, u64)>> = vec![None; jobs.len()];
    loop {
        let open: Vec<usize> = (0..jobs.len()).filter(|at| receipts[*at].is_none()).collect();
        if open.is_empty() {
            let (receipts, backlogs) = receipts.into_iter().flatten().unzip();
            return Ok(Enqueued { receipts, backlogs });
        }
        let rest = open.iter().map(|at| jobs[*at].clone()).collect();
        let replies = match engine.call(Enqueue { jobs: rest }).await {
            Ok(enqueued) => enqueued.receipts.into_iter().zip(enqueued.backlogs),
            Err(error) if error.is_retryable() => {
                retries.wait(Backpressure::Down(error), Duration::ZERO).await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let mut full = None;
        for (at, (receipt, backlog)) in open.into_iter().zip(replies) {
            match receipt {
                JobReceipt::Refused { refusal, retry_after_ms } if is_full(refusal) => {
                    full.get_or_insert((refusal, Duration::from_millis(retry_after_ms)));
                }
                final_receipt => {
                    retries.progress();
                    receipts[at] = Some((final_receipt, backlog));
                }
            }
        }
        if let Some((refusal, retry_after)) = full {
            retries.wait(Backpressure::Full(refusal), retry_after).await?;
        }
    }
}
