//! The score of the `classic` discipline, which orders groups by age, base priority and progress.
//!
//! `-now_ms + base_priority + alpha × (-1 + total / max(1, total - done))`, largest first. The fair
//! order sorts by tags, smallest first, so a group's tag is a constant above all scores minus its
//! score. The computation uses integers only, so that the script gives exactly the same result.

use crate::limits::{ALPHA_MAX, BASE_PRIORITY_MAX, BOOST_MAX, PROGRESS_JOBS_MAX, SCORE_CENTRE};
use crate::numbers::Micros;

/// The inputs of a group's score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Base priority, added to the score.
    pub base_priority: i64,
    /// Jobs of the current run, which began when the group was last idle.
    pub total: u64,
    /// Of these, jobs that have ended.
    pub done: u64,
}

/// A group's score at `now`; groups with larger scores are served first.
///
/// ```
/// use fairlane_core::Micros;
/// use fairlane_core::classic::{Progress, score};
/// let now = Micros::from_millis(1_706_000_000_000);
/// let half = Progress { base_priority: 0, total: 1000, done: 500 };
/// assert_eq!(score(half, 10_000, now), -1_706_000_000_000 + 10_000);
/// ```
pub fn score(group: Progress, alpha: i64, now: Micros) -> i64 {
    let total = group.total.min(PROGRESS_JOBS_MAX);
    let left = total.saturating_sub(group.done).max(1);
    let progress = total.max(1) - left;
    debug_assert!(
        alpha.unsigned_abs() <= ALPHA_MAX && group.base_priority.unsigned_abs() <= BASE_PRIORITY_MAX
    );
    let boost = (alpha * progress as i64).div_euclid(left as i64).clamp(-BOOST_MAX, BOOST_MAX);
    group.base_priority + boost - now.as_millis() as i64
}

/// The score as a tag of the fair order: smaller is served first, and never negative.
pub fn tag(group: Progress, alpha: i64, now: Micros) -> u64 {
    (SCORE_CENTRE - score(group, alpha, now)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Micros = Micros::from_millis(1_706_000_000_000);

    fn group(base_priority: i64, total: u64, done: u64) -> Progress {
        Progress { base_priority, total, done }
    }

    #[test]
    fn a_later_stamp_scores_lower() {
        let later = Micros::from_millis(1_706_001_000_000);
        assert!(score(group(0, 100, 0), 10_000, later) < score(group(0, 100, 0), 10_000, NOW));
    }

    #[test]
    fn a_base_priority_scores_higher() {
        assert!(score(group(1_000_000, 100, 0), 10_000, NOW) > score(group(0, 100, 0), 10_000, NOW));
        assert!(score(group(-1_000_000, 100, 0), 10_000, NOW) < score(group(0, 100, 0), 10_000, NOW));
    }

    #[test]
    fn with_positive_alpha_the_nearly_finished_go_first() {
        assert!(score(group(0, 100, 95), 10_000, NOW) > score(group(0, 100, 5), 10_000, NOW));
    }

    #[test]
    fn with_negative_alpha_the_much_served_step_back() {
        assert!(score(group(0, 100, 95), -10_000, NOW) < score(group(0, 100, 5), -10_000, NOW));
    }

    #[test]
    fn the_boost_is_alpha_times_done_over_remaining() {
        let boost = |done| score(group(0, 1000, done), 10_000, NOW) + NOW.as_millis() as i64;
        assert_eq!((boost(0), boost(500), boost(990)), (0, 10_000, 990_000));
        assert_eq!(score(group(0, 0, 0), 10_000, NOW), -(NOW.as_millis() as i64), "a group without jobs");
    }

    #[test]
    fn no_score_leaves_the_range_of_tags() {
        for (base, alpha) in
            [(BASE_PRIORITY_MAX as i64, ALPHA_MAX as i64), (-(BASE_PRIORITY_MAX as i64), -(ALPHA_MAX as i64))]
        {
            let most = group(base, u64::MAX, u64::MAX);
            assert!(tag(most, alpha, NOW) < crate::limits::INTEGER_MAX);
        }
    }
}
