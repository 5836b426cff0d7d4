//! Enqueues the jobs of a batch, those of a group in order.

use std::collections::HashSet;
use std::time::Duration;

use fairlane::{Fairlane, JobRef, Refusal};
use fairlane_core::limits::ENQUEUE_JOBS_MAX;
use fairlane_core::queue::{CancelJob, Enqueue, JobReceipt, NewJob};
use fairlane_engine::{EngineError, by_group};

use super::TARGET;
use super::batch::OutboxRow;
use crate::error::Error;

/// Most payload bytes of one step, unless a single payload is larger.
const STEP_BYTES: usize = 256 * 1024;

/// After this many groups in a row that the queue failed to take, the rest of the batch is kept: the
/// queue itself has probably failed.
pub(crate) const FAILED_GROUPS_MAX: usize = 4;
/// How long a group waits that the queue failed to take.
const FAILED_GROUP_WAIT: Duration = Duration::from_secs(5);

/// The result for one row.
pub(super) enum RowEnd {
    /// The queue has its job.
    Passed,
    /// Its job can never be enqueued.
    Invalid(String),
    /// The queue has another job with its id.
    Conflict(String),
    /// The row stays in the outbox, because its group or the queue is full or has failed.
    Kept,
}

/// A group that is full or has failed, or the queue.
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
/// that no job overtakes another. A group that the queue fails to take is kept like a full one.
pub(super) async fn send(fairlane: &Fairlane, rows: &[OutboxRow]) -> Result<Sent, Error> {
    let mut sending = Sending::new(fairlane, rows);
    let mut places = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        match &row.job {
            Err(reason) => sending.sent.ends[at] = RowEnd::Invalid(reason.clone()),
            Ok(_) if row.has_ended => sending.sent.ends[at] = RowEnd::Passed,
            Ok(job) => places.push((at, job)),
        }
    }
    let order = by_group(places.iter().map(|(_, job)| &job.job.group));
    let places: Vec<Place> = order.into_iter().map(|index| places[index]).collect();
    let mut rest = places.as_slice();
    while !rest.is_empty() && !sending.is_over() {
        let mut bytes = 0;
        let fits = |(_, job): &&Place| {
            bytes += job.payload.len();
            bytes <= STEP_BYTES
        };
        let count = rest.iter().take(ENQUEUE_JOBS_MAX).take_while(fits).count().max(1);
        let (step, later) = rest.split_at(count);
        rest = later;
        let is_open = |(at, _): &&Place| !sending.closed.contains(rows[*at].group.as_str());
        let step: Vec<Place> = step.iter().filter(is_open).copied().collect();
        sending.step(&step).await;
    }
    sending.end()
}

/// Cancels jobs that the queue has taken and that are recorded as conflicts. If this fails, a job whose
/// id belongs to a success is settled by that success, and one of a failure runs in its place.
pub(super) async fn withdraw(fairlane: &Fairlane, jobs: HashSet<JobRef>) {
    let jobs = jobs.into_iter().collect();
    if let Err(error) = fairlane.engine().call(CancelJob { jobs }).await {
        tracing::warn!(target: TARGET, %error, "jobs with the ids of ended jobs could not be cancelled");
    }
}

/// A job and the position of its row.
type Place<'a> = (usize, &'a NewJob);

/// A batch that is being sent.
struct Sending<'a> {
    fairlane: &'a Fairlane,
    rows: &'a [OutboxRow],
    sent: Sent,
    /// The groups of which no more jobs are sent.
    closed: HashSet<&'a str>,
    is_queue_full: bool,
    /// Whether the queue has replied.
    has_reply: bool,
    /// The groups that the queue failed to take, and why.
    failed: Vec<(&'a str, EngineError)>,
    /// How many of them there were since the last reply.
    failures: usize,
}

impl<'a> Sending<'a> {
    fn new(fairlane: &'a Fairlane, rows: &'a [OutboxRow]) -> Self {
        let sent = Sent { ends: rows.iter().map(|_| RowEnd::Kept).collect(), full: Vec::new() };
        let (closed, failed) = (HashSet::new(), Vec::new());
        Self { fairlane, rows, sent, closed, is_queue_full: false, has_reply: false, failed, failures: 0 }
    }

    fn is_over(&self) -> bool {
        self.is_queue_full || self.failures >= FAILED_GROUPS_MAX
    }

    /// Enqueues a step. An error may concern one group only, such as one that was left half written or
    /// that the key of this relay may not use. So its groups are then sent one by one.
    async fn step(&mut self, step: &[Place<'_>]) {
        let Err(error) = self.enqueue(step).await else { return };
        let groups: Vec<&[Place]> =
            step.chunk_by(|one, other| one.1.job.group == other.1.job.group).collect();
        if let [group] = groups[..] {
            return self.keep(group, error);
        }
        for group in groups {
            if self.is_over() {
                return;
            }
            if let Err(error) = self.enqueue(group).await {
                self.keep(group, error);
            }
        }
    }

    /// Keeps the rows of a group that the queue failed to take.
    fn keep(&mut self, group: &[Place<'_>], error: EngineError) {
        let rows = self.rows;
        let group = group.first().map(|(at, _)| rows[*at].group.as_str());
        self.closed.extend(group);
        self.failed.extend(group.map(|group| (group, error)));
        self.failures += 1;
    }

    async fn enqueue(&mut self, step: &[Place<'_>]) -> Result<(), EngineError> {
        if step.is_empty() {
            return Ok(());
        }
        let jobs = step.iter().map(|(_, job)| (*job).clone()).collect();
        let receipts = self.fairlane.engine().call(Enqueue { jobs }).await?.receipts;
        (self.has_reply, self.failures) = (true, 0);
        for ((at, job), receipt) in step.iter().zip(receipts) {
            self.sent.ends[*at] = self.row_end(*at, job, receipt);
        }
        Ok(())
    }

    fn row_end(&mut self, at: usize, job: &NewJob, receipt: JobReceipt) -> RowEnd {
        let rows = self.rows;
        match receipt {
            JobReceipt::Created | JobReceipt::Exists { .. } => RowEnd::Passed,
            JobReceipt::Differs { difference, .. } => RowEnd::Conflict(format!(
                "job {} of this group exists with another {}",
                job.job.id,
                difference.as_str()
            )),
            JobReceipt::Refused { refusal, retry_after_ms } => {
                let is_queue = matches!(refusal, Refusal::QueueFull | Refusal::QueueBytesFull);
                self.is_queue_full |= is_queue;
                if self.closed.insert(rows[at].group.as_str()) {
                    let group = (!is_queue).then(|| rows[at].group.clone());
                    tracing::warn!(target: TARGET, group = rows[at].group, ?refusal, "the queue refuses jobs of the outbox; they wait");
                    let retry_after = Duration::from_millis(retry_after_ms.max(1));
                    self.sent.full.push(Full { group, retry_after });
                }
                RowEnd::Kept
            }
        }
    }

    /// The result; an error if the queue cannot be reached.
    fn end(mut self) -> Result<Sent, Error> {
        match self.failed.pop() {
            Some((_, error)) if error.is_retryable() && !self.has_reply => return Err(error.into()),
            last => self.failed.extend(last),
        }
        for (group, error) in self.failed {
            tracing::warn!(target: TARGET, group, %error, "the queue fails to take jobs of a group; they wait");
            self.sent.full.push(Full { group: Some(group.to_owned()), retry_after: FAILED_GROUP_WAIT });
        }
        Ok(self.sent)
    }
}
