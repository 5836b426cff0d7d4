//! An engine that does not answer: said once, waited for with growing pauses, and said when it is over.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairlane_engine::EngineError;
use tokio_util::sync::CancellationToken;

use crate::events::{Event, Hooks};
use crate::pool::TARGET;

/// The first pause; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// An outage that goes on is said again this often.
const REMIND: Duration = Duration::from_secs(30);

pub(crate) struct Outage {
    hooks: Hooks,
    is_down: AtomicBool,
    since: Mutex<Option<Since>>,
}

struct Since {
    began: Instant,
    told: Instant,
}

impl Outage {
    pub fn new(hooks: Hooks) -> Self {
        Self { hooks, is_down: AtomicBool::new(false), since: Mutex::new(None) }
    }

    /// Whether the last that was heard of the engine is that it does not answer.
    pub fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// A command was answered.
    pub fn over(&self) {
        if !self.is_down() {
            return;
        }
        let Some(since) = self.since().take() else { return };
        self.is_down.store(false, Ordering::Relaxed);
        let after = since.began.elapsed();
        tracing::info!(target: TARGET, after_ms = after.as_millis() as u64, "the engine answers again");
        self.hooks.tell(|| Event::EngineBack { after });
    }

    /// A command failed. Silence is an outage; any other error is somebody's to look at.
    pub fn failed(&self, doing: &'static str, error: &EngineError) {
        if !error.is_retryable() {
            return self.refused(doing, error);
        }
        let now = Instant::now();
        let told = {
            let mut since = self.since();
            let known = since.get_or_insert(Since { began: now, told: now });
            let first = known.began == now;
            let tell = first || now.duration_since(known.told) >= REMIND;
            if tell {
                known.told = now;
            }
            tell
        };
        self.is_down.store(true, Ordering::Relaxed);
        if told {
            tracing::warn!(target: TARGET, doing, %error, "the engine does not answer; waiting for it");
            self.hooks.tell(|| Event::EngineDown { doing, error: error.to_string() });
        }
    }

    /// The engine has answered that it cannot do it.
    pub fn refused(&self, doing: &'static str, error: &EngineError) {
        tracing::error!(target: TARGET, doing, %error, "the engine refuses");
        self.hooks.tell(|| Event::EngineRefuses { doing, error: error.to_string() });
    }

    fn since(&self) -> std::sync::MutexGuard<'_, Option<Since>> {
        self.since.lock().expect("nothing panics while it holds the outage")
    }
}

/// Growing pauses between tries.
#[derive(Default)]
pub(crate) struct Pauses {
    failures: u32,
}

impl Pauses {
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The length of the next pause.
    pub fn next(&mut self) -> Duration {
        let longest = PAUSE_MIN.saturating_mul(1 << self.failures.min(10)).min(PAUSE_MAX);
        self.failures += 1;
        longest.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Pauses; false if `end` came meanwhile.
    pub async fn pause(&mut self, end: &CancellationToken) -> bool {
        let pause = self.next();
        tokio::select! {
            _ = end.cancelled() => false,
            _ = tokio::time::sleep(pause) => true,
        }
    }
}
