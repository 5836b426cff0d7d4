//! A rate that is constant between steps: true limits, and arrivals that change over time.
//!
//! Before its first step the rate is zero; after its last step it does not change.

/// A piecewise constant rate, in jobs per second over microseconds of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    /// The start of each step in microseconds and its rate in jobs per second, ordered by time.
    steps: Vec<(u64, f64)>,
}

impl Steps {
    /// Makes a rate of steps that are ordered by time.
    pub fn new(steps: Vec<(u64, f64)>) -> Self {
        debug_assert!(steps.is_sorted_by_key(|(from_us, _)| *from_us));
        Self { steps }
    }

    /// A rate that never changes.
    pub fn constant(per_second: f64) -> Self {
        Self::new(vec![(0, per_second)])
    }

    /// The rate at a time.
    pub fn at(&self, at_us: u64) -> f64 {
        self.steps.iter().take_while(|(from_us, _)| *from_us <= at_us).last().map_or(0.0, |step| step.1)
    }

    /// The sum of both rates at every time.
    pub fn plus(&self, other: &Self) -> Self {
        self.joined(other, |a, b| a + b)
    }

    /// The lower of both rates at every time.
    pub fn least(&self, other: &Self) -> Self {
        self.joined(other, f64::min)
    }

    fn joined(&self, other: &Self, join: fn(f64, f64) -> f64) -> Self {
        let mut moments: Vec<u64> = self.steps.iter().chain(&other.steps).map(|step| step.0).collect();
        moments.sort_unstable();
        moments.dedup();
        Self::new(moments.into_iter().map(|at| (at, join(self.at(at), other.at(at)))).collect())
    }

    /// The same steps, this much later.
    pub fn shifted(&self, by_us: u64) -> Self {
        Self::new(self.steps.iter().map(|(from_us, rate)| (from_us + by_us, *rate)).collect())
    }

    /// The number of jobs between two times: the integral of the rate.
    pub fn between(&self, from_us: f64, until_us: f64) -> f64 {
        let mut jobs = 0.0;
        for (index, (start, rate)) in self.steps.iter().enumerate() {
            let end = self.steps.get(index + 1).map_or(f64::INFINITY, |next| next.0 as f64);
            let length = until_us.min(end) - from_us.max(*start as f64);
            if length > 0.0 {
                jobs += length * rate / 1e6;
            }
        }
        jobs
    }

    /// The time at which `jobs` have arrived since `from_us`; `None` if they never do.
    pub fn after(&self, from_us: f64, jobs: f64) -> Option<f64> {
        let mut left = jobs;
        for (index, (start, rate)) in self.steps.iter().enumerate() {
            let end = self.steps.get(index + 1).map_or(f64::INFINITY, |next| next.0 as f64);
            let begin = from_us.max(*start as f64);
            if end <= begin || *rate <= 0.0 {
                continue;
            }
            let reached = begin + left * 1e6 / rate;
            if reached <= end {
                return Some(reached);
            }
            left -= (end - begin) * rate / 1e6;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Steps {
        Steps::new(vec![(0, 30.0), (10_000_000, 10.0), (20_000_000, 40.0)])
    }

    #[test]
    fn an_integral_follows_the_steps() {
        assert_eq!(steps().between(0.0, 30e6), 300.0 + 100.0 + 400.0);
        assert_eq!(steps().between(5e6, 15e6), 150.0 + 50.0);
        assert_eq!(Steps::new(vec![(5_000_000, 2.0)]).between(0.0, 6e6), 2.0);
    }

    #[test]
    fn the_time_after_a_number_of_jobs_is_the_inverse_of_the_integral() {
        for jobs in [1.0, 299.0, 300.0, 350.0, 401.0, 10_000.0] {
            let at = steps().after(0.0, jobs).unwrap();
            assert!((steps().between(0.0, at) - jobs).abs() < 1e-6);
        }
        assert_eq!(Steps::new(vec![(0, 1.0), (1_000_000, 0.0)]).after(0.0, 2.0), None);
    }

    #[test]
    fn two_rates_are_combined_at_every_step() {
        let least = steps().least(&Steps::constant(20.0));
        assert_eq!([least.at(0), least.at(10_000_000), least.at(20_000_000)], [20.0, 10.0, 20.0]);
        assert_eq!(steps().plus(&steps()).at(25_000_000), 80.0);
    }
}
