//! Metrics and events of the engines, through the facades `metrics` and `tracing`.
//!
//! - `observe/names.rs`: every metric with its labels and its meaning, as in `docs/metrics.md`.
//! - `observe/meters.rs`: an engine's handles and hooks. `observe/queue.rs`: counts and
//!   events of the queue. `observe/lock.rs`: counts of locks.
//!
//! An engine obtains its handles when it is opened, so that a command needs no lookup. Install the
//! recorder first, or the counts of the engine are lost. Gauges need a caller: poll
//! [`observe_queue`](../trait.Engine.html#method.observe_queue), and [`group_gauges`] for a
//! bounded list of groups. Left out on purpose: exporters, and reconnections, which the client
//! does not report.

mod lock;
mod meters;
pub mod names;
mod queue;

use fairlane_core::congestion::CongestionLevel;
use fairlane_core::queue::{
    CongestionView, GroupView, InspectQueue, InspectType, LaneStanding, QueueView, Suspect, TypeView,
};
use fairlane_core::ranking::BoardView;
use fairlane_core::room::RoomView;
use fairlane_core::{GroupId, Level, TypeId};
use metrics::{counter, gauge};

use crate::engine::{Engine, EngineError, Space};
pub use lock::{lock_held, lock_waited};
pub(crate) use meters::Meters;
pub use meters::Seldom;
use names::Kind;

/// The target of every event.
pub const TARGET: &str = "fairlane";

/// Every congestion level, lowest first.
const LEVELS: [CongestionLevel; 5] = [
    CongestionLevel::None,
    CongestionLevel::Low,
    CongestionLevel::Moderate,
    CongestionLevel::High,
    CongestionLevel::Critical,
];

/// Bucket boundaries for durations in an exporter, in seconds: from 100 µs to 10 s.
pub const DURATION_SECONDS_BUCKETS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// Bucket boundaries for waits and backoffs, in seconds: the congestion levels, the longest
/// backoff, and beyond.
pub const WAIT_SECONDS_BUCKETS: [f64; 12] =
    [0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 60.0, 119.0, 600.0, 3600.0, 86400.0];

/// Registers the unit and meaning of every metric with the installed recorder.
pub fn describe() {
    for metric in names::METRICS {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.help),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.help),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.unit, metric.help),
        }
    }
}

/// Sets the gauges of the queue.
pub fn gauges(queue: &QueueView) {
    for level in Level::ALL {
        let groups = queue.active_lanes[level.index()];
        gauge!(names::QUEUE_GROUPS, "priority" => level.as_str()).set(groups as f64);
    }
    for (name, number) in [
        (names::BACKLOG, queue.backlog),
        (names::BACKLOG_LIMIT, queue.settings.queue_backlog_max),
        (names::STORED_BYTES, queue.stored_bytes),
        (names::STORED_BYTES_LIMIT, queue.settings.stored_bytes_max),
        (names::WAITING, queue.waiting),
        (names::IN_FLIGHT, queue.in_flight),
        (names::PARKED_LANES, queue.parked_lanes),
        (names::COMPLETED, queue.completed),
        (names::DEAD_KEPT, queue.failed),
        (names::ACTIVE_GROUPS, queue.active_groups),
        (names::AGGREGATING, queue.aggregating),
        (names::SWEEPING, queue.sweeping),
    ] {
        gauge!(name).set(number as f64);
    }
    gauge!(names::BACKOFF_LIMIT).set(queue.settings.congestion.max_backoff_ms as f64 / 1000.0);
    counter!(names::SAVED_SPINS).absolute(queue.saved_spins);
    counter!(names::QUEUE_SUCCEEDED).absolute(queue.succeeded_total);
    counter!(names::QUEUE_DEAD).absolute(queue.dead_total);
}

/// Sets the gauges of the store's space.
pub fn space_gauges(space: Space) {
    gauge!(names::STORE_USED).set(space.used_bytes as f64);
    gauge!(names::STORE_LIMIT).set(space.limit_bytes as f64);
}

/// Sets the gauges of a type; there are at most 64 types.
pub fn type_gauges(name: &TypeId, view: &TypeView) {
    let rate = view.rate_milli.map_or(f64::INFINITY, |milli| milli as f64 / 1000.0);
    let closed = if view.closed_until.is_some() { 1.0 } else { 0.0 };
    gauge!(names::TYPE_IN_FLIGHT, "type" => name.to_string()).set(view.in_flight as f64);
    gauge!(names::TYPE_RATE, "type" => name.to_string()).set(rate);
    gauge!(names::TYPE_CLOSED, "type" => name.to_string()).set(closed);
}

/// Sets the gauges and counters of a waiting room. Each room is a label value: call this for a bounded
/// list.
pub fn room_gauges(view: &RoomView) {
    let room = view.room.to_string();
    let per_minute = view.admitted_lately as f64 * 60_000.0 / view.measured_ms.max(1) as f64;
    for (name, number) in [
        (names::ROOM_WAITING, view.waiting.iter().sum::<u64>() as f64),
        (names::ROOM_ACTIVE, view.active as f64),
        (names::ROOM_ACTIVE_LIMIT, view.settings.max_active.into()),
        (names::ROOM_ADMISSION_RATE, per_minute),
    ] {
        gauge!(name, "room" => room.clone()).set(number);
    }
    let totals = view.totals;
    counter!(names::ROOM_JOINED, "room" => room.clone()).absolute(totals.joined);
    counter!(names::ROOM_ADMITTED, "room" => room.clone()).absolute(totals.admitted);
    let ended = [
        ("left", totals.left),
        ("revoked", totals.revoked),
        ("expired", totals.expired),
        ("silent", totals.silent),
    ];
    for (reason, count) in ended {
        counter!(names::ROOM_ENDED, "room" => room.clone(), "reason" => reason).absolute(count);
    }
}

/// Sets the gauges and counters of a board. Each board is a label value: call this for a bounded list.
pub fn board_gauges(view: &BoardView) {
    let board = view.board.to_string();
    for (name, number) in [
        (names::BOARD_MEMBERS, view.members),
        (names::BOARD_EVENTS, view.events),
        (names::BOARD_EVENTS_LIMIT, view.settings.events_max),
    ] {
        gauge!(name, "board" => board.clone()).set(number as f64);
    }
    let totals = view.totals;
    counter!(names::BOARD_LATE, "board" => board.clone()).absolute(totals.late);
    for (outcome, count) in [
        ("recorded", totals.recorded),
        ("cancelled", totals.cancelled),
        ("repeated", totals.repeated),
        ("too_old", totals.too_old),
        ("refused", totals.refused),
    ] {
        counter!(names::BOARD_UPDATES, "board" => board.clone(), "outcome" => outcome).absolute(count);
    }
}

/// Sets the gauges of a group. Each group is a label value: call this for a bounded list, such as
/// the groups with the largest backlogs, and [`forget_group`] for a group that leaves the list.
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

/// Sets the gauges of a group that is no longer watched to zero, because a recorder would show the
/// last values forever.
pub fn forget_group(name: &GroupId) {
    set_group_gauges(name, [0.0; 5], None);
}

/// Pending jobs that cannot be served now: those not due, and those in lanes that are
/// parked or paused.
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
    /// Reads the queue and every type, and sets their gauges. One process calls it every few
    /// seconds. It submits one command for the queue and one for each type.
    pub async fn observe_queue(&self) -> Result<QueueView, EngineError> {
        let queue = self.call(InspectQueue).await?;
        gauges(&queue);
        for name in &queue.types {
            let view = self.call(InspectType { type_id: name.clone() }).await?;
            view.iter().for_each(|view| type_gauges(name, view));
        }
        Ok(queue)
    }
}

/// Reports that the effects of scripts that failed midway were audited and repaired.
pub(crate) fn half_written_repaired(findings: usize, too_large: &[Suspect]) {
    tracing::warn!(target: TARGET, findings, "groups repaired");
    // A count that is too large to recount in one step can be repaired by an audit
    // of an idle queue.
    for suspect in too_large {
        tracing::error!(target: TARGET, %suspect, "counts not repaired");
    }
}

/// Reports that the effects of scripts that failed midway could not be repaired.
pub(crate) fn half_written_not_repaired(error: &EngineError) {
    tracing::error!(target: TARGET, %error, "groups not repaired");
}

/// Reports that the source of a script had to be sent. This is rare, so the handle is looked up.
pub(crate) fn script_resent(script: &'static str) {
    counter!(names::SCRIPTS_RESENT, "script" => script).increment(1);
    tracing::debug!(target: TARGET, script, "script sent whole");
}

/// Reports warnings about the settings of a server.
pub(crate) fn server_warnings(engine: &str, warnings: &[String]) {
    for warning in warnings {
        tracing::warn!(target: TARGET, engine, warning, "server setting");
    }
}

/// Reports that a user may not receive the signals to waiters.
pub(crate) fn signals_denied(engine: &str, warning: &str) {
    tracing::warn!(target: TARGET, engine, warning, "signals denied");
}
