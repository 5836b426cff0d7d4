//! Completions over time, in constant memory.

/// Most points of a series; when there are more, each two points are merged into one.
const POINTS_MAX: usize = 512;

/// The number of jobs of a group done in each step of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    step_us: u64,
    counts: Vec<u64>,
}

impl Default for Series {
    fn default() -> Self {
        Self { step_us: 1000, counts: Vec::new() }
    }
}

impl Series {
    pub(crate) fn count(&mut self, at_us: u64) {
        while (at_us / self.step_us) as usize >= POINTS_MAX {
            self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
            self.step_us *= 2;
        }
        let index = (at_us / self.step_us) as usize;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
    }

    /// Seconds since the start of the run, and the number of jobs done by then. A stretch without a
    /// completion has a point at either end only.
    pub fn cumulative(&self) -> Vec<(f64, u64)> {
        let seconds = |index: usize| index as f64 * self.step_us as f64 / 1e6;
        let mut points = Vec::new();
        let mut total = 0;
        for (index, count) in self.counts.iter().enumerate() {
            if *count == 0 {
                continue;
            }
            if points.last().is_none_or(|(at, _)| *at < seconds(index)) {
                points.push((seconds(index), total));
            }
            total += count;
            points.push((seconds(index + 1), total));
        }
        points
    }

    /// The sum of both series.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        let step_us = self.step_us.max(other.step_us);
        let mut sum = Self { step_us, counts: Vec::new() };
        for series in [self, other] {
            for (index, count) in series.counts.iter().enumerate() {
                let index = (index as u64 * series.step_us / step_us) as usize;
                sum.counts.resize(sum.counts.len().max(index + 1), 0);
                sum.counts[index] += count;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_stays_small_and_loses_no_job() {
        let mut series = Series::default();
        for second in 0..100_000 {
            series.count(second * 1_000_000);
        }
        assert!(series.counts.len() <= POINTS_MAX);
        assert_eq!(series.cumulative().last().map(|point| point.1), Some(100_000));
        let doubled = series.plus(&Series { step_us: 1000, counts: vec![5] });
        assert_eq!(doubled.counts.iter().sum::<u64>(), 100_005);
    }

    #[test]
    fn a_quiet_stretch_has_a_point_at_either_end() {
        let series = Series { step_us: 1_000_000, counts: vec![1, 0, 0, 2] };
        assert_eq!(series.cumulative(), [(0.0, 0), (1.0, 1), (3.0, 1), (4.0, 3)]);
    }
}
