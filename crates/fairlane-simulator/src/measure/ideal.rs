//! The shortest time in which the jobs could have been done.
//!
//! Jobs are treated as a fluid that flows at the limit as soon as they have arrived. Each type has
//! its own limit and all types together have one. The ideal end is the latest of these, plus one
//! service time. When all jobs arrive at once this is jobs / limit + one service time. Pauses,
//! groups' own limits and the number of workers are not taken into account.

use crate::scenario::Part;
use crate::steps::Steps;

/// The ideal end of the jobs so far.
#[derive(Debug)]
pub struct Ideal {
    /// The pipe of the queue, then that of each type.
    pipes: Vec<Pipe>,
    group_types: Vec<usize>,
    service_us: f64,
}

#[derive(Debug)]
struct Pipe {
    limit: Option<Steps>,
    end_us: f64,
}

impl Pipe {
    fn take(&mut self, jobs: u64, now_us: u64) {
        if let Some(limit) = &self.limit {
            let begin_us = self.end_us.max(now_us as f64);
            self.end_us = limit.after(begin_us, jobs as f64).unwrap_or(f64::INFINITY);
        }
    }
}

impl Ideal {
    /// The ideal end before any job has arrived.
    pub fn new(part: &Part) -> Self {
        let queue = part.queue_per_second().map(Steps::constant);
        let types = part.types.iter().map(|part| part.limit());
        let pipes = [queue].into_iter().chain(types).map(|limit| Pipe { limit, end_us: 0.0 });
        let longest = part.types.iter().map(|part| part.service.mean_us()).fold(0.0, f64::max);
        Self {
            pipes: pipes.collect(),
            group_types: part.groups.iter().map(|group| group.type_index).collect(),
            service_us: longest,
        }
    }

    /// Records jobs that have arrived.
    pub fn arrived(&mut self, group: usize, jobs: u64, now_us: u64) {
        self.pipes[0].take(jobs, now_us);
        self.pipes[1 + self.group_types[group]].take(jobs, now_us);
    }

    /// When all jobs could have been done, in microseconds; `None` without a limit.
    pub fn end_us(&self) -> Option<f64> {
        let limited = self.pipes.iter().filter(|pipe| pipe.limit.is_some());
        limited.map(|pipe| pipe.end_us).reduce(f64::max).map(|end_us| end_us + self.service_us)
    }
}
