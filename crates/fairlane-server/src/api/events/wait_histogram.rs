//! How long jobs waited, in buckets that grow by a quarter of a power of two: any number of waits in
//! constant memory, with an error below a quarter.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets for each power of two.
const STEPS: u64 = 4;
/// Number of buckets, enough for waits of years.
const BUCKETS: usize = 160;

/// Counts of waits, by length.
pub(super) struct WaitHistogram([AtomicU64; BUCKETS]);

impl Default for WaitHistogram {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl WaitHistogram {
    pub fn record(&self, wait_ms: u64) {
        self.0[bucket(wait_ms)].fetch_add(1, Ordering::Relaxed);
    }

    /// The median and the 99th percentile in milliseconds; `None` if nothing was recorded. Empties
    /// the histogram.
    pub fn take(&self) -> Option<(u64, u64)> {
        let counts: Vec<u64> = self.0.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let percentile = |percent: u64| {
            let rank = (total * percent).div_ceil(100).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            lowest_ms(found.unwrap_or(0))
        };
        (total > 0).then(|| (percentile(50), percentile(99)))
    }
}

/// Waits below [`STEPS`] have buckets of their own; then each power of two has [`STEPS`] of them.
fn bucket(wait_ms: u64) -> usize {
    if wait_ms < STEPS {
        return wait_ms as usize;
    }
    let power = u64::from(wait_ms.ilog2());
    let step = (wait_ms >> (power - 2)) - STEPS;
    (((power - 1) * STEPS + step) as usize).min(BUCKETS - 1)
}

/// The shortest wait of a bucket.
fn lowest_ms(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let (power, step) = (bucket / STEPS + 1, bucket % STEPS);
    (STEPS + step) << (power - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_is_in_a_bucket_that_is_at_most_a_quarter_shorter() {
        for wait_ms in (0..5000).chain((12..40).map(|power| (1 << power) + 7)) {
            let lowest = lowest_ms(bucket(wait_ms));
            assert!(lowest <= wait_ms && wait_ms - lowest <= wait_ms / 4, "{wait_ms} {lowest}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_waits_since_the_last_call() {
        let waits = WaitHistogram::default();
        assert_eq!(waits.take(), None);
        (0..99).for_each(|_| waits.record(8));
        waits.record(1024);
        assert_eq!(waits.take(), Some((8, 8)));
        waits.record(8);
        waits.record(1024);
        assert_eq!(waits.take(), Some((8, 1024)));
        assert_eq!(waits.take(), None);
    }
}
