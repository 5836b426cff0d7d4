//! A point in time that also passes while the machine is suspended.

use std::time::Duration;

use tokio::time::Instant;

/// A point in time on the monotonic clock and, where the system has one, on the clock that goes on
/// while the machine is suspended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    at: Instant,
    since_boot: Option<Duration>,
}

impl Deadline {
    pub fn new(at: Instant) -> Self {
        let remaining = at.saturating_duration_since(Instant::now());
        Self { at, since_boot: since_boot().map(|now| now + remaining) }
    }

    pub fn has_passed(&self) -> bool {
        let over = since_boot().zip(self.since_boot).is_some_and(|(now, end)| now >= end);
        over || Instant::now() >= self.at
    }
}

/// The time since the machine was started, including the time in which it was suspended.
#[cfg(target_os = "linux")]
fn since_boot() -> Option<Duration> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(now).ok()
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Option<Duration> {
    None
}
