//! Every metric, defined once: its name, kind, unit, labels and meaning.
//!
//! A test compares the table in `docs/metrics.md` with this one. A label has few values (at most 64
//! types), except `group_id`, which only the metrics of [`group_gauges`](super::group_gauges) have,
//! `room`, which only those of [`room_gauges`](super::room_gauges) have, and `board`, which only those
//! of [`board_gauges`](super::board_gauges) have: their callers bound the groups, rooms and boards.

use metrics::Unit;

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A count that only grows.
    Counter,
    /// A current value.
    Gauge,
    /// Observations, counted by size.
    Histogram,
}

impl Kind {
    /// The name of the kind: `counter`, `gauge` or `histogram`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name of the metric, as exported.
    pub name: &'static str,
    /// The kind of the metric.
    pub kind: Kind,
    /// The unit of the metric.
    pub unit: Unit,
    /// The labels of the metric, in order.
    pub labels: &'static [&'static str],
    /// The meaning of the metric.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($kind:ident $unit:ident $constant:ident = $name:literal [$($label:literal)*]: $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: &str = $name;
        )*

        /// Every metric of the engines.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $constant,
            kind: Kind::$kind,
            unit: Unit::$unit,
            labels: &[$($label),*],
            help: $help,
        }),*];
    };
}

metrics! {
    Counter Count OPERATIONS = "fairlane_operations_total" ["engine" "operation" "result"]:
        "Commands that were answered (`ok`) or ended in an error (`error`).";
    Histogram Seconds OPERATION_DURATION = "fairlane_operation_duration_seconds" ["engine" "operation"]:
        "Time from sending a command to its answer or error, as the caller sees it.";
    Counter Count ERRORS = "fairlane_errors_total" ["engine" "kind"]:
        "Errors of commands and waits: `invalid`, `unavailable`, `refused` by the store, `broken`.";
    Counter Count ENQUEUED = "bulk_action_enqueue_total" ["engine"]:
        "Jobs taken in.";
    Counter Count ENQUEUE_EXISTS = "fairlane_enqueue_exists_total" ["engine"]:
        "Jobs not taken in because their group has one of that id.";
    Counter Count ENQUEUE_REFUSED = "fairlane_enqueue_refused_total" ["engine" "reason"]:
        "Jobs refused: `group_full`, `queue_full`, `group_bytes_full`, `queue_bytes_full`, `too_many_types`; `other` is for the producer, who has the receipt.";
    Counter Count LEASED = "bulk_action_dequeue_total" ["engine" "priority"]:
        "Jobs handed to workers.";
    Histogram Seconds JOB_WAIT = "fairlane_job_wait_seconds" ["engine" "priority"]:
        "From a job's enqueue to its first lease by the store's clock, a delay it was given included.";
    Counter Count LEASES_EXTENDED = "fairlane_leases_extended_total" ["engine"]:
        "Leases kept alive.";
    Counter Count LEASES_LOST = "fairlane_leases_lost_total" ["engine" "operation"]:
        "Leases a worker found lost, by whether it noticed at `extend` or at `settle`.";
    Counter Count SETTLED = "fairlane_settled_total" ["engine" "outcome" "verdict"]:
        "Attempts ended, by how (`succeeded`, `failed`, `retry`, `throttled`, `released`, `cancelled`) and whether it counted.";
    Counter Count DEAD = "fairlane_dead_total" ["engine" "cause"]:
        "Jobs that died because they `failed` for good or were `lost` too often; retries used up are not told.";
    Histogram Seconds BACKOFF = "bulk_action_congestion_backoff_seconds" ["engine"]:
        "How long jobs that their downstream refused are sent away.";
    Counter Count SAVED_SPINS = "bulk_action_congestion_saved_spins_total" []:
        "An estimate: tries that refused work would have made with the fixed base backoff, and did not.";
    Counter Count QUEUE_SUCCEEDED = "fairlane_queue_succeeded_total" []:
        "Jobs that have succeeded since the queue was made, by any process; the store counts them.";
    Counter Count QUEUE_DEAD = "fairlane_queue_dead_total" []:
        "Jobs that have become dead since the queue was made, for any reason; the store counts them.";
    Counter Count PROMOTED = "fairlane_promoted_total" ["engine"]:
        "Due jobs that `promote` returned to their lanes; `lease` returns most of them itself, uncounted.";
    Counter Count RECLAIMED = "fairlane_reclaimed_total" ["engine" "outcome"]:
        "Leases that ran out and were taken back: the job is `recovered` or `dead`.";
    Counter Count WAITS = "fairlane_waits_total" ["engine" "ended"]:
        "Waits for work, ended by a push (`woken`) or by patience (`timeout`).";
    Counter Count LOCK_REQUESTS = "fairlane_lock_requests_total" ["engine" "result"]:
        "Tries to acquire a lock: `held`, `waiting` (or still waiting), `busy`, `refused`.";
    Counter Count LOCK_RELEASES = "fairlane_lock_releases_total" ["engine" "result"]:
        "Releases: `released`, `withdrawn` by a waiter, `not_held` any more.";
    Counter Count LOCK_RENEWALS = "fairlane_lock_renewals_total" ["engine" "result"]:
        "Renewals: `renewed`, or `lost` because the lease had run out or the lock was broken.";
    Counter Count LOCKS_BROKEN = "fairlane_locks_broken_total" ["engine"]:
        "Holders whose lock an operator has broken.";
    Counter Count LOCKS_EXPIRED = "fairlane_locks_expired_total" ["engine"]:
        "Leases of locks that ran out because their holder has died, was cut off or has reached its longest hold.";
    Histogram Seconds LOCK_WAIT = "fairlane_lock_wait_seconds" ["engine"]:
        "Time from the request for a lock to its grant, as the library sees it.";
    Histogram Seconds LOCK_HOLD = "fairlane_lock_hold_seconds" ["engine" "ended"]:
        "Time from the grant of a lock until it was `released` or `lost`, as the library sees it.";
    Gauge Count ROOM_WAITING = "fairlane_room_waiting" ["room"]:
        "Users that wait in a waiting room.";
    Gauge Count ROOM_ACTIVE = "fairlane_room_active" ["room"]:
        "Active places of a waiting room.";
    Gauge Count ROOM_ACTIVE_LIMIT = "fairlane_room_active_limit" ["room"]:
        "Most places of a waiting room that are active at once.";
    Gauge Count ROOM_ADMISSION_RATE = "fairlane_room_admissions_per_minute" ["room"]:
        "Admissions of a waiting room in a minute, as measured lately; a waiter's position divided by it is its wait.";
    Counter Count ROOM_JOINED = "fairlane_room_joined_total" ["room"]:
        "Places that were given to users who joined a waiting room.";
    Counter Count ROOM_ADMITTED = "fairlane_room_admitted_total" ["room"]:
        "Places of a waiting room that became active.";
    Counter Count ROOM_ENDED = "fairlane_room_ended_total" ["room" "reason"]:
        "Places that ended: `left`, `revoked`, `expired` (active until their time was over), `silent` (abandoned).";
    Gauge Count BOARD_MEMBERS = "fairlane_board_members" ["board"]:
        "Members of the current season of a board.";
    Gauge Count BOARD_EVENTS = "fairlane_board_remembered_events" ["board"]:
        "Events that a board remembers, so that each counts once.";
    Gauge Count BOARD_EVENTS_LIMIT = "fairlane_board_remembered_events_limit" ["board"]:
        "Most events that a board remembers; at this number it refuses further ones (`events_max`).";
    Counter Count BOARD_UPDATES = "fairlane_board_updates_total" ["board" "outcome"]:
        "Events, cancellations and values: `recorded`, `cancelled`, `repeated` (nothing changed), or refused as `too_old` (rebuild the board) or for another reason (`refused`).";
    Counter Count BOARD_LATE = "fairlane_board_late_updates_total" ["board"]:
        "Of those that were taken, those that came too late for a sealed window or a closed season.";
    Histogram Seconds SCRIPT_DURATION = "bulk_action_lua_duration_seconds" ["engine" "script"]:
        "Time of one script on Redis, the way there and back included.";
    Counter Count SCRIPTS_RESENT = "fairlane_scripts_resent_total" ["script"]:
        "Scripts sent whole because the server did not know them: it is new, was restarted or failed over.";
    Gauge Count QUEUE_GROUPS = "bulk_action_queue_groups" ["priority"]:
        "Groups in fair order; one with jobs of several types counts once for each.";
    Gauge Count BACKLOG = "fairlane_backlog_jobs" []:
        "Unfinished jobs that are not in flight.";
    Gauge Count BACKLOG_LIMIT = "fairlane_backlog_limit_jobs" []:
        "The backlog at which every enqueue is refused.";
    Gauge Bytes STORED_BYTES = "fairlane_stored_bytes" []:
        "Bytes of payloads, results and summaries that are stored, finished jobs included.";
    Gauge Bytes STORED_BYTES_LIMIT = "fairlane_stored_limit_bytes" []:
        "The stored bytes at which every enqueue is refused (`stored_bytes_max`).";
    Gauge Bytes STORE_USED = "fairlane_store_used_bytes" []:
        "Bytes in use where the state lives: of a Redis server, or by the files of a data directory.";
    Gauge Bytes STORE_LIMIT = "fairlane_store_limit_bytes" []:
        "Bytes there can be: `maxmemory`, or what is used and what the disk has left; absent without a bound.";
    Gauge Seconds BACKOFF_LIMIT = "fairlane_backoff_limit_seconds" []:
        "The longest backoff that a group can be given.";
    Gauge Count WAITING = "fairlane_waiting_jobs" []:
        "Jobs of the backlog that must not run yet.";
    Gauge Count IN_FLIGHT = "fairlane_in_flight_jobs" []:
        "Leased jobs.";
    Gauge Count PARKED_LANES = "fairlane_parked_lanes" []:
        "Lanes that stand aside because their group's rate is used up.";
    Gauge Count COMPLETED = "fairlane_completed_jobs" []:
        "Completed jobs still kept.";
    Gauge Count DEAD_KEPT = "fairlane_dead_jobs" []:
        "Dead jobs still kept, whatever they died of.";
    Gauge Count ACTIVE_GROUPS = "fairlane_active_groups" []:
        "Groups that have unfinished jobs.";
    Gauge Count AGGREGATING = "fairlane_bulks_aggregating" []:
        "Ended bulk actions that are, or are to be, aggregated.";
    Gauge Count SWEEPING = "fairlane_bulks_sweeping" []:
        "Bulk actions with dropped or resumed jobs still to be swept.";
    Gauge Count TYPE_IN_FLIGHT = "fairlane_type_in_flight_jobs" ["type"]:
        "Leased jobs of a type.";
    Gauge CountPerSecond TYPE_RATE = "fairlane_type_rate_per_second" ["type"]:
        "The rate in effect for a type, below the set one after refusals; +Inf without a limit.";
    Gauge Count TYPE_CLOSED = "fairlane_type_closed" ["type"]:
        "1 while a type's downstream has asked for silence.";
    Gauge Count GROUP_PENDING = "bulk_action_group_pending_jobs" ["group_id"]:
        "Unfinished jobs of a group that are not in flight.";
    Gauge Count GROUP_IN_FLIGHT = "fairlane_group_in_flight_jobs" ["group_id"]:
        "Leased jobs of a group.";
    Gauge Count NON_READY = "bulk_action_congestion_non_ready_jobs" ["group_id"]:
        "Of a group's pending jobs, those that cannot be served now: not due yet, parked or paused.";
    Gauge Count CONGESTION_LEVEL = "bulk_action_congestion_level" ["group_id" "level"]:
        "1 at the level a group is at, 0 at the others: `NONE`, `LOW`, `MODERATE`, `HIGH`, `CRITICAL`.";
    Gauge Count GROUP_THROTTLES = "bulk_action_congestion_avg_throttle_per_job" ["group_id"]:
        "Throttles per job that has ended since the group was last idle, on average.";
    Gauge Seconds GROUP_BACKOFF = "fairlane_group_backoff_seconds" ["group_id"]:
        "The newest backoff a refused job was given, or the wait predicted when the group was last held up.";
}
