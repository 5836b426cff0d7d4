//! Retries when the queue is full or does not reply.
//!
//! Invariant: a retry loop gives up after a given time without progress, and reports what it waited
//! for. Jobs that were sent before an error may have been accepted; sending them again changes
//! nothing, since they have ids.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::queue::Refusal;
use fairlane_engine::{Backoff, BoxFuture, EngineError};
use tokio::time::Instant;

use crate::error::{Error, refusal_text};

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

type OnBackpressure = Arc<dyn Fn(&Backpressure) + Send + Sync>;
type Interrupt = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// How to wait between retries.
#[derive(Clone, Default)]
pub(crate) struct Waiting {
    pub budget: RetryBudget,
    /// Called before each retry.
    pub on_backpressure: Option<OnBackpressure>,
    /// Makes a future whose end interrupts a wait.
    pub interrupt: Option<Interrupt>,
}

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
    waiting: Waiting,
    /// Whether the engine is down, or else the queue is full, and since when.
    stalled: Option<(bool, Instant)>,
    backoff: Backoff,
}

impl RetryLoop {
    pub fn new(waiting: Waiting) -> Self {
        Self { waiting, stalled: None, backoff: Backoff::default() }
    }

    /// Records progress, which renews the budget.
    pub fn progress(&mut self) {
        self.stalled = None;
        self.backoff.reset();
    }

    /// Sleeps before the next retry; an error if the budget is used up.
    pub async fn wait(&mut self, backpressure: Backpressure, retry_after: Duration) -> Result<(), Error> {
        let (most, reason) = match &backpressure {
            Backpressure::Down(error) => (Some(self.waiting.budget.while_down), error.to_string()),
            Backpressure::Full(refusal) => {
                (self.waiting.budget.while_full, refusal_text(*refusal, retry_after))
            }
        };
        let is_down = matches!(backpressure, Backpressure::Down(_));
        // An outage during a long wait for room in the queue has its own budget.
        let before = self.stalled.filter(|(was_down, _)| *was_down == is_down);
        let (_, since) = *self.stalled.insert(before.unwrap_or_else(|| (is_down, Instant::now())));
        let waited = since.elapsed();
        let left = most.map(|most| most.saturating_sub(waited));
        if left == Some(Duration::ZERO) {
            return Err(Error::GaveUp { waited, reason, backpressure, retry_after });
        }
        if let Some(on_backpressure) = &self.waiting.on_backpressure {
            on_backpressure(&backpressure);
        }
        tracing::debug!(%reason, "waiting before a retry");
        let delay = match backpressure {
            Backpressure::Down(_) => self.backoff.next_delay(),
            Backpressure::Full(_) => retry_after,
        };
        let pause = tokio::time::sleep(left.map_or(delay, |left| delay.min(left)));
        match &self.waiting.interrupt {
            None => pause.await,
            Some(interrupt) => tokio::select! {
                () = interrupt() => return Err(Error::Interrupted),
                () = pause => {}
            },
        }
        Ok(())
    }

    /// Waits if the engine did not reply; any other error is returned.
    pub async fn wait_for(&mut self, error: EngineError) -> Result<(), Error> {
        match error.is_retryable() {
            true => self.wait(Backpressure::Down(error), Duration::ZERO).await,
            false => Err(error.into()),
        }
    }

    /// The reply; or `None` after a wait, if there was no reply and the caller should retry. Any
    /// other error is returned.
    pub async fn reply_or_wait<T>(&mut self, reply: Result<T, EngineError>) -> Result<Option<T>, Error> {
        match reply {
            Ok(reply) => {
                self.progress();
                Ok(Some(reply))
            }
            Err(error) => self.wait_for(error).await.map(|()| None),
        }
    }
}
