//! Settles ended attempts: in batches that gather only while the previous one is in flight, so that
//! they add no latency, and retried until the engine replies.
//!
//! Invariant: a result is dropped only if the engine rejects this very settlement as malformed, or
//! if it does not accept it and the lease is lost. Every dropped result is reported. A result that
//! the engine refuses on its own is deferred and sent again, so that it does not delay the others.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::limits::SETTLE_JOBS_MAX;
use fairlane_core::queue::{self, JobRef, Settle, Settlement, Verdict};
use fairlane_core::{Fence, TypeId};
use fairlane_engine::{Backoff, EngineError};
use tokio::sync::mpsc;

use super::active_jobs::LeaseEnd;
use super::gather::gather;
use super::{Shared, TARGET};
use crate::events::Event;
use crate::outcome::Outcome;

/// Refusals of a batch before it is split: a full disk may have room again soon.
const REFUSALS_MAX: u32 = 8;
/// The error of a result that the engine did not accept before the worker stopped.
pub(super) const STOPPED: &str = "the worker stopped before the engine took the result";
/// A batch is sent once its results and reasons have this many bytes.
const BATCH_BYTES: usize = 1024 * 1024;

/// An attempt that has ended.
pub(crate) struct Ending {
    pub job: JobRef,
    pub type_id: TypeId,
    pub fence: Fence,
    pub in_bulk: bool,
    /// The trace of its job, for logs.
    pub trace: Option<String>,
    /// The outcome that the processor returned, for events.
    pub outcome: Outcome,
    /// The outcome as it is sent to the engine.
    pub settlement: queue::Outcome,
    pub took: Duration,
}

pub(crate) type Sender = mpsc::Sender<Ending>;
pub(crate) type Endings = mpsc::Receiver<Ending>;

pub(crate) fn channel(slots: usize) -> (Sender, Endings) {
    mpsc::channel(slots.clamp(1, SETTLE_JOBS_MAX))
}

/// A result that the engine refused, to be sent again.
struct Deferred {
    ending: Ending,
    backoff: Backoff,
    due: Instant,
}

/// Settles until the worker has stopped.
pub(crate) async fn settle_all(shared: Arc<Shared>, mut endings: Endings) {
    let (mut gathered, mut deferred): (Vec<Ending>, Vec<Deferred>) = (Vec::new(), Vec::new());
    // Beyond this many deferred results, further ones wait, and with them their slots.
    let deferred_max = shared.settings.worker_count.max(1);
    loop {
        let has_room = deferred.len() < deferred_max;
        tokio::select! {
            biased;
            () = until_due(&deferred) => send_again(&shared, &mut deferred).await,
            count = endings.recv_many(&mut gathered, SETTLE_JOBS_MAX), if has_room => {
                if count == 0 {
                    break;
                }
            }
            _ = shared.stopped.cancelled() => break,
        }
        // The last active job is settled at once.
        if !gathered.is_empty() && shared.active_jobs.len() > gathered.len() {
            gather(|| endings.len()).await;
            while gathered.len() < SETTLE_JOBS_MAX
                && let Ok(ending) = endings.try_recv()
            {
                gathered.push(ending);
            }
        }
        while !gathered.is_empty() {
            let batch = next_batch(&mut gathered);
            settle(&shared, batch, &mut deferred).await;
        }
        if shared.stopped.is_cancelled() {
            break;
        }
    }
    gathered.extend(deferred.into_iter().map(|deferred| deferred.ending));
    while let Ok(ending) = endings.try_recv() {
        gathered.push(ending);
    }
    gathered.into_iter().for_each(|ending| report_dropped(&shared, ending, STOPPED));
}

/// Waits until a deferred result is due; never resolves if there is none.
async fn until_due(deferred: &[Deferred]) {
    match deferred.iter().map(|deferred| deferred.due).min() {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Sends the deferred result that is due first.
async fn send_again(shared: &Shared, deferred: &mut Vec<Deferred>) {
    let Some(first) = (0..deferred.len()).min_by_key(|index| deferred[*index].due) else { return };
    let Deferred { ending, backoff, .. } = deferred.swap_remove(first);
    let batch = [ending];
    let reply = shared.engine.call(command(&batch)).await;
    let [ending] = batch;
    match reply {
        Ok(settled) => {
            shared.outage.replied();
            record_verdicts(shared, vec![ending], settled.verdicts);
        }
        Err(error) => defer(shared, ending, backoff, &error, deferred),
    }
}

/// Keeps a result that the engine did not accept, unless it never can.
fn defer(
    shared: &Shared,
    ending: Ending,
    mut backoff: Backoff,
    error: &EngineError,
    deferred: &mut Vec<Deferred>,
) {
    let is_malformed = matches!(error, EngineError::Invalid(_));
    let is_lost = !error.is_retryable() && shared.active_jobs.is_lost(&ending.job, ending.fence);
    if is_malformed || is_lost {
        shared.active_jobs.remove(&ending.job, ending.fence, LeaseEnd::Lost);
        return report_dropped(shared, ending, &error.to_string());
    }
    shared.outage.failed("settling jobs", error);
    let due = Instant::now() + backoff.next_delay();
    deferred.push(Deferred { ending, backoff, due });
}

/// Takes the next batch: each job at most once, and no more bytes than a batch should have.
fn next_batch(gathered: &mut Vec<Ending>) -> Vec<Ending> {
    let mut bytes = 0;
    let mut jobs: HashSet<&JobRef> = HashSet::new();
    let mut count = 0;
    for ending in gathered.iter() {
        bytes += note_bytes(&ending.settlement);
        if count > 0 && (bytes > BATCH_BYTES || jobs.contains(&ending.job)) {
            break;
        }
        jobs.insert(&ending.job);
        count += 1;
    }
    gathered.drain(..count).collect()
}

fn note_bytes(outcome: &queue::Outcome) -> usize {
    match outcome {
        queue::Outcome::Succeeded { result } => result.len(),
        queue::Outcome::Failed { reason } | queue::Outcome::Cancelled { reason } => reason.len(),
        queue::Outcome::Retry { reason, .. } => reason.len(),
        queue::Outcome::Throttled { .. } | queue::Outcome::Released => 0,
    }
}

/// Settles a batch. A batch that the engine refuses is halved until the faulty result is alone, so
/// that the others are settled.
async fn settle(shared: &Shared, batch: Vec<Ending>, deferred: &mut Vec<Deferred>) {
    let mut batches = vec![batch];
    while let Some(batch) = batches.pop() {
        match submit_until_reply(shared, &batch).await {
            BatchReply::Verdicts(verdicts) => record_verdicts(shared, batch, verdicts),
            BatchReply::Stopped => {
                let unsettled = batch.into_iter().chain(batches.into_iter().flatten());
                return unsettled.for_each(|ending| report_dropped(shared, ending, STOPPED));
            }
            BatchReply::Refused(_) if batch.len() > 1 => {
                let mut first = batch;
                let second = first.split_off(first.len() / 2);
                batches.extend([second, first]);
            }
            BatchReply::Refused(error) => {
                for ending in batch {
                    defer(shared, ending, Backoff::default(), &error, deferred);
                }
            }
        }
    }
}

/// Reports a dropped result: its job runs again after its lease expires.
pub(super) fn report_dropped(shared: &Shared, ending: Ending, error: &str) {
    let Ending { job, type_id, outcome, .. } = ending;
    tracing::error!(target: TARGET, group = %job.group, job = %job.id, error, "a result is dropped; the job runs again after its lease expires");
    shared.hooks.emit(|| Event::Unsettled { job, type_id, outcome, error: error.to_owned() });
}

/// The result of submitting a batch.
enum BatchReply {
    Verdicts(Vec<Verdict>),
    /// The worker has stopped.
    Stopped,
    /// The engine replied, but refused the batch.
    Refused(EngineError),
}

fn command(batch: &[Ending]) -> Settle {
    let settlements = batch.iter().map(|ending| Settlement {
        job: ending.job.clone(),
        fence: ending.fence,
        outcome: ending.settlement.clone(),
    });
    Settle { settlements: settlements.collect() }
}

async fn submit_until_reply(shared: &Shared, batch: &[Ending]) -> BatchReply {
    let command = command(batch);
    let (mut backoff, mut refusals) = (Backoff::default(), 0);
    loop {
        let error = match shared.engine.call(command.clone()).await {
            Ok(settled) => {
                shared.outage.replied();
                return BatchReply::Verdicts(settled.verdicts);
            }
            Err(error) => error,
        };
        refusals += u32::from(!error.is_retryable());
        if matches!(error, EngineError::Invalid(_)) || refusals >= REFUSALS_MAX {
            return BatchReply::Refused(error);
        }
        shared.outage.failed("settling jobs", &error);
        if shared.stopped.run_until_cancelled(backoff.sleep()).await.is_none() {
            return BatchReply::Stopped;
        }
    }
}

fn record_verdicts(shared: &Shared, batch: Vec<Ending>, verdicts: Vec<Verdict>) {
    let mut bulk_progress = false;
    for (ending, verdict) in batch.into_iter().zip(verdicts) {
        bulk_progress |= ending.in_bulk;
        let end = match (&ending.outcome, verdict) {
            (_, Verdict::Stale | Verdict::Gone) => LeaseEnd::Lost,
            (Outcome::Released, Verdict::Applied) => LeaseEnd::HandedBack,
            (_, Verdict::Applied) => LeaseEnd::Finished,
        };
        shared.active_jobs.remove(&ending.job, ending.fence, end);
        report_settled(shared, ending, verdict);
    }
    if bulk_progress {
        shared.bulk_progress.notify_one();
    }
}

fn report_settled(shared: &Shared, ending: Ending, verdict: Verdict) {
    let Ending { job, type_id, trace, outcome, took, .. } = ending;
    let traceparent = trace.as_deref();
    match &outcome {
        Outcome::Failed(problem) => {
            tracing::warn!(target: TARGET, group = %job.group, job = %job.id, r#type = %type_id, traceparent, %problem, "a job failed for good");
        }
        Outcome::Retry { problem, .. } => {
            tracing::info!(target: TARGET, group = %job.group, job = %job.id, r#type = %type_id, traceparent, %problem, "a job failed and will be retried");
        }
        _ => {}
    }
    shared.hooks.emit(|| Event::Settled { job, type_id, outcome, verdict, took });
}
