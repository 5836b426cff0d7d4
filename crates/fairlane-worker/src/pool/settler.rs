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

use super::in_hand::Left;
use super::outage::Pauses;
use super::{Shared, TARGET};
use crate::events::Event;
use crate::outcome::Outcome;

/// A batch is sent once its results and reasons have this many bytes.
const BATCH_BYTES: usize = 1024 * 1024;

/// An attempt that has ended.
pub(crate) struct Ending {
    pub job: JobRef,
    pub type_id: TypeId,
    pub fence: Fence,
    pub in_bulk: bool,
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

async fn settle(shared: &Shared, batch: Vec<Ending>) {
    let settlements = batch.iter().map(|ending| Settlement {
        job: ending.job.clone(),
        fence: ending.fence,
        outcome: ending.outcome.clone(),
    });
    let command = Settle { settlements: settlements.collect() };
    let mut pauses = Pauses::default();
    let verdicts = loop {
        match shared.engine.settle(command.clone()).await {
            Ok(settled) => break settled.verdicts,
            Err(error @ EngineError::Invalid(_)) => {
                tracing::error!(target: TARGET, %error, "a settlement is malformed; its leases will run out");
                break Vec::new();
            }
            Err(error) => {
                shared.outage.failed("settling jobs", &error);
                if !pauses.pause(&shared.stopped).await {
                    return;
                }
            }
        }
    };
    shared.outage.over();
    let mut bulk_moved = false;
    for (ending, verdict) in batch.into_iter().zip(verdicts) {
        bulk_moved |= ending.in_bulk;
        let left = if ending.said == Outcome::Released { Left::HandedBack } else { Left::Finished };
        shared.in_hand.remove(&ending.job, ending.fence, left);
        tell(shared, ending, verdict);
    }
    if bulk_moved {
        shared.bulk_moved.notify_one();
    }
}

fn tell(shared: &Shared, ending: Ending, verdict: Verdict) {
    let Ending { job, type_id, said, took, .. } = ending;
    match &said {
        Outcome::Failed(problem) => {
            tracing::warn!(target: TARGET, ?job, %type_id, %problem, "a job failed for good");
        }
        Outcome::Retry { problem, .. } => {
            tracing::info!(target: TARGET, ?job, %type_id, %problem, "a job failed and is tried again");
        }
        _ => {}
    }
    shared.hooks.tell(|| Event::Settled { job, type_id, outcome: said, verdict, took });
}
