//! The line in which refusals leave.
//!
//! Whoever is refused at once asks again at once. So a refusal is kept, however many are: they leave one by one, and so
//! many connections that are refused without end cost no more than a few. None is kept for ever; beyond a thousand in
//! line they leave as fast as they came ten seconds before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Between two of them.
const APART: Duration = Duration::from_millis(10);
/// Longest that one is kept.
const KEPT_MAX: Duration = Duration::from_secs(10);

/// Those of one key, or of all strangers.
pub(super) struct Line {
    begun: Instant,
    /// When the last of them leaves, in nanoseconds since then.
    last: AtomicU64,
}

impl Default for Line {
    fn default() -> Self {
        Self { begun: Instant::now(), last: AtomicU64::new(0) }
    }
}

impl Line {
    /// Waits for the turn of one more, and not less than `least`; says how long that was.
    pub async fn wait(&self, least: Duration) -> Duration {
        let kept = self.place(self.begun.elapsed(), least);
        tokio::time::sleep(kept).await;
        kept
    }

    fn place(&self, now: Duration, least: Duration) -> Duration {
        let nanos = |time: Duration| time.as_nanos() as u64;
        let (earliest, latest) = (nanos(now + least), nanos(now + KEPT_MAX));
        let leaves = |last: u64| (last + nanos(APART)).max(earliest).min(latest);
        let last =
            match self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(leaves(last))) {
                Ok(last) | Err(last) => last,
            };
        Duration::from_nanos(leaves(last)).saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_leave_one_by_one_however_many_there_are() {
        let (line, now) = (Line::default(), Duration::from_secs(5));
        let least = Duration::from_millis(100);
        let kept: Vec<Duration> = (0..2000).map(|_| line.place(now, least)).collect();
        assert_eq!(kept[0], least);
        assert!(kept[..900].windows(2).all(|pair| pair[1] - pair[0] == APART), "{kept:?}");
        assert_eq!(kept[1999], KEPT_MAX);
        assert_eq!(line.place(now + 2 * KEPT_MAX, least), least);
    }
}
