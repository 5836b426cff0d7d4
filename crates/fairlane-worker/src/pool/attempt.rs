//! One attempt at one job: from its start to its settlement, whatever its processor does.
//!
//! The attempt bounds a processor that panics, hangs, takes too long, returns too much or ignores a
//! stop request. After a stop request a processor has a grace period to return an outcome; then it
//! is dropped. A processor that cannot be dropped, because it blocks its thread, keeps its slot
//! until it returns, but no longer its job.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::limits::{DELAY_MS_MAX, NOTE_BYTES_MAX, RETRY_AFTER_MS_MAX};
use fairlane_core::queue::{self, LeasedJob};
use tokio::sync::mpsc::error::SendError;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::timeout;

use super::active_jobs::LeaseEnd;
use super::settler::{Ending, STOPPED, report_dropped};
use super::{Shared, TARGET};
use crate::aggregation::panic_text;
use crate::context::{CancelReason, Context};
use crate::events::Event;
use crate::middleware::Next;
use crate::outcome::{Outcome, Problem};
use crate::retry::RetryPolicy;

/// How long an aborted task has to end before it counts as one that cannot be dropped.
const ABORT_TIMEOUT: Duration = Duration::from_millis(200);
/// Longest random delay, in milliseconds, of a job that its downstream throttled without a
/// Retry-After.
const THROTTLE_DELAY_MS: u64 = 200;

/// Starts an attempt at each job, in a task of its own. `leased` is the time just before the lease
/// request. All jobs are active before the first attempt runs, so that the first to end sees that
/// others are about to.
pub(crate) fn start_all(shared: &Arc<Shared>, jobs: Vec<LeasedJob>, leased: Instant) {
    let contexts = jobs.into_iter().map(|job| {
        let timeout = shared.types.get(&job.type_id).and_then(|entry| entry.options.timeout);
        let timeout = timeout.unwrap_or(shared.settings.job_timeout);
        let context =
            Context::new(job, shared.engine.clone(), shared.lease_ms(), timeout, shared.hooks.clone());
        shared.slots.take(context.type_id());
        shared.active_jobs.add(&context, leased);
        context
    });
    for context in contexts.collect::<Vec<Context>>() {
        tokio::spawn(attempt(shared.clone(), context));
    }
}

/// Hands a job back without starting it.
pub(crate) async fn hand_back(shared: &Arc<Shared>, job: LeasedJob, leased: Instant) {
    let context =
        Context::new(job, shared.engine.clone(), shared.lease_ms(), Duration::ZERO, shared.hooks.clone());
    shared.active_jobs.add(&context, leased);
    end(shared, &context, Some(Outcome::Released), leased).await;
}

async fn attempt(shared: Arc<Shared>, context: Context) {
    let _slot = Slot { shared: shared.clone(), context: context.clone() };
    let started = Instant::now();
    shared.hooks.emit(|| Event::Started {
        job: context.job().clone(),
        type_id: context.type_id().clone(),
        attempt: context.attempt(),
    });
    let mut work = tokio::spawn(work(&shared, context.clone()));
    let joined = tokio::select! {
        joined = &mut work => Some(joined),
        reason = stop_requested(&context) => stop(&shared, &context, reason, &mut work).await,
    };
    let gone = work.is_finished() && !context.is_on_thread();
    let outcome = conclude(&context, joined, gone);
    let is_unsettled = outcome.is_none();
    if !gone {
        let job = context.job();
        tracing::warn!(target: TARGET, group = %job.group, job = %job.id, traceparent = context.trace(), "a processor ignores its stop request and keeps its slot");
        shared
            .hooks
            .emit(|| Event::Ignoring { job: context.job().clone(), type_id: context.type_id().clone() });
    }
    end(&shared, &context, outcome, started).await;
    if !work.is_finished() {
        let late = work.await.ok();
        // The worker is stopping and this job is not settled yet: a late outcome still counts.
        if is_unsettled && context.cancel_reason() == Some(CancelReason::Stopping) {
            end(&shared, &context, late, started).await;
        }
    }
    context.threads_finished().await;
}

/// Frees a slot when it is dropped.
struct Slot {
    shared: Arc<Shared>,
    context: Context,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shared.slots.give_back(self.context.type_id());
    }
}

/// The processor and its middleware. The worker leases only types that have a processor; a job of
/// another type is handed back.
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

/// Resolves when the attempt is cancelled or times out.
async fn stop_requested(context: &Context) -> CancelReason {
    tokio::select! {
        reason = context.cancelled() => reason,
        _ = tokio::time::sleep_until(context.deadline().into()) => {
            context.cancel(CancelReason::TimedOut);
            CancelReason::TimedOut
        }
    }
}

/// Gives a processor its grace period after a stop request, then drops it.
async fn stop(
    shared: &Shared,
    context: &Context,
    reason: CancelReason,
    work: &mut JoinHandle<Outcome>,
) -> Option<Result<Outcome, JoinError>> {
    shared.hooks.emit(|| Event::Cancelling { job: context.job().clone(), reason });
    if let Ok(joined) = timeout(shared.settings.cancel_grace_period, &mut *work).await {
        return Some(joined);
    }
    work.abort();
    match timeout(ABORT_TIMEOUT, work).await {
        Ok(Ok(outcome)) => Some(Ok(outcome)),
        Ok(Err(error)) if error.is_panic() => Some(Err(error)),
        _ => None,
    }
}

/// The outcome of the attempt; `None` if it must not be settled.
fn conclude(context: &Context, joined: Option<Result<Outcome, JoinError>>, gone: bool) -> Option<Outcome> {
    let reason = context.cancel_reason();
    match (joined, reason) {
        (_, Some(CancelReason::Lost)) => None,
        (None, Some(CancelReason::Stopping)) if !gone => None,
        // Abandoning is right only for a cancelled job; otherwise another attempt has to follow.
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

/// Passes the outcome of an attempt to the settler.
async fn end(shared: &Shared, context: &Context, outcome: Option<Outcome>, started: Instant) {
    let took = started.elapsed();
    let Some(outcome) = outcome else {
        // A job that still runs when the worker stops stays active: the stop reports it.
        if context.cancel_reason() == Some(CancelReason::Lost) {
            shared.active_jobs.remove(context.job(), context.fence(), LeaseEnd::Lost);
        }
        return;
    };
    let outcome = bounded(outcome);
    let entry = shared.types.get(context.type_id());
    if let Some(entry) = entry {
        entry.meters.ended(&outcome, took);
    }
    let policy = entry.and_then(|entry| entry.options.retry);
    let ending = Ending {
        job: context.job().clone(),
        type_id: context.type_id().clone(),
        fence: context.fence(),
        in_bulk: context.bulk().is_some(),
        trace: context.trace().map(str::to_owned),
        settlement: to_engine(&outcome, policy.unwrap_or(shared.settings.retry), context.attempt()),
        outcome,
        took,
    };
    // The settler ends only when the worker has stopped; the lease then expires.
    if let Err(SendError(ending)) = shared.ended.send(ending).await {
        report_dropped(shared, ending, STOPPED);
    }
}

/// Truncates what is too long to store, or fails it: another attempt would not make it shorter.
fn bounded(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Done { result } if result.len() > NOTE_BYTES_MAX => Outcome::failed(
            "result_too_large",
            format!(
                "its result has {} bytes, the limit is {NOTE_BYTES_MAX}; store it elsewhere and return a reference",
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
