//! The floor in memory.

use std::collections::VecDeque;

use fairlane_core::queue::{JobRef, NewJob};
use rustc_hash::{FxHashMap, FxHashSet};

/// First in, first out, each id once.
#[derive(Default)]
pub struct PlainQueue {
    seen: FxHashSet<JobRef>,
    waiting: VecDeque<NewJob>,
    leased: FxHashMap<JobRef, NewJob>,
}

impl PlainQueue {
    /// Adds the jobs whose id is new.
    pub fn enqueue(&mut self, jobs: &[NewJob]) {
        for job in jobs {
            if self.seen.insert(job.job.clone()) {
                self.waiting.push_back(job.clone());
            }
        }
    }

    /// Leases the oldest jobs.
    pub fn pop(&mut self, jobs_max: usize) -> Vec<NewJob> {
        let count = jobs_max.min(self.waiting.len());
        let jobs: Vec<NewJob> = self.waiting.drain(..count).collect();
        self.leased.extend(jobs.iter().map(|job| (job.job.clone(), job.clone())));
        jobs
    }

    /// Forgets leased jobs.
    pub fn acknowledge(&mut self, jobs: &[NewJob]) {
        for job in jobs {
            self.leased.remove(&job.job);
            self.seen.remove(&job.job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::workload::Workload;
    use super::*;

    #[test]
    fn the_floor_accepts_an_id_once_and_leases_each_job_once() {
        let mut floor = PlainQueue::default();
        let jobs = Workload::new(1).batch(0, 3);
        floor.enqueue(&jobs);
        floor.enqueue(&jobs);
        let popped = floor.pop(10);
        assert_eq!(popped, jobs);
        floor.acknowledge(&popped);
        assert!(floor.leased.is_empty() && floor.seen.is_empty() && floor.pop(10).is_empty());
    }
}
