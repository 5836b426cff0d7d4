//! A worker: takes jobs, runs them side by side, keeps their leases alive, settles them.
//!
//! - `pool/fetcher.rs`: leases no more than there are free slots, and waits for a push when there is nothing.
//! - `pool/attempt.rs`: one attempt from its start to its settlement, whatever the processor does.
//! - `pool/heartbeat.rs`: renews leases. `pool/settler.rs`: settles in batches that cost no time.
//! - `pool/gather.rs`: lets jobs that end together be asked for and settled together.
//! - `pool/slots.rs`: who runs. `pool/in_hand.rs`: what is leased and not yet settled.
//! - `pool/outage.rs`: an engine that does not answer is waited for. `pool/meters.rs`: what is counted.
//!
//! Invariant: a job that was leased is in hand until the engine has answered its settlement, and as long as it
//! is in hand its lease is renewed. A stop leaves nothing in hand unless the engine does not answer.

mod attempt;
mod fetcher;
mod gather;
mod heartbeat;
mod in_hand;
mod meters;
mod outage;
mod settler;
mod slots;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane_core::limits::TYPES_MAX;
use fairlane_core::queue::{Discipline, Inspect, Inspected};
use fairlane_core::{TypeId, WorkerId};
use fairlane_engine::{Engine, EngineError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::aggregation::{EndedJob, Fold};
use crate::context::{CancelReason, Context};
use crate::events::{Event, Hook, Hooks, StopReport};
use crate::loops;
use crate::middleware::Middleware;
use crate::outcome::IntoOutcome;
use crate::processor::{Processor, typed};
use crate::settings::{TypeOptions, WorkerSettings};
pub(crate) use in_hand::InHand;
use meters::Meters;
pub(crate) use outage::{Outage, Pauses};
use slots::{Slots, TypeSlots};

/// How long a stop waits, after the grace period, for the engine to hear what became of the last jobs; and in all, if
/// it has nothing to hear and does not answer.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How often a stop looks whether it waits in vain.
const VAIN_LOOK: Duration = Duration::from_millis(100);

/// A worker cannot start as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WorkerError(String);

/// A worker to be started.
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
    /// A worker without processors; it would only run the loops.
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

    /// What the worker's id begins with; process number and a random part follow.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How it works.
    pub fn settings(mut self, settings: WorkerSettings) -> Self {
        self.settings = settings;
        self
    }

    /// The settings, to change some.
    pub fn configure(mut self, change: impl FnOnce(&mut WorkerSettings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// What is done with jobs of a type: a closure that is given the payload, read from JSON as its type.
    pub fn process<P, F, Fut>(self, type_name: impl Into<String>, work: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoOutcome,
    {
        self.processor(type_name, typed(work))
    }

    /// What is done with jobs of a type, as a [`Processor`].
    pub fn processor(self, type_name: impl Into<String>, processor: impl Processor) -> Self {
        self.processor_with(type_name, TypeOptions::default(), processor)
    }

    /// The same with options of the type's own.
    pub fn processor_with(
        mut self,
        type_name: impl Into<String>,
        options: TypeOptions,
        processor: impl Processor,
    ) -> Self {
        self.types.push((type_name.into(), options, Arc::new(processor)));
        self
    }

    /// Wraps every attempt; the first one added is the outermost.
    pub fn middleware(mut self, layer: impl Middleware) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Hears every event; must be quick.
    pub fn on_event(mut self, hook: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Adds to the summaries of bulk actions that ask for it by this name: `add` is called for each job that has
    /// ended, beginning with the default of `T`, which is then part of the summary.
    pub fn fold<T, F>(mut self, name: impl Into<String>, add: F) -> Self
    where
        T: Default + Serialize + Send + 'static,
        F: Fn(&mut T, &EndedJob) + Send + Sync + 'static,
    {
        self.folds.insert(name.into(), Fold::new(add));
        self
    }

    /// Only takes jobs; the loops must run elsewhere, or lost leases and ended bulk actions stay as they are.
    pub fn without_loops(mut self) -> Self {
        self.with_loops = false;
        self
    }

    /// Starts it on the runtime this is called from.
    pub fn start(self) -> Result<Pool, WorkerError> {
        self.settings.check().map_err(WorkerError)?;
        let with_loops = self.with_loops;
        let (settler, shared) = self.prepare()?;
        let mut tasks = Vec::new();
        if shared.types.is_empty() {
            shared.fetched.cancel();
        } else {
            tasks.push(tokio::spawn(fetcher::Fetcher::new(shared.clone()).run()));
        }
        let keepers = vec![
            tokio::spawn(heartbeat::beat(shared.clone())),
            tokio::spawn(settler::settle_all(shared.clone(), settler)),
        ];
        if with_loops {
            tasks.extend(loops::start(&shared));
        }
        Ok(Pool { shared, tasks, keepers })
    }

    fn prepare(self) -> Result<(settler::Endings, Arc<Shared>), WorkerError> {
        if self.types.len() > TYPES_MAX {
            return Err(WorkerError(format!("a worker takes at most {TYPES_MAX} types")));
        }
        let mut types = HashMap::new();
        let mut limits = Vec::new();
        for (name, options, processor) in self.types {
            let type_id = TypeId::new(&name).map_err(|error| WorkerError(error.to_string()))?;
            options.check().map_err(|problem| WorkerError(format!("type {name}: {problem}")))?;
            let limit = options.limit(self.settings.worker_count);
            limits.push(TypeSlots { type_id: type_id.clone(), limit, own: options.own_slots });
            let meters = Meters::new(&type_id);
            if types.insert(type_id, TypeEntry { options, processor, meters }).is_some() {
                return Err(WorkerError(format!("type {name} has two processors; it can have one")));
            }
        }
        let id = format!("{}-{}-{:08x}", self.name, std::process::id(), fastrand::u32(..));
        let worker = WorkerId::new(&id).map_err(|error| WorkerError(error.to_string()))?;
        let (ended, endings) = settler::channel(self.settings.worker_count);
        let hooks = Hooks::new(self.hooks);
        let shared = Shared {
            worker,
            types,
            slots: Slots::new(self.settings.worker_count, limits),
            layers: self.layers.into(),
            folds: self.folds,
            outage: Outage::new(hooks.clone()),
            hooks,
            in_hand: InHand::default(),
            ended,
            stopping: CancellationToken::new(),
            fetched: CancellationToken::new(),
            stopped: CancellationToken::new(),
            bulk_moved: tokio::sync::Notify::new(),
            bulks_met: Default::default(),
            classic: Mutex::new(None),
            engine: self.engine,
            settings: self.settings,
        };
        Ok((endings, Arc::new(shared)))
    }
}

pub(crate) struct TypeEntry {
    pub options: TypeOptions,
    pub processor: Arc<dyn Processor>,
    pub meters: Meters,
}

/// What the parts of one worker share.
pub(crate) struct Shared {
    pub engine: Arc<dyn Engine>,
    pub worker: WorkerId,
    pub settings: WorkerSettings,
    pub types: HashMap<TypeId, TypeEntry>,
    pub layers: Arc<[Arc<dyn Middleware>]>,
    pub folds: HashMap<String, Fold>,
    pub hooks: Hooks,
    pub slots: Slots,
    pub in_hand: InHand,
    pub outage: Outage,
    pub ended: settler::Sender,
    /// Takes nothing new.
    pub stopping: CancellationToken,
    /// No lease is asked for any more, and none is unanswered.
    pub fetched: CancellationToken,
    /// Nothing is in hand any more, or nobody waits for it.
    pub stopped: CancellationToken,
    /// A job of a bulk action was settled: one may have come to its end.
    pub bulk_moved: tokio::sync::Notify,
    /// Bulk actions whose jobs were met here, for the watcher.
    pub bulks_met: loops::BulksMet,
    /// Whether the discipline was `classic`, and when that was looked up.
    classic: Mutex<Option<(bool, Instant)>>,
}

/// The discipline can be changed while nothing is queued; it is looked up again this often.
const DISCIPLINE_LOOK: Duration = Duration::from_secs(5);

impl Shared {
    /// Whether the queue runs under `classic`, as it was a few seconds ago at most.
    pub async fn is_classic(&self) -> Result<bool, EngineError> {
        let known = *self.classic.lock().expect("nothing panics while it holds the discipline");
        if let Some((classic, at)) = known
            && at.elapsed() < DISCIPLINE_LOOK
        {
            return Ok(classic);
        }
        let looked = self.engine.inspect(Inspect::Whole).await?;
        let classic =
            matches!(looked, Inspected::Whole(whole) if whole.settings.discipline == Discipline::Classic);
        *self.classic.lock().expect("nothing panics while it holds the discipline") =
            Some((classic, Instant::now()));
        Ok(classic)
    }

    pub fn lease_ms(&self) -> u64 {
        self.settings.lease.as_millis() as u64
    }
}

/// A running worker. Dropping it lets running jobs end in the background; [`stop`](Self::stop) waits for them.
pub struct Pool {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    keepers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Its id in the engine.
    pub fn id(&self) -> &WorkerId {
        &self.shared.worker
    }

    /// Jobs it has leased and not yet settled.
    pub fn in_hand(&self) -> usize {
        self.shared.in_hand.len()
    }

    /// Stops: takes nothing new, lets running jobs end, tells those that still run to stop when only
    /// `cancel_grace_period` is left of the grace period, hands back what does not end in it, and waits until the
    /// engine knows. Takes at most the grace period and some seconds, whatever happens; a few seconds if nothing is in
    /// hand and the engine does not answer.
    pub async fn stop(mut self) -> StopReport {
        let shared = self.shared.clone();
        let until = Instant::now() + shared.settings.shutdown_grace_period;
        shared.hooks.tell(|| Event::Stopping);
        let settled_before = shared.in_hand.ends();
        shared.stopping.cancel();
        let (tasks, keepers) = (std::mem::take(&mut self.tasks), std::mem::take(&mut self.keepers));
        let running: Vec<AbortHandle> = tasks.iter().map(JoinHandle::abort_handle).collect();
        tokio::select! {
            _ = async { tokio::join!(end_tasks(tasks, until + LAST_WORDS), put_down(&shared, until)) } => {}
            () = waits_in_vain(&shared) => running.iter().for_each(AbortHandle::abort),
        }
        shared.stopped.cancel();
        for keeper in keepers {
            let _ = timeout(LAST_WORDS, keeper).await;
        }
        let ends = shared.in_hand.ends();
        let report = StopReport {
            finished: ends.finished - settled_before.finished,
            handed_back: ends.handed_back - settled_before.handed_back,
            left: shared.in_hand.len(),
        };
        let StopReport { finished, handed_back, left } = report;
        tracing::info!(target: TARGET, finished, handed_back, left, "the worker has stopped");
        shared.hooks.tell(|| Event::Stopped(report));
        report
    }
}

/// Waits until the loops and the fetcher have ended by themselves, as they do at a stop.
async fn end_tasks(tasks: Vec<JoinHandle<()>>, until: Instant) {
    for mut task in tasks {
        if timeout_at(until, &mut task).await.is_err() {
            task.abort();
        }
    }
}

/// Resolves when an engine that does not answer is all that a stop still waits for. What it may have leased without
/// being heard runs elsewhere when its lease runs out.
async fn waits_in_vain(shared: &Shared) {
    tokio::time::sleep(LAST_WORDS).await;
    while shared.in_hand.len() > 0 || !shared.outage.is_down() {
        tokio::time::sleep(VAIN_LOOK).await;
    }
}

/// Waits until nothing is in hand; the end of the grace period belongs to those who are told to stop.
async fn put_down(shared: &Shared, until: Instant) {
    let WorkerSettings { shutdown_grace_period, cancel_grace_period, .. } = shared.settings;
    let tell_at = until - cancel_grace_period.min(shutdown_grace_period / 2);
    let nothing_left = async {
        shared.fetched.cancelled().await;
        shared.in_hand.empty().await;
    };
    if timeout_at(tell_at, nothing_left).await.is_ok() {
        return;
    }
    shared.in_hand.cancel_all(CancelReason::Stopping);
    let nothing_left = async {
        shared.fetched.cancelled().await;
        // What came late is told as well.
        shared.in_hand.cancel_all(CancelReason::Stopping);
        shared.in_hand.empty().await;
    };
    // A processor that cannot be dropped keeps its job: handing it back would let it run twice at once.
    let _ = timeout(cancel_grace_period + LAST_WORDS, nothing_left).await;
}

/// The target of every event.
pub(crate) const TARGET: &str = fairlane_engine::observe::TARGET;

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stopping.cancel();
    }
}
