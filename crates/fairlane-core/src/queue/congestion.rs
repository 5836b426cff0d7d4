//! Congestion control as pure functions: the backoff of refused work, its level and an
//! estimate of completion.

use serde::{Deserialize, Serialize};

use crate::limits::{
    BACKOFF_MS_MAX, BASE_BACKOFF_MS, MAX_BACKOFF_MS, STATS_RETENTION_MS, STATS_RETENTION_MS_MAX,
};
use crate::numbers::{OutOfRange, within};

/// Number of parts into which the upper half of the maximum backoff is divided.
const SPREAD_PARTS: u64 = 1_000_000;
/// Parts between the backoffs of neighbouring jobs. The golden ratio leaves the fewest gaps.
const SPREAD_STEP: u64 = 618_034;

/// Settings of congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Congestion {
    /// Whether it is on. If it is off, every refused job waits `base_backoff_ms`, and
    /// nothing is recorded.
    pub enabled: bool,
    /// The shortest backoff of a refused job, in milliseconds: one rate window.
    pub base_backoff_ms: u64,
    /// The longest backoff of a refused job, in milliseconds.
    pub max_backoff_ms: u64,
    /// Retention of a group's congestion history, in milliseconds.
    pub stats_retention_ms: u64,
}

impl Default for Congestion {
    fn default() -> Self {
        Self {
            enabled: true,
            base_backoff_ms: BASE_BACKOFF_MS,
            max_backoff_ms: MAX_BACKOFF_MS,
            stats_retention_ms: STATS_RETENTION_MS,
        }
    }
}

impl Congestion {
    pub(crate) fn validate(&self) -> Result<(), OutOfRange> {
        within("congestion.base_backoff_ms", self.base_backoff_ms, 1, BACKOFF_MS_MAX)?;
        within("congestion.max_backoff_ms", self.max_backoff_ms, self.base_backoff_ms, BACKOFF_MS_MAX)?;
        within("congestion.stats_retention_ms", self.stats_retention_ms, 1000, STATS_RETENTION_MS_MAX)?;
        Ok(())
    }

    /// The most snapshots in a group's history: one per second.
    pub fn history_max(&self) -> u64 {
        self.stats_retention_ms / 1000
    }
}

/// How congested a group is, by the ratio of its backoff to the base.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CongestionLevel {
    /// At most the base.
    #[default]
    None,
    /// Below 3 times the base.
    Low,
    /// Below 10 times the base.
    Moderate,
    /// Below 30 times the base.
    High,
    /// At least 30 times the base.
    Critical,
}

impl CongestionLevel {
    /// The level for a ratio of backoff to base; `None` for a base of 0.
    pub fn classify(backoff_ms: u64, base_ms: u64) -> Self {
        if base_ms == 0 || backoff_ms <= base_ms {
            return Self::None;
        }
        match backoff_ms / base_ms {
            0..3 => Self::Low,
            3..10 => Self::Moderate,
            10..30 => Self::High,
            _ => Self::Critical,
        }
    }

    /// The name of the level as shown to users.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Low => "LOW",
            Self::Moderate => "MODERATE",
            Self::High => "HIGH",
            Self::Critical => "CRITICAL",
        }
    }
}

/// A backoff and the values it was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// The backoff, in milliseconds.
    pub backoff_ms: u64,
    /// The group's waiting jobs.
    pub waiting: u64,
    /// The group's speed in jobs per second, at least 1.
    pub speed: u64,
    /// The congestion level of this backoff.
    pub level: CongestionLevel,
}

impl Backoff {
    /// The backoff `base + floor(waiting / speed) × 1000`, at most the maximum.
    ///
    /// ```
    /// use fairlane_core::congestion::{Backoff, Congestion};
    /// assert_eq!(Backoff::calculate(500, 100, &Congestion::default()).backoff_ms, 6000);
    /// ```
    pub fn calculate(waiting: u64, speed: u64, settings: &Congestion) -> Self {
        let speed = speed.max(1);
        let backoff_ms = Self::unbounded_ms(waiting, speed, settings).min(settings.max_backoff_ms);
        let level = CongestionLevel::classify(backoff_ms, settings.base_backoff_ms);
        Self { backoff_ms, waiting, speed, level }
    }

    fn unbounded_ms(waiting: u64, speed: u64, settings: &Congestion) -> u64 {
        settings.base_backoff_ms.saturating_add((waiting / speed).saturating_mul(1000))
    }

    /// The delay of one job. Backoffs above the maximum are spread over its upper half, with
    /// neighbours far apart (by the golden ratio), so that the jobs do not return all at once.
    pub fn spread_ms(waiting: u64, speed: u64, settings: &Congestion) -> u64 {
        let wanted = Self::unbounded_ms(waiting, speed.max(1), settings);
        let most = settings.max_backoff_ms;
        if wanted <= most {
            return wanted;
        }
        let part = waiting % SPREAD_PARTS * SPREAD_STEP % SPREAD_PARTS;
        most - part * (most / 2) / SPREAD_PARTS
    }
}

/// The time that `waiting` jobs take at `speed` jobs per second, in milliseconds.
pub fn estimate_completion_ms(waiting: u64, speed: u64) -> u64 {
    waiting.div_ceil(speed.max(1)) * 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff(waiting: u64, speed: u64) -> Backoff {
        Backoff::calculate(waiting, speed, &Congestion::default())
    }

    #[test]
    fn a_first_waiting_job_waits_the_base() {
        assert_eq!((backoff(1, 10).backoff_ms, backoff(1, 10).level), (1000, CongestionLevel::None));
    }

    #[test]
    fn the_backoff_grows_in_steps_with_the_waiting_jobs() {
        assert_eq!(backoff(20, 10).backoff_ms, 3000);
        assert_eq!([500, 50, 10_000].map(|waiting| backoff(waiting, 100).backoff_ms), [6000, 1000, 101_000]);
    }

    #[test]
    fn the_backoff_never_exceeds_its_maximum() {
        assert_eq!(backoff(10_000, 1).backoff_ms, 120_000);
    }

    #[test]
    fn a_speed_of_nothing_counts_as_one() {
        assert_eq!((backoff(5, 0).speed, backoff(5, 0).backoff_ms), (1, 6000));
    }

    #[test]
    fn levels_follow_the_ratio_to_the_base() {
        use CongestionLevel::{Critical, High, Low, Moderate, None};
        let table = [
            (1000, None),
            (2000, Low),
            (2999, Low),
            (3000, Moderate),
            (9999, Moderate),
            (10_000, High),
            (29_999, High),
            (30_000, Critical),
            (120_000, Critical),
        ];
        for (backoff_ms, level) in table {
            assert_eq!(CongestionLevel::classify(backoff_ms, 1000), level, "{backoff_ms}");
        }
        assert_eq!(CongestionLevel::classify(5000, 0), None);
    }

    #[test]
    fn completion_is_estimated_in_whole_seconds() {
        assert_eq!(estimate_completion_ms(100, 10), 10_000);
        assert_eq!(estimate_completion_ms(5, 0), 5000);
        assert_eq!(estimate_completion_ms(15, 10), 2000);
    }

    /// Erratum Q22.
    #[test]
    fn jobs_cut_down_to_the_maximum_do_not_come_back_together() {
        let settings = Congestion::default();
        let waits: std::collections::BTreeSet<u64> =
            (2000..3000).map(|waiting| Backoff::spread_ms(waiting, 10, &settings)).collect();
        assert!(waits.len() >= 50, "{} different moments", waits.len());
        assert!(waits.iter().all(|ms| (60_000..=120_000).contains(ms)));
    }
}
