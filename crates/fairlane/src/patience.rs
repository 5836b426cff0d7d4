//! Going on when the queue is full or does not answer.
//!
//! Invariant: what waits gives up after a known time without progress, and says what it waited for. What was sent
//! before an error may have been taken; sending it again changes nothing, since jobs have ids.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::limits::{ENQUEUE_BYTES_MAX, ENQUEUE_JOBS_MAX};
use fairlane_core::queue::{Enqueue, Enqueued, JobReceipt, NewJob, Refusal};
use fairlane_engine::{Engine, EngineError};
use tokio::time::Instant;

use crate::error::{Error, is_full, refusal_text};

/// Shortest pause before an engine that did not answer is asked again; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long to go on without progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// While the engine does not answer; a minute unless said.
    pub while_down: Duration,
    /// While the queue is full; as long as it takes unless said.
    pub while_full: Option<Duration>,
}

impl Default for Patience {
    fn default() -> Self {
        Self { while_down: Duration::from_secs(60), while_full: None }
    }
}

impl Patience {
    /// None at all: the first obstacle is an error.
    pub const NONE: Self = Self { while_down: Duration::ZERO, while_full: Some(Duration::ZERO) };
}

/// Why nothing moves at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The queue takes no more jobs until some are done.
    Full(Refusal),
    /// The engine does not answer.
    Down(EngineError),
}

/// Hears of obstacles.
pub(crate) type OnObstacle = Arc<dyn Fn(&Obstacle) + Send + Sync>;

/// Shortest pause between two looks at something that is waited for.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(10);
/// Longest pause.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Looks again and again, with growing pauses, until something has ended.
pub(crate) struct Looks(Duration);

impl Looks {
    pub fn new() -> Self {
        Self(LOOK_PAUSE_MIN)
    }

    pub async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LOOK_PAUSE_MAX);
    }
}

/// Waits between attempts, and gives up in the end.
pub(crate) struct Waiter {
    patience: Patience,
    heard: Option<OnObstacle>,
    /// Whether the engine is down, or else full, and since when.
    stalled: Option<(bool, Instant)>,
    pause: Duration,
}

impl Waiter {
    pub fn new(patience: Patience, heard: Option<OnObstacle>) -> Self {
        Self { patience, heard, stalled: None, pause: PAUSE_MIN }
    }

    /// Something moved.
    fn progress(&mut self) {
        (self.stalled, self.pause) = (None, PAUSE_MIN);
    }

    /// Waits before the next attempt, if there is to be one.
    async fn wait(&mut self, obstacle: Obstacle, retry_after: Duration) -> Result<(), Error> {
        let (most, reason) = match &obstacle {
            Obstacle::Down(error) => (Some(self.patience.while_down), error.to_string()),
            Obstacle::Full(refusal) => (self.patience.while_full, refusal_text(*refusal, retry_after)),
        };
        let is_down = matches!(obstacle, Obstacle::Down(_));
        // An outage in the middle of a long wait for room has its own time.
        let before = self.stalled.filter(|(was_down, _)| *was_down == is_down);
        let (_, since) = *self.stalled.insert(before.unwrap_or_else(|| (is_down, Instant::now())));
        let waited = since.elapsed();
        let left = most.map(|most| most.saturating_sub(waited));
        if left == Some(Duration::ZERO) {
            return Err(Error::GaveUp { waited, reason });
        }
        if let Some(heard) = &self.heard {
            heard(&obstacle);
        }
        tracing::debug!(%reason, "waiting");
        let pause = match obstacle {
            Obstacle::Down(_) => self.pause,
            Obstacle::Full(_) => retry_after,
        };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        tokio::time::sleep(left.map_or(pause, |left| pause.min(left))).await;
        Ok(())
    }

    /// The answer, or that there was none this time; an error that will not pass ends it.
    pub async fn answered<T>(&mut self, asked: Result<T, EngineError>) -> Result<Option<T>, Error> {
        match asked {
            Ok(answer) => {
                self.progress();
                Ok(Some(answer))
            }
            Err(error) if error.is_retryable() => {
                self.wait(Obstacle::Down(error), Duration::ZERO).await?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// How many of these jobs, from the first, one command takes; at least one.
pub(crate) fn step_length(jobs: &[NewJob]) -> usize {
    let mut bytes = 0;
    let fits = |new: &&NewJob| {
        bytes += new.payload.len();
        bytes <= ENQUEUE_BYTES_MAX
    };
    jobs.iter().take(ENQUEUE_JOBS_MAX).take_while(fits).count().max(1)
}

/// Sends at most one step of jobs until each is answered for good. What is refused because the queue is
/// full is sent again in its order, so the order within a group is kept.
pub(crate) async fn send(
    engine: &dyn Engine,
    jobs: &[NewJob],
    waiter: &mut Waiter,
) -> Result<Enqueued, Error> {
    let mut receipts: Vec<Option<(JobReceipt, u64)>> = vec![None; jobs.len()];
    loop {
        let open: Vec<usize> = (0..jobs.len()).filter(|at| receipts[*at].is_none()).collect();
        if open.is_empty() {
            let (receipts, backlogs) = receipts.into_iter().flatten().unzip();
            return Ok(Enqueued { receipts, backlogs });
        }
        let rest = open.iter().map(|at| jobs[*at].clone()).collect();
        let answers = match engine.enqueue(Enqueue { jobs: rest }).await {
            Ok(enqueued) => enqueued.receipts.into_iter().zip(enqueued.backlogs),
            Err(error) if error.is_retryable() => {
                waiter.wait(Obstacle::Down(error), Duration::ZERO).await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let mut full = None;
        for (at, (answer, backlog)) in open.into_iter().zip(answers) {
            match answer {
                JobReceipt::Refused { refusal, retry_after_ms } if is_full(refusal) => {
                    full.get_or_insert((refusal, Duration::from_millis(retry_after_ms)));
                }
                taken => {
                    waiter.progress();
                    receipts[at] = Some((taken, backlog));
                }
            }
        }
        if let Some((refusal, retry_after)) = full {
            waiter.wait(Obstacle::Full(refusal), retry_after).await?;
        }
    }
}
