//! The settings of a worker, with their defaults.

use std::time::Duration;

use fairlane_core::limits::{LEASE_JOBS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, PROMOTE_JOBS_MAX};

use crate::retry::RetryPolicy;

/// A type with its own slots gets one slot per this many slots of the worker.
const OWN_SLOTS_PART: usize = 5;
/// Most jobs one worker may run concurrently.
const WORKER_COUNT_MAX: usize = 100_000;

/// The settings of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Number of jobs that run concurrently.
    pub worker_count: usize,
    /// Most jobs leased by one request; never more than there are free slots.
    pub fetch_batch_size: usize,
    /// Longest wait for work before the worker requests a lease without a wake-up. Capped at one
    /// second, because the worker that holds a type's timer may have died.
    pub worker_timeout: Duration,
    /// Timeout of one attempt, unless its type has its own.
    pub job_timeout: Duration,
    /// How long running jobs have to end when the worker stops; then they are handed back.
    pub shutdown_grace_period: Duration,
    /// Length of a lease: an unresponsive worker loses its jobs after this time. Leases are renewed
    /// at a third of it.
    pub lease: Duration,
    /// How long a processor has to return after a stop request before it is dropped.
    pub cancel_grace_period: Duration,
    /// Delays between attempts, unless the type has its own.
    pub retry: RetryPolicy,
    /// The background loops.
    pub loops: LoopSettings,
}

/// The intervals of the background loops, each jittered at random.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopSettings {
    /// `classic`: how often refused jobs that are due return to their lanes. In `share` leases do
    /// that themselves, and the loop runs once a second as a backstop.
    pub dispatch_interval: Duration,
    /// Most jobs returned to their lanes by one round.
    pub dispatch_batch_size: usize,
    /// `classic`: how often jobs are admitted when no lease triggers it.
    pub fetch_interval: Duration,
    /// How often expired leases are reclaimed.
    pub reclaim_interval: Duration,
    /// How often the watcher checks for stuck bulk actions and unattended types.
    pub watch_interval: Duration,
    /// A bulk action that has made no progress for this long is reported.
    pub stuck_after: Duration,
    /// How often the aggregator polls for ended bulk actions when no event triggers it.
    pub aggregate_interval: Duration,
    /// Length of the lease on a bulk action that is being aggregated. It is renewed at a third of
    /// it, between two pages of jobs.
    pub aggregation_lease: Duration,
    /// How often the janitor sweeps.
    pub sweep_interval: Duration,
    /// How often the room keeper admits waiters to free places of waiting rooms.
    pub room_admit_interval: Duration,
    /// How often the room keeper ends places and drops waiters of waiting rooms whose time is over.
    pub room_cleanup_interval: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            worker_count: 10,
            fetch_batch_size: 50,
            worker_timeout: Duration::from_secs(5),
            job_timeout: Duration::from_secs(30),
            shutdown_grace_period: Duration::from_secs(30),
            lease: Duration::from_secs(30),
            cancel_grace_period: Duration::from_secs(5),
            retry: RetryPolicy::default(),
            loops: LoopSettings::default(),
        }
    }
}

impl Default for LoopSettings {
    fn default() -> Self {
        Self {
            dispatch_interval: Duration::from_millis(100),
            dispatch_batch_size: 100,
            fetch_interval: Duration::from_millis(200),
            reclaim_interval: Duration::from_secs(1),
            watch_interval: Duration::from_secs(30),
            stuck_after: Duration::from_secs(600),
            aggregate_interval: Duration::from_secs(1),
            aggregation_lease: Duration::from_secs(30),
            sweep_interval: Duration::from_secs(1),
            room_admit_interval: Duration::from_secs(5),
            room_cleanup_interval: Duration::from_secs(30),
        }
    }
}

/// The options for jobs of one type in this worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeOptions {
    /// Most slots of the worker that jobs of this type use concurrently.
    pub concurrency: Option<usize>,
    /// Gives the type slots of its own in addition to the worker's, so that its jobs and those of
    /// other types never wait for each other. It gets `concurrency` slots, or else a fifth of the
    /// worker's, and at least one.
    pub own_slots: bool,
    /// Timeout of one attempt.
    pub timeout: Option<Duration>,
    /// Delays between attempts.
    pub retry: Option<RetryPolicy>,
}

impl WorkerSettings {
    /// Checks every setting; the error names the setting and its allowed range.
    pub fn check(&self) -> Result<(), String> {
        check_range("worker_count", self.worker_count, 1, WORKER_COUNT_MAX)?;
        check_range("fetch_batch_size", self.fetch_batch_size, 1, LEASE_JOBS_MAX)?;
        check_range("dispatch_batch_size", self.loops.dispatch_batch_size, 1, PROMOTE_JOBS_MAX)?;
        let leases = (LEASE_MS_MIN, LEASE_MS_MAX);
        check_time("lease", self.lease, leases.0, leases.1)?;
        check_time("aggregation_lease", self.loops.aggregation_lease, leases.0, leases.1)?;
        check_time("worker_timeout", self.worker_timeout, 1, 60_000)?;
        check_time("job_timeout", self.job_timeout, 1, TIMEOUT_MS_MAX)?;
        check_time("shutdown_grace_period", self.shutdown_grace_period, 0, TIMEOUT_MS_MAX)?;
        check_time("cancel_grace_period", self.cancel_grace_period, 0, TIMEOUT_MS_MAX)?;
        let loops = &self.loops;
        // The reclaimer takes a gap of more than 15 s between two runs for an outage, and waits.
        check_time("reclaim_interval", loops.reclaim_interval, 10, 10_000)?;
        for (name, interval) in [
            ("dispatch_interval", loops.dispatch_interval),
            ("fetch_interval", loops.fetch_interval),
            ("watch_interval", loops.watch_interval),
            ("aggregate_interval", loops.aggregate_interval),
            ("sweep_interval", loops.sweep_interval),
            ("room_admit_interval", loops.room_admit_interval),
            ("room_cleanup_interval", loops.room_cleanup_interval),
        ] {
            check_time(name, interval, 10, 3_600_000)?;
        }
        Ok(())
    }
}

impl TypeOptions {
    /// Most concurrent jobs of the type in a worker with this many slots; `None` if unlimited.
    pub(crate) fn limit(&self, worker_count: usize) -> Option<usize> {
        let own = self.own_slots.then(|| (worker_count / OWN_SLOTS_PART).max(1));
        self.concurrency.or(own)
    }

    /// Checks every option; the error names the option and its allowed range.
    pub fn check(&self) -> Result<(), String> {
        check_range("concurrency", self.concurrency.unwrap_or(1), 1, WORKER_COUNT_MAX)?;
        check_time("timeout", self.timeout.unwrap_or(Duration::from_secs(1)), 1, TIMEOUT_MS_MAX)
    }
}

/// Longest timeout and grace period, in milliseconds: a day.
const TIMEOUT_MS_MAX: u64 = 24 * 3600 * 1000;

fn check_range(name: &str, value: usize, least: usize, most: usize) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{name} is {value}; it must be from {least} to {most}"))
}

fn check_time(name: &str, value: Duration, least_ms: u64, most_ms: u64) -> Result<(), String> {
    if (Duration::from_millis(least_ms)..=Duration::from_millis(most_ms)).contains(&value) {
        return Ok(());
    }
    Err(format!("{name} is {} ms; it must be from {least_ms} to {most_ms}", value.as_millis()))
}
