//! Delays refusals.
//!
//! A client that is refused at once sends its request again at once. So refusals are delayed and
//! released one every 10 ms: many connections in a retry loop cost the server no more than a few.
//! No refusal is delayed for more than 10 s; beyond a thousand delayed ones they are released as
//! fast as they came.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The interval between two released refusals.
const INTERVAL: Duration = Duration::from_millis(10);
/// The longest delay of a refusal.
const DELAY_MAX: Duration = Duration::from_secs(10);

/// The delayed refusals of one key, or of all clients without a valid key.
pub(super) struct RefusalPacer {
    created: Instant,
    /// When the last delayed refusal is released, in nanoseconds since `created`.
    last: AtomicU64,
}

impl Default for RefusalPacer {
    fn default() -> Self {
        Self { created: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl RefusalPacer {
    /// Waits until one more refusal may be released, at least for `least`; returns how long it
    /// waited.
    pub async fn wait(&self, least: Duration) -> Duration {
        let delay = self.schedule(self.created.elapsed(), least);
        tokio::time::sleep(delay).await;
        delay
    }

    fn schedule(&self, now: Duration, least: Duration) -> Duration {
        let nanos = |time: Duration| time.as_nanos() as u64;
        let (earliest, latest) = (nanos(now + least), nanos(now + DELAY_MAX));
        let released = |last: u64| (last + nanos(INTERVAL)).max(earliest).min(latest);
        let last =
            match self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(released(last))) {
                Ok(last) | Err(last) => last,
            };
        Duration::from_nanos(released(last)).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_released_one_per_interval_however_many_there_are() {
        let (pacer, now) = (RefusalPacer::default(), Duration::from_secs(5));
        let least = Duration::from_millis(100);
        let delays: Vec<Duration> = (0..2000).map(|_| pacer.schedule(now, least)).collect();
        assert_eq!(delays[0], least);
        assert!(delays[..900].windows(2).all(|pair| pair[1] - pair[0] == INTERVAL), "{delays:?}");
        assert_eq!(delays[1999], DELAY_MAX);
        assert_eq!(pacer.schedule(now + 2 * DELAY_MAX, least), least);
    }
}
