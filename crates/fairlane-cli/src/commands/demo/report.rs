//! What the demo found out.

use std::sync::atomic::Ordering;

use fairlane_core::queue::WholeView;
use serde::Serialize;

use super::ledger::{History, Ledger};
use crate::failure::Failure;
use crate::percentiles::percentile;
use crate::tables::thousands;

/// The whole run.
#[derive(Debug, Serialize)]
pub struct DemoReport {
    /// Where the queue lived.
    pub engine: &'static str,
    /// Jobs that were taken by the engine, did not succeed, and are not in the store either.
    pub lost: u64,
    /// Jobs that were taken by the engine and did not succeed (yet).
    pub remaining: u64,
    /// Jobs that ran or succeeded more than once.
    pub duplicated: u64,
    /// Jobs the store itself counts as completed.
    pub store_completed: u64,
    /// Jobs the store itself counts as unfinished or failed.
    pub store_left: u64,
    /// Settlements refused, or executions of jobs nobody enqueued.
    pub strays: u64,
    /// Whether Ctrl-C ended it.
    pub stopped: bool,
    /// From the first enqueue to the last settlement.
    pub seconds: f64,
    /// In the order of their letters.
    pub groups: Vec<GroupReport>,
}

/// One customer.
#[derive(Debug, Serialize)]
pub struct GroupReport {
    /// Who.
    pub group: String,
    /// Jobs the engine took.
    pub enqueued: u64,
    /// Jobs that succeeded.
    pub completed: u64,
    /// Half of them started within this time of being enqueued.
    pub wait_p50_ms: Option<f64>,
    /// 99 in 100 did.
    pub wait_p99_ms: Option<f64>,
    /// When the first job was enqueued, since the start.
    pub arrived_ms: Option<f64>,
    /// When the last job was done, since the start.
    pub last_done_ms: Option<f64>,
    /// Part of all starts while every customer had jobs waiting.
    pub share_while_all_waited: Option<f64>,
    /// 1 for the customer that was done first.
    pub finished_place: Option<usize>,
}

impl DemoReport {
    /// Reads the ledger, and holds the store's counts against it.
    pub fn new(ledger: &Ledger, engine: &'static str, whole: &WholeView, stopped: bool) -> Self {
        let every = || (0..ledger.customers()).flat_map(|customer| ledger.histories(customer));
        let taken = || every().filter(|history| history.enqueued_us.load(Ordering::Relaxed) > 0);
        let remaining =
            taken().filter(|history| history.successes.load(Ordering::Relaxed) == 0).count() as u64;
        let store_left = whole.backlog + whole.in_flight + whole.failed;
        let twice = |history: &&History| {
            history.executions.load(Ordering::Relaxed) > 1 || history.successes.load(Ordering::Relaxed) > 1
        };
        let last_us = every().map(|history| history.done_us.load(Ordering::Relaxed)).max();
        let mut groups: Vec<GroupReport> =
            (0..ledger.customers()).map(|customer| group_report(ledger, customer)).collect();
        place(&mut groups);
        note_shares(ledger, &mut groups);
        Self {
            engine,
            lost: remaining.saturating_sub(store_left),
            remaining,
            duplicated: every().filter(twice).count() as u64,
            store_completed: whole.completed,
            store_left,
            strays: ledger.strays(),
            stopped,
            seconds: last_us.unwrap_or(0) as f64 / 1e6,
            groups,
        }
    }

    /// Whether all three counts agree that nothing was lost and nothing done twice.
    pub fn verdict(&self) -> Result<(), Failure> {
        let completed: u64 = self.groups.iter().map(|group| group.completed).sum();
        if self.stopped && self.lost == 0 && self.duplicated == 0 {
            let (left, store) = (thousands(self.remaining), thousands(self.store_left));
            return Err(Failure::Stopped(format!(
                "{} jobs are done, {left} remain ({store} by the store's count)",
                thousands(completed)
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

    /// Nothing lost, nothing twice, and the store agrees.
    pub fn is_sound(&self) -> bool {
        let completed: u64 = self.groups.iter().map(|group| group.completed).sum();
        // Beyond so many the store may have let the oldest go.
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
        share_while_all_waited: None,
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

fn place(groups: &mut [GroupReport]) {
    let mut finished: Vec<usize> = (0..groups.len()).filter(|index| groups[*index].is_finished()).collect();
    finished.sort_by(|a, b| groups[*a].last_done_ms.partial_cmp(&groups[*b].last_done_ms).expect("no NaN"));
    for (place, index) in finished.into_iter().enumerate() {
        groups[index].finished_place = Some(place + 1);
    }
}

/// All waited from the moment the last customer was there until the first had nothing left to start.
fn note_shares(ledger: &Ledger, groups: &mut [GroupReport]) {
    let started = |customer: usize| {
        let histories = ledger.histories(customer).iter();
        histories.map(|history| history.started_us.load(Ordering::Relaxed)).filter(|us| *us > 0)
    };
    let last_enqueued = |customer: usize| {
        let histories = ledger.histories(customer).iter();
        histories.map(|history| history.enqueued_us.load(Ordering::Relaxed)).max().unwrap_or(0)
    };
    let customers = 0..groups.len();
    let from_us = customers.clone().map(last_enqueued).max().unwrap_or(0);
    let until_us = customers.clone().map(|customer| started(customer).max().unwrap_or(0)).min().unwrap_or(0);
    let counts: Vec<usize> = customers
        .map(|customer| started(customer).filter(|us| (from_us..=until_us).contains(us)).count())
        .collect();
    let total: usize = counts.iter().sum();
    for (group, count) in groups.iter_mut().zip(counts) {
        group.share_while_all_waited = (total > 0).then(|| count as f64 / total as f64);
    }
}
