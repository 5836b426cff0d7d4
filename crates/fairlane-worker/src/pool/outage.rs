//! Outages of the engine, reported at their beginning and end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairlane_engine::EngineError;

use crate::events::{Event, Hooks};
use crate::pool::TARGET;

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
