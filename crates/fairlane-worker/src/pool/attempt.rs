//! One attempt at one job: from its start to its settlement, whatever its processor does.
//!
//! The attempt bounds a processor that panics, hangs, takes too long, returns too much or ignores a
//! stop request. After a stop request a processor has a grace period to return an outcome; then it
//! is dropped. A processor that cannot be dropped, because it blocks its thread, keeps its slot
//! until it returns, but no longer its job.
//!
//! An attempt is one task and has no timer. Another task exists only for an attempt that was
//! requested to stop, because a processor that blocks its thread blocks its task as well.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::queue::LeasedJob;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::timeout;

use super::active_jobs::LeaseEnd;
use super::settler::{Ending, STOPPED, report_dropped};
use super::{Shared, TARGET};
use crate::aggregation::panic_text;
use crate::context::{CancelReason, Context};
use crate::events::Event;
use crate::outcome::Outcome;

/// How long a processor may take to be dropped before it counts as one that cannot be dropped.
const DROP_TIMEOUT: Duration = Duration::from_millis(200);

/// Starts an attempt at each job, in a task of its own. `leased` is the time just before the lease
/// request. All jobs are active before the first attempt runs, so that the first to end sees that
/// others are about to.
pub(crate) fn start_all(shared: &Arc<Shared>, jobs: Vec<LeasedJob>, leased: Instant) {
    let contexts = activate(shared, jobs, leased);
    contexts.iter().for_each(|context| shared.slots.take(context.entry().class));
    for context in contexts {
        tokio::spawn(attempt(shared.clone(), context));
    }
}

/// Hands jobs back without starting them.
pub(crate) async fn hand_back(shared: &Arc<Shared>, jobs: Vec<LeasedJob>, leased: Instant) {
    for context in activate(shared, jobs, leased) {
        context.end();
        settle(shared, &context, Some(Outcome::Released)).await;
    }
}

/// Makes leased jobs active. The worker leases only types that have a processor; the lease of a job
/// of another type would expire.
fn activate(shared: &Shared, jobs: Vec<LeasedJob>, leased: Instant) -> Vec<Context> {
    let started = tokio::time::Instant::now();
    let context = |job: LeasedJob| {
        let entry = shared.types.get(&job.type_id)?.clone();
        Some(Context::new(job, entry, started))
    };
    let contexts: Vec<Context> = jobs.into_iter().filter_map(context).collect();
    shared.active_jobs.add(&contexts, leased);
    contexts
}

async fn attempt(shared: Arc<Shared>, context: Context) {
    let _slot = Slot { shared: &shared, class: context.entry().class };
    shared.hooks.emit(|| Event::Started {
        job: context.job().clone(),
        type_id: context.type_id().clone(),
        attempt: context.attempt(),
    });
    let ended = run(&context).await;
    let counts = context.end();
    let gone = !context.is_on_thread();
    if !gone {
        report_ignoring(&shared, &context);
    }
    if counts {
        settle(&shared, &context, conclude(&context, ended, gone)).await;
    }
    if !gone {
        context.threads_finished().await;
    }
}

/// Frees a slot when it is dropped.
struct Slot<'a> {
    shared: &'a Shared,
    class: usize,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.shared.slots.give_back(self.class);
    }
}

/// An outcome, or the payload of a panic.
type Returned = Result<Outcome, Box<dyn Any + Send>>;

/// Runs the processor and its middleware; `None` if they were dropped before they returned.
async fn run(context: &Context) -> Option<Returned> {
    let start = || context.entry().chain.start(context.clone());
    let mut work = match catch_unwind(AssertUnwindSafe(start)) {
        Ok(work) => work,
        Err(panic) => return Some(Err(panic)),
    };
    let returned = poll_fn(|waker| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(waker))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => std::task::Poll::Ready(Err(panic)),
    });
    // The order matters: nothing is registered for a processor that returns at once.
    let ended = tokio::select! {
        biased;
        returned = returned => Some(returned),
        () = context.dropped() => None,
    };
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
    ended.or(dropped.err().map(Err))
}

/// Gives a processor its grace period after a stop request, then drops it.
pub(crate) async fn stop(shared: Arc<Shared>, context: Context) {
    if timeout(shared.settings.cancel_grace_period, context.ended()).await.is_ok() {
        return;
    }
    context.drop_processor();
    if timeout(DROP_TIMEOUT, context.ended()).await.is_ok() {
        return;
    }
    // While the worker is stopping, an outcome that comes late still counts.
    if context.cancel_reason() == Some(CancelReason::Stopping) {
        report_ignoring(&shared, &context);
    } else if context.abandon() {
        report_ignoring(&shared, &context);
        settle(&shared, &context, conclude(&context, None, false)).await;
    }
}

fn report_ignoring(shared: &Shared, context: &Context) {
    let job = context.job();
    tracing::warn!(target: TARGET, group = %job.group, job = %job.id, traceparent = context.trace(), "a processor ignores its stop request and keeps its slot");
    shared.hooks.emit(|| Event::Ignoring { job: job.clone(), type_id: context.type_id().clone() });
}

/// The outcome of the attempt; `None` if it must not be settled.
fn conclude(context: &Context, ended: Option<Returned>, gone: bool) -> Option<Outcome> {
    match (ended, context.cancel_reason()) {
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
        (Some(Err(panic)), _) => {
            Some(Outcome::retry("panic", panic_text(&*panic).unwrap_or("the processor panicked")))
        }
    }
}

/// Passes the outcome of an attempt to the settler.
async fn settle(shared: &Shared, context: &Context, outcome: Option<Outcome>) {
    let took = context.started().elapsed();
    let Some(outcome) = outcome else {
        // A job that still runs when the worker stops stays active: the stop reports it.
        if context.cancel_reason() == Some(CancelReason::Lost) {
            shared.active_jobs.remove([(context, LeaseEnd::Lost)]);
        }
        return;
    };
    let outcome = outcome.bounded();
    let entry = context.entry();
    entry.meters.ended(&outcome, took);
    let settlement = outcome.to_engine(entry.retry, context.attempt());
    let ending = Ending { context: context.clone(), settlement, outcome, took };
    // The settler ends only when the worker has stopped; the lease then expires.
    let unsent = match shared.ended.try_send(ending) {
        Ok(()) => None,
        Err(TrySendError::Full(ending)) => shared.ended.send(ending).await.err().map(|error| error.0),
        Err(TrySendError::Closed(ending)) => Some(ending),
    };
    if let Some(ending) = unsent {
        report_dropped(shared, ending, STOPPED);
    }
}
