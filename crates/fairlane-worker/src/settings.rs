//! Every setting of a worker with its default.

use std::time::Duration;

use fairlane_core::limits::{LEASE_JOBS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, PROMOTE_JOBS_MAX};

use crate::retry::RetryPolicy;

/// A type with slots of its own has one for this many slots of the worker.
const OWN_SLOTS_PART: usize = 5;
/// Jobs one worker may run at once.
const WORKER_COUNT_MAX: usize = 100_000;

/// How a worker works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Jobs that run at once.
    pub worker_count: usize,
    /// Most jobs taken by one lease; never more than there are free slots.
    pub fetch_batch_size: usize,
    /// Longest wait for work before it asks again without being woken; a second at most, because another worker
    /// that was told when work comes may be gone by then.
    pub worker_timeout: Duration,
    /// How long one attempt may take, unless its type says otherwise.
    pub job_timeout: Duration,
    /// How long running jobs have to end when the worker stops; then they are handed back.
    pub shutdown_grace_period: Duration,
    /// How long a job stays with a worker that is silent; leases are renewed at a third of it.
    pub lease: Duration,
    /// How long a processor that is told to stop has until it is dropped.
    pub cancel_grace_period: Duration,
    /// Delays between attempts, unless the type says otherwise.
    pub retry: RetryPolicy,
    /// What runs beside the pool.
    pub loops: LoopSettings,
}

/// How often the loops beside a pool run, each a little earlier or later at random.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopSettings {
    /// `classic`: how often refused jobs that are due come back. In `share` leases do it themselves, and once a
    /// second is enough as a backstop.
    pub dispatch_interval: Duration,
    /// Most of them at a time.
    pub dispatch_batch_size: usize,
    /// `classic`: how often jobs are admitted when nothing else asks for it.
    pub fetch_interval: Duration,
    /// How often leases that ran out are taken back.
    pub reclaim_interval: Duration,
    /// How often stuck bulk actions and unattended types are looked for.
    pub watch_interval: Duration,
    /// A bulk action that has not moved for this long is reported.
    pub stuck_after: Duration,
    /// How often ended bulk actions are looked for without being told of one.
    pub aggregate_interval: Duration,
    /// How long a bulk action that is being aggregated stays with a worker that is silent; renewed at a third of it,
    /// between two pages of its jobs.
    pub aggregation_lease: Duration,
    /// How often the janitor sweeps.
    pub sweep_interval: Duration,
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
        }
    }
}

/// What holds for jobs of one type in this worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeOptions {
    /// Of the worker's slots, at most this many.
    pub concurrency: Option<usize>,
    /// Its slots are its own, beside the worker's: its jobs and those of other types never wait for each other. There
    /// are `concurrency` of them, or else a fifth of the worker's, and at least one.
    pub own_slots: bool,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// Delays between attempts.
    pub retry: Option<RetryPolicy>,
}

impl WorkerSettings {
    /// What is wrong with them, as a sentence that says what is allowed.
    pub fn check(&self) -> Result<(), String> {
        whole("worker_count", self.worker_count, 1, WORKER_COUNT_MAX)?;
        whole("fetch_batch_size", self.fetch_batch_size, 1, LEASE_JOBS_MAX)?;
        whole("dispatch_batch_size", self.loops.dispatch_batch_size, 1, PROMOTE_JOBS_MAX)?;
        let leases = (LEASE_MS_MIN, LEASE_MS_MAX);
        time("lease", self.lease, leases.0, leases.1)?;
        time("aggregation_lease", self.loops.aggregation_lease, leases.0, leases.1)?;
        time("worker_timeout", self.worker_timeout, 1, 60_000)?;
        time("job_timeout", self.job_timeout, 1, TIMEOUT_MS_MAX)?;
        time("shutdown_grace_period", self.shutdown_grace_period, 0, TIMEOUT_MS_MAX)?;
        time("cancel_grace_period", self.cancel_grace_period, 0, TIMEOUT_MS_MAX)?;
        let loops = &self.loops;
        // Beyond 15 s between two runs the reclaimer takes it for an outage and waits.
        time("reclaim_interval", loops.reclaim_interval, 10, 10_000)?;
        for (name, interval) in [
            ("dispatch_interval", loops.dispatch_interval),
            ("fetch_interval", loops.fetch_interval),
            ("watch_interval", loops.watch_interval),
            ("aggregate_interval", loops.aggregate_interval),
            ("sweep_interval", loops.sweep_interval),
        ] {
            time(name, interval, 10, 3_600_000)?;
        }
        Ok(())
    }
}

impl TypeOptions {
    /// Most jobs of the type at a time in a worker with so many slots, if it has a limit.
    pub(crate) fn limit(&self, worker_count: usize) -> Option<usize> {
        let own = self.own_slots.then(|| (worker_count / OWN_SLOTS_PART).max(1));
        self.concurrency.or(own)
    }

    /// What is wrong with them, as a sentence that says what is allowed.
    pub fn check(&self) -> Result<(), String> {
        whole("concurrency", self.concurrency.unwrap_or(1), 1, WORKER_COUNT_MAX)?;
        time("timeout", self.timeout.unwrap_or(Duration::from_secs(1)), 1, TIMEOUT_MS_MAX)
    }
}

/// Longest time that can be given to a job, in milliseconds: a day.
const TIMEOUT_MS_MAX: u64 = 24 * 3600 * 1000;

fn whole(name: &str, value: usize, least: usize, most: usize) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{name} is {value}; it must be from {least} to {most}"))
}

fn time(name: &str, value: Duration, least_ms: u64, most_ms: u64) -> Result<(), String> {
    if (Duration::from_millis(least_ms)..=Duration::from_millis(most_ms)).contains(&value) {
        return Ok(());
    }
    Err(format!("{name} is {} ms; it must be from {least_ms} to {most_ms}", value.as_millis()))
}
