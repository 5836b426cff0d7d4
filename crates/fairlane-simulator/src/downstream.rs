//! A downstream with a true limit that the queue does not know.
//!
//! It has a token bucket that fills at the current limit and holds a few seconds of it. A call
//! reaches it when its job starts; when the bucket is empty it responds with 429. A rejection takes
//! as long as a call would have, unless `refusal_ms` is set. Without Retry-After the rejected job
//! is delayed for a random time up to `retry_delay_ms`; with it, for the time in Retry-After.

use crate::generator::Generator;
use crate::scenario::DownstreamPart;

/// One downstream.
#[derive(Debug)]
pub struct Downstream<'a> {
    part: &'a DownstreamPart,
    generator: Generator,
    level: f64,
    at_us: u64,
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult {
    Done { after_us: u64 },
    Refused { after_us: u64, delay_ms: u64, retry_after_ms: u64 },
}

impl CallResult {
    /// How long the call takes, in microseconds.
    pub fn after_us(self) -> u64 {
        match self {
            Self::Done { after_us } | Self::Refused { after_us, .. } => after_us,
        }
    }
}

impl<'a> Downstream<'a> {
    /// A downstream with a full bucket.
    pub fn new(part: &'a DownstreamPart, generator: Generator) -> Self {
        Self { part, generator, level: part.limit.at(0) * part.depth_seconds, at_us: 0 }
    }

    /// Makes one call that takes `after_us` if it is not rejected.
    pub fn call(&mut self, after_us: u64, now_us: u64) -> CallResult {
        self.fill(now_us);
        // Slightly below one: rounding must not reject a call that is exactly on time.
        if self.level >= 1.0 - 1e-9 {
            self.level -= 1.0;
            return CallResult::Done { after_us };
        }
        let after_us = self.part.refusal_us.unwrap_or(after_us);
        let retry_after_ms = if self.part.retry_after { self.retry_after_ms(now_us) } else { 0 };
        let delay_ms = match retry_after_ms {
            0 => self.generator.between(1, self.part.retry_delay_ms),
            ms => ms,
        };
        CallResult::Refused { after_us, delay_ms, retry_after_ms }
    }

    fn fill(&mut self, now_us: u64) {
        let filled = self.part.limit.between(self.at_us as f64, now_us as f64);
        let depth = (self.part.limit.at(now_us) * self.part.depth_seconds).max(1.0);
        self.level = (self.level + filled).min(depth);
        self.at_us = now_us;
    }

    /// The time until there is room again, in whole seconds as in the header, in milliseconds.
    fn retry_after_ms(&self, now_us: u64) -> u64 {
        let room_us = self.part.limit.after(now_us as f64, 1.0 - self.level);
        let wait_us = room_us.map_or(0.0, |room_us| room_us - now_us as f64);
        ((wait_us / 1e6).ceil().max(1.0) as u64 * 1000).min(fairlane_core::limits::RETRY_AFTER_MS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Steps;

    const SERVICE_US: u64 = 100_000;

    fn part(retry_after: bool) -> DownstreamPart {
        DownstreamPart {
            limit: Steps::constant(10.0),
            depth_seconds: 0.5,
            retry_after,
            refusal_us: Some(5_000),
            retry_delay_ms: 200,
        }
    }

    #[test]
    fn a_downstream_accepts_its_bucket_and_then_its_rate() {
        let part = part(false);
        let mut downstream = Downstream::new(&part, Generator::of(1, &[]));
        let mut accepted = |at_us| {
            let results = (0..20).map(|_| downstream.call(SERVICE_US, at_us));
            results.filter(|result| *result == CallResult::Done { after_us: SERVICE_US }).count()
        };
        assert_eq!([accepted(0), accepted(100_000), accepted(350_000), accepted(10_000_000)], [5, 1, 2, 5]);
    }

    #[test]
    fn a_rejection_has_retry_after_if_the_downstream_sends_it() {
        let sixth = |part: &DownstreamPart| {
            let mut downstream = Downstream::new(part, Generator::of(1, &[]));
            (0..6).map(|_| downstream.call(SERVICE_US, 0)).last()
        };
        let expected = CallResult::Refused { after_us: 5_000, delay_ms: 1000, retry_after_ms: 1000 };
        assert_eq!(sixth(&part(true)), Some(expected));
        let silent = sixth(&part(false));
        let Some(CallResult::Refused { delay_ms, retry_after_ms: 0, .. }) = silent else {
            panic!("{silent:?}")
        };
        assert!((1..=200).contains(&delay_ms));
    }
}
