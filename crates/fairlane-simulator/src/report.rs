//! The results of one part.
//!
//! The comments on the fields and `docs/simulator.md` explain each number. A number that does not
//! apply to a part (no limit, nothing served) is `None`, or `null` in JSON.

mod plot;
mod series;
mod table;

pub use plot::plot_svg;
pub use series::Series;
pub use table::{compared_rows, group_rows, summary_rows};

use serde::Serialize;

use crate::measure::{GroupMeasure, Measure};
use crate::scenario::{FIFO, Part};

/// The report of one part.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartReport {
    /// The scenario's name.
    pub scenario: String,
    /// The part's name.
    pub part: String,
    /// The discipline of the queue.
    pub discipline: &'static str,
    /// The weight of progress in a score; `None` for disciplines without scores.
    pub alpha: Option<i64>,
    /// When the last job was done, divided by the ideal time. That is jobs / limit + one service
    /// time when all jobs arrive at once, else what a flow at the limit would have needed for these
    /// arrivals. The limit is the declared rate or the downstream's true one, whichever is lower;
    /// where it changes, its integral. `None` when not all jobs were done.
    pub completion_over_ideal: Option<f64>,
    /// Number of times per job that the queue's own gate set aside a job after it had been picked.
    /// `share` parks lanes instead, so it is 0, but it is measured. In `classic`, refusals of the
    /// window.
    pub throttles_per_job: f64,
    /// Number of times per job that the downstream responded with 429.
    pub refusals_per_job: f64,
    /// Jain's index over the part of its entitlement that each group was served: 1 is perfectly
    /// fair.
    pub jain: Option<f64>,
    /// Job starts in the busiest second, whenever it begins, divided by the declared limit for a
    /// second plus the declared burst.
    pub peak_over_limit: Option<f64>,
    /// Job starts that were not rejected, divided by what the limit allowed between the first
    /// arrival and the last start. The first burst can raise it slightly above 1.
    pub utilisation: Option<f64>,
    /// The groups, in the order of the file.
    pub groups: Vec<GroupReport>,
}

/// The report of one group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupReport {
    /// The group's name.
    pub group: String,
    /// Number of jobs it enqueued.
    pub jobs: u64,
    /// Number of these jobs that were done.
    pub completed: u64,
    /// When its first job was enqueued, in milliseconds since the start of the run.
    pub first_arrival_ms: Option<f64>,
    /// When its first job was done, in milliseconds since the start of the run.
    pub first_done_ms: Option<f64>,
    /// When its last job was done, in milliseconds since the start of the run.
    pub last_done_ms: Option<f64>,
    /// The median wait of its jobs from enqueue to the start of the successful call, in
    /// milliseconds.
    pub wait_p50_ms: Option<f64>,
    /// The 99th percentile of these waits, in milliseconds.
    pub wait_p99_ms: Option<f64>,
    /// The same percentile in a run without the groups of `alone_without`, with the same arrivals.
    pub alone_wait_p99_ms: Option<f64>,
    /// Its fraction of all cost served.
    pub share: f64,
    /// The fraction it was entitled to. Each unit served is divided, at that moment, by weight
    /// among the groups of that type that had jobs to serve, and between levels by their weights.
    pub fair_share: f64,
    /// The smallest part of its entitlement that it was served in any ten seconds during which it
    /// always had jobs to serve. `None` if there were no such ten seconds, or if it has a limit of
    /// its own.
    pub least_window_share: Option<f64>,
    /// Its completions over time.
    #[serde(skip)]
    pub series: Series,
}

impl PartReport {
    pub(crate) fn new(scenario: &str, part: &Part, measure: &Measure) -> Self {
        let jobs: u64 = measure.groups.iter().map(|group| group.jobs).sum();
        let served = measure.started - measure.refused;
        let per_job = |count: u64| ratio(count as f64 / served.max(1) as f64);
        let peak = part.starts_per_second_max().map(|most| measure.starts_per_second_most as f64 / most);
        let ideal_us = measure.ideal.end_us().filter(|_| measure.completed == jobs && jobs > 0);
        let groups = (0..part.groups.len()).map(|group| GroupReport::new(group, part, measure));
        Self {
            scenario: scenario.to_owned(),
            part: part.name.clone(),
            discipline: if part.is_fifo { FIFO } else { part.discipline.as_str() },
            alpha: part.is_classic().then_some(part.classic.alpha),
            completion_over_ideal: ideal_us.map(|ideal_us| ratio(measure.last_done_us as f64 / ideal_us)),
            throttles_per_job: per_job(measure.set_aside),
            refusals_per_job: per_job(measure.refused),
            jain: measure.entitlement.jain().map(ratio),
            peak_over_limit: peak.map(ratio),
            utilisation: utilisation(part, measure),
            groups: groups.collect(),
        }
    }

    /// The scenario and the part, and the discipline if it is not the default.
    pub(crate) fn title(&self) -> String {
        let rules = match (self.discipline, self.alpha) {
            (rules, Some(alpha)) => format!(", {rules} at alpha {alpha}"),
            (FIFO, None) => format!(", {FIFO}"),
            _ => String::new(),
        };
        format!("{}, part {}{rules}", self.scenario, self.part)
    }

    /// The discipline, with alpha if it has one.
    pub(crate) fn rules(&self) -> String {
        match self.alpha {
            None => self.discipline.into(),
            Some(alpha) => format!("{}, alpha {alpha}", self.discipline),
        }
    }

    /// When the last job of all groups was done, in milliseconds since the start of the run.
    pub(crate) fn last_done_ms(&self) -> Option<f64> {
        self.groups.iter().filter_map(|group| group.last_done_ms).reduce(f64::max)
    }

    /// Adds the waits that groups had in the run without the others.
    pub(crate) fn add_alone(&mut self, part: &Part, measure: &Measure) {
        for (group, measured) in part.groups.iter().zip(&measure.groups) {
            let [_, p99] = wait_percentiles(measured);
            let report = self.groups.iter_mut().find(|report| report.group == group.name);
            report.expect("a part alone has no groups of its own").alone_wait_p99_ms = p99;
        }
    }
}

impl GroupReport {
    fn new(group: usize, part: &Part, measure: &Measure) -> Self {
        let measured = &measure.groups[group];
        let [p50, p99] = wait_percentiles(measured);
        let (share, fair_share) = measure.entitlement.shares(group);
        Self {
            group: part.groups[group].name.clone(),
            jobs: measured.jobs,
            completed: measured.completed,
            first_arrival_ms: measured.first_arrival_us.map(milliseconds),
            first_done_ms: measured.first_done_us.map(milliseconds),
            last_done_ms: measured.last_done_us.map(milliseconds),
            wait_p50_ms: p50,
            wait_p99_ms: p99,
            alone_wait_p99_ms: None,
            share: ratio(share),
            fair_share: ratio(fair_share),
            least_window_share: measure.windows.least(group).map(ratio),
            series: measured.series.clone(),
        }
    }
}

fn utilisation(part: &Part, measure: &Measure) -> Option<f64> {
    let first_us = measure.first_arrival_us? as f64;
    let allowed = part.limit()?.between(first_us, measure.last_start_us as f64);
    let served = (measure.started - measure.refused) as f64;
    (allowed > 0.0).then(|| ratio(served / allowed))
}

/// The 50th and 99th percentile of a group's waits, in milliseconds.
fn wait_percentiles(group: &GroupMeasure) -> [Option<f64>; 2] {
    let mut waits_us = group.waits_us.clone();
    waits_us.sort_unstable();
    [50, 99].map(|percent| {
        let rank = (waits_us.len() * percent).div_ceil(100);
        rank.checked_sub(1).map(|index| milliseconds(waits_us[index]))
    })
}

fn milliseconds(us: u64) -> f64 {
    us as f64 / 1000.0
}

/// Rounds to six decimals; more would be noise.
fn ratio(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}
