//! Summarises bulk actions that have ended, and has their callbacks sent.
//!
//! Invariant: the callback's job is enqueued, under an id that is always the same, before the bulk action
//! counts as aggregated; so it is sent at least once, whoever dies in between. Woken whenever a job of a bulk
//! action was settled here; others' are found by looking now and again.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::queue::{
    BulkView, Enqueue, FinishBulk, JobReceipt, JobRef, NewJob, TakeCompleted, TakenBulk, Verdict,
};
use fairlane_core::{Cost, JobId, Level, Trace, TypeId};
use fairlane_engine::EngineError;

use super::{Pace, one_round};
use crate::aggregation::{AggregationError, summarise};
use crate::events::Event;
use crate::outcome::Problem;
use crate::plan::{BulkPlan, CALLBACK_TYPE, CallbackPlan, callback_id};
use crate::pool::{Shared, TARGET};

/// Bulk actions taken at a time: one that cannot be aggregated must not hold up others.
const BULKS_MAX: usize = 1;
/// Jobs of bulk actions settle in a stream; it looks at most this often.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn run(shared: Arc<Shared>) {
    let interval = shared.settings.loops.aggregate_interval;
    loop {
        tokio::select! {
            biased;
            _ = shared.stopping.cancelled() => return,
            _ = shared.bulk_moved.notified() => tokio::time::sleep(LOOK_PAUSE).await,
            _ = tokio::time::sleep(interval.mul_f64(0.8 + fastrand::f64() * 0.4)) => {}
        }
        while one_round(&shared, "aggregator", take(&shared)).await == Pace::More
            && !shared.stopping.is_cancelled()
        {}
    }
}

async fn take(shared: &Shared) -> Result<Pace, EngineError> {
    let lease_ms = shared.settings.loops.aggregation_lease.as_millis() as u64;
    let taken = shared.engine.take_completed(TakeCompleted { bulks_max: BULKS_MAX, lease_ms }).await?;
    let pace = if taken.bulks.len() == BULKS_MAX { Pace::More } else { Pace::Rest };
    for bulk in taken.bulks {
        aggregate(shared, bulk).await?;
    }
    Ok(pace)
}

async fn aggregate(shared: &Shared, taken: TakenBulk) -> Result<(), EngineError> {
    let TakenBulk { view, fence } = taken;
    let (plan, unread) = match BulkPlan::from_bytes(&view.payload) {
        Ok(plan) => (plan, None),
        Err(error) => (BulkPlan::default(), Some(format!("its plan cannot be read: {error}"))),
    };
    let summarised = match unread {
        Some(problem) => Err(AggregationError::Failed(problem)),
        None => summarise(&shared.engine, &view, &plan, &shared.folds).await,
    };
    let (summary, failed) = match summarised {
        Ok(summary) => (summary.to_bytes(), false),
        Err(AggregationError::Engine(error)) => return Err(error),
        Err(AggregationError::UnknownFold(name)) => {
            tracing::error!(target: TARGET, bulk = ?view.bulk, name, "this worker does not know its fold");
            let advice = format!("its fold `{name}` is not known to this worker; start one that knows it");
            shared.hooks.tell(|| Event::BulkStuck { bulk: view.bulk.clone(), advice });
            return Ok(());
        }
        Err(AggregationError::Failed(problem)) => {
            tracing::error!(target: TARGET, bulk = ?view.bulk, problem, "its aggregation failed");
            let Problem { message, .. } = Problem::new("aggregation", problem);
            (serde_json::json!({ "error": message }).to_string().into_bytes(), true)
        }
    };
    if let Some(callback) = &plan.callback {
        enqueue_callback(shared, &view, callback, plan.trace.as_deref()).await?;
    }
    let summary: Arc<[u8]> = summary.into();
    let command = FinishBulk { bulk: view.bulk.clone(), fence, summary: summary.clone(), failed };
    let finished = shared.engine.finish_bulk(command).await?;
    if finished.0 == Verdict::Applied {
        tracing::info!(target: TARGET, bulk = ?view.bulk, total = view.total, "a bulk action has ended");
        shared.hooks.tell(|| Event::BulkEnded { view: Box::new(view), summary });
    } else {
        let advice = "its aggregation came too late: it was cancelled meanwhile, or took longer than \
                      aggregation_lease, which should then be raised";
        tracing::warn!(target: TARGET, bulk = ?view.bulk, advice, "an aggregation was not taken");
        shared.hooks.tell(|| Event::BulkStuck { bulk: view.bulk, advice: advice.to_owned() });
    }
    Ok(())
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
    let receipts = shared.engine.enqueue(Enqueue { jobs: vec![job] }).await?.receipts;
    if let Some(JobReceipt::Refused { refusal, .. }) = receipts.first() {
        // The aggregation is taken again when its lease has run out; by then there may be room.
        return Err(EngineError::Refused { reason: format!("its callback was refused: {refusal:?}") });
    }
    Ok(())
}

fn invalid_name(error: fairlane_core::InvalidName) -> EngineError {
    EngineError::Refused { reason: error.to_string() }
}
