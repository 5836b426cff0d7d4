//! Tells the engine how attempts ended: in batches that gather only while the one before is on its way, so
//! that they cost no time, and again and again until it answers.
//!
//! Invariant: a result is dropped only if the engine says that this very settlement is malformed, or if it does
//! not take it and the lease is lost. Each result that is dropped is reported. A result that the engine refuses
//! alone is set aside and sent again, so that it does not hold up the others.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::limits::SETTLE_JOBS_MAX;
use fairlane_core::queue::{self, JobRef, Settle, Settlement, Verdict};
use fairlane_core::{Fence, TypeId};
use fairlane_engine::EngineError;
use tokio::sync::mpsc;

use super::gather::gather;
use super::in_hand::Left;
use super::outage::Pauses;
use super::{Shared, TARGET};
use crate::events::Event;
use crate::outcome::Outcome;

/// Refusals that a batch gets before it is halved: a full disk may have room again soon.
const REFUSALS_MAX: u32 = 8;
/// Why a result is dropped that was not taken before the worker stopped.
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
    /// As its processor said it, for events.
    pub said: Outcome,
    /// As the engine is told.
    pub outcome: queue::Outcome,
    pub took: Duration,
}

pub(crate) type Sender = mpsc::Sender<Ending>;
pub(crate) type Endings = mpsc::Receiver<Ending>;

pub(crate) fn channel(slots: usize) -> (Sender, Endings) {
    mpsc::channel(slots.clamp(1, SETTLE_JOBS_MAX))
}

/// A result that the engine refused, to be sent again.
struct Refused {
    ending: Ending,
    pauses: Pauses,
    due: Instant,
}

/// Settles until the worker has stopped.
pub(crate) async fn settle_all(shared: Arc<Shared>, mut endings: Endings) {
    let (mut gathered, mut refused): (Vec<Ending>, Vec<Refused>) = (Vec::new(), Vec::new());
    // With as many results set aside, those that follow wait, and with them the slots.
    let refused_max = shared.settings.worker_count.max(1);
    loop {
        let has_room = refused.len() < refused_max;
        tokio::select! {
            biased;
            () = until_due(&refused) => send_again(&shared, &mut refused).await,
            count = endings.recv_many(&mut gathered, SETTLE_JOBS_MAX), if has_room => {
                if count == 0 {
                    break;
                }
            }
            _ = shared.stopped.cancelled() => break,
        }
        // The last job in hand is settled at once.
        if !gathered.is_empty() && shared.in_hand.len() > gathered.len() {
            gather(|| endings.len()).await;
            while gathered.len() < SETTLE_JOBS_MAX
                && let Ok(ending) = endings.try_recv()
            {
                gathered.push(ending);
            }
        }
        while !gathered.is_empty() {
            let batch = next_batch(&mut gathered);
            settle(&shared, batch, &mut refused).await;
        }
        if shared.stopped.is_cancelled() {
            break;
        }
    }
    gathered.extend(refused.into_iter().map(|refused| refused.ending));
    while let Ok(ending) = endings.try_recv() {
        gathered.push(ending);
    }
    gathered.into_iter().for_each(|ending| report_dropped(&shared, ending, STOPPED));
}

/// Until a result that was set aside is due; never if there is none.
async fn until_due(refused: &[Refused]) {
    match refused.iter().map(|refused| refused.due).min() {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Sends the first due result again.
async fn send_again(shared: &Shared, refused: &mut Vec<Refused>) {
    let Some(first) = (0..refused.len()).min_by_key(|index| refused[*index].due) else { return };
    let Refused { ending, pauses, .. } = refused.swap_remove(first);
    let batch = [ending];
    let answer = shared.engine.settle(command(&batch)).await;
    let [ending] = batch;
    match answer {
        Ok(settled) => {
            shared.outage.over();
            note_verdicts(shared, vec![ending], settled.verdicts);
        }
        Err(error) => set_aside(shared, ending, pauses, &error, refused),
    }
}

/// Keeps a result that the engine did not take, unless it never can.
fn set_aside(
    shared: &Shared,
    ending: Ending,
    mut pauses: Pauses,
    error: &EngineError,
    refused: &mut Vec<Refused>,
) {
    let is_malformed = matches!(error, EngineError::Invalid(_));
    let is_lost = !error.is_retryable() && shared.in_hand.is_lost(&ending.job, ending.fence);
    if is_malformed || is_lost {
        shared.in_hand.remove(&ending.job, ending.fence, Left::Lost);
        return report_dropped(shared, ending, &error.to_string());
    }
    shared.outage.failed("settling jobs", error);
    let due = Instant::now() + pauses.next();
    refused.push(Refused { ending, pauses, due });
}

/// The first of them: each job once, and no more bytes than a batch should have.
fn next_batch(gathered: &mut Vec<Ending>) -> Vec<Ending> {
    let mut bytes = 0;
    let mut jobs: HashSet<&JobRef> = HashSet::new();
    let mut count = 0;
    for ending in gathered.iter() {
        bytes += note_bytes(&ending.outcome);
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

/// Settles a batch; one that the engine refuses is halved until what is wrong with it stands alone, so that the
/// rest is settled.
async fn settle(shared: &Shared, batch: Vec<Ending>, refused: &mut Vec<Refused>) {
    let mut batches = vec![batch];
    while let Some(batch) = batches.pop() {
        match ask_until_answered(shared, &batch).await {
            Answer::Verdicts(verdicts) => note_verdicts(shared, batch, verdicts),
            Answer::Stopped => {
                let left = batch.into_iter().chain(batches.into_iter().flatten());
                return left.for_each(|ending| report_dropped(shared, ending, STOPPED));
            }
            Answer::Refused(_) if batch.len() > 1 => {
                let mut first = batch;
                let second = first.split_off(first.len() / 2);
                batches.extend([second, first]);
            }
            Answer::Refused(error) => {
                for ending in batch {
                    set_aside(shared, ending, Pauses::default(), &error, refused);
                }
            }
        }
    }
}

/// The result is lost: its job runs again when its lease has run out.
pub(super) fn report_dropped(shared: &Shared, ending: Ending, error: &str) {
    let Ending { job, type_id, said, .. } = ending;
    tracing::error!(target: TARGET, ?job, error, "a result is dropped; the job runs again when its lease runs out");
    shared.hooks.tell(|| Event::Unsettled { job, type_id, outcome: said, error: error.to_owned() });
}

enum Answer {
    Verdicts(Vec<Verdict>),
    /// The worker has stopped.
    Stopped,
    /// The engine has answered, but not taken it.
    Refused(EngineError),
}

fn command(batch: &[Ending]) -> Settle {
    let settlements = batch.iter().map(|ending| Settlement {
        job: ending.job.clone(),
        fence: ending.fence,
        outcome: ending.outcome.clone(),
    });
    Settle { settlements: settlements.collect() }
}

async fn ask_until_answered(shared: &Shared, batch: &[Ending]) -> Answer {
    let command = command(batch);
    let (mut pauses, mut refusals) = (Pauses::default(), 0);
    loop {
        let error = match shared.engine.settle(command.clone()).await {
            Ok(settled) => {
                shared.outage.over();
                return Answer::Verdicts(settled.verdicts);
            }
            Err(error) => error,
        };
        refusals += u32::from(!error.is_retryable());
        if matches!(error, EngineError::Invalid(_)) || refusals >= REFUSALS_MAX {
            return Answer::Refused(error);
        }
        shared.outage.failed("settling jobs", &error);
        if !pauses.pause(&shared.stopped).await {
            return Answer::Stopped;
        }
    }
}

fn note_verdicts(shared: &Shared, batch: Vec<Ending>, verdicts: Vec<Verdict>) {
    let mut bulk_moved = false;
    for (ending, verdict) in batch.into_iter().zip(verdicts) {
        bulk_moved |= ending.in_bulk;
        let left = match (&ending.said, verdict) {
            (_, Verdict::Stale | Verdict::Gone) => Left::Lost,
            (Outcome::Released, Verdict::Applied) => Left::HandedBack,
            (_, Verdict::Applied) => Left::Finished,
        };
        shared.in_hand.remove(&ending.job, ending.fence, left);
        tell(shared, ending, verdict);
    }
    if bulk_moved {
        shared.bulk_moved.notify_one();
    }
}

fn tell(shared: &Shared, ending: Ending, verdict: Verdict) {
    let Ending { job, type_id, trace, said, took, .. } = ending;
    let traceparent = trace.as_deref();
    match &said {
        Outcome::Failed(problem) => {
            tracing::warn!(target: TARGET, ?job, %type_id, traceparent, %problem, "a job failed for good");
        }
        Outcome::Retry { problem, .. } => {
            tracing::info!(target: TARGET, ?job, %type_id, traceparent, %problem, "a job failed and is tried again");
        }
        _ => {}
    }
    shared.hooks.tell(|| Event::Settled { job, type_id, outcome: said, verdict, took });
}
