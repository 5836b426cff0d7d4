//! Every limit and default in one place, with their relations asserted.
//!
//! A number that bounds a batch, a list, a string or a loop is named here and nowhere else;
//! the Redis engine hands the same constants to its scripts.

/// Largest integer that survives a trip through a Lua number: times, tags and fences stay below it.
pub const INTEGER_MAX: u64 = 1 << 53;

/// Longest name (group, job, type, worker), in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Longest payload of one job, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 512 * 1024;
/// Longest result or failure reason kept with a settled job, in bytes.
pub const NOTE_BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting of a payload or result in JSON: with what stands around it in an answer, it is still below the 100
/// levels at which some readers of JSON give up.
pub const JSON_DEPTH_MAX: usize = 96;
/// Longest payload of one bulk action, in bytes.
pub const BULK_PAYLOAD_BYTES_MAX: usize = 16 * 1024;
/// Most jobs in one `enqueue`.
pub const ENQUEUE_JOBS_MAX: usize = 200;
/// Most payload bytes in one `enqueue`.
pub const ENQUEUE_BYTES_MAX: usize = 1024 * 1024;
/// Most jobs in one `lease`.
pub const LEASE_JOBS_MAX: usize = 500;
/// A `lease` picks no more once the payloads of its jobs have this many bytes: the last one may go beyond it.
pub const LEASE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most jobs in one `extend`.
pub const EXTEND_JOBS_MAX: usize = 500;
/// Most jobs in one `settle`.
pub const SETTLE_JOBS_MAX: usize = 500;
/// Most jobs moved by one `promote`.
pub const PROMOTE_JOBS_MAX: usize = 500;
/// Most jobs taken back by one `reclaim`.
pub const RECLAIM_JOBS_MAX: usize = 500;
/// Most empty lanes that one `remove_type` takes out of their order.
pub const REMOVE_TYPE_LANES_MAX: usize = 500;
/// Most types alive at once.
pub const TYPES_MAX: usize = 64;
/// Most waiting jobs one `lease` promotes before it picks.
pub const LEASE_PROMOTES_MAX: usize = 64;
/// Most parked lanes one `lease` wakes.
pub const LEASE_WAKES_MAX: usize = 64;
/// Most lanes one `lease` parks.
pub const LEASE_PARKS_MAX: usize = 64;
/// Most out-of-range deadlines one `lease` or `reclaim` lowers after the clock stepped back.
pub const CLAMPS_MAX: usize = 64;
/// Most wake-up tokens that wait for one type.
pub const TOKENS_MAX: usize = 8;
/// Most jobs that are not to run which one visit to a lane steps over; the rest is left to `sweep`.
pub const VISIT_SKIPS_MAX: usize = 64;
/// Most jobs that are not to run which one `lease` or `admit` steps over.
pub const LEASE_SKIPS_MAX: usize = 256;
/// Most jobs one `admit` decides on.
pub const ADMIT_JOBS_MAX: usize = 500;
/// Most jobs in one `cancel_job`, `requeue_dead` or `discard`.
pub const PICK_JOBS_MAX: usize = 500;
/// Most jobs one `sweep` moves or removes: a step others hardly notice.
pub const SWEEP_JOBS_MAX: usize = 200;
/// Most bulk actions one `sweep` looks at.
pub const SWEEP_BULKS_MAX: usize = 64;
/// Most lanes whose heads one `sweep` clears.
pub const SWEEP_LANES_MAX: usize = 16;
/// Most idle groups one `sweep` looks at.
pub const SWEEP_GROUPS_MAX: usize = 100;
/// A `sweep` looks at a group this long after its last job has ended, and again this long after each look, in
/// milliseconds.
pub const GROUP_IDLE_MS: u64 = 5 * 60 * 1000;
/// Most waiting jobs one `make_due` looks at.
pub const MAKE_DUE_JOBS_MAX: usize = 500;
/// Most jobs on one page of `list_jobs`.
pub const LIST_JOBS_MAX: usize = 500;
/// A page of `list_jobs` ends when the payloads and notes of its jobs have this many bytes.
pub const LIST_BYTES_MAX: usize = 1024 * 1024;
/// Positions that `list_jobs` keeps for each chunk or batch: more than any of them has jobs.
pub const LIST_STRIDE: u64 = 1024;
/// Jobs enqueued in the same microsecond among which `explain` looks for one.
pub const EXPLAIN_SCAN_MAX: usize = 200;
/// Workers that have not asked for a type for this long are not there, as far as `explain` can tell.
pub const WORKER_SILENCE_MS: u64 = 60 * 1000;
/// Most suspects of one `audit`.
pub const AUDIT_SUSPECTS_MAX: usize = 100;
/// Entries that one `audit` counts one by one; what is larger it does not count.
pub const AUDIT_ENTRIES_MAX: usize = 20_000;
/// One `audit` looks at no further suspect once it has counted this many entries: a step of a few milliseconds.
pub const AUDIT_STEP_ENTRIES: usize = 2500;
/// Entries of lists that one `audit` passes over to find a job.
pub const AUDIT_PASSED_MAX: usize = 1_000_000;
/// Bytes that one `audit` reads to find a job or to count those of a bulk action.
pub const AUDIT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The deadline that `audit` gives a leased job which has none, in milliseconds from now.
pub const AUDIT_LEASE_MS: u64 = 60 * 1000;
/// Virtual time at which `audit` warns: half of what can be counted.
pub const VIRTUAL_TIME_HIGH: u64 = INTEGER_MAX / 2;
/// Most groups on one page of `inspect`.
pub const LIST_GROUPS_MAX: usize = 500;
/// Most bulk actions one `take_completed` gives.
pub const TAKE_BULKS_MAX: usize = 100;
/// Bulk actions of one group that are kept at once.
pub const GROUP_BULKS_MAX: usize = 10_000;
/// Dead jobs that one step removes when they are past their time or number.
pub const PURGED_DEAD_MAX: usize = 8;
/// Chunks of finished jobs that one `settle` removes; it adds at most one of each kind.
pub const PURGED_CHUNKS_MAX: usize = 2;

/// Shortest lease, in milliseconds.
pub const LEASE_MS_MIN: u64 = 100;
/// Longest lease, in milliseconds; also how long a worker's last request is remembered.
pub const LEASE_MS_MAX: u64 = 15 * 60 * 1000;
/// Requests past their time that one `lease` forgets: more than it adds.
pub const LEASE_REQUESTS_FORGOTTEN: usize = 2;
/// Requests past their time that one `reclaim` forgets.
pub const RECLAIM_REQUESTS_FORGOTTEN: usize = 500;
/// Longest a lane stays parked before it looks again, in milliseconds.
pub const PARK_MS_MAX: u64 = 60 * 1000;
/// Longest delay of a waiting job, in milliseconds (ten years).
pub const DELAY_MS_MAX: u64 = 3650 * 24 * 3600 * 1000;
/// Longest Retry-After that is honoured, in milliseconds: one response must not close a type for longer. The downstream
/// refuses the first jobs after that if it meant more, and closes its type again.
pub const RETRY_AFTER_MS_MAX: u64 = 60 * 1000;
/// A timer holder that has not come back this long after its time is replaced.
pub const TIMER_BACKSTOP_MS: u64 = 1000;
/// `reclaim` runs further apart than this count as an outage.
pub const RECLAIM_STALE_MS: u64 = 15 * 1000;
/// After an outage `reclaim` takes nothing for this long, so that workers can come back.
pub const RECLAIM_GRACE_MS: u64 = 30 * 1000;
/// What a refused producer is told to wait, in milliseconds.
pub const REFUSAL_RETRY_MS: u64 = 1000;

/// Virtual-time units of one job of cost 1 at weight 1; divisible by every weight up to ten.
pub const UNITS: u64 = 5040;
/// Largest weight of a group.
pub const WEIGHT_MAX: u32 = 1000;
/// Largest cost of a job.
pub const COST_MAX: u32 = 10_000;
/// Cost served from a lane before the next lane has its turn.
pub const QUANTUM: u64 = 8;
/// Jobs a lane may be ahead of the others when it comes from idle.
pub const CREDIT: u64 = 100;
/// Credit that one fair order can have given away at a time, in jobs.
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
/// A bucket holds at most this many units.
pub const BUCKET_UNITS_MAX: u64 = 1 << 51;
/// Buckets count thousandths of a job.
pub const MILLI: u64 = 1000;
/// The default burst is one job and what the rate gives in this time.
pub const BURST_US: u64 = 20_000;
/// Largest concurrency of a group or type.
pub const CONCURRENCY_MAX: u32 = 1_000_000;

/// Largest alpha of the classic discipline, either way.
pub const ALPHA_MAX: u64 = 10_000_000;
/// Largest base priority of a group, either way.
pub const BASE_PRIORITY_MAX: u64 = 1_000_000_000_000;
/// Jobs of a run beyond this many do not change its progress, so that its product with alpha stays exact.
pub const PROGRESS_JOBS_MAX: u64 = 900_000_000;
/// What progress adds to a score at most, either way.
pub const BOOST_MAX: i64 = 1 << 50;
/// A tag is this number less the score.
pub const SCORE_CENTRE: i64 = 1 << 51;
/// Alpha unless it is set.
pub const ALPHA: i64 = 10_000;
/// Jobs a second over all groups in the classic discipline, unless set.
pub const GLOBAL_RPS: u64 = 10_000;
/// Most that can be set.
pub const GLOBAL_RPS_MAX: u64 = 1_000_000_000;
/// Admitted jobs of one type that may wait for a worker.
pub const READY_QUEUE_MAX_SIZE: u64 = 10_000;
/// Most that can be set.
pub const READY_QUEUE_SIZE_LIMIT: u64 = 10_000_000;
/// Least a refused job waits in the classic discipline.
pub const BASE_BACKOFF_MS: u64 = 1000;
/// Most it waits.
pub const MAX_BACKOFF_MS: u64 = 120_000;
/// Most that either can be set to.
pub const BACKOFF_MS_MAX: u64 = 24 * 3600 * 1000;
/// How long a group's congestion history is kept.
pub const STATS_RETENTION_MS: u64 = 3_600_000;
/// Most that can be set.
pub const STATS_RETENTION_MS_MAX: u64 = 24 * 3600 * 1000;

/// A cut never takes a downstream's rate below this many thousandths of a job a second.
pub const CUT_RATE_MILLI_MIN: u64 = 100;
/// CUBIC's constant C = 0.05 as the divisor of cubed milliseconds that gives thousandths of a job a second.
pub const CUBIC_DIVISOR: u64 = 20_000_000;
/// The distance to CUBIC's plateau is clamped to this many milliseconds, so that its cube stays exact.
pub const CUBIC_MS_MAX: u64 = 1 << 17;
/// Goodput is counted in this many buckets …
pub const GOODPUT_BUCKETS: usize = 10;
/// … of this length each.
pub const GOODPUT_BUCKET_MS: u64 = 100;

/// Retries a job may use before it is dead.
pub const MAX_RETRY_COUNT: u32 = 3;
/// Throttles a job may meet before they cost attempts.
pub const MAX_THROTTLE_COUNT: u32 = 100;
/// Leases a job may lose before it is dead.
pub const MAX_LOSS_COUNT: u32 = 5;
/// Most retries, throttles or losses that can be configured.
pub const ATTEMPTS_MAX: u32 = 10_000;
/// Jobs of one group that may be unfinished and not in flight.
pub const GROUP_BACKLOG_MAX: u64 = 10_000_000;
/// Jobs of all groups that may be unfinished and not in flight.
pub const WHOLE_BACKLOG_MAX: u64 = 50_000_000;
/// Bytes that one group may have stored, finished jobs included: payloads and results of its jobs, payloads and
/// summaries of its bulk actions. A job is taken while less is stored, so that the last one may go beyond it.
pub const GROUP_STORED_BYTES_MAX: u64 = 1 << 30;
/// Bytes that all groups together may have stored. The embedded engine keeps them in memory.
pub const STORED_BYTES_MAX: u64 = 4 << 30;
/// How long a completed job is kept, in milliseconds.
pub const COMPLETED_RETENTION_MS: u64 = 24 * 3600 * 1000;
/// How long a dead job is kept, in milliseconds.
pub const FAILED_RETENTION_MS: u64 = 7 * 24 * 3600 * 1000;
/// How long a finished bulk action and its jobs are kept, in milliseconds.
pub const BULK_RETENTION_MS: u64 = 7 * 24 * 3600 * 1000;
/// How many completed jobs are kept.
pub const COMPLETED_KEPT_MAX: u64 = 1_000_000;
/// How many dead jobs are kept.
pub const FAILED_KEPT_MAX: u64 = 1_000_000;

const _: () = {
    assert!(PAYLOAD_BYTES_MAX <= ENQUEUE_BYTES_MAX && PAYLOAD_BYTES_MAX <= LEASE_BYTES_MAX);
    assert!(GROUP_STORED_BYTES_MAX < STORED_BYTES_MAX && STORED_BYTES_MAX < INTEGER_MAX);
    // A bound that one payload could pass many times over would bound nothing.
    assert!((PAYLOAD_BYTES_MAX + NOTE_BYTES_MAX) as u64 * 100 < GROUP_STORED_BYTES_MAX);
    assert!(LEASE_MS_MIN < LEASE_MS_MAX);
    assert!(CREDIT <= POOL);
    assert!(UNITS.is_multiple_of(LEVEL_WEIGHTS[0]) && UNITS.is_multiple_of(LEVEL_WEIGHTS[1]));
    assert!(UNITS * (COST_MAX as u64) * 2 < INTEGER_MAX);
    assert!(CUBIC_MS_MAX * CUBIC_MS_MAX * CUBIC_MS_MAX <= BUCKET_UNITS_MAX);
    assert!(BUCKET_UNITS_MAX + RATE_COUNT_MAX * MILLI < INTEGER_MAX);
    assert!(RECLAIM_STALE_MS < RECLAIM_GRACE_MS);
    assert!(AUDIT_STEP_ENTRIES < AUDIT_ENTRIES_MAX);
    // One reclaim begins a last batch when it has one job less than it may take.
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
