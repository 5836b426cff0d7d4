//! What the engines tell about themselves, through the facades `metrics` and `tracing`.
//!
//! - `observe/names.rs`: every metric, with its labels and its meaning. `docs/metrics.md` says the same.
//! - `observe/meters.rs`: an engine's handles and hooks. `observe/replies.rs`: counts and events of replies.
//!
//! An engine takes its handles when it is opened, so that a command costs no look-up: install the recorder
//! first, or what that engine counts goes nowhere. Gauges need someone who looks: poll
//! [`observe_whole`](../trait.Engine.html#method.observe_whole), and for a bounded list of groups
//! [`group_gauges`]. Left out on purpose: exporters, and reconnections, which the client does not tell.

mod meters;
pub mod names;
mod replies;

use fairlane_core::congestion::CongestionLevel;
use fairlane_core::queue::{
    CongestionView, GroupView, Inspect, Inspected, LaneStanding, Suspect, TypeView, WholeView,
};
use fairlane_core::{GroupId, Level, TypeId};
use metrics::{counter, gauge};

use crate::engine::{Engine, EngineError, Space};
pub(crate) use meters::Meters;
pub use meters::Seldom;
use names::Kind;

/// The target of every event.
pub const TARGET: &str = "fairlane";

/// Every level of congestion, calmest first.
const LEVELS: [CongestionLevel; 5] = [
    CongestionLevel::None,
    CongestionLevel::Low,
    CongestionLevel::Moderate,
    CongestionLevel::High,
    CongestionLevel::Critical,
];

/// Borders, in seconds, for an exporter that counts durations in buckets: from 100 µs to 10 s.
pub const DURATION_SECONDS_BUCKETS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// Borders, in seconds, for waits and backoffs: the levels of congestion, the longest backoff, and beyond.
pub const WAIT_SECONDS_BUCKETS: [f64; 12] =
    [0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 60.0, 119.0, 600.0, 3600.0, 86400.0];

/// Tells the installed recorder the unit and meaning of every metric.
pub fn describe() {
    for metric in names::METRICS {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.unit, metric.help),
        }
    }
}

/// Sets the gauges of the whole.
pub fn gauges(whole: &WholeView) {
    for level in Level::ALL {
        let groups = whole.active_lanes[level.index()];
        gauge!(names::QUEUE_GROUPS, "priority" => level.as_str()).set(groups as f64);
    }
    for (name, number) in [
        (names::BACKLOG, whole.backlog),
        (names::BACKLOG_LIMIT, whole.settings.whole_backlog_max),
        (names::STORED_BYTES, whole.stored_bytes),
        (names::STORED_BYTES_LIMIT, whole.settings.stored_bytes_max),
        (names::WAITING, whole.waiting),
        (names::IN_FLIGHT, whole.in_flight),
        (names::PARKED_LANES, whole.parked_lanes),
        (names::COMPLETED, whole.completed),
        (names::DEAD_KEPT, whole.failed),
        (names::ACTIVE_GROUPS, whole.active_groups),
        (names::AGGREGATING, whole.aggregating),
        (names::SWEEPING, whole.sweeping),
    ] {
        gauge!(name).set(number as f64);
    }
    gauge!(names::BACKOFF_LIMIT).set(whole.settings.congestion.max_backoff_ms as f64 / 1000.0);
    counter!(names::SAVED_SPINS).absolute(whole.saved_spins);
}

/// Sets the gauges of how full the store is.
pub fn space_gauges(space: Space) {
    gauge!(names::STORE_USED).set(space.used_bytes as f64);
    gauge!(names::STORE_LIMIT).set(space.limit_bytes as f64);
}

/// Sets the gauges of a type; there are at most 64.
pub fn type_gauges(name: &TypeId, view: &TypeView) {
    let rate = view.rate_milli.map_or(f64::INFINITY, |milli| milli as f64 / 1000.0);
    let closed = if view.closed_until.is_some() { 1.0 } else { 0.0 };
    gauge!(names::TYPE_IN_FLIGHT, "type" => name.to_string()).set(view.in_flight as f64);
    gauge!(names::TYPE_RATE, "type" => name.to_string()).set(rate);
    gauge!(names::TYPE_CLOSED, "type" => name.to_string()).set(closed);
}

/// Sets the gauges of a group. Each group is a label of its own: call this for a bounded list, such as those
/// with the largest backlogs, and [`forget_group`] for one that has left it.
pub fn group_gauges(name: &GroupId, view: &GroupView, congestion: &CongestionView) {
    let figures = [
        view.backlog as f64,
        view.in_flight as f64,
        non_ready_jobs(view) as f64,
        congestion.backoff_ms as f64 / 1000.0,
        congestion.throttles_per_job(),
    ];
    set_group_gauges(name, figures, Some(congestion.level));
}

/// Sets the gauges of a group that is no longer watched to zero; a recorder would show its last ones for ever.
pub fn forget_group(name: &GroupId) {
    set_group_gauges(name, [0.0; 5], None);
}

/// Pending jobs that cannot be served now: those not due, and those in lanes that stand aside.
fn non_ready_jobs(group: &GroupView) -> u64 {
    let active = group.lanes.iter().filter(|lane| lane.standing == LaneStanding::Active);
    let ready: u64 = active.map(|lane| lane.backlog + lane.returned).sum();
    group.backlog.saturating_sub(ready)
}

fn set_group_gauges(group: &GroupId, figures: [f64; 5], level: Option<CongestionLevel>) {
    let group = group.to_string();
    let names = [
        names::GROUP_PENDING,
        names::GROUP_IN_FLIGHT,
        names::NON_READY,
        names::GROUP_BACKOFF,
        names::GROUP_THROTTLES,
    ];
    for (name, figure) in names.into_iter().zip(figures) {
        gauge!(name, "group_id" => group.clone()).set(figure);
    }
    for one in LEVELS {
        let here = if level == Some(one) { 1.0 } else { 0.0 };
        gauge!(names::CONGESTION_LEVEL, "group_id" => group.clone(), "level" => one.as_str()).set(here);
    }
}

impl dyn Engine {
    /// Looks at the whole and at every type, and sets their gauges; to be called every few seconds by one
    /// process. A look is a command like any other: one for the whole, one for each type.
    pub async fn observe_whole(&self) -> Result<WholeView, EngineError> {
        let whole = match self.inspect(Inspect::Whole).await? {
            Inspected::Whole(whole) => whole,
            _ => return Err(another_view()),
        };
        gauges(&whole);
        for name in &whole.types {
            match self.inspect(Inspect::Type(name.clone())).await? {
                Inspected::Type(view) => view.iter().for_each(|view| type_gauges(name, view)),
                _ => return Err(another_view()),
            }
        }
        Ok(whole)
    }
}

fn another_view() -> EngineError {
    EngineError::broken("inspect was answered with a view that was not asked for")
}

/// What scripts that failed midway had left was audited and repaired.
pub(crate) fn half_written_repaired(findings: usize, too_large: &[Suspect]) {
    tracing::warn!(target: TARGET, findings, "groups repaired");
    // They are too large to be recounted in one step; an audit of an idle queue can.
    for suspect in too_large {
        tracing::error!(target: TARGET, %suspect, "counts not repaired");
    }
}

/// What scripts that failed midway had left could not be repaired.
pub(crate) fn half_written_not_repaired(error: &EngineError) {
    tracing::error!(target: TARGET, %error, "groups not repaired");
}

/// A script had to be sent whole. Rare, so that the handle is looked up.
pub(crate) fn script_resent(script: &'static str) {
    counter!(names::SCRIPTS_RESENT, "script" => script).increment(1);
    tracing::debug!(target: TARGET, script, "script sent whole");
}

/// What an operator should know about a server's settings.
pub(crate) fn server_warnings(engine: &str, warnings: &[String]) {
    for warning in warnings {
        tracing::warn!(target: TARGET, engine, warning, "server setting");
    }
}
