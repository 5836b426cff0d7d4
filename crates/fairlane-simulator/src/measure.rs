//! Measurements during the run of a part.
//!
//! The event loop reports what happens; measurements do not influence it.

mod entitlement;
mod ideal;
mod windows;

pub use entitlement::Entitlement;
pub use ideal::Ideal;

use std::collections::VecDeque;

use crate::report::Series;
use crate::scenario::Part;
use windows::Windows;

/// The measurements of one run.
#[derive(Debug)]
pub struct Measure {
    pub groups: Vec<GroupMeasure>,
    pub entitlement: Entitlement,
    pub ideal: Ideal,
    pub windows: Windows,
    pub completed: u64,
    pub started: u64,
    pub refused: u64,
    pub set_aside: u64,
    pub first_arrival_us: Option<u64>,
    pub last_start_us: u64,
    pub last_done_us: u64,
    pub starts_per_second_most: u64,
    starts: VecDeque<(u64, u64)>,
    starts_within: u64,
}

/// The measurements of one group.
#[derive(Debug, Default)]
pub struct GroupMeasure {
    pub jobs: u64,
    pub completed: u64,
    pub first_arrival_us: Option<u64>,
    pub first_done_us: Option<u64>,
    pub last_done_us: Option<u64>,
    pub waits_us: Vec<u64>,
    pub series: Series,
}

impl Measure {
    /// The measurements before the first event.
    pub fn new(part: &Part) -> Self {
        Self {
            groups: part.groups.iter().map(|_| GroupMeasure::default()).collect(),
            entitlement: Entitlement::new(part),
            ideal: Ideal::new(part),
            windows: Windows::new(part),
            completed: 0,
            started: 0,
            refused: 0,
            set_aside: 0,
            first_arrival_us: None,
            last_start_us: 0,
            last_done_us: 0,
            starts_per_second_most: 0,
            starts: VecDeque::new(),
            starts_within: 0,
        }
    }

    /// Advances to `now_us`; no later event is before it.
    pub fn advance(&mut self, now_us: u64) {
        self.windows.advance(now_us, &mut self.entitlement);
    }

    /// Records that jobs were enqueued.
    pub fn arrived(&mut self, group: usize, jobs: u64, now_us: u64) {
        self.first_arrival_us.get_or_insert(now_us);
        self.groups[group].jobs += jobs;
        self.groups[group].first_arrival_us.get_or_insert(now_us);
        self.entitlement.arrived(group, jobs);
        self.ideal.arrived(group, jobs, now_us);
    }

    /// Records that a job was leased and its call made. Its wait counts only if the call is
    /// accepted.
    pub fn started(&mut self, group: usize, wait_us: u64, refused: bool, now_us: u64) {
        self.entitlement.served(group);
        self.started += 1;
        self.last_start_us = now_us;
        self.count_start(now_us);
        if refused {
            self.refused += 1;
        } else {
            self.groups[group].waits_us.push(wait_us);
        }
    }

    /// Records that the call of a job was rejected, and the job waits to be served again.
    pub fn returned(&mut self, group: usize) {
        self.entitlement.arrived(group, 1);
    }

    /// Records that a job was done.
    pub fn done(&mut self, group: usize, now_us: u64) {
        self.completed += 1;
        self.last_done_us = now_us;
        let group = &mut self.groups[group];
        group.completed += 1;
        group.first_done_us.get_or_insert(now_us);
        group.last_done_us = Some(now_us);
        group.series.count(now_us);
    }

    /// Updates the busiest second so far, over every second that ends with a start.
    fn count_start(&mut self, now_us: u64) {
        match self.starts.back_mut() {
            Some((at_us, count)) if *at_us == now_us => *count += 1,
            _ => self.starts.push_back((now_us, 1)),
        }
        self.starts_within += 1;
        while let Some((at_us, count)) = self.starts.front()
            && at_us + 1_000_000 <= now_us
        {
            self.starts_within -= count;
            self.starts.pop_front();
        }
        self.starts_per_second_most = self.starts_per_second_most.max(self.starts_within);
    }
}
