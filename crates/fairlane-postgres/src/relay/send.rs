//! Enqueues the jobs of a batch, those of a group in order.

use std::collections::HashSet;
use std::time::Duration;

use fairlane::{Fairlane, Refusal};
use fairlane_core::limits::ENQUEUE_JOBS_MAX;
use fairlane_core::queue::{Enqueue, JobReceipt, NewJob};
use fairlane_engine::by_group;

use super::TARGET;
use super::batch::OutboxRow;
use crate::error::Error;

/// Most payload bytes of one step, unless a single payload is larger.
const STEP_BYTES: usize = 256 * 1024;

/// The result for one row.
pub(super) enum RowEnd {
    /// The queue has its job.
    Passed,
    /// Its job can never be enqueued.
    Invalid(String),
    /// The queue has another job with its id.
    Conflict(String),
    /// The row stays in the outbox, because its group or the queue is full.
    Kept,
}

/// A group that is full, or the queue.
pub(super) struct Full {
    pub group: Option<String>,
    pub retry_after: Duration,
}

/// The result for a batch.
pub(super) struct Sent {
    /// The result for each row.
    pub ends: Vec<RowEnd>,
    pub full: Vec<Full>,
}

/// Enqueues the jobs of these rows. After the first refusal of a group its later rows are kept, so
/// that no job overtakes another.
pub(super) async fn send(fairlane: &Fairlane, rows: &[OutboxRow]) -> Result<Sent, Error> {
    let mut sent = Sent { ends: rows.iter().map(|_| RowEnd::Kept).collect(), full: Vec::new() };
    let mut places = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        match &row.job {
            Err(reason) => sent.ends[at] = RowEnd::Invalid(reason.clone()),
            Ok(_) if row.has_ended => sent.ends[at] = RowEnd::Passed,
            Ok(job) => places.push((at, job)),
        }
    }
    let order = by_group(places.iter().map(|(_, job)| &job.job.group));
    let places: Vec<(usize, &NewJob)> = order.into_iter().map(|index| places[index]).collect();
    let mut refused = HashSet::new();
    let mut rest = places.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |(_, job): &&(usize, &NewJob)| {
            bytes += job.payload.len();
            bytes <= STEP_BYTES
        };
        let count = rest.iter().take(ENQUEUE_JOBS_MAX).take_while(fits).count().max(1);
        let (step, later) = rest.split_at(count);
        rest = later;
        let is_open = |(at, _): &&(usize, &NewJob)| !refused.contains(rows[*at].group.as_str());
        let step: Vec<(usize, &NewJob)> = step.iter().filter(is_open).copied().collect();
        if step.is_empty() {
            continue;
        }
        let jobs = step.iter().map(|(_, job)| (*job).clone()).collect();
        let receipts = fairlane.engine().call(Enqueue { jobs }).await?.receipts;
        let mut is_queue_full = false;
        for ((at, job), receipt) in step.into_iter().zip(receipts) {
            sent.ends[at] = match receipt {
                JobReceipt::Created | JobReceipt::Exists { .. } => RowEnd::Passed,
                JobReceipt::Differs { difference, .. } => RowEnd::Conflict(format!(
                    "job {} of this group exists with another {}",
                    job.job.id,
                    difference.as_str()
                )),
                JobReceipt::Refused { refusal, retry_after_ms } => {
                    let is_queue = matches!(refusal, Refusal::QueueFull | Refusal::QueueBytesFull);
                    is_queue_full |= is_queue;
                    if refused.insert(rows[at].group.as_str()) {
                        let group = (!is_queue).then(|| rows[at].group.clone());
                        tracing::warn!(target: TARGET, group = rows[at].group, ?refusal, "the queue refuses jobs of the outbox; they wait");
                        let retry_after = Duration::from_millis(retry_after_ms.max(1));
                        sent.full.push(Full { group, retry_after });
                    }
                    RowEnd::Kept
                }
            };
        }
        if is_queue_full {
            break;
        }
    }
    Ok(sent)
}
