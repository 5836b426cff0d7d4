//! Outages of the engine: reported at their beginning and end, and retried with backoff.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairlane_engine::EngineError;
use tokio_util::sync::CancellationToken;

use crate::events::{Event, Hooks};
use crate::pool::TARGET;

/// The first delay of the backoff; doubled each time.
const DELAY_MIN: Duration = Duration::from_millis(50);
/// The longest delay of the backoff.
const DELAY_MAX: Duration = Duration::from_secs(2);
/// How often a continuing outage is reported again.
const REMINDER_INTERVAL: Duration = Duration::from_secs(30);

pub(crate) struct Outage {
    hooks: Hooks,
    is_down: AtomicBool,
    since: Mutex<Option<Since>>,
}

struct Since {
    began: Instant,
    reported: Instant,
}

impl Outage {
    pub fn new(hooks: Hooks) -> Self {
        Self { hooks, is_down: AtomicBool::new(false), since: Mutex::new(None) }
    }

    /// Whether the engine did not reply to the last command.
    pub fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// Records that the engine replied to a command.
    pub fn replied(&self) {
        if !self.is_down() {
            return;
        }
        let Some(since) = self.since().take() else { return };
        self.is_down.store(false, Ordering::Relaxed);
        let after = since.began.elapsed();
        tracing::info!(target: TARGET, after_ms = after.as_millis() as u64, "the engine answers again");
        self.hooks.emit(|| Event::EngineBack { after });
    }

    /// Records that a command failed. No reply is an outage; any other error is for an operator.
    pub fn failed(&self, doing: &'static str, error: &EngineError) {
        if !error.is_retryable() {
            return self.refused(doing, error);
        }
        let now = Instant::now();
        let is_due = {
            let mut since = self.since();
            let known = since.get_or_insert(Since { began: now, reported: now });
            let first = known.began == now;
            let is_due = first || now.duration_since(known.reported) >= REMINDER_INTERVAL;
            if is_due {
                known.reported = now;
            }
            is_due
        };
        self.is_down.store(true, Ordering::Relaxed);
        if is_due {
            tracing::warn!(target: TARGET, doing, %error, "the engine does not answer; waiting for it");
            self.hooks.emit(|| Event::EngineDown { doing, error: error.to_string() });
        }
    }

    /// Records that the engine rejected a command.
    pub fn refused(&self, doing: &'static str, error: &EngineError) {
        tracing::error!(target: TARGET, doing, %error, "the engine refuses");
        self.hooks.emit(|| Event::EngineRefuses { doing, error: error.to_string() });
    }

    fn since(&self) -> std::sync::MutexGuard<'_, Option<Since>> {
        self.since.lock().expect("nothing panics while it holds the outage")
    }
}

/// Exponential backoff with jitter between retries.
#[derive(Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The length of the next delay.
    pub fn next_delay(&mut self) -> Duration {
        let longest = DELAY_MIN.saturating_mul(1 << self.failures.min(10)).min(DELAY_MAX);
        self.failures += 1;
        longest.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Sleeps for the next delay; false if `end` was cancelled meanwhile.
    pub async fn sleep(&mut self, end: &CancellationToken) -> bool {
        let delay = self.next_delay();
        tokio::select! {
            _ = end.cancelled() => false,
            _ = tokio::time::sleep(delay) => true,
        }
    }
}
