//! Rates and the token buckets that enforce them.
//!
//! A bucket's level is an integer: it grows by `count × 1000` units per microsecond, and a job
//! costs `period_us × 1000` units. "10 per minute" is therefore as exact as "100 per second", and
//! nothing drifts. A stored time in the future (the clock stepped back) counts as now.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{
    BUCKET_UNITS_MAX, BURST_US, MILLI, PARK_MS_MAX, RATE_COUNT_MAX, RATE_PERIOD_MS_MAX, RATE_PERIOD_MS_MIN,
};
use crate::numbers::{Micros, OutOfRange, within};

/// At most `count` jobs per period, and `burst` at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(u64, u64, u64)", into = "(u64, u64, u64)")]
pub struct Rate {
    count: u64,
    period_ms: u64,
    burst: u64,
}

/// The form that people write: `50/s`, `10/min`, `5/10s`, `500/s burst 20`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.count)?;
        match self.period_ms {
            1000 => f.write_str("s")?,
            60_000 => f.write_str("min")?,
            3_600_000 => f.write_str("h")?,
            86_400_000 => f.write_str("day")?,
            ms if ms.is_multiple_of(1000) => write!(f, "{}s", ms / 1000)?,
            ms => write!(f, "{ms}ms")?,
        }
        match Self::new(self.count, self.period_ms, None) == Ok(*self) {
            true => Ok(()),
            false => write!(f, " burst {}", self.burst),
        }
    }
}

impl Rate {
    /// A rate. The default burst is one job plus what the rate allows in 20 ms, so that a caller
    /// that comes slightly late loses none of it. At one job per second or less the loss is
    /// negligible, so the default is one job at a time.
    pub fn new(count: u64, period_ms: u64, burst: Option<u64>) -> Result<Self, OutOfRange> {
        within("the count of a rate", count, 1, RATE_COUNT_MAX)?;
        within("the period of a rate in ms", period_ms, RATE_PERIOD_MS_MIN, RATE_PERIOD_MS_MAX)?;
        let period_us = period_ms * 1000;
        let burst_max = BUCKET_UNITS_MAX / (MILLI * period_us);
        let default = || match count * 1000 <= period_ms {
            true => 1,
            false => (1 + (count * BURST_US).div_ceil(period_us)).min(burst_max),
        };
        let burst = burst.unwrap_or_else(default);
        within("the burst of a rate (with this period)", burst, 1, burst_max)?;
        Ok(Self { count, period_ms, burst })
    }

    /// `count` jobs per second with the default burst.
    pub fn per_second(count: u64) -> Result<Self, OutOfRange> {
        Self::new(count, 1000, None)
    }

    /// Jobs per period.
    pub fn count(self) -> u64 {
        self.count
    }

    /// The period, in milliseconds.
    pub fn period_ms(self) -> u64 {
        self.period_ms
    }

    /// Jobs that may start at once.
    pub fn burst(self) -> u64 {
        self.burst
    }

    /// Thousandths of a job per second, rounded down.
    pub fn milli_per_second(self) -> u64 {
        self.count * MILLI * 1000 / self.period_ms
    }

    /// The rate in units of a bucket.
    pub fn flow(self) -> Flow {
        let job_units = MILLI * self.period_ms * 1000;
        Flow { units_per_us: self.count * MILLI, job_units, capacity: self.burst * job_units }
    }
}

impl TryFrom<(u64, u64, u64)> for Rate {
    type Error = OutOfRange;
    /// Converts `(count, period_ms, burst)`.
    fn try_from((count, period_ms, burst): (u64, u64, u64)) -> Result<Self, OutOfRange> {
        Self::new(count, period_ms, Some(burst))
    }
}

impl From<Rate> for (u64, u64, u64) {
    fn from(rate: Rate) -> Self {
        (rate.count, rate.period_ms, rate.burst)
    }
}

/// A rate in units of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Units that flow in per microsecond.
    pub units_per_us: u64,
    /// Units that one job costs.
    pub job_units: u64,
    /// Units that the bucket holds at most.
    pub capacity: u64,
}

/// The level of a token bucket at an instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Units in the bucket.
    pub level: u64,
    /// The instant of that level.
    pub at: Micros,
}

impl Bucket {
    /// The full bucket of a rate that was not used yet.
    pub fn full(flow: Flow, now: Micros) -> Self {
        Self { level: flow.capacity, at: now }
    }

    /// Adds what has flowed in since the last refill.
    pub fn refill(&mut self, flow: Flow, now: Micros) {
        let fill_us = flow.capacity.div_ceil(flow.units_per_us);
        let elapsed_us = now.since(self.at).min(fill_us);
        self.level = (self.level + elapsed_us * flow.units_per_us).min(flow.capacity);
        self.at = now;
    }

    /// Jobs that can pass now.
    pub fn slots(&self, flow: Flow) -> u64 {
        self.level / flow.job_units
    }

    /// Takes `jobs` slots, which must be available.
    pub fn take(&mut self, flow: Flow, jobs: u64) {
        self.level -= jobs * flow.job_units;
    }

    /// When slots for `jobs` jobs are free, or for half the burst if that is less: waiting
    /// for a full bucket would lose what flows in until the worker arrives. At most the
    /// longest park from now.
    pub fn wake(&self, flow: Flow, jobs: u64) -> Micros {
        let burst = flow.capacity / flow.job_units;
        let need = jobs.min((burst / 2).max(1)) * flow.job_units;
        let wait_us = need.saturating_sub(self.level).div_ceil(flow.units_per_us);
        self.at.plus_us(wait_us.min(PARK_MS_MAX * 1000))
    }

    /// Adapts the bucket to a changed rate: equal rates change nothing, otherwise whole jobs carry
    /// over, up to the burst.
    pub fn change_rate(&mut self, from: Option<Rate>, to: Option<Rate>, now: Micros) {
        match (from.map(Rate::flow), to.map(Rate::flow)) {
            _ if from == to => {}
            (Some(from), Some(to)) => {
                self.refill(from, now);
                self.level = (self.slots(from) * to.job_units).min(to.capacity);
            }
            (None, Some(to)) => *self = Self::full(to, now),
            (_, None) => *self = Self::default(),
        }
    }
}

/// The form in Redis.
impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.at.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Micros = Micros(1_700_000_000_000_000);

    /// Erratum Q21.
    #[test]
    fn no_window_boundary_lets_twice_the_rate_through() {
        let rate = Rate::new(100, 1000, Some(3)).unwrap();
        let mut bucket = Bucket::full(rate.flow(), START);
        let mut passed = Vec::new();
        for step in 0..30_000_u64 {
            let now = START.plus_us(step * 100);
            bucket.refill(rate.flow(), now);
            if bucket.slots(rate.flow()) > 0 {
                bucket.take(rate.flow(), 1);
                passed.push(now);
            }
        }
        for (index, first) in passed.iter().enumerate() {
            let within_second = passed[index..].iter().take_while(|at| at.since(*first) < 1_000_000);
            assert!(within_second.count() <= 103);
        }
        assert_eq!(passed.len(), 302);
    }

    #[test]
    fn ten_per_minute_is_exact() {
        let rate = Rate::new(10, 60_000, Some(1)).unwrap();
        let mut bucket = Bucket::full(rate.flow(), START);
        bucket.take(rate.flow(), 1);
        assert_eq!(bucket.wake(rate.flow(), 5), START.plus_us(6_000_000));
        bucket.refill(rate.flow(), START.plus_us(5_999_999));
        assert_eq!(bucket.slots(rate.flow()), 0);
        bucket.refill(rate.flow(), START.plus_us(6_000_000));
        assert_eq!(bucket.slots(rate.flow()), 1);
    }

    #[test]
    fn a_clock_that_steps_back_heals_at_once() {
        let rate = Rate::per_second(10).unwrap();
        let mut bucket = Bucket { level: 0, at: START.plus_ms(3_600_000) };
        bucket.refill(rate.flow(), START);
        assert_eq!(bucket, Bucket { level: 0, at: START });
        bucket.refill(rate.flow(), START.plus_ms(100));
        assert_eq!(bucket.slots(rate.flow()), 1);
    }

    #[test]
    fn errors_state_the_bounds() {
        assert_eq!(
            Rate::per_second(0).unwrap_err().to_string(),
            "the count of a rate must be between 1 and 1000000, not 0"
        );
        assert!(Rate::new(1, 999, None).is_err());
        assert!(Rate::new(1, RATE_PERIOD_MS_MAX, Some(27)).is_err());
        assert_eq!(Rate::per_second(1000).unwrap().burst(), 21);
        assert_eq!(Rate::per_second(2).unwrap().burst(), 2);
        assert_eq!(Rate::per_second(1).unwrap().burst(), 1);
        assert_eq!(Rate::new(60, 60_000, None).unwrap().burst(), 1);
        assert_eq!(Rate::new(1, 60_000, None).unwrap().burst(), 1);
    }
}
