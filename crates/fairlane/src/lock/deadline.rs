//! A point in time that also passes while the machine is suspended, and how it relates to the time of
//! the store.

use std::time::Duration;

use fairlane_core::Micros;
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

/// The time of the store, and a point in time on the clocks of this machine that lies before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoreClock {
    asked: Instant,
    asked_since_boot: Option<Duration>,
    time: Micros,
}

impl StoreClock {
    /// Begins a request whose reply has the time of the store.
    pub fn ask() -> Self {
        Self { asked: Instant::now(), asked_since_boot: since_boot(), time: Micros::default() }
    }

    /// The time in the reply.
    pub fn at(self, time: Micros) -> Self {
        Self { time, ..self }
    }

    /// How long it takes until the store has this time. The result is never too long, because the
    /// request was sent before its reply was written, unless the clock of the store has stepped
    /// forward since. Time during which the process was stopped counts.
    pub fn until(&self, time: Micros) -> Duration {
        let suspended = since_boot().zip(self.asked_since_boot).map(|(now, then)| now.saturating_sub(then));
        let elapsed = self.asked.elapsed().max(suspended.unwrap_or_default());
        Duration::from_micros(time.since(self.time)).saturating_sub(elapsed)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that was stopped reads a signal late.
    #[tokio::test(start_paused = true)]
    async fn rest_of_a_lease_shrinks_while_its_signal_is_not_read() {
        let clock = StoreClock::ask();
        // The reply took 20 ms, so the lease seems to end earlier than it does.
        tokio::time::advance(Duration::from_millis(20)).await;
        let clock = clock.at(Micros::from_millis(1_000_000));
        let ends = Micros::from_millis(1_000_500);
        assert_eq!(clock.until(ends), Duration::from_millis(480));
        tokio::time::advance(Duration::from_millis(479)).await;
        assert_eq!(clock.until(ends), Duration::from_millis(1));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(clock.until(ends), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn lease_that_was_granted_after_the_clock_stepped_back_seems_to_end_early() {
        let clock = StoreClock::ask().at(Micros::from_millis(1_000_000));
        assert_eq!(clock.until(Micros::from_millis(999_000)), Duration::ZERO);
    }
}
