//! How the rate of a type of jobs or of a waiting room responds to a downstream that answers 429.
//!
//! The first refusal of a flight cuts the rate: to the measured goodput if that is far below,
//! else by 15 %. Then the rate grows back along CUBIC's curve towards the rate before the
//! cut, and beyond it. The computation uses integers only, so that Lua and Rust give exactly
//! the same result.

use crate::limits::{
    BURST_US, CUBIC_DIVISOR, CUBIC_MS_MAX, CUT_RATE_MILLI_MIN, GOODPUT_BUCKET_MS, GOODPUT_BUCKETS, MILLI,
    RATE_COUNT_MAX, RETRY_AFTER_MS_MAX,
};
use crate::numbers::{Fence, Micros};
use crate::rate::{Flow, Rate};

const CUBE_MAX: u64 = CUBIC_MS_MAX * CUBIC_MS_MAX * CUBIC_MS_MAX;

/// A cut that is still in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub at: Micros,
    /// Refusals of jobs leased up to this fence do not cut again.
    pub fence: Fence,
    /// The rate before the cut, in thousandths of a job per second.
    pub plateau_milli: u64,
    /// When the curve reaches the plateau, in milliseconds.
    pub plateau_ms: u64,
}

/// What refusals and responses have shown about one type's downstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Downstream {
    pub(crate) cut: Option<Cut>,
    /// The end of Retry-After; no job of the type is leased before.
    pub(crate) closed_until: Micros,
    /// The number of the newest goodput bucket: units of 100 ms since the Unix epoch.
    pub(crate) goodput_at: u64,
    /// Responses that were not refusals. Bucket `i` counts those of the 100 ms with
    /// number `i` modulo 10.
    pub(crate) goodput: [u64; GOODPUT_BUCKETS],
}

impl Downstream {
    /// Counts `answers` responses that were not refusals.
    pub(crate) fn count_goodput(&mut self, answers: u64, now: Micros) {
        self.turn_buckets(now);
        self.goodput[self.goodput_at as usize % GOODPUT_BUCKETS] += answers;
    }

    /// Responses of the last second that were not refusals.
    pub(crate) fn answers(&self, now: Micros) -> u64 {
        self.clone().goodput_milli(now) / MILLI
    }

    /// The cut as Redis stores it.
    pub(crate) fn cut_text(&self) -> String {
        self.cut.map_or(String::new(), |cut| {
            format!("{}:{}:{}:{}", cut.at.0, cut.fence, cut.plateau_milli, cut.plateau_ms)
        })
    }

    /// The counters of goodput as Redis stores them.
    pub(crate) fn goodput_text(&self) -> String {
        let mut texts = vec![self.goodput_at.to_string()];
        texts.extend(self.goodput.iter().map(u64::to_string));
        texts.join(":")
    }

    /// Responses of the last second, in thousandths per second.
    fn goodput_milli(&mut self, now: Micros) -> u64 {
        self.turn_buckets(now);
        self.goodput.iter().sum::<u64>() * MILLI
    }

    fn turn_buckets(&mut self, now: Micros) {
        let current = now.as_millis() / GOODPUT_BUCKET_MS;
        let passed = current.saturating_sub(self.goodput_at);
        if current < self.goodput_at || passed >= GOODPUT_BUCKETS as u64 {
            self.goodput = [0; GOODPUT_BUCKETS];
        } else {
            for step in 0..passed {
                self.goodput[(current - step) as usize % GOODPUT_BUCKETS] = 0;
            }
        }
        self.goodput_at = current;
    }

    /// Handles one refusal of a job leased under `fence`; `newest` is the last fence issued.
    pub(crate) fn refused(
        &mut self,
        rate: Option<Rate>,
        fence: Fence,
        newest: Fence,
        retry_after_ms: u64,
        now: Micros,
    ) {
        if self.cut.is_none_or(|cut| fence > cut.fence) {
            self.cut_rate(rate, newest, now);
        }
        if retry_after_ms > 0 {
            self.closed_until = self.closed_until.max(now.plus_ms(retry_after_ms));
        }
    }

    /// Ends a Retry-After early; the rate grows back from its current value. Returns false if
    /// the type was open.
    pub(crate) fn reopen(&mut self, now: Micros) -> bool {
        let closed = self.closed_until > now;
        self.closed_until = self.closed_until.min(now);
        closed
    }

    fn cut_rate(&mut self, rate: Option<Rate>, newest: Fence, now: Micros) {
        let goodput = self.goodput_milli(now);
        let before = self.rate_milli(rate, now).unwrap_or(goodput.max(CUT_RATE_MILLI_MIN));
        let unlimited = rate.is_none() && self.cut.is_none();
        let after =
            if unlimited || goodput * 10 < before * 7 { goodput * 95 / 100 } else { before * 85 / 100 };
        let after = after.max(CUT_RATE_MILLI_MIN);
        let fall = before.saturating_sub(after).min(CUBE_MAX / CUBIC_DIVISOR);
        let plateau_ms = cube_root(fall * CUBIC_DIVISOR);
        self.cut = Some(Cut { at: now, fence: newest, plateau_milli: before, plateau_ms });
    }

    /// The current rate in thousandths of a job per second; `None` means unlimited. Forgets a cut
    /// that has healed.
    pub(crate) fn rate_milli(&mut self, rate: Option<Rate>, now: Micros) -> Option<u64> {
        let configured = rate.map(Rate::milli_per_second);
        let Some(cut) = self.cut.as_mut() else { return configured };
        cut.at = cut.at.min(now);
        let cut = *cut;
        self.closed_until = self.closed_until.min(now.plus_ms(RETRY_AFTER_MS_MAX));
        let grown_ms = now.since(cut.at.max(self.closed_until)) / 1000;
        let distance_ms = grown_ms.abs_diff(cut.plateau_ms).min(CUBIC_MS_MAX);
        let step = distance_ms * distance_ms * distance_ms / CUBIC_DIVISOR;
        let grown = if grown_ms < cut.plateau_ms {
            cut.plateau_milli.saturating_sub(step)
        } else {
            cut.plateau_milli + step
        };
        let grown = grown.clamp(CUT_RATE_MILLI_MIN, RATE_COUNT_MAX * MILLI);
        if configured.is_some_and(|configured| grown >= configured) {
            self.cut = None;
            return configured;
        }
        Some(grown)
    }

    /// The current flow of the type's bucket; `None` means unlimited.
    pub(crate) fn flow(&mut self, rate: Option<Rate>, now: Micros) -> Option<Flow> {
        let milli = self.rate_milli(rate, now)?;
        if self.cut.is_none() {
            return rate.map(Rate::flow);
        }
        let period_ms = rate.map_or(1000, Rate::period_ms);
        let job_units = MILLI * period_ms * 1000;
        let burst = 1 + (milli * BURST_US).div_ceil(MILLI * 1_000_000);
        let burst = burst.min(rate.map_or(burst, Rate::burst));
        Some(Flow { units_per_us: milli * period_ms / 1000, job_units, capacity: burst * job_units })
    }
}

/// The largest integer whose cube is at most `value`, which is at most 2^51.
fn cube_root(value: u64) -> u64 {
    let mut root = (value as f64).cbrt() as u64;
    while root * root * root > value {
        root -= 1;
    }
    while (root + 1) * (root + 1) * (root + 1) <= value {
        root += 1;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Micros = Micros(1_700_000_000_000_000);

    /// The curve starts within a thousandth of the cut, because its length is a whole number
    /// of milliseconds.
    fn assert_about(rate_milli: Option<u64>, expected: u64) {
        let rate_milli = rate_milli.unwrap();
        assert!(rate_milli.abs_diff(expected) <= expected / 1000, "{rate_milli} is not about {expected}");
    }

    fn hundred() -> Option<Rate> {
        Some(Rate::per_second(100).unwrap())
    }

    #[test]
    fn cube_roots_are_exact() {
        for root in [0_u64, 1, 2, 3, 1000, 99_999, 131_071, 131_072] {
            let cube = root * root * root;
            assert_eq!(cube_root(cube), root);
            assert_eq!(cube_root(cube + 1), if root == 0 { 1 } else { root });
            if root > 0 {
                assert_eq!(cube_root(cube - 1), root - 1);
            }
        }
    }

    /// Erratum Q30.
    #[test]
    fn a_refusal_cuts_the_rate_once_per_flight_and_it_grows_back() {
        let mut downstream = Downstream::default();
        downstream.count_goodput(90, START);
        downstream.refused(hundred(), Fence(5), Fence(9), 0, START);
        assert_about(downstream.rate_milli(hundred(), START), 85_000);
        downstream.refused(hundred(), Fence(9), Fence(12), 0, START);
        assert_about(downstream.rate_milli(hundred(), START), 85_000);
        downstream.refused(hundred(), Fence(10), Fence(12), 0, START);
        assert_about(downstream.rate_milli(hundred(), START), 72_250);
        let later = START.plus_ms(60_000);
        assert_eq!(downstream.rate_milli(hundred(), later), Some(100_000));
        assert_eq!(downstream.cut, None);
    }

    #[test]
    fn a_cut_far_above_goodput_falls_to_goodput() {
        let mut downstream = Downstream::default();
        downstream.count_goodput(30, START);
        downstream.refused(hundred(), Fence(5), Fence(9), 0, START);
        assert_about(downstream.rate_milli(hundred(), START), 28_500);
    }

    /// Erratum Q30.
    #[test]
    fn growth_stands_still_while_retry_after_closes_the_gate() {
        let mut downstream = Downstream::default();
        downstream.count_goodput(90, START);
        downstream.refused(hundred(), Fence(5), Fence(9), 10_000, START);
        assert_eq!(downstream.closed_until, START.plus_ms(10_000));
        assert_about(downstream.rate_milli(hundred(), START.plus_ms(9_999)), 85_000);
        assert!(downstream.rate_milli(hundred(), START.plus_ms(11_000)) > Some(86_000));
    }

    #[test]
    fn an_unlimited_type_is_limited_by_its_first_refusal() {
        let mut downstream = Downstream::default();
        downstream.count_goodput(50, START);
        downstream.refused(None, Fence(5), Fence(9), 0, START);
        let flow = downstream.flow(None, START).unwrap();
        assert_about(Some(flow.units_per_us), 47_500);
        assert_eq!(flow.capacity, 2 * flow.job_units);
    }

    #[test]
    fn goodput_forgets_what_is_older_than_a_second() {
        let mut downstream = Downstream::default();
        downstream.count_goodput(7, START);
        assert_eq!(downstream.goodput_milli(START.plus_ms(899)), 7000);
        assert_eq!(downstream.goodput_milli(START.plus_ms(1000)), 0);
        downstream.count_goodput(3, START);
        assert_eq!(downstream.goodput_milli(START), 3000, "a clock that stepped back starts anew");
    }
}
