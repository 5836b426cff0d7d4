//! Delays between the attempts of a retry loop: exponential, bounded, and jittered, so that clients
//! that failed together do not return together.

use std::time::Duration;

/// Exponential backoff. By default it waits for an engine that does not reply: 50 ms at first, two
/// seconds at most.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    doublings: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(2))
    }
}

impl Backoff {
    /// Delays that begin with `first` and double up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, doublings: 0 }
    }

    /// Starts again with the first delay.
    pub fn reset(&mut self) {
        self.doublings = 0;
    }

    /// The length of the next delay, random in the upper half of its range.
    pub fn next_delay(&mut self) -> Duration {
        let longest = doubled(self.first, self.doublings, self.longest);
        self.doublings = self.doublings.saturating_add(1);
        longest.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Sleeps for the next delay.
    pub async fn sleep(&mut self) {
        tokio::time::sleep(self.next_delay()).await;
    }
}

/// A duration that is doubled this many times, and at most `longest`.
pub fn doubled(first: Duration, doublings: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << doublings.min(31)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_bound_and_start_again_after_a_reset() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(10), ms(80));
        for longest in [10, 20, 40, 80, 80] {
            assert!((ms(longest) / 2..=ms(longest)).contains(&backoff.next_delay()));
        }
        backoff.reset();
        assert!(backoff.next_delay() <= ms(10));
        assert_eq!(doubled(ms(10), u32::MAX, ms(80)), ms(80));
    }
}
