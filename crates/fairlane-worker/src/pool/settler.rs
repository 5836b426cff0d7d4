//! Tells the engine how attempts ended: in batches that gather only while the one before is on its way, so
//! that they cost no time, and again and again until it answers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

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

/// Answers other than silence that a batch gets before it is halved: a full disk may have room again soon.
const REFUSALS_MAX: u32 = 8;
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

/// Settles until the worker has stopped.
pub(crate) async fn settle_all(shared: Arc<Shared>, mut endings: Endings) {
    let mut gathered = Vec::new();
    loop {
        let count = tokio::select! {
            biased;
            count = endings.recv_many(&mut gathered, SETTLE_JOBS_MAX) => count,
            _ = shared.stopped.cancelled() => return,
        };
        if count == 0 {
            return;
        }
        // The last job in hand is settled at once.
        if shared.in_hand.len() > gathered.len() {
            gather(|| endings.len()).await;
            while gathered.len() < SETTLE_JOBS_MAX
                && let Ok(ending) = endings.try_recv()
            {
                gathered.push(ending);
            }
        }
        while !gathered.is_empty() {
            let batch = next_batch(&mut gathered);
            settle(&shared, batch).await;
        }
    }
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

/// Settles a batch; one that the engine cannot take is halved until what is wrong with it stands alone, so that
/// it keeps nobody else from ending.
async fn settle(shared: &Shared, batch: Vec<Ending>) {
    let mut batches = vec![batch];
    while let Some(batch) = batches.pop() {
        match ask_until_answered(shared, &batch).await {
            Answer::Verdicts(verdicts) => note_verdicts(shared, batch, verdicts),
            Answer::Stopped => return,
            Answer::Impossible(_) if batch.len() > 1 => {
                let mut first = batch;
                let second = first.split_off(first.len() / 2);
                batches.extend([second, first]);
            }
            Answer::Impossible(error) => batch.into_iter().for_each(|ending| give_up(shared, ending, &error)),
        }
    }
}

fn give_up(shared: &Shared, ending: Ending, error: &EngineError) {
    let Ending { job, type_id, fence, said, .. } = ending;
    tracing::error!(target: TARGET, ?job, %error, "it cannot be settled; its lease will run out");
    shared.outage.refused("settling jobs", error);
    shared.in_hand.remove(&job, fence, Left::Lost);
    shared.hooks.tell(|| Event::Unsettled { job, type_id, outcome: said, error: error.to_string() });
}

enum Answer {
    Verdicts(Vec<Verdict>),
    /// The worker has stopped.
    Stopped,
    /// Asking again does not help.
    Impossible(EngineError),
}

async fn ask_until_answered(shared: &Shared, batch: &[Ending]) -> Answer {
    let settlements = batch.iter().map(|ending| Settlement {
        job: ending.job.clone(),
        fence: ending.fence,
        outcome: ending.outcome.clone(),
    });
    let command = Settle { settlements: settlements.collect() };
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
            return Answer::Impossible(error);
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
