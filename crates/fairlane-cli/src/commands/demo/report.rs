//! The report of the demo.

use std::sync::atomic::Ordering;

use fairlane_core::queue::QueueView;
use serde::Serialize;

use super::ledger::{History, Ledger};
use crate::failure::Failure;
use crate::percentiles::percentile;
use crate::tables::{counted, thousands};

/// The report of a run.
#[derive(Debug, Serialize)]
pub struct DemoReport {
    /// The kind of engine.
    pub engine: &'static str,
    /// Jobs that the engine accepted, that did not succeed, and that are not in the store either.
    pub lost: u64,
    /// Jobs that the engine accepted and that have not succeeded.
    pub remaining: u64,
    /// Jobs that ran or succeeded more than once.
    pub duplicated: u64,
    /// Jobs that the store counts as completed.
    pub store_completed: u64,
    /// Jobs that the store counts as unfinished or failed.
    pub store_left: u64,
    /// Rejected settlements, and executions of jobs that were never enqueued.
    pub strays: u64,
    /// Whether Ctrl-C ended the run.
    pub stopped: bool,
    /// The time from the first enqueue to the last settlement.
    pub seconds: f64,
    /// The customers, by letter.
    pub groups: Vec<GroupReport>,
}

/// The report of one customer.
#[derive(Debug, Serialize)]
pub struct GroupReport {
    /// The group of the customer.
    pub group: String,
    /// Jobs that the engine accepted.
    pub enqueued: u64,
    /// Jobs that succeeded.
    pub completed: u64,
    /// The median time from enqueue to start.
    pub wait_p50_ms: Option<f64>,
    /// The 99th percentile of the time from enqueue to start.
    pub wait_p99_ms: Option<f64>,
    /// When the first job was enqueued, from the start of the run.
    pub arrived_ms: Option<f64>,
    /// When the last job was done, from the start of the run.
    pub last_done_ms: Option<f64>,
    /// The median time from enqueue to start with all customers in one plain queue.
    pub plain_wait_p50_ms: Option<f64>,
    /// The order in which customers finished, from 1.
    pub finished_place: Option<usize>,
}

impl DemoReport {
    /// Compares the ledger with the store's counts.
    pub fn new(ledger: &Ledger, engine: &'static str, queue: &QueueView, stopped: bool) -> Self {
        let every = || (0..ledger.customers()).flat_map(|customer| ledger.histories(customer));
        let accepted = || every().filter(|history| history.enqueued_us.load(Ordering::Relaxed) > 0);
        let remaining =
            accepted().filter(|history| history.successes.load(Ordering::Relaxed) == 0).count() as u64;
        let store_left = queue.backlog + queue.in_flight + queue.failed;
        let twice = |history: &&History| {
            history.executions.load(Ordering::Relaxed) > 1 || history.successes.load(Ordering::Relaxed) > 1
        };
        let last_us = every().map(|history| history.done_us.load(Ordering::Relaxed)).max();
        let mut groups: Vec<GroupReport> =
            (0..ledger.customers()).map(|customer| group_report(ledger, customer)).collect();
        set_finished_places(&mut groups);
        Self {
            engine,
            lost: remaining.saturating_sub(store_left),
            remaining,
            duplicated: every().filter(twice).count() as u64,
            store_completed: queue.completed,
            store_left,
            strays: ledger.strays(),
            stopped,
            seconds: last_us.unwrap_or(0) as f64 / 1e6,
            groups,
        }
    }

    /// Adds the waits of a run in which all customers shared one plain queue.
    pub fn compare_with(&mut self, plain: &Self) {
        for (group, plain) in self.groups.iter_mut().zip(&plain.groups) {
            group.plain_wait_p50_ms = plain.wait_p50_ms;
        }
    }

    /// An error unless all three counts agree that no job was lost or run twice.
    pub fn verdict(&self) -> Result<(), Failure> {
        let completed: u64 = self.groups.iter().map(|group| group.completed).sum();
        if self.stopped && self.lost == 0 && self.duplicated == 0 {
            let (left, store) = (thousands(self.remaining), thousands(self.store_left));
            return Err(Failure::Stopped(format!(
                "{} done, {left} remain ({store} by the store's count)",
                counted(completed, "job")
            )));
        }
        if self.is_sound() {
            return Ok(());
        }
        Err(Failure::broken(format!(
            "the counts do not agree: {} lost, {} twice, {} strays; handlers completed {completed}, \
             the store has {} completed and {} left",
            self.lost, self.duplicated, self.strays, self.store_completed, self.store_left
        )))
    }

    /// Whether no job was lost or run twice, and the store's counts agree.
    pub fn is_sound(&self) -> bool {
        let completed: u64 = self.groups.iter().map(|group| group.completed).sum();
        // Beyond this number the store may have removed the oldest jobs.
        let kept_least = completed.min(fairlane_core::limits::COMPLETED_KEPT_MAX);
        self.remaining == 0
            && self.duplicated == 0
            && self.strays == 0
            && self.store_left == 0
            && (kept_least..=completed).contains(&self.store_completed)
    }
}

impl GroupReport {
    fn is_finished(&self) -> bool {
        self.enqueued > 0 && self.completed == self.enqueued
    }
}

fn group_report(ledger: &Ledger, customer: usize) -> GroupReport {
    let histories = ledger.histories(customer);
    let times = |of: fn(&History) -> u64| histories.iter().map(of).filter(|us| *us > 0);
    let mut waits_us: Vec<u64> = histories.iter().filter_map(wait_us).collect();
    GroupReport {
        group: ledger.group(customer).to_string(),
        enqueued: ledger.enqueued(customer),
        completed: times(|history| history.done_us.load(Ordering::Relaxed)).count() as u64,
        wait_p50_ms: percentile(&mut waits_us, 500).map(milliseconds),
        wait_p99_ms: percentile(&mut waits_us, 990).map(milliseconds),
        arrived_ms: times(|history| history.enqueued_us.load(Ordering::Relaxed)).min().map(milliseconds),
        last_done_ms: times(|history| history.done_us.load(Ordering::Relaxed)).max().map(milliseconds),
        plain_wait_p50_ms: None,
        finished_place: None,
    }
}

fn wait_us(history: &History) -> Option<u64> {
    let started_us = history.started_us.load(Ordering::Relaxed);
    (started_us > 0).then(|| started_us.saturating_sub(history.enqueued_us.load(Ordering::Relaxed)))
}

fn milliseconds(us: u64) -> f64 {
    us as f64 / 1000.0
}

fn set_finished_places(groups: &mut [GroupReport]) {
    let mut finished: Vec<usize> = (0..groups.len()).filter(|index| groups[*index].is_finished()).collect();
    finished.sort_by(|a, b| groups[*a].last_done_ms.partial_cmp(&groups[*b].last_done_ms).expect("no NaN"));
    for (position, index) in finished.into_iter().enumerate() {
        groups[index].finished_place = Some(position + 1);
    }
}
