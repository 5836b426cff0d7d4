//! A worker: leases jobs, runs them concurrently, renews their leases and settles them.
//!
//! - `pool/fetcher.rs`: leases no more jobs than there are free slots, and waits for wake-ups.
//! - `pool/attempt.rs`: one attempt from its start to its settlement, whatever the processor does.
//! - `pool/heartbeat.rs`: renews leases. `pool/progress.rs`: stores reported progress.
//!   `pool/settler.rs`: settles in batches.
//! - `pool/stopper.rs`: stops attempts that have timed out or were requested to stop.
//! - `pool/gather.rs`: batches jobs that end together into one lease and one settlement.
//! - `pool/slots.rs`: concurrency limits. `pool/active_jobs.rs`: jobs leased and not yet settled.
//! - `pool/outage.rs`: outages of the engine. `pool/meters.rs`: metrics of attempts.
//!
//! Invariant: a leased job is active until the engine has replied to its settlement, and while it
//! is active its lease is renewed. A stop leaves no active job unless the engine does not reply.

mod active_jobs;
mod attempt;
mod fetcher;
mod gather;
mod heartbeat;
mod meters;
mod outage;
mod progress;
mod settler;
mod slots;
mod stopper;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane_core::limits::TYPES_MAX;
use fairlane_core::queue::{Discipline, InspectQueue};
use fairlane_core::{TypeId, WorkerId};
use fairlane_engine::{Engine, EngineError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::aggregation::{EndedJob, Fold};
use crate::context::{CancelReason, Context};
use crate::events::{Event, Hook, Hooks, StopReport};
use crate::loops;
use crate::middleware::{Middleware, Next};
use crate::outcome::IntoOutcome;
use crate::processor::{Processor, typed};
use crate::retry::RetryPolicy;
use crate::settings::{TypeOptions, WorkerSettings};
pub(crate) use active_jobs::ActiveJobs;
use meters::Meters;
pub(crate) use outage::Outage;
use slots::{Slots, TypeSlots};

/// How long a stop waits, after the grace period, for the engine to accept the last settlements;
/// and in total, if there is nothing to settle and the engine does not reply.
const FINAL_SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a stop checks whether only an outage of the engine holds it up.
const OUTAGE_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A worker cannot be started with these settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorkerError(String);

/// Builds a worker.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use fairlane_worker::{Context, Outcome, Worker};
///
/// let engine = fairlane_engine::open("memory:", Default::default()).await?;
/// let pool = Worker::new(engine)
///     .process("greet", |name: String, job: Context| async move {
///         println!("hello {name}, attempt {}", job.attempt());
///         Outcome::done(&name.len())
///     })
///     .start()?;
/// pool.stop().await;
/// # Ok(())
/// # }
/// ```
pub struct Worker {
    engine: Arc<dyn Engine>,
    name: String,
    settings: WorkerSettings,
    types: Vec<(String, TypeOptions, Arc<dyn Processor>)>,
    layers: Vec<Arc<dyn Middleware>>,
    hooks: Vec<Hook>,
    folds: HashMap<String, Fold>,
    with_loops: bool,
}

impl Worker {
    /// A worker without processors, which only runs the background loops.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            name: "worker".into(),
            settings: WorkerSettings::default(),
            types: Vec::new(),
            layers: Vec::new(),
            hooks: Vec::new(),
            folds: HashMap::new(),
            with_loops: true,
        }
    }

    /// The prefix of the worker's id; the process id and a random part follow.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Replaces the settings.
    pub fn settings(mut self, settings: WorkerSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Changes some of the settings.
    pub fn configure(mut self, change: impl FnOnce(&mut WorkerSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Sets the processor of a type: a closure that receives the payload deserialised from JSON.
    pub fn process<P, F, Fut>(self, type_name: impl Into<String>, work: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoOutcome,
    {
        self.processor(type_name, typed(work))
    }

    /// Sets the processor of a type, as a [`Processor`].
    pub fn processor(self, type_name: impl Into<String>, processor: impl Processor) -> Self {
        self.processor_with(type_name, TypeOptions::default(), processor)
    }

    /// Sets the processor of a type together with the type's options.
    pub fn processor_with(
        mut self,
        type_name: impl Into<String>,
        options: TypeOptions,
        processor: impl Processor,
    ) -> Self {
        self.types.push((type_name.into(), options, Arc::new(processor)));
        self
    }

    /// Adds a middleware around every attempt; the first one added is the outermost.
    pub fn middleware(mut self, layer: impl Middleware) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Adds a hook that is called for every event; it must return quickly.
    pub fn on_event(mut self, hook: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Registers a fold for bulk actions that name it. `add` is called for each ended job, starting
    /// with the default of `T`; the final value becomes part of the summary.
    pub fn fold<T, F>(mut self, name: impl Into<String>, add: F) -> Self
    where
        T: Default + Serialize + Send + 'static,
        F: Fn(&mut T, &EndedJob) + Send + Sync + 'static,
    {
        self.folds.insert(name.into(), Fold::new(add));
        self
    }

    /// Runs no background loops. They must run in another worker, or expired leases are not
    /// reclaimed and ended bulk actions are not aggregated.
    pub fn without_loops(mut self) -> Self {
        self.with_loops = false;
        self
    }

    /// Starts the worker on the current Tokio runtime.
    pub fn start(self) -> Result<Pool, WorkerError> {
        self.settings.check().map_err(WorkerError)?;
        let with_loops = self.with_loops;
        let (endings, stops, shared) = self.prepare()?;
        let mut tasks = Vec::new();
        if shared.types.is_empty() {
            shared.fetched.cancel();
        } else {
            tasks.push(tokio::spawn(fetcher::Fetcher::new(shared.clone()).run()));
        }
        let service_tasks = vec![
            tokio::spawn(heartbeat::beat(shared.clone())),
            tokio::spawn(progress::send(shared.clone())),
            tokio::spawn(settler::settle_all(shared.clone(), endings)),
            tokio::spawn(stopper::stop_attempts(shared.clone(), stops)),
        ];
        if with_loops {
            tasks.extend(loops::start(&shared));
        }
        Ok(Pool { shared, tasks, service_tasks })
    }

    fn prepare(self) -> Result<(settler::Endings, stopper::StopRequests, Arc<Shared>), WorkerError> {
        if self.types.len() > TYPES_MAX {
            return Err(WorkerError(format!("a worker has at most {TYPES_MAX} types")));
        }
        let settings = self.settings;
        let mut limits = Vec::new();
        for (name, options, _) in &self.types {
            let type_id = TypeId::new(name).map_err(|error| WorkerError(error.to_string()))?;
            options.check().map_err(|problem| WorkerError(format!("type {name}: {problem}")))?;
            let limit = options.limit(settings.worker_count);
            limits.push(TypeSlots { type_id, limit, own: options.own_slots });
        }
        let type_ids: Vec<TypeId> = limits.iter().map(|limit| limit.type_id.clone()).collect();
        let slots = Slots::new(settings.worker_count, limits);
        let (hooks, reports) = (Hooks::new(self.hooks), Arc::new(progress::Reports::default()));
        let (stops, stop_requests) = mpsc::unbounded_channel();
        let mut types = HashMap::new();
        for (type_id, (name, options, processor)) in type_ids.into_iter().zip(self.types) {
            let entry = TypeEntry {
                engine: self.engine.clone(),
                hooks: hooks.clone(),
                lease_ms: settings.lease.as_millis() as u64,
                class: slots.class_of(&type_id).expect("every type has a class"),
                timeout: options.timeout.unwrap_or(settings.job_timeout),
                retry: options.retry.unwrap_or(settings.retry),
                chain: Next::outermost(self.layers.clone(), processor),
                meters: Meters::new(&type_id),
                stops: stops.clone(),
                reports: reports.clone(),
            };
            if types.insert(type_id, Arc::new(entry)).is_some() {
                return Err(WorkerError(format!("type {name} has two processors; it can have one")));
            }
        }
        let id = format!("{}-{}-{:08x}", self.name, std::process::id(), fastrand::u32(..));
        let worker = WorkerId::new(&id).map_err(|error| WorkerError(error.to_string()))?;
        let (ended, endings) = settler::channel(settings.worker_count);
        let shared = Shared {
            worker,
            shortest_timeout: types.values().map(|entry| entry.timeout).min().unwrap_or(settings.job_timeout),
            types,
            slots,
            folds: self.folds,
            outage: Outage::new(hooks.clone()),
            hooks,
            active_jobs: ActiveJobs::default(),
            reports,
            ended,
            stopping: CancellationToken::new(),
            fetched: CancellationToken::new(),
            stopped: CancellationToken::new(),
            bulk_progress: tokio::sync::Notify::new(),
            seen_bulks: Default::default(),
            classic: Mutex::new(None),
            engine: self.engine,
            settings,
        };
        Ok((endings, stop_requests, Arc::new(shared)))
    }
}

/// What attempts at jobs of one type share.
pub(crate) struct TypeEntry {
    pub engine: Arc<dyn Engine>,
    pub hooks: Hooks,
    pub lease_ms: u64,
    /// The class of the type in [`Slots`].
    pub class: usize,
    pub timeout: Duration,
    pub retry: RetryPolicy,
    /// The processor and its middleware.
    pub chain: Next,
    pub meters: Meters,
    /// Attempts that were requested to stop, for the stopper.
    pub stops: mpsc::UnboundedSender<Context>,
    pub reports: Arc<progress::Reports>,
}

/// The state that the parts of one worker share.
pub(crate) struct Shared {
    pub engine: Arc<dyn Engine>,
    pub worker: WorkerId,
    pub settings: WorkerSettings,
    pub types: HashMap<TypeId, Arc<TypeEntry>>,
    /// The shortest timeout of an attempt.
    pub shortest_timeout: Duration,
    pub folds: HashMap<String, Fold>,
    pub hooks: Hooks,
    pub slots: Slots,
    pub active_jobs: ActiveJobs,
    pub reports: Arc<progress::Reports>,
    pub outage: Outage,
    pub ended: settler::Sender,
    /// Cancelled when the worker stops leasing jobs.
    pub stopping: CancellationToken,
    /// Cancelled when no lease request is outstanding and none will be sent.
    pub fetched: CancellationToken,
    /// Cancelled when no job is active, or the stop no longer waits for active jobs.
    pub stopped: CancellationToken,
    /// Notified when a job of a bulk action was settled: the bulk action may have ended.
    pub bulk_progress: tokio::sync::Notify,
    /// Bulk actions whose jobs were leased here, for the watcher.
    pub seen_bulks: loops::SeenBulks,
    /// Whether the discipline was `classic`, and when that was read.
    classic: Mutex<Option<(bool, Instant)>>,
}

/// How long the discipline is cached; it can change while nothing is queued.
const DISCIPLINE_CACHE_TTL: Duration = Duration::from_secs(5);

impl Shared {
    /// Whether the queue runs under `classic`; the result may be a few seconds old.
    pub async fn is_classic(&self) -> Result<bool, EngineError> {
        let cached = *self.classic.lock().expect("nothing panics while it holds the discipline");
        if let Some((classic, read_at)) = cached
            && read_at.elapsed() < DISCIPLINE_CACHE_TTL
        {
            return Ok(classic);
        }
        let queue = self.engine.call(InspectQueue).await?;
        let classic = queue.settings.discipline == Discipline::Classic;
        *self.classic.lock().expect("nothing panics while it holds the discipline") =
            Some((classic, Instant::now()));
        Ok(classic)
    }

    pub fn lease_ms(&self) -> u64 {
        self.settings.lease.as_millis() as u64
    }
}

/// A running worker. Dropping it lets running jobs end in the background; [`stop`](Self::stop)
/// waits for them.
pub struct Pool {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    /// The heartbeat, the reporter of progress, the settler and the stopper, which outlive the other tasks.
    service_tasks: Vec<JoinHandle<()>>,
}

impl Pool {
    /// The worker's id in the engine.
    pub fn id(&self) -> &WorkerId {
        &self.shared.worker
    }

    /// Number of jobs leased and not yet settled.
    pub fn active_jobs(&self) -> usize {
        self.shared.active_jobs.len()
    }

    /// Stops the worker: starts nothing more and lets running jobs end. A lease request whose reply
    /// is missing is repeated, and its jobs are handed back. When only
    /// `cancel_grace_period` of the grace period is left, it requests the remaining jobs to stop.
    /// Jobs that do not end within the grace period are handed back. Then it waits for the engine
    /// to acknowledge every settlement. The stop takes at most the grace period and a few seconds,
    /// and only a few seconds if no job is active and the engine does not reply.
    pub async fn stop(mut self) -> StopReport {
        let shared = self.shared.clone();
        let until = Instant::now() + shared.settings.shutdown_grace_period;
        shared.hooks.emit(|| Event::Stopping);
        let before = shared.active_jobs.end_counts();
        shared.stopping.cancel();
        let (tasks, service_tasks) =
            (std::mem::take(&mut self.tasks), std::mem::take(&mut self.service_tasks));
        let running: Vec<AbortHandle> = tasks.iter().map(JoinHandle::abort_handle).collect();
        let tasks_until = until + FINAL_SETTLE_TIMEOUT;
        tokio::select! {
            _ = async { tokio::join!(end_tasks(tasks, tasks_until), drain(&shared, until)) } => {}
            () = only_outage_left(&shared) => running.iter().for_each(AbortHandle::abort),
        }
        shared.stopped.cancel();
        for task in service_tasks {
            let _ = timeout(FINAL_SETTLE_TIMEOUT, task).await;
        }
        let ends = shared.active_jobs.end_counts();
        let report = StopReport {
            finished: ends.finished - before.finished,
            handed_back: ends.handed_back - before.handed_back,
            left: shared.active_jobs.len(),
        };
        let StopReport { finished, handed_back, left } = report;
        tracing::info!(target: TARGET, finished, handed_back, left, "the worker has stopped");
        shared.hooks.emit(|| Event::Stopped(report));
        report
    }
}

/// Waits until the loops and the fetcher have ended by themselves, and aborts those that are late.
async fn end_tasks(tasks: Vec<JoinHandle<()>>, until: Instant) {
    for mut task in tasks {
        if timeout_at(until, &mut task).await.is_err() {
            task.abort();
        }
    }
}

/// Resolves when an engine that does not reply is all that a stop still waits for. Jobs that a lost
/// reply may have leased run on another worker after their leases expire.
async fn only_outage_left(shared: &Shared) {
    tokio::time::sleep(FINAL_SETTLE_TIMEOUT).await;
    while shared.active_jobs.len() > 0 || !shared.outage.is_down() {
        tokio::time::sleep(OUTAGE_CHECK_INTERVAL).await;
    }
}

/// Waits until no job is active. The last part of the grace period is for jobs that were requested
/// to stop.
async fn drain(shared: &Shared, until: Instant) {
    let WorkerSettings { shutdown_grace_period, cancel_grace_period, .. } = shared.settings;
    let cancel_at = until - cancel_grace_period.min(shutdown_grace_period / 2);
    let no_job_left = async {
        shared.fetched.cancelled().await;
        shared.active_jobs.empty().await;
    };
    if timeout_at(cancel_at, no_job_left).await.is_ok() {
        return;
    }
    shared.active_jobs.cancel_all(CancelReason::Stopping);
    let no_job_left = async {
        shared.fetched.cancelled().await;
        // Jobs of a late lease must stop as well.
        shared.active_jobs.cancel_all(CancelReason::Stopping);
        shared.active_jobs.empty().await;
    };
    // A processor that cannot be dropped keeps its job: otherwise the job could run twice at once.
    let _ = timeout(cancel_grace_period + FINAL_SETTLE_TIMEOUT, no_job_left).await;
}

/// The target of every log event.
pub(crate) const TARGET: &str = fairlane_engine::observe::TARGET;

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stopping.cancel();
    }
}
