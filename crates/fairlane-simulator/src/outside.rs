//! The outside: a downstream with a true limit that the queue is not told.
//!
//! It keeps a bucket that fills at the limit of the moment and is some seconds deep. A call reaches
//! it when its job starts; when the bucket is empty it answers 429. A refusal takes as long as a
//! call would have, unless `refusal_ms` says otherwise. Without Retry-After the refused job is set
//! aside for a random time up to `retry_delay_ms`; with it, for what it says.

use crate::generator::Generator;
use crate::scenario::DownstreamPart;

/// One downstream.
#[derive(Debug)]
pub struct Outside<'a> {
    part: &'a DownstreamPart,
    generator: Generator,
    level: f64,
    at_us: u64,
}

/// What a call will be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Done { after_us: u64 },
    Refused { after_us: u64, delay_ms: u64, retry_after_ms: u64 },
}

impl Answer {
    /// How long the call takes.
    pub fn after_us(self) -> u64 {
        match self {
            Self::Done { after_us } | Self::Refused { after_us, .. } => after_us,
        }
    }
}

impl<'a> Outside<'a> {
    /// A downstream whose bucket is full.
    pub fn new(part: &'a DownstreamPart, generator: Generator) -> Self {
        Self { part, generator, level: part.limit.at(0) * part.depth_seconds, at_us: 0 }
    }

    /// Answers one call that takes `after_us` if it is not refused.
    pub fn call(&mut self, after_us: u64, now_us: u64) -> Answer {
        self.fill(now_us);
        // A hair below one: sums of fractions must not refuse a call that is exactly on time.
        if self.level >= 1.0 - 1e-9 {
            self.level -= 1.0;
            return Answer::Done { after_us };
        }
        let after_us = self.part.refusal_us.unwrap_or(after_us);
        let retry_after_ms = if self.part.retry_after { self.retry_after_ms(now_us) } else { 0 };
        let delay_ms = match retry_after_ms {
            0 => self.generator.between(1, self.part.retry_delay_ms),
            ms => ms,
        };
        Answer::Refused { after_us, delay_ms, retry_after_ms }
    }

    fn fill(&mut self, now_us: u64) {
        let filled = self.part.limit.between(self.at_us as f64, now_us as f64);
        let depth = (self.part.limit.at(now_us) * self.part.depth_seconds).max(1.0);
        self.level = (self.level + filled).min(depth);
        self.at_us = now_us;
    }

    /// Whole seconds until there is room again, as the header has it.
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
    fn it_takes_what_its_bucket_holds_and_then_its_rate() {
        let part = part(false);
        let mut outside = Outside::new(&part, Generator::of(1, &[]));
        let mut taken = |at_us| {
            let answers = (0..20).map(|_| outside.call(SERVICE_US, at_us));
            answers.filter(|answer| *answer == Answer::Done { after_us: SERVICE_US }).count()
        };
        assert_eq!([taken(0), taken(100_000), taken(350_000), taken(10_000_000)], [5, 1, 2, 5]);
    }

    #[test]
    fn a_refusal_says_when_to_come_back_if_it_is_that_kind() {
        let sixth = |part: &DownstreamPart| {
            let mut outside = Outside::new(part, Generator::of(1, &[]));
            (0..6).map(|_| outside.call(SERVICE_US, 0)).last()
        };
        let expected = Answer::Refused { after_us: 5_000, delay_ms: 1000, retry_after_ms: 1000 };
        assert_eq!(sixth(&part(true)), Some(expected));
        let silent = sixth(&part(false));
        let Some(Answer::Refused { delay_ms, retry_after_ms: 0, .. }) = silent else { panic!("{silent:?}") };
        assert!((1..=200).contains(&delay_ms));
    }
}
