//! One attempt at one job: from its start to its settlement, whatever its processor does.
//!
//! A processor that panics, hangs, takes too long, returns too much or does not stop when told to is bounded
//! here. Told to stop, it has a grace period to say how it ended; then it is dropped. What cannot be dropped,
//! because it blocks its thread, keeps its slot until it ends, but no longer its job.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::limits::{DELAY_MS_MAX, NOTE_BYTES_MAX, RETRY_AFTER_MS_MAX};
use fairlane_core::queue::{self, LeasedJob};
use tokio::sync::mpsc::error::SendError;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

use super::in_hand::Left;
use super::settler::{Ending, STOPPED, report_dropped};
use super::{Shared, TARGET};
use crate::aggregation::panic_text;
use crate::context::{CancelReason, Context};
use crate::events::Event;
use crate::middleware::Next;
use crate::outcome::{Outcome, Problem};
use crate::retry::RetryPolicy;

/// How long a dropped task has to be gone before it counts as one that cannot be dropped.
const DROP_PATIENCE: Duration = Duration::from_millis(200);
/// Longest random delay of a job whose downstream refused it without saying for how long.
const THROTTLE_DELAY_MS: u64 = 200;

/// Starts an attempt at each job, in a task of its own. `leased` is a moment before the lease was asked for. All are
/// in hand before the first runs, so that the first to end sees that others are about to.
pub(crate) fn start_all(shared: &Arc<Shared>, jobs: Vec<LeasedJob>, leased: Instant) {
    let contexts = jobs.into_iter().map(|job| {
        let timeout = shared.types.get(&job.type_id).and_then(|entry| entry.options.timeout);
        let timeout = timeout.unwrap_or(shared.settings.job_timeout);
        let context =
            Context::new(job, shared.engine.clone(), shared.lease_ms(), timeout, shared.hooks.clone());
        shared.slots.take(context.type_id());
        shared.in_hand.add(&context, leased);
        context
    });
    for context in contexts.collect::<Vec<Context>>() {
        tokio::spawn(attempt(shared.clone(), context));
    }
}

/// Hands a job back that will not be started.
pub(crate) async fn hand_back(shared: &Arc<Shared>, job: LeasedJob, leased: Instant) {
    let context =
        Context::new(job, shared.engine.clone(), shared.lease_ms(), Duration::ZERO, shared.hooks.clone());
    shared.in_hand.add(&context, leased);
    end(shared, &context, Some(Outcome::Released), leased).await;
}

async fn attempt(shared: Arc<Shared>, context: Context) {
    let _slot = Slot { shared: shared.clone(), context: context.clone() };
    let started = Instant::now();
    shared.hooks.tell(|| Event::Started {
        job: context.job().clone(),
        type_id: context.type_id().clone(),
        attempt: context.attempt(),
    });
    let mut work = tokio::spawn(work(&shared, context.clone()));
    let joined = tokio::select! {
        joined = &mut work => Some(joined),
        reason = told_to_stop(&context) => stop(&shared, &context, reason, &mut work).await,
    };
    let gone = work.is_finished() && !context.is_on_thread();
    let outcome = conclude(&context, joined, gone);
    let unsaid = outcome.is_none();
    if !gone {
        tracing::warn!(target: TARGET, job = ?context.job(), traceparent = context.trace(), "a processor does not stop and keeps its slot");
        shared
            .hooks
            .tell(|| Event::Ignoring { job: context.job().clone(), type_id: context.type_id().clone() });
    }
    end(&shared, &context, outcome, started).await;
    if !work.is_finished() {
        let late = work.await.ok();
        // The worker stops and nobody was told anything yet: what it says now may still be heard.
        if unsaid && context.cancel_reason() == Some(CancelReason::Stopping) {
            end(&shared, &context, late, started).await;
        }
    }
    context.off_threads().await;
}

/// Gives a slot back, whatever happens.
struct Slot {
    shared: Arc<Shared>,
    context: Context,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shared.slots.give_back(self.context.type_id());
    }
}

/// The processor with everything around it. Only types that have one are asked for; a job of another goes back.
fn work(shared: &Shared, context: Context) -> impl Future<Output = Outcome> + use<> {
    let entry = shared.types.get(context.type_id());
    let next = entry.map(|entry| Next::outermost(shared.layers.clone(), entry.processor.clone()));
    async move {
        match next {
            Some(next) => next.run(context).await,
            None => Outcome::Released,
        }
    }
}

/// Waits until the attempt is cancelled from outside or its time is up.
async fn told_to_stop(context: &Context) -> CancelReason {
    tokio::select! {
        reason = context.cancelled() => reason,
        _ = tokio::time::sleep_until(context.deadline().into()) => {
            context.cancel(CancelReason::TimedOut);
            CancelReason::TimedOut
        }
    }
}

/// Gives a processor that was told to stop its grace, then drops it.
async fn stop(
    shared: &Shared,
    context: &Context,
    reason: CancelReason,
    work: &mut JoinHandle<Outcome>,
) -> Option<Result<Outcome, JoinError>> {
    shared.hooks.tell(|| Event::Cancelling { job: context.job().clone(), reason });
    if let Ok(joined) = timeout(shared.settings.cancel_grace_period, &mut *work).await {
        return Some(joined);
    }
    work.abort();
    match timeout(DROP_PATIENCE, work).await {
        Ok(Ok(outcome)) => Some(Ok(outcome)),
        Ok(Err(error)) if error.is_panic() => Some(Err(error)),
        _ => None,
    }
}

/// How the attempt ended; `None` if nobody is to be told.
fn conclude(context: &Context, joined: Option<Result<Outcome, JoinError>>, gone: bool) -> Option<Outcome> {
    let reason = context.cancel_reason();
    match (joined, reason) {
        (_, Some(CancelReason::Lost)) => None,
        (None, Some(CancelReason::Stopping)) if !gone => None,
        // Giving up is right when nobody wants the job; otherwise another attempt has to follow.
        (None | Some(Ok(Outcome::Cancelled(_))), Some(CancelReason::Stopping)) => Some(Outcome::Released),
        (None | Some(Ok(Outcome::Cancelled(_))), Some(CancelReason::TimedOut)) | (None, None) => {
            let message = format!("it took longer than {} ms", context.timeout().as_millis());
            Some(Outcome::retry("timeout", message))
        }
        (None, Some(CancelReason::Cancelled)) => Some(Outcome::cancelled("it was cancelled while it ran")),
        (Some(Ok(outcome)), _) => Some(outcome),
        (Some(Err(error)), _) => Some(panicked(error)),
    }
}

fn panicked(error: JoinError) -> Outcome {
    if !error.is_panic() {
        return Outcome::Released;
    }
    let panic = error.into_panic();
    Outcome::retry("panic", panic_text(&*panic).unwrap_or("the processor panicked"))
}

/// Hands the end of an attempt to the settler.
async fn end(shared: &Shared, context: &Context, outcome: Option<Outcome>, started: Instant) {
    let took = started.elapsed();
    let Some(outcome) = outcome else {
        // What still runs when the worker stops stays in hand: the stop reports it.
        if context.cancel_reason() == Some(CancelReason::Lost) {
            shared.in_hand.remove(context.job(), context.fence(), Left::Lost);
        }
        return;
    };
    let said = bounded(outcome);
    let entry = shared.types.get(context.type_id());
    if let Some(entry) = entry {
        entry.meters.ended(&said, took);
    }
    let policy = entry.and_then(|entry| entry.options.retry);
    let ending = Ending {
        job: context.job().clone(),
        type_id: context.type_id().clone(),
        fence: context.fence(),
        in_bulk: context.bulk().is_some(),
        trace: context.trace().map(str::to_owned),
        outcome: to_engine(&said, policy.unwrap_or(shared.settings.retry), context.attempt()),
        said,
        took,
    };
    // A settler that has gone means that the worker has stopped; the lease then runs out.
    if let Err(SendError(ending)) = shared.ended.send(ending).await {
        report_dropped(shared, ending, STOPPED);
    }
}

/// What is too long to be kept is cut, or a failure that says so: running it again would not make it shorter.
fn bounded(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Done { result } if result.len() > NOTE_BYTES_MAX => Outcome::failed(
            "result_too_large",
            format!(
                "its result has {} bytes and at most {NOTE_BYTES_MAX} are kept; store it elsewhere and return where",
                result.len()
            ),
        ),
        Outcome::Failed(Problem { code, message }) => Outcome::failed(code, message),
        Outcome::Cancelled(Problem { code, message }) => Outcome::Cancelled(Problem::new(code, message)),
        Outcome::Retry { after, problem: Problem { code, message } } => {
            Outcome::Retry { after, problem: Problem::new(code, message) }
        }
        other => other,
    }
}

fn to_engine(outcome: &Outcome, policy: RetryPolicy, attempt: u32) -> queue::Outcome {
    let ms = |duration: Duration, most: u64| (duration.as_millis() as u64).min(most);
    match outcome {
        Outcome::Done { result } => queue::Outcome::Succeeded { result: result.as_slice().into() },
        Outcome::Failed(problem) => queue::Outcome::Failed { reason: problem.to_bytes().into() },
        Outcome::Retry { after, problem } => queue::Outcome::Retry {
            delay_ms: ms(after.unwrap_or_else(|| policy.delay(attempt)), DELAY_MS_MAX),
            reason: problem.to_bytes().into(),
        },
        Outcome::Throttled { retry_after: Some(retry_after) } => {
            let retry_after_ms = ms(*retry_after, RETRY_AFTER_MS_MAX);
            queue::Outcome::Throttled { delay_ms: retry_after_ms, retry_after_ms }
        }
        Outcome::Throttled { retry_after: None } => {
            queue::Outcome::Throttled { delay_ms: fastrand::u64(1..=THROTTLE_DELAY_MS), retry_after_ms: 0 }
        }
        Outcome::Cancelled(problem) => queue::Outcome::Cancelled { reason: problem.to_bytes().into() },
        Outcome::Released => queue::Outcome::Released,
    }
}
