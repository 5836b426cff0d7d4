//! The clock of an engine.
//!
//! Invariant: the system clock never steps back within one process. It is the wall clock of the
//! first reading plus the monotonic time since.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use fairlane_core::Micros;

/// The source of an engine's time.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The engine's own clock: that of its store if it has one, else that of this machine.
    #[default]
    System,
    /// Microseconds since the Unix epoch, set by a test.
    Given(Arc<AtomicU64>),
}

impl Clock {
    /// The current time; for [`Clock::System`], that of this machine.
    pub fn now(&self) -> Micros {
        match self {
            Self::System => system_now(),
            Self::Given(us) => Micros(us.load(Ordering::SeqCst)),
        }
    }
}

fn system_now() -> Micros {
    static START: OnceLock<(Instant, Micros)> = OnceLock::new();
    let (started, wall) = START.get_or_init(|| {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), Micros(since_1970.as_micros() as u64))
    });
    wall.plus_us(started.elapsed().as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_never_steps_back() {
        let mut last = Clock::System.now();
        for _ in 0..10_000 {
            let now = Clock::System.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_given_clock_returns_the_time_it_is_set_to() {
        let us = Arc::new(AtomicU64::new(5));
        let clock = Clock::Given(us.clone());
        assert_eq!(clock.now(), Micros(5));
        us.store(3, Ordering::SeqCst);
        assert_eq!(clock.now(), Micros(3));
    }
}
