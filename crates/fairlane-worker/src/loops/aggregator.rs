//! Summarises bulk actions that have ended, and has their callbacks sent.
//!
//! Invariant: the callback's job is enqueued, under an id that is always the same, before the bulk action
//! counts as aggregated; so it is sent at least once, whichever worker dies in between. What was taken stays in hand,
//! its lease renewed, until the engine has answered how it ended: an engine that is away is asked again until the
//! lease has ended, and a reply that got lost is asked for again, since what is in hand is given again. Woken whenever
//! a job of a bulk action was settled here; others' are found by looking now and again.
//!
//! Several are aggregated side by side. One that cannot be aggregated here is given back for other workers, with a
//! delay that grows, so that any number of them leaves room for the rest; one whose fold stays unknown fails in the
//! end. `aggregator/postponed.rs` remembers how often each was given back.

mod postponed;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::queue::{
    Aggregation, BulkRef, BulkView, Enqueue, FinishBulk, JobReceipt, JobRef, ListJobs, NewJob, TakeCompleted,
    TakenBulk, Verdict,
};
use fairlane_core::{Cost, Fence, JobId, Level, Trace, TypeId};
use fairlane_engine::EngineError;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Pace, one_round};
use crate::aggregation::{AggregationError, summarise};
use crate::events::Event;
use crate::outcome::Problem;
use crate::plan::{BulkPlan, CALLBACK_TYPE, CallbackPlan, callback_id};
use crate::pool::{Pauses, Shared, TARGET};
use postponed::{Postponed, TRIES_MAX, delay};

/// Bulk actions that one worker aggregates side by side: a long one must not delay the others.
const PARALLEL: usize = 4;
/// Jobs of bulk actions settle in a stream; it looks at most this often.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// Overdue or not, the engine has this long to answer.
const ANSWER_MIN: Duration = Duration::from_secs(5);
/// What is being done, for those who hear of an outage.
const DOING: &str = "aggregator";

pub(super) async fn run(shared: Arc<Shared>) {
    let interval = shared.settings.loops.aggregate_interval;
    let mut running = Running::default();
    loop {
        tokio::select! {
            biased;
            _ = shared.stopping.cancelled() => break,
            Some(ended) = running.tasks.join_next_with_id() => {
                // After an error it is tried again with the next look.
                if !running.note(&shared, ended).await {
                    continue;
                }
            }
            _ = shared.bulk_moved.notified() => sleep(LOOK_PAUSE).await,
            _ = sleep(interval.mul_f64(0.8 + fastrand::f64() * 0.4)) => {}
        }
        one_round(&shared, DOING, running.take(&shared)).await;
    }
    while let Some(ended) = running.tasks.join_next_with_id().await {
        running.note(&shared, ended).await;
    }
}

/// What became of one that was taken.
enum Left {
    /// It is finished, or another worker's.
    Behind,
    /// It cannot be aggregated here for now, and was given back; why.
    Unable(String),
}

/// A task that aggregates one bulk action, at its end.
type Ended = Result<(Id, Result<Left, EngineError>), JoinError>;

/// The aggregations of this worker.
#[derive(Default)]
struct Running {
    tasks: JoinSet<Result<Left, EngineError>>,
    /// Which task has which, under which fence.
    bulks: HashMap<Id, (BulkRef, Fence)>,
    postponed: Postponed,
}

impl Running {
    /// Takes as many as have room and begins with them. What is in hand is given again; only what no task has is new.
    async fn take(&mut self, shared: &Arc<Shared>) -> Result<Pace, EngineError> {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.note(shared, ended).await;
        }
        let asked = Instant::now();
        let given = shared.engine.take_completed(order(shared)).await?.bulks;
        for taken in given {
            if self.bulks.values().any(|(_, fence)| *fence == taken.fence) {
                continue;
            }
            let named = (taken.view.bulk.clone(), taken.fence);
            let tries = self.postponed.tries(&named.0);
            let task = self.tasks.spawn(aggregate_or_give_back(shared.clone(), taken, asked, tries));
            self.bulks.insert(task.id(), named);
        }
        Ok(Pace::Rest)
    }

    /// Notes how a task ended; false if the engine failed it.
    async fn note(&mut self, shared: &Shared, ended: Ended) -> bool {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some((bulk, _)) = self.bulks.remove(&id) else { return true };
        let Ok((_, result)) = ended else { return false };
        let (pace, answered) = match result {
            Ok(Left::Behind) => {
                self.postponed.forget(&bulk);
                (Ok(Pace::Rest), true)
            }
            Ok(Left::Unable(advice)) => {
                self.postponed.add(shared, bulk, advice);
                (Ok(Pace::Rest), true)
            }
            Err(error) => (Err(error), false),
        };
        one_round(shared, DOING, std::future::ready(pace)).await;
        answered
    }
}

async fn aggregate_or_give_back(
    shared: Arc<Shared>,
    taken: TakenBulk,
    asked: Instant,
    tries: u32,
) -> Result<Left, EngineError> {
    let is_last_try = tries + 1 >= TRIES_MAX;
    let left = aggregate(&shared, &taken, asked + lease(&shared), is_last_try).await?;
    if matches!(left, Left::Unable(_)) {
        let outcome = Aggregation::Released { delay_ms: delay(tries).as_millis() as u64 };
        shared.engine.finish_bulk(finish_command(&taken, [].into(), outcome)).await?;
    }
    Ok(left)
}

fn lease(shared: &Shared) -> Duration {
    shared.settings.loops.aggregation_lease
}

fn order(shared: &Shared) -> TakeCompleted {
    let lease_ms = lease(shared).as_millis() as u64;
    TakeCompleted { worker: shared.worker.clone(), bulks_max: PARALLEL, lease_ms }
}

fn finish_command(taken: &TakenBulk, summary: Arc<[u8]>, outcome: Aggregation) -> FinishBulk {
    FinishBulk { bulk: taken.view.bulk.clone(), fence: taken.fence, summary, outcome }
}

async fn aggregate(
    shared: &Shared,
    taken: &TakenBulk,
    mut until: Instant,
    is_last_try: bool,
) -> Result<Left, EngineError> {
    let view = &taken.view;
    let prepared = tokio::select! {
        biased;
        prepared = prepare(shared, view, is_last_try) => prepared,
        lost = keep(shared, taken, &mut until) => {
            lost?;
            tell_lost(shared, view);
            return Ok(Left::Behind);
        }
    };
    let (summary, outcome) = match prepared {
        Ok(prepared) => prepared,
        Err(advice) => return Ok(Left::Unable(advice)),
    };
    let command = finish_command(taken, summary.clone(), outcome);
    let finish = insist(shared, || shared.engine.finish_bulk(command.clone()));
    match before(shared, until, finish).await? {
        Ok(finished) if finished.0 == Verdict::Applied => {
            tracing::info!(target: TARGET, bulk = ?view.bulk, total = view.total, "a bulk action has ended");
            shared.hooks.tell(|| Event::BulkEnded { view: Box::new(view.clone()), summary });
        }
        Ok(_) => tell_lost(shared, view),
        Err(error) => return Ok(Left::Unable(error.to_string())),
    }
    Ok(Left::Behind)
}

fn tell_lost(shared: &Shared, view: &BulkView) {
    let advice = "its aggregation came too late: it was cancelled meanwhile, or this worker was silent for longer \
                  than aggregation_lease, which should then be raised";
    tracing::warn!(target: TARGET, bulk = ?view.bulk, advice, "an aggregation was not taken");
    shared.hooks.tell(|| Event::BulkStuck { bulk: view.bulk.clone(), advice: advice.to_owned() });
}

/// The summary, and what is to become of the bulk action; its callback is enqueued then. Or why it cannot be done.
async fn prepare(
    shared: &Shared,
    view: &BulkView,
    is_last_try: bool,
) -> Result<(Arc<[u8]>, Aggregation), String> {
    let (plan, unread) = match BulkPlan::from_bytes(&view.payload) {
        Ok(plan) => (plan, None),
        Err(error) => (BulkPlan::default(), Some(format!("its plan cannot be read: {error}"))),
    };
    let list = |page: ListJobs| insist(shared, move || shared.engine.list_jobs(page.clone()));
    let summarised = match unread {
        Some(problem) => Err(AggregationError::Failed(problem)),
        None => match summarise(list, view, &plan, &shared.folds).await {
            Err(AggregationError::UnknownFold(name)) if is_last_try => {
                let problem = format!("no worker knows its fold `{name}`; this one met it {TRIES_MAX} times");
                Err(AggregationError::Failed(problem))
            }
            summarised => summarised,
        },
    };
    let prepared = match summarised {
        Ok(summary) => (summary.to_bytes().into(), Aggregation::Done),
        Err(AggregationError::Engine(error)) => return Err(error.to_string()),
        Err(AggregationError::UnknownFold(name)) => {
            return Err(format!("its fold `{name}` is not known to this worker; start one that knows it"));
        }
        Err(AggregationError::Failed(problem)) => {
            tracing::error!(target: TARGET, bulk = ?view.bulk, problem, "its aggregation failed");
            let Problem { message, .. } = Problem::new("aggregation", problem);
            let summary = serde_json::json!({ "error": message }).to_string();
            (summary.into_bytes().into(), Aggregation::Failed)
        }
    };
    if let Some(callback) = &plan.callback {
        let enqueued = enqueue_callback(shared, view, callback, plan.trace.as_deref()).await;
        enqueued.map_err(|error| error.to_string())?;
    }
    Ok(prepared)
}

/// Renews the lease again and again; ends when what was taken is in other hands. An error if nobody could be asked
/// until the lease had ended.
async fn keep(shared: &Shared, taken: &TakenBulk, until: &mut Instant) -> Result<(), EngineError> {
    loop {
        sleep(lease(shared) / 3).await;
        let renew = insist(shared, || async {
            let asked = Instant::now();
            shared.engine.take_completed(order(shared)).await.map(|taken| (asked, taken.bulks))
        });
        let (asked, bulks) = before(shared, *until, renew).await??;
        if bulks.iter().all(|given| given.fence != taken.fence) {
            return Ok(());
        }
        *until = asked + lease(shared);
    }
}

/// Asks until the engine answers; how long it may take is for the caller to say.
async fn insist<T, A>(shared: &Shared, ask: impl Fn() -> A) -> Result<T, EngineError>
where
    A: Future<Output = Result<T, EngineError>>,
{
    let mut pauses = Pauses::default();
    loop {
        let error = match ask().await {
            Err(error) if error.is_retryable() => error,
            answer => {
                shared.outage.over();
                return answer;
            }
        };
        shared.outage.failed(DOING, &error);
        if !pauses.pause(&shared.stopped).await {
            return Err(error);
        }
    }
}

/// What is answered before the lease has ended.
async fn before<T>(
    shared: &Shared,
    until: Instant,
    answer: impl Future<Output = T>,
) -> Result<T, EngineError> {
    let until = until.max(Instant::now() + ANSWER_MIN);
    timeout_at(until, answer).await.map_err(|_| EngineError::Unavailable {
        engine: shared.engine.name(),
        reason: "it has not answered until the lease of an aggregation had ended".into(),
    })
}

async fn enqueue_callback(
    shared: &Shared,
    view: &BulkView,
    callback: &CallbackPlan,
    trace: Option<&str>,
) -> Result<(), EngineError> {
    let payload = serde_json::json!({
        "url": callback.url,
        "group": view.bulk.group.to_string(),
        "bulk": view.bulk.id.to_string(),
    });
    let id = JobId::new(callback_id(view)).map_err(invalid_name)?;
    let job = NewJob {
        job: JobRef { group: view.bulk.group.clone(), id },
        type_id: TypeId::new(CALLBACK_TYPE).map_err(invalid_name)?,
        level: Level::High,
        cost: Cost::default(),
        payload: payload.to_string().into_bytes().into(),
        delay_ms: 0,
        bulk: None,
        // A callback without its trace is better than none.
        trace: trace.and_then(|trace| Trace::new(trace).ok()),
    };
    let command = Enqueue { jobs: vec![job] };
    let receipts = insist(shared, || shared.engine.enqueue(command.clone())).await?.receipts;
    if let Some(JobReceipt::Refused { refusal, .. }) = receipts.first() {
        // It is tried again after a pause; by then there may be room.
        return Err(EngineError::Refused { reason: format!("its callback was refused: {refusal:?}") });
    }
    Ok(())
}

fn invalid_name(error: fairlane_core::InvalidName) -> EngineError {
    EngineError::Refused { reason: error.to_string() }
}
