//! The delay before a failed job is retried: exponential with full jitter.

use std::time::Duration;

use fairlane_engine::doubled;

/// Delays between the attempts at jobs of one type. The number of attempts is a setting of the
/// queue (`max_retry_count`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Longest delay after the first failure; doubled after each further failure.
    pub base: Duration,
    /// Upper bound of every delay.
    pub cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { base: Duration::from_secs(1), cap: Duration::from_secs(300) }
    }
}

impl RetryPolicy {
    /// The longest possible delay after this attempt, counted from 1.
    pub fn longest(&self, attempt: u32) -> Duration {
        doubled(self.base, attempt.saturating_sub(1), self.cap)
    }

    /// A random delay after this attempt, uniform between zero and [`longest`](Self::longest), so
    /// that jobs that failed together are retried at different times.
    pub fn delay(&self, attempt: u32) -> Duration {
        self.longest(attempt).mul_f64(fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_are_spread_over_their_range() {
        let policy = RetryPolicy { base: Duration::from_secs(1), cap: Duration::from_secs(60) };
        let longest: Vec<u64> = (1..=8).map(|attempt| policy.longest(attempt).as_secs()).collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(policy.longest(u32::MAX), policy.cap);
        let delays: Vec<Duration> = (0..1000).map(|_| policy.delay(5)).collect();
        assert!(delays.iter().all(|delay| *delay <= Duration::from_secs(16)));
        assert!(delays.iter().any(|delay| *delay < Duration::from_secs(4)));
        assert!(delays.iter().any(|delay| *delay > Duration::from_secs(12)));
    }
}
