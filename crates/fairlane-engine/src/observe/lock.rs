//! Counts of locks, by the replies about them; how long holders have waited and held, as the library
//! sees it. No metric has the name of a lock.

use std::time::Duration;

use fairlane_core::lock::{LockAcquired, LockReleased, LockRenewal, Reply};
use metrics::{Counter, counter, histogram};

use super::names;

/// The counters of locks in one engine.
#[derive(Debug)]
pub(super) struct LockMeters {
    /// In the order of [`LockMeters::count_acquired`].
    acquired: [Counter; 4],
    /// In the order of [`LockMeters::count_released`].
    released: [Counter; 3],
    renewed: Counter,
    lost: Counter,
    broken: Counter,
    expired: Counter,
}

impl LockMeters {
    pub fn new(engine: &'static str) -> Self {
        Self {
            acquired: ["held", "waiting", "busy", "refused"]
                .map(|result| counter!(names::LOCK_REQUESTS, "engine" => engine, "result" => result)),
            released: ["released", "withdrawn", "not_held"]
                .map(|result| counter!(names::LOCK_RELEASES, "engine" => engine, "result" => result)),
            renewed: counter!(names::LOCK_RENEWALS, "engine" => engine, "result" => "renewed"),
            lost: counter!(names::LOCK_RENEWALS, "engine" => engine, "result" => "lost"),
            broken: counter!(names::LOCKS_BROKEN, "engine" => engine),
            expired: counter!(names::LOCKS_EXPIRED, "engine" => engine),
        }
    }

    /// Counts a reply.
    pub fn count(&self, reply: &Reply) {
        match reply {
            Reply::AcquireLock(acquired) => self.count_acquired(acquired),
            Reply::ReleaseLock(released) => self.count_released(*released),
            Reply::RenewLocks(renewed) => {
                let lost = renewed.renewals.iter().filter(|one| matches!(one, LockRenewal::Lost)).count();
                self.lost.increment(lost as u64);
                self.renewed.increment((renewed.renewals.len() - lost) as u64);
            }
            Reply::BreakLock(broken) => self.broken.increment(broken.holders),
            Reply::SweepLocks(swept) => self.expired.increment(swept.expired),
            _ => {}
        }
    }

    fn count_acquired(&self, acquired: &LockAcquired) {
        let index = match acquired {
            LockAcquired::Held { .. } => 0,
            LockAcquired::Waiting { .. } => 1,
            LockAcquired::Busy(_) => 2,
            LockAcquired::Refused(_) => 3,
        };
        self.acquired[index].increment(1);
    }

    fn count_released(&self, released: LockReleased) {
        let index = match released {
            LockReleased::Released => 0,
            LockReleased::Withdrawn => 1,
            LockReleased::NotHeld => 2,
        };
        self.released[index].increment(1);
    }
}

/// Records how long a caller has waited for a lock that it holds now.
pub fn lock_waited(engine: &'static str, waited: Duration) {
    histogram!(names::LOCK_WAIT, "engine" => engine).record(waited);
}

/// Records how long a lock was held, until its release or its loss.
pub fn lock_held(engine: &'static str, held: Duration, is_lost: bool) {
    let ended = if is_lost { "lost" } else { "released" };
    histogram!(names::LOCK_HOLD, "engine" => engine, "ended" => ended).record(held);
}
