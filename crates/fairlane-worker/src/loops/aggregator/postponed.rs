//! Bulk actions that this worker could not aggregate and released: attempt counts and log limits.

use std::collections::HashMap;
use std::time::Duration;

use fairlane_core::queue::BulkRef;
use fairlane_engine::doubled;
use tokio::time::Instant;

use crate::events::Event;
use crate::pool::{Shared, TARGET};

/// The delay after the first attempt; doubled with each further one.
const DELAY_MIN: Duration = Duration::from_secs(1);
/// The longest delay.
const DELAY_MAX: Duration = Duration::from_secs(300);
/// Attempts after which the delay is the longest.
const DELAY_STEPS: u32 = 10;
/// Attempts after which a bulk action with an unknown fold fails: about a day, if no other worker
/// aggregates it. A worker that has the fold may be down for hours.
pub(super) const ATTEMPTS_MAX: u32 = 300;
/// Most bulk actions remembered. One beyond this limit is released for the longest delay.
const REMEMBERED_MAX: usize = 10_000;
/// How long a bulk action is remembered that is not leased again: another worker has it.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Shortest time between two log lines about postponed bulk actions.
const LOG_INTERVAL: Duration = Duration::from_secs(30);
/// Most events about postponed bulk actions in that time.
const EVENTS_MAX: usize = 10;

#[derive(Default)]
pub(super) struct Postponed {
    attempts: HashMap<BulkRef, Attempts>,
    logged_at: Option<Instant>,
    /// Number of bulk actions postponed since the last log line.
    unlogged: usize,
}

struct Attempts {
    count: u32,
    last: Instant,
}

/// How long a bulk action is released for after this many earlier attempts. Jittered, so that bulk
/// actions released together are not leased together again.
pub(super) fn delay(attempts: u32) -> Duration {
    doubled(DELAY_MIN, attempts, DELAY_MAX).mul_f64(0.8 + fastrand::f64() * 0.4)
}

impl Postponed {
    /// Number of attempts this worker has made at it, as far as it remembers.
    pub fn attempts(&self, bulk: &BulkRef) -> u32 {
        let unknown = if self.attempts.len() < REMEMBERED_MAX { 0 } else { DELAY_STEPS };
        self.attempts.get(bulk).map_or(unknown, |attempts| attempts.count)
    }

    /// Removes a bulk action that is settled, or leased by another worker.
    pub fn forget(&mut self, bulk: &BulkRef) {
        self.attempts.remove(bulk);
    }

    /// Records that a bulk action was released. Only its first release emits an event, and only a
    /// limited number of bulk actions do; the log has one line for all.
    pub fn add(&mut self, shared: &Shared, bulk: BulkRef, advice: String) {
        let now = Instant::now();
        let is_known = self.attempts.contains_key(&bulk);
        let count = self.attempts.get(&bulk).map_or(0, |attempts| attempts.count) + 1;
        self.log(now, &bulk, &advice);
        if count == 1 && self.unlogged < EVENTS_MAX {
            shared.hooks.emit(|| Event::BulkStuck { bulk: bulk.clone(), advice });
        }
        if self.attempts.len() >= REMEMBERED_MAX {
            self.attempts.retain(|_, attempts| now.duration_since(attempts.last) < REMEMBERED);
        }
        if self.attempts.len() < REMEMBERED_MAX || is_known {
            self.attempts.insert(bulk, Attempts { count, last: now });
        }
    }

    fn log(&mut self, now: Instant, bulk: &BulkRef, advice: &str) {
        if self.logged_at.is_some_and(|at| now.duration_since(at) < LOG_INTERVAL) {
            self.unlogged += 1;
            return;
        }
        let others = std::mem::take(&mut self.unlogged);
        self.logged_at = Some(now);
        let (group, id) = (&bulk.group, &bulk.id);
        tracing::error!(target: TARGET, %group, bulk = %id, advice, others, "a bulk action cannot be aggregated here");
    }
}
