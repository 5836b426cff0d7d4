//! Bulk actions that this worker could not aggregate and gave back: how often, and what was logged about them.

use std::collections::HashMap;
use std::time::Duration;

use fairlane_core::queue::BulkRef;
use tokio::time::Instant;

use crate::events::Event;
use crate::pool::{Shared, TARGET};

/// The delay after the first try; doubled with each.
const DELAY_MIN: Duration = Duration::from_secs(1);
/// The longest delay.
const DELAY_MAX: Duration = Duration::from_secs(300);
/// Tries after which the delay is the longest.
const DELAY_STEPS: u32 = 10;
/// Tries after which a bulk action whose fold is unknown fails: about a day, if no other worker takes it. A worker
/// that knows the fold may be down for hours.
pub(super) const TRIES_MAX: u32 = 300;
/// Bulk actions that are remembered. One beyond them is given back for the longest time.
const REMEMBERED_MAX: usize = 10_000;
/// How long one is remembered that does not come again: another worker has it.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Lines about them in the log are at least this far apart.
const LOG_PAUSE: Duration = Duration::from_secs(30);
/// Most events about them in that time.
const EVENTS_MAX: usize = 10;

#[derive(Default)]
pub(super) struct Postponed {
    tried: HashMap<BulkRef, Tried>,
    /// When the last line was logged, and how many were given back since.
    logged: Option<Instant>,
    unlogged: usize,
}

struct Tried {
    times: u32,
    last: Instant,
}

/// How long a bulk action is given back for, after so many tries before this one. Random, so that those that were
/// given back together do not come back together.
pub(super) fn delay(tries: u32) -> Duration {
    let longest = DELAY_MIN.saturating_mul(1 << tries.min(DELAY_STEPS)).min(DELAY_MAX);
    longest.mul_f64(0.8 + fastrand::f64() * 0.4)
}

impl Postponed {
    /// How often it was tried here, as far as that is remembered.
    pub fn tries(&self, bulk: &BulkRef) -> u32 {
        let unknown = if self.tried.len() < REMEMBERED_MAX { 0 } else { DELAY_STEPS };
        self.tried.get(bulk).map_or(unknown, |tried| tried.times)
    }

    /// It is finished, or another worker's.
    pub fn forget(&mut self, bulk: &BulkRef) {
        self.tried.remove(bulk);
    }

    /// It was given back. Events tell of the first time, of a few bulk actions; the log has one line for all.
    pub fn add(&mut self, shared: &Shared, bulk: BulkRef, advice: String) {
        let now = Instant::now();
        let is_known = self.tried.contains_key(&bulk);
        let times = self.tried.get(&bulk).map_or(0, |tried| tried.times) + 1;
        self.log(now, &bulk, &advice);
        if times == 1 && self.unlogged < EVENTS_MAX {
            shared.hooks.tell(|| Event::BulkStuck { bulk: bulk.clone(), advice });
        }
        if self.tried.len() >= REMEMBERED_MAX {
            self.tried.retain(|_, tried| now.duration_since(tried.last) < REMEMBERED);
        }
        if self.tried.len() < REMEMBERED_MAX || is_known {
            self.tried.insert(bulk, Tried { times, last: now });
        }
    }

    fn log(&mut self, now: Instant, bulk: &BulkRef, advice: &str) {
        if self.logged.is_some_and(|at| now.duration_since(at) < LOG_PAUSE) {
            self.unlogged += 1;
            return;
        }
        let others = std::mem::take(&mut self.unlogged);
        self.logged = Some(now);
        tracing::error!(target: TARGET, ?bulk, advice, others, "it cannot be aggregated here and is given back");
    }
}
