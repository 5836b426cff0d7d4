//! Jobs that arrive one by one: evenly spaced, or at random as a Poisson process.

use crate::generator::Generator;
use crate::steps::Steps;

/// The arrival times of one flow, in order, in microseconds of the run.
#[derive(Debug, Clone)]
pub struct Flow {
    rate: Steps,
    until_us: Option<u64>,
    jobs_left: Option<u64>,
    random: Option<Generator>,
    /// The exact time of the last arrival, not rounded, so that the spacing does not drift.
    position_us: f64,
    started: bool,
}

impl Flow {
    /// Makes a flow; with a generator, a Poisson process.
    pub fn new(
        rate: &Steps,
        until_us: Option<u64>,
        jobs_left: Option<u64>,
        random: Option<Generator>,
    ) -> Self {
        let rate = rate.clone();
        Self { rate, until_us, jobs_left, random, position_us: 0.0, started: false }
    }
}

impl Iterator for Flow {
    type Item = u64;

    /// When the next job arrives. An even flow begins with a job.
    fn next(&mut self) -> Option<u64> {
        if self.jobs_left == Some(0) {
            return None;
        }
        let distance = match &mut self.random {
            Some(generator) => generator.exponential(),
            None if self.started => 1.0,
            None => 0.0,
        };
        self.started = true;
        self.position_us = self.rate.after(self.position_us, distance)?;
        let at_us = self.position_us.ceil() as u64;
        if self.until_us.is_some_and(|until_us| at_us >= until_us) {
            return None;
        }
        self.jobs_left = self.jobs_left.map(|left| left - 1);
        Some(at_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_flow_keeps_its_spacing_and_ends() {
        let flow = Flow::new(&Steps::constant(3.0), Some(1_000_000), None, None);
        assert_eq!(flow.collect::<Vec<_>>(), [0, 333_334, 666_667]);
        let flow = Flow::new(&Steps::new(vec![(500, 1000.0)]), None, Some(3), None);
        assert_eq!(flow.collect::<Vec<_>>(), [500, 1500, 2500]);
    }

    #[test]
    fn a_stepping_flow_follows_its_steps() {
        let steps = Steps::new(vec![(0, 10.0), (1_000_000, 100.0)]);
        let flow: Vec<u64> = Flow::new(&steps, Some(2_000_000), None, None).collect();
        assert_eq!(flow.iter().filter(|at_us| **at_us < 1_000_000).count(), 10);
        assert_eq!(flow.len(), 110);
    }

    #[test]
    fn a_random_flow_keeps_its_mean() {
        let random = Generator::of(3, &[1]);
        let flow = Flow::new(&Steps::constant(50.0), Some(1_000_000_000), None, Some(random));
        assert!(flow.count().abs_diff(50_000) < 1_000);
    }
}
