//! Every limit and default, with assertions on how they relate.
//!
//! Each bound of a batch, list, string or loop is defined here and nowhere else. The Redis engine
//! passes the same constants to its scripts.

/// Exclusive upper bound of times, tags and fences: a Lua number represents every integer below it.
pub const INTEGER_MAX: u64 = 1 << 53;

/// Longest name (group, job, type, worker), in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Longest name of a lock, in bytes.
pub const LOCK_NAME_BYTES_MAX: usize = 256;
/// Most locks in use at once.
pub const LOCKS_MAX: usize = 1_000_000;
/// Most waiters for locks at once.
pub const LOCK_WAITERS_MAX: u64 = 1_000_000;
/// Most permits of a semaphore.
pub const LOCK_PERMITS_MAX: u32 = 10_000;
/// Shortest ttl of a lock, in milliseconds: how long it is held without a renewal.
pub const LOCK_TTL_MS_MIN: u64 = 10;
/// Longest ttl of a lock, in milliseconds.
pub const LOCK_TTL_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Longest time for which a lock is held, renewals included, in milliseconds.
pub const LOCK_HOLD_MS_MAX: u64 = 30 * 24 * 60 * 60 * 1000;
/// Longest time in which no caller can acquire a lock after a lease that ran out, in milliseconds.
pub const LOCK_DELAY_MS_MAX: u64 = 60 * 1000;
/// One slice: how long a waiter's process counts as alive after its last command, and how long a
/// lock stays reserved for a waiter, in milliseconds.
pub const LOCK_SLICE_MS: u64 = 1000;
/// A lock that becomes free is granted to a waiter whose process counts as alive for at least this
/// many more milliseconds. For any other waiter it is reserved, and a newcomer may take it.
pub const LOCK_GRANT_ALIVE_MS: u64 = 250;
/// After this many losses to newcomers, no newcomer takes a lock that is reserved for a waiter.
pub const LOCK_LOSSES_MAX: u32 = 3;
/// Most waiters that one command reserves a lock for or removes.
pub const LOCK_STEP_WAITERS_MAX: usize = 128;
/// Most holders that a view of a lock shows.
pub const LOCK_HOLDERS_SHOWN_MAX: usize = 20;
/// Most locks in one `renew_locks`.
pub const RENEW_LOCKS_MAX: usize = 500;
/// Most locks that one reply to `attend_locks` names.
pub const ATTEND_CLAIMS_MAX: usize = 500;
/// Most locks on one page.
pub const LIST_LOCKS_MAX: usize = 500;
/// Most locks that one `sweep_locks` brings up to date.
pub const SWEEP_LOCKS_MAX: usize = 200;
/// Most waiting rooms.
pub const ROOMS_MAX: usize = 10_000;
/// Most places in one room, waiting and active.
pub const ROOM_PLACES_MAX: usize = 10_000_000;
/// Most priority classes of a room.
pub const ROOM_CLASSES_MAX: usize = 8;
/// Largest `max_active` of a room.
pub const ROOM_ACTIVE_LIMIT: u32 = 1_000_000;
/// Most places that one command admits; also the most that it ends, and the most that it drops.
pub const ROOM_STEP_PLACES_MAX: usize = 100;
/// Default limit on the active places of a room.
pub const ROOM_MAX_ACTIVE: u32 = 50;
/// Default time for which a place is active, in milliseconds.
pub const ROOM_ACTIVE_TTL_MS: u64 = 10 * 60 * 1000;
/// Default time for which a silent waiter keeps its place, in milliseconds.
pub const ROOM_RETENTION_MS: u64 = 2 * 60 * 1000;
/// Shortest configurable time of an active place and of a silent waiter, in milliseconds.
pub const ROOM_TTL_MS_MIN: u64 = 1000;
/// Longest configurable time of an active place and of a silent waiter, in milliseconds.
pub const ROOM_TTL_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Default limit on the polls per second of all waiters of a room.
pub const ROOM_POLLS_PER_SECOND: u32 = 5000;
/// Largest configurable number of polls per second.
pub const ROOM_POLLS_PER_SECOND_MAX: u32 = 1_000_000;
/// One in this many polls is for the front of a room, where every waiter polls often.
pub const ROOM_FRONT_POLLS: u64 = 10;
/// Shortest time between two polls of a waiter, in milliseconds.
pub const ROOM_POLL_MS_MIN: u64 = 1000;
/// Longest time between two polls of a waiter, in milliseconds.
pub const ROOM_POLL_MS_MAX: u64 = 60 * 60 * 1000;
/// Length of the windows in which admissions are counted, in milliseconds. A measurement covers the
/// current and the previous window.
pub const ROOM_WINDOW_MS: u64 = 60 * 1000;
/// Time after which an empty room with default settings is forgotten, in milliseconds.
pub const ROOM_IDLE_MS: u64 = 60 * 60 * 1000;
/// Time after a cut of a room's rate in which refusals do not cut it again, in milliseconds.
pub const ROOM_FLIGHT_MS: u64 = 1000;
/// Longest reason of a pause, in bytes.
pub const ROOM_REASON_BYTES_MAX: usize = 500;
/// Longest seed, commitment and digest of a draw, in bytes.
pub const ROOM_DRAW_BYTES_MAX: usize = 128;
/// Exclusive upper bound of tickets: users that join after a draw get numbers from here on.
pub const ROOM_TICKETS: u64 = 1 << 52;
/// Most responses of a back end in one `report_room`.
pub const REPORT_RESPONSES_MAX: u64 = 1_000_000;
/// Most rooms on one page.
pub const LIST_ROOMS_MAX: usize = 100;
/// Most places on one page.
pub const LIST_PLACES_MAX: usize = 500;
/// Most rooms that one `sweep_rooms` brings up to date.
pub const SWEEP_ROOMS_MAX: usize = 20;
/// Most ranking boards.
pub const BOARDS_MAX: usize = 1000;
/// Most members of one board.
pub const BOARD_MEMBERS_MAX: usize = 10_000_000;
/// Default limit on the events that a board remembers.
pub const BOARD_EVENTS_MAX: u64 = 1_000_000;
/// Largest configurable number of events that a board remembers.
pub const BOARD_EVENTS_LIMIT: u64 = 20_000_000;
/// Default time for which a board remembers its events, in milliseconds.
pub const BOARD_HORIZON_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// Shortest configurable horizon, in milliseconds.
pub const BOARD_HORIZON_MS_MIN: u64 = 60 * 1000;
/// Longest configurable horizon, in milliseconds.
pub const BOARD_HORIZON_MS_MAX: u64 = 90 * 24 * 60 * 60 * 1000;
/// Time by which an event may be ahead of the store's clock, in milliseconds.
pub const BOARD_AHEAD_MS: u64 = 5 * 60 * 1000;
/// Time from the end of a window until it is sealed, in milliseconds.
pub const BOARD_SEAL_MS: u64 = 60 * 60 * 1000;
/// Hours that stay readable after their end.
pub const BOARD_HOURS_KEPT: u64 = 48;
/// Days that stay readable after their end.
pub const BOARD_DAYS_KEPT: u64 = 35;
/// Weeks that stay readable after their end.
pub const BOARD_WEEKS_KEPT: u64 = 54;
/// Closed seasons that stay readable.
pub const BOARD_SEASONS_KEPT: u64 = 20;
/// Most decimal places of a board's scores.
pub const BOARD_DECIMALS_MAX: u32 = 3;
/// Largest score, positive or negative, in units of the last decimal place.
pub const BOARD_SCORE_MAX: u64 = 1 << 50;
/// Largest score that has room for the time at which it was reached.
pub const BOARD_TIMED_SCORE_MAX: u64 = (1 << 21) - 1;
/// Earliest time of an event, in milliseconds since the Unix epoch: in September 2001.
pub const BOARD_AT_MS_MIN: u64 = 1_000_000_000_000;
/// Latest time of an event, in milliseconds since the Unix epoch: in February 2106.
pub const BOARD_AT_MS_MAX: u64 = ((1 << 32) - 2) * 1000;
/// Most events, cancellations or scores in one command.
pub const RECORD_EVENTS_MAX: usize = 100;
/// Most members on one page of a board.
pub const LIST_RANKS_MAX: usize = 500;
/// Most members in one `show_ranks`.
pub const SHOW_RANKS_MAX: usize = 100;
/// Most boards on one page.
pub const LIST_BOARDS_MAX: usize = 100;
/// Most boards that one `sweep_boards` brings up to date.
pub const SWEEP_BOARDS_MAX: usize = 20;
/// Most remembered events that one `sweep_boards` forgets.
pub const BOARD_STEP_EVENTS_MAX: usize = 500;
/// Most rows of removed boards and windows that one command on a board deletes.
pub const BOARD_STEP_ROWS_MAX: usize = 200;
/// Longest payload of one job, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 512 * 1024;
/// Longest result or failure reason kept with a settled job, in bytes.
pub const NOTE_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting of a payload or result in JSON. Together with the response around it, it stays
/// below 100 levels, where some JSON parsers stop.
pub const JSON_DEPTH_MAX: usize = 96;
/// Longest payload of one bulk action, in bytes.
pub const BULK_PAYLOAD_BYTES_MAX: usize = 16 * 1024;
/// Most jobs in one `enqueue`.
pub const ENQUEUE_JOBS_MAX: usize = 200;
/// Most payload bytes in one `enqueue`.
pub const ENQUEUE_BYTES_MAX: usize = 1024 * 1024;
/// Most jobs in one `lease`.
pub const LEASE_JOBS_MAX: usize = 500;
/// A `lease` stops picking once the payloads of its jobs have this many bytes; the last
/// payload may exceed it.
pub const LEASE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A `lease` stops picking once it has served this many lanes: serving a lane takes about as long
/// as ten jobs.
pub const LEASE_LANES_MAX: usize = 128;
/// Most jobs in one `extend`.
pub const EXTEND_JOBS_MAX: usize = 500;
/// Most reports in one `report_progress`.
pub const PROGRESS_REPORTS_MAX: usize = 500;
/// Most jobs in one `settle`.
pub const SETTLE_JOBS_MAX: usize = 500;
/// Jobs that a worker settles in one command, so that other commands wait a few milliseconds at most.
pub const SETTLE_STEP_JOBS: usize = 200;
/// Most jobs moved by one `promote`.
pub const PROMOTE_JOBS_MAX: usize = 500;
/// Most leases one `reclaim` ends.
pub const RECLAIM_JOBS_MAX: usize = 500;
/// Most empty lanes that one `remove_type` removes from their order.
pub const REMOVE_TYPE_LANES_MAX: usize = 500;
/// Most types that exist at once, besides the type of callbacks.
pub const TYPES_MAX: usize = 64;
/// Most waiting jobs one `lease` promotes before it picks.
pub const LEASE_PROMOTES_MAX: usize = 64;
/// Most parked lanes one `lease` wakes.
pub const LEASE_WAKES_MAX: usize = 64;
/// Most lanes one `lease` parks.
pub const LEASE_PARKS_MAX: usize = 64;
/// Most out-of-range deadlines one `lease` or `reclaim` lowers after the clock stepped back.
pub const CLAMPS_MAX: usize = 64;
/// Most pending wake-up tokens of one type.
pub const TOKENS_MAX: usize = 8;
/// Most unrunnable jobs that one visit to a lane skips; `sweep` removes the rest.
pub const VISIT_SKIPS_MAX: usize = 64;
/// Most unrunnable jobs that one `lease` or `admit` skips.
pub const LEASE_SKIPS_MAX: usize = 256;
/// Most jobs that one `admit` decides.
pub const ADMIT_JOBS_MAX: usize = 500;
/// Most jobs in one `cancel_job`, `requeue_dead` or `discard`.
pub const PICK_JOBS_MAX: usize = 500;
/// Most jobs that one `sweep` moves or removes, small enough not to delay other commands.
pub const SWEEP_JOBS_MAX: usize = 200;
/// Most bulk actions that one `sweep` checks.
pub const SWEEP_BULKS_MAX: usize = 64;
/// Most lanes whose heads one `sweep` clears.
pub const SWEEP_LANES_MAX: usize = 16;
/// Most idle groups that one `sweep` checks.
pub const SWEEP_GROUPS_MAX: usize = 100;
/// Time after a group's last job has ended until `sweep` checks the group, and between two checks,
/// in milliseconds.
pub const GROUP_IDLE_MS: u64 = 5 * 60 * 1000;
/// Most waiting jobs that one `make_due` reads.
pub const MAKE_DUE_JOBS_MAX: usize = 500;
/// Most jobs on one page of `list_jobs`.
pub const LIST_JOBS_MAX: usize = 500;
/// A page of `list_jobs` ends after this many entries, also if more were requested, so that other
/// commands wait a few milliseconds at most.
pub const LIST_STEP_JOBS: usize = 200;
/// A page of `list_jobs` ends when the payloads and notes of its jobs have this many bytes.
pub const LIST_BYTES_MAX: usize = 1024 * 1024;
/// Positions that `list_jobs` reserves for each chunk or batch: more than any of them has jobs.
pub const LIST_STRIDE: u64 = 1024;
/// Most jobs of one microsecond that `explain` searches for a job.
pub const EXPLAIN_SCAN_MAX: usize = 200;
/// `explain` reports that no worker serves a type after this long without a lease request,
/// in milliseconds.
pub const WORKER_SILENCE_MS: u64 = 60 * 1000;
/// Most suspects of one `audit`.
pub const AUDIT_SUSPECTS_MAX: usize = 100;
/// Most entries that one `audit` counts one by one; a larger collection is not counted.
pub const AUDIT_ENTRIES_MAX: usize = 20_000;
/// One `audit` starts no further suspect once it has counted this many entries, which takes a
/// few milliseconds.
pub const AUDIT_STEP_ENTRIES: usize = 2500;
/// Most list entries that one `audit` passes over to find a job.
pub const AUDIT_PASSED_MAX: usize = 1_000_000;
/// Most bytes that one `audit` reads to find a job or to count the jobs of a bulk action.
pub const AUDIT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The deadline that `audit` gives a leased job without one, in milliseconds from now.
pub const AUDIT_LEASE_MS: u64 = 60 * 1000;
/// Virtual time at which `audit` warns: half of the largest value.
pub const VIRTUAL_TIME_HIGH: u64 = INTEGER_MAX / 2;
/// The least magnitude, in binary digits of the backlog, of a group in the index of large groups.
pub const LARGE_MAGNITUDE: u32 = 4;
/// Most groups that one `sweep` adds to the index of large groups, if it is not complete.
pub const INDEX_GROUPS_MAX: usize = 200;
/// Most entries of the activity log; each further entry removes the oldest one.
pub const ACTIVITY_MAX: usize = 1000;
/// Longest text of a change in the activity log, in bytes.
pub const ACTIVITY_TEXT_BYTES_MAX: usize = 256;
/// Longest name of a subject in the activity log, in bytes: lock names are the longest.
pub const ACTIVITY_NAME_BYTES_MAX: usize = LOCK_NAME_BYTES_MAX;
/// Most changes on one page of `list_activity`.
pub const LIST_ACTIVITY_MAX: usize = 500;
/// Most groups on one page of `list_groups` and `list_largest_groups`.
pub const LIST_GROUPS_MAX: usize = 500;
/// Groups that one step of a divided command reads or changes, so that other commands wait a few
/// milliseconds at most: a group takes about as long as five jobs.
pub const STEP_GROUPS: usize = 50;
/// Most bulk actions that one `lease_bulks` returns.
pub const LEASE_BULKS_MAX: usize = 100;
/// Most bulk actions that one group can have at once, finished ones included.
pub const GROUP_BULKS_MAX: usize = 10_000;
/// Most expired dead jobs that one command removes.
pub const PURGED_DEAD_MAX: usize = 8;
/// Most expired chunks of finished jobs that one `settle` removes; it adds at most
/// one of each kind.
pub const PURGED_CHUNKS_MAX: usize = 2;

/// Shortest lease, in milliseconds.
pub const LEASE_MS_MIN: u64 = 100;
/// Longest lease, in milliseconds; also how long a worker's last lease request is remembered.
pub const LEASE_MS_MAX: u64 = 15 * 60 * 1000;
/// Most expired lease requests that one `lease` forgets: more than it adds.
pub const LEASE_REQUESTS_FORGOTTEN: usize = 2;
/// Most expired lease requests that one `reclaim` forgets.
pub const RECLAIM_REQUESTS_FORGOTTEN: usize = 500;
/// Longest time that a lane stays parked before it is tried again, in milliseconds.
pub const PARK_MS_MAX: u64 = 60 * 1000;
/// Longest delay of a waiting job, in milliseconds (ten years).
pub const DELAY_MS_MAX: u64 = 3650 * 24 * 3600 * 1000;
/// Longest Retry-After that is honoured, in milliseconds, so that one response cannot close a
/// type for longer. A downstream that asked for more refuses the first jobs after it and
/// closes its type again.
pub const RETRY_AFTER_MS_MAX: u64 = 60 * 1000;
/// A timer holder that has not returned this long after its time is replaced, in milliseconds.
pub const TIMER_BACKSTOP_MS: u64 = 1000;
/// An interval between two `reclaim` calls that counts as an outage, in milliseconds.
pub const RECLAIM_STALE_MS: u64 = 15 * 1000;
/// Time after an outage during which `reclaim` ends no lease, so that workers can reconnect,
/// in milliseconds.
pub const RECLAIM_GRACE_MS: u64 = 30 * 1000;
/// The retry delay that a refused producer gets, in milliseconds.
pub const REFUSAL_RETRY_MS: u64 = 1000;

/// Virtual-time units of one job of cost 1 at weight 1; divisible by every weight up to ten.
pub const UNITS: u64 = 5040;
/// Largest weight of a group.
pub const WEIGHT_MAX: u32 = 1000;
/// Largest cost of a job.
pub const COST_MAX: u32 = 10_000;
/// Cost served from a lane before the next lane has its turn.
pub const QUANTUM: u64 = 8;
/// Jobs by which a lane may be ahead of the others when it returns from idle.
pub const CREDIT: u64 = 100;
/// Most credit that one fair order grants at a time, in jobs.
pub const POOL: u64 = 200;
/// Jobs served for each job of credit that returns to the pool.
pub const POOL_SERVED: u64 = 4;
/// Weights of the levels high, normal and low.
pub const LEVEL_WEIGHTS: [u64; 3] = [16, 4, 1];

/// Largest count of a rate.
pub const RATE_COUNT_MAX: u64 = 1_000_000;
/// Shortest period of a rate, in milliseconds.
pub const RATE_PERIOD_MS_MIN: u64 = 1000;
/// Longest period of a rate, in milliseconds.
pub const RATE_PERIOD_MS_MAX: u64 = 24 * 3600 * 1000;
/// Most units that a bucket holds.
pub const BUCKET_UNITS_MAX: u64 = 1 << 51;
/// Number of thousandths in one job, the unit in which buckets count.
pub const MILLI: u64 = 1000;
/// The default burst is one job and what the rate allows in this time, in microseconds.
pub const BURST_US: u64 = 20_000;
/// Largest concurrency of a group or type.
pub const CONCURRENCY_MAX: u32 = 1_000_000;

/// Largest absolute value of alpha in the classic discipline.
pub const ALPHA_MAX: u64 = 10_000_000;
/// Largest absolute value of a group's base priority.
pub const BASE_PRIORITY_MAX: u64 = 1_000_000_000_000;
/// Most jobs of a run that its progress counts, so that the product with alpha stays exact.
pub const PROGRESS_JOBS_MAX: u64 = 900_000_000;
/// Largest absolute value that progress adds to a score.
pub const BOOST_MAX: i64 = 1 << 50;
/// A tag is this number minus the score.
pub const SCORE_CENTRE: i64 = 1 << 51;
/// Default alpha of the classic discipline.
pub const ALPHA: i64 = 10_000;
/// Default jobs per second over all groups in the classic discipline.
pub const GLOBAL_RPS: u64 = 10_000;
/// Largest configurable `global_rps`.
pub const GLOBAL_RPS_MAX: u64 = 1_000_000_000;
/// Default limit on the admitted jobs of one type that wait for a worker.
pub const READY_QUEUE_MAX_SIZE: u64 = 10_000;
/// Largest configurable `ready_queue_max_size`.
pub const READY_QUEUE_SIZE_LIMIT: u64 = 10_000_000;
/// Default shortest backoff of a refused job in the classic discipline, in milliseconds.
pub const BASE_BACKOFF_MS: u64 = 1000;
/// Default longest backoff of a refused job in the classic discipline, in milliseconds.
pub const MAX_BACKOFF_MS: u64 = 120_000;
/// Longest configurable backoff, in milliseconds.
pub const BACKOFF_MS_MAX: u64 = 24 * 3600 * 1000;
/// Default retention of a group's congestion history, in milliseconds.
pub const STATS_RETENTION_MS: u64 = 3_600_000;
/// Longest configurable retention of a congestion history, in milliseconds.
pub const STATS_RETENTION_MS_MAX: u64 = 24 * 3600 * 1000;

/// A cut never lowers a downstream's rate below this many thousandths of a job per second.
pub const CUT_RATE_MILLI_MIN: u64 = 100;
/// CUBIC's constant C = 0.05 as the divisor of cubed milliseconds that gives thousandths of
/// a job per second.
pub const CUBIC_DIVISOR: u64 = 20_000_000;
/// The distance to CUBIC's plateau is clamped to this many milliseconds, so that its
/// cube stays exact.
pub const CUBIC_MS_MAX: u64 = 1 << 17;
/// Number of buckets that count goodput.
pub const GOODPUT_BUCKETS: usize = 10;
/// Length of a goodput bucket, in milliseconds.
pub const GOODPUT_BUCKET_MS: u64 = 100;

/// Default retries of a job before it is dead.
pub const MAX_RETRY_COUNT: u32 = 3;
/// Default throttles of a job before they cost attempts.
pub const MAX_THROTTLE_COUNT: u32 = 100;
/// Default leases that a job may lose before it is dead.
pub const MAX_LOSS_COUNT: u32 = 5;
/// Most retries, throttles or losses that can be configured.
pub const ATTEMPTS_MAX: u32 = 10_000;
/// Default limit on the unfinished jobs of one group that are not in flight.
pub const GROUP_BACKLOG_MAX: u64 = 10_000_000;
/// Default limit on the unfinished jobs of all groups that are not in flight.
pub const QUEUE_BACKLOG_MAX: u64 = 50_000_000;
/// Default limit on the stored bytes of one group, finished jobs included: payloads and results of
/// its jobs, payloads and summaries of its bulk actions. A job is accepted while less is stored, so
/// the last one may exceed it.
pub const GROUP_STORED_BYTES_MAX: u64 = 1 << 30;
/// Default limit on the stored bytes of all groups. The embedded engine keeps them in memory.
pub const STORED_BYTES_MAX: u64 = 4 << 30;
/// Default retention of a completed job, in milliseconds.
pub const COMPLETED_RETENTION_MS: u64 = 24 * 3600 * 1000;
/// Default retention of a dead job, in milliseconds.
pub const FAILED_RETENTION_MS: u64 = 7 * 24 * 3600 * 1000;
/// Default retention of a finished bulk action and its jobs, in milliseconds.
pub const BULK_RETENTION_MS: u64 = 7 * 24 * 3600 * 1000;
/// Default limit on the number of completed jobs that are kept.
pub const COMPLETED_KEPT_MAX: u64 = 1_000_000;
/// Default limit on the number of dead jobs that are kept.
pub const FAILED_KEPT_MAX: u64 = 1_000_000;

const _: () = {
    assert!(PAYLOAD_BYTES_MAX <= ENQUEUE_BYTES_MAX && PAYLOAD_BYTES_MAX <= LEASE_BYTES_MAX);
    assert!(GROUP_STORED_BYTES_MAX < STORED_BYTES_MAX && STORED_BYTES_MAX < INTEGER_MAX);
    // A limit that a single payload could exceed many times over would be useless.
    assert!((PAYLOAD_BYTES_MAX + NOTE_BYTES_MAX) as u64 * 100 < GROUP_STORED_BYTES_MAX);
    assert!(LEASE_MS_MIN < LEASE_MS_MAX);
    assert!(ROOM_MAX_ACTIVE <= ROOM_ACTIVE_LIMIT && ROOM_TTL_MS_MIN <= ROOM_RETENTION_MS);
    assert!(BOARD_HORIZON_MS_MIN <= BOARD_HORIZON_MS && BOARD_HORIZON_MS <= BOARD_HORIZON_MS_MAX);
    // A score and the second at which it was reached fill the 53 bits of a score in a sorted set.
    assert!((BOARD_TIMED_SCORE_MAX + 1) << 32 == INTEGER_MAX && BOARD_SCORE_MAX * 2 < INTEGER_MAX);
    // Tickets and the numbers behind them stay below the largest integer.
    assert!(ROOM_TICKETS * 2 <= INTEGER_MAX && ROOM_PLACES_MAX as u64 * ROOM_WINDOW_MS * 2 < INTEGER_MAX);
    assert!(CREDIT <= POOL);
    assert!(UNITS.is_multiple_of(LEVEL_WEIGHTS[0]) && UNITS.is_multiple_of(LEVEL_WEIGHTS[1]));
    assert!(UNITS * (COST_MAX as u64) * 2 < INTEGER_MAX);
    assert!(CUBIC_MS_MAX * CUBIC_MS_MAX * CUBIC_MS_MAX <= BUCKET_UNITS_MAX);
    assert!(BUCKET_UNITS_MAX + RATE_COUNT_MAX * MILLI < INTEGER_MAX);
    assert!(RECLAIM_STALE_MS < RECLAIM_GRACE_MS);
    assert!(AUDIT_STEP_ENTRIES < AUDIT_ENTRIES_MAX);
    // A reclaim that is one job below its limit may still start one more batch.
    assert!(((RECLAIM_JOBS_MAX + LEASE_JOBS_MAX) as u64) < LIST_STRIDE && EXTEND_JOBS_MAX <= LEASE_JOBS_MAX);
    assert!(SETTLE_JOBS_MAX <= LEASE_JOBS_MAX && PICK_JOBS_MAX <= LEASE_JOBS_MAX);
    assert!(VISIT_SKIPS_MAX <= LEASE_SKIPS_MAX && SWEEP_BULKS_MAX <= SWEEP_JOBS_MAX);
    assert!(EXPLAIN_SCAN_MAX >= ENQUEUE_JOBS_MAX);
    assert!(PROGRESS_JOBS_MAX * ALPHA_MAX < INTEGER_MAX);
    assert!((SCORE_CENTRE + BOOST_MAX) as u64 + BASE_PRIORITY_MAX < INTEGER_MAX);
    assert!(BOOST_MAX as u64 + BASE_PRIORITY_MAX < SCORE_CENTRE as u64);
    // A script passes at most two arguments per job to one call; Lua unpacks fewer than 8000.
    assert!(LEASE_JOBS_MAX * 2 < 7000 && SETTLE_JOBS_MAX * 2 < 7000);
};
