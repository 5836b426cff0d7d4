//! Locks on Redis under faults, with many waiters, and compared with plain commands of Redis.
//!
//! - `locks/fire.rs`: processes that are killed, stopped and cut off, and a resource that checks
//!   their fences; `locks/holder.rs` is such a process.
//! - `locks/races.rs`: releases that meet waiters who are just registering.
//! - `locks/crowd.rs`: many waiters for one lock. `locks/names.rs`: many locks.
//! - `locks/contend.rs`: tasks that contend for one lock. `locks/command.rs`: the command line.
//! - `locks/speed.rs`: the time of an acquisition and of a hand-off, compared with the minimum on
//!   Redis.

pub mod command;
pub mod contend;
pub mod crowd;
pub mod fire;
pub mod holder;
pub mod names;
pub mod races;
pub mod speed;

use std::time::Duration;

use fairlane_core::lock::{AcquireLock, LockMode, LockName, ReleaseLock};
use fairlane_core::{HolderName, LockToken, ProcessId};
use hdrhistogram::Histogram;

/// An acquisition of an exclusive lock that does not wait.
fn acquire(name: &str, token: &str, process: &ProcessId) -> AcquireLock {
    AcquireLock {
        name: lock_name(name),
        token: lock_token(token),
        process: process.clone(),
        holder: HolderName::new("trial").expect("a plain word is a name"),
        mode: LockMode::Exclusive,
        ttl_ms: 5000,
        wait: false,
        fair: false,
        lock_delay_ms: 0,
        max_hold_ms: None,
    }
}

fn release(name: &str, token: &str) -> ReleaseLock {
    ReleaseLock { name: lock_name(name), token: lock_token(token) }
}

fn lock_name(name: &str) -> LockName {
    LockName::new(name).expect("a valid name of a lock")
}

fn lock_token(token: &str) -> LockToken {
    LockToken::new(token).expect("a valid token")
}

fn process(name: &str) -> ProcessId {
    ProcessId::new(name).expect("a valid process id")
}

/// The longest duration that is recorded exactly, in nanoseconds: a minute.
const NANOSECONDS_MAX: u64 = 60_000_000_000;

/// Durations in nanoseconds.
struct Times(Histogram<u64>);

impl Times {
    fn new() -> Self {
        Self(Histogram::new_with_max(NANOSECONDS_MAX, 3).expect("valid bounds"))
    }

    fn add(&mut self, took: Duration) {
        self.0.saturating_record(took.as_nanos() as u64);
    }

    /// The median in microseconds.
    fn p50_us(&self) -> f64 {
        self.0.value_at_quantile(0.5) as f64 / 1000.0
    }
}
