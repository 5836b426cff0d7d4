//! Summarises ended bulk actions, and settles them together with their callbacks.
//!
//! Invariant: a leased bulk action stays leased, with its lease renewed, until the engine has replied
//! to its settlement. An engine that does not reply is retried until the lease has expired. A lost
//! reply does no harm, since the same worker gets its leased bulk actions again. The aggregator
//! wakes whenever a job of a bulk action was settled here, and polls for those of other workers.
//!
//! Several bulk actions are aggregated concurrently. One that cannot be aggregated here is released
//! for other workers, with a growing delay, so that any number of them leaves room for the rest.
//! One whose fold stays unknown fails in the end. `aggregator/postponed.rs` counts how often each
//! was released.

mod postponed;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::Fence;
use fairlane_core::queue::{
    Aggregation, BulkRef, BulkView, Callback, LeaseBulks, LeasedBulk, ListJobs, SettleBulk, Verdict,
};
use fairlane_engine::{Backoff, EngineError};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Pace, one_round};
use crate::aggregation::{AggregationError, summarise};
use crate::events::Event;
use crate::outcome::Problem;
use crate::plan::{self, BulkPlan};
use crate::pool::{Shared, TARGET};
use postponed::{ATTEMPTS_MAX, Postponed, delay};

/// Bulk actions that one worker aggregates concurrently: a long one must not delay the others.
const PARALLEL: usize = 4;
/// Shortest time between two polls, since jobs of bulk actions settle in a stream.
const POLL_PAUSE: Duration = Duration::from_millis(20);
/// Shortest time the engine has to reply, even if the lease expires earlier.
const REPLY_TIMEOUT_MIN: Duration = Duration::from_secs(5);
/// The name of the loop in metrics and outage events.
const LOOP: &str = "aggregator";

pub(super) async fn run(shared: Arc<Shared>) {
    let interval = shared.settings.loops.aggregate_interval;
    let mut running = Running::default();
    loop {
        tokio::select! {
            biased;
            _ = shared.stopping.cancelled() => break,
            Some(joined) = running.tasks.join_next_with_id() => {
                // After an error the next poll retries it.
                if !running.finish(&shared, joined).await {
                    continue;
                }
            }
            _ = shared.bulk_progress.notified() => sleep(POLL_PAUSE).await,
            _ = sleep(interval.mul_f64(0.8 + fastrand::f64() * 0.4)) => {}
        }
        one_round(&shared, LOOP, running.lease(&shared)).await;
    }
    while let Some(joined) = running.tasks.join_next_with_id().await {
        running.finish(&shared, joined).await;
    }
}

/// How the aggregation of a leased bulk action ended.
enum AggregationEnd {
    /// It is settled, or another worker has it.
    Done,
    /// It cannot be aggregated here for now, for this reason, and was released.
    Postponed(String),
}

/// The result of a task that aggregates one bulk action.
type Joined = Result<(Id, Result<AggregationEnd, EngineError>), JoinError>;

/// The running aggregations of this worker.
#[derive(Default)]
struct Running {
    tasks: JoinSet<Result<AggregationEnd, EngineError>>,
    /// The bulk action of each task, and the fence of its lease.
    bulks: HashMap<Id, (BulkRef, Fence)>,
    postponed: Postponed,
}

impl Running {
    /// Leases as many bulk actions as have room and starts them. The engine returns those already
    /// leased again; only those without a task are new.
    async fn lease(&mut self, shared: &Arc<Shared>) -> Result<Pace, EngineError> {
        while let Some(joined) = self.tasks.try_join_next_with_id() {
            self.finish(shared, joined).await;
        }
        let requested_at = Instant::now();
        let bulks = shared.engine.call(lease_command(shared)).await?.bulks;
        for leased in bulks {
            if self.bulks.values().any(|(_, fence)| *fence == leased.fence) {
                continue;
            }
            let (bulk, fence) = (leased.view.bulk.clone(), leased.fence);
            let attempts = self.postponed.attempts(&bulk);
            let task = self.tasks.spawn(aggregate_or_release(shared.clone(), leased, requested_at, attempts));
            self.bulks.insert(task.id(), (bulk, fence));
        }
        Ok(Pace::Rest)
    }

    /// Records how a task ended; false if the engine failed it.
    async fn finish(&mut self, shared: &Shared, joined: Joined) -> bool {
        let id = match &joined {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let Some((bulk, _)) = self.bulks.remove(&id) else { return true };
        let Ok((_, result)) = joined else { return false };
        let (pace, replied) = match result {
            Ok(AggregationEnd::Done) => {
                self.postponed.forget(&bulk);
                (Ok(Pace::Rest), true)
            }
            Ok(AggregationEnd::Postponed(advice)) => {
                self.postponed.add(shared, bulk, advice);
                (Ok(Pace::Rest), true)
            }
            Err(error) => (Err(error), false),
        };
        one_round(shared, LOOP, std::future::ready(pace)).await;
        replied
    }
}

async fn aggregate_or_release(
    shared: Arc<Shared>,
    leased: LeasedBulk,
    requested_at: Instant,
    attempts: u32,
) -> Result<AggregationEnd, EngineError> {
    let is_last_attempt = attempts + 1 >= ATTEMPTS_MAX;
    let end = aggregate(&shared, &leased, requested_at + lease(&shared), is_last_attempt).await?;
    if matches!(end, AggregationEnd::Postponed(_)) {
        let outcome = Aggregation::Released { delay_ms: delay(attempts).as_millis() as u64 };
        shared.engine.call(settle_command(&leased, [].into(), outcome, None)).await?;
    }
    Ok(end)
}

fn lease(shared: &Shared) -> Duration {
    shared.settings.loops.aggregation_lease
}

fn lease_command(shared: &Shared) -> LeaseBulks {
    let lease_ms = lease(shared).as_millis() as u64;
    LeaseBulks { worker: shared.worker.clone(), bulks_max: PARALLEL, lease_ms }
}

fn settle_command(
    leased: &LeasedBulk,
    summary: Arc<[u8]>,
    outcome: Aggregation,
    callback: Option<Callback>,
) -> SettleBulk {
    SettleBulk { bulk: leased.view.bulk.clone(), fence: leased.fence, summary, outcome, callback }
}

async fn aggregate(
    shared: &Shared,
    leased: &LeasedBulk,
    mut until: Instant,
    is_last_attempt: bool,
) -> Result<AggregationEnd, EngineError> {
    let view = &leased.view;
    let prepared = tokio::select! {
        biased;
        prepared = prepare(shared, leased, is_last_attempt) => prepared,
        lost = renew_lease(shared, leased, &mut until) => {
            lost?;
            report_lost(shared, view);
            return Ok(AggregationEnd::Done);
        }
    };
    let command = match prepared {
        Ok(command) => command,
        Err(advice) => return Ok(AggregationEnd::Postponed(advice)),
    };
    let settle = retry_until_reply(shared, || shared.engine.call(command.clone()));
    match within_lease(shared, until, settle).await? {
        Ok(settled) if settled.0 == Verdict::Applied => {
            let BulkRef { group, id } = &view.bulk;
            tracing::info!(target: TARGET, %group, bulk = %id, total = view.total, "a bulk action has ended");
            let summary = command.summary;
            shared.hooks.emit(|| Event::BulkEnded { view: Box::new(view.clone()), summary });
        }
        Ok(_) => report_lost(shared, view),
        Err(error) => return Ok(AggregationEnd::Postponed(error.to_string())),
    }
    Ok(AggregationEnd::Done)
}

fn report_lost(shared: &Shared, view: &BulkView) {
    let advice = "its aggregation finished too late: the bulk action was cancelled, or this worker did not renew \
                  its lease within aggregation_lease, which should then be raised";
    let BulkRef { group, id } = &view.bulk;
    tracing::warn!(target: TARGET, %group, bulk = %id, advice, "an aggregation was not accepted");
    shared.hooks.emit(|| Event::BulkStuck { bulk: view.bulk.clone(), advice: advice.to_owned() });
}

/// Aggregates a bulk action and returns its settlement. The error says why it cannot be aggregated
/// here for now.
async fn prepare(shared: &Shared, leased: &LeasedBulk, is_last_attempt: bool) -> Result<SettleBulk, String> {
    let view = &leased.view;
    let (plan, unreadable) = match BulkPlan::from_bytes(&view.payload) {
        Ok(plan) => (plan, None),
        Err(error) => (BulkPlan::default(), Some(format!("its plan cannot be read: {error}"))),
    };
    let list = |page: ListJobs| retry_until_reply(shared, move || shared.engine.call(page.clone()));
    let summarised = match unreadable {
        Some(problem) => Err(AggregationError::Failed(problem)),
        None => match summarise(list, view, &plan, &shared.folds).await {
            Err(AggregationError::UnknownFold(name)) if is_last_attempt => {
                let problem =
                    format!("no worker knows its fold `{name}`; this worker tried {ATTEMPTS_MAX} times");
                Err(AggregationError::Failed(problem))
            }
            summarised => summarised,
        },
    };
    let (summary, outcome) = match summarised {
        Ok(summary) => (summary.to_bytes().into(), Aggregation::Done),
        Err(AggregationError::Engine(error)) => return Err(error.to_string()),
        Err(AggregationError::UnknownFold(name)) => {
            return Err(format!("this worker does not know its fold `{name}`; start a worker that does"));
        }
        Err(AggregationError::Failed(problem)) => {
            let BulkRef { group, id } = &view.bulk;
            tracing::error!(target: TARGET, %group, bulk = %id, problem, "the aggregation of a bulk action failed");
            let Problem { message, .. } = Problem::new("aggregation", problem);
            let summary = serde_json::json!({ "error": message }).to_string();
            (summary.into_bytes().into(), Aggregation::Failed)
        }
    };
    Ok(settle_command(leased, summary, outcome, plan::callback(&plan, view)))
}

/// Renews the lease periodically; returns when another worker has the bulk action, or it was
/// cancelled. Fails if the engine did not reply before the lease expired.
async fn renew_lease(shared: &Shared, leased: &LeasedBulk, until: &mut Instant) -> Result<(), EngineError> {
    loop {
        sleep(lease(shared) / 3).await;
        let renew = retry_until_reply(shared, || async {
            let requested_at = Instant::now();
            shared.engine.call(lease_command(shared)).await.map(|leased| (requested_at, leased.bulks))
        });
        let (requested_at, bulks) = within_lease(shared, *until, renew).await??;
        if bulks.iter().all(|bulk| bulk.fence != leased.fence) {
            return Ok(());
        }
        *until = requested_at + lease(shared);
    }
}

/// Repeats a command until the engine replies; the caller bounds the time.
async fn retry_until_reply<T, F>(shared: &Shared, command: impl Fn() -> F) -> Result<T, EngineError>
where
    F: Future<Output = Result<T, EngineError>>,
{
    let mut backoff = Backoff::default();
    loop {
        let error = match command().await {
            Err(error) if error.is_retryable() => error,
            reply => {
                shared.outage.replied();
                return reply;
            }
        };
        shared.outage.failed(LOOP, &error);
        if shared.stopped.run_until_cancelled(backoff.sleep()).await.is_none() {
            return Err(error);
        }
    }
}

/// Waits for a reply until the lease expires.
async fn within_lease<T>(
    shared: &Shared,
    until: Instant,
    reply: impl Future<Output = T>,
) -> Result<T, EngineError> {
    let until = until.max(Instant::now() + REPLY_TIMEOUT_MIN);
    timeout_at(until, reply).await.map_err(|_| EngineError::Unavailable {
        engine: shared.engine.name(),
        reason: "it did not reply before the lease of an aggregation expired".into(),
    })
}
