//! What became of jobs that were to be added.

use std::time::Duration;

use fairlane::Error;
use fairlane_core::queue::{Difference, Enqueued, JobReceipt, JobRef, Refusal};
use fairlane_core::{BulkId, GroupId, JobId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::idempotency::{IdFrom, reused};
use crate::problem::Problem;

/// A job that is in the queue.
#[derive(Serialize, ToSchema)]
#[schema(as = Enqueued)]
pub struct JobEnqueued {
    /// Whose.
    #[schema(value_type = String)]
    group: GroupId,
    /// Which of theirs.
    #[schema(value_type = String)]
    id: JobId,
    /// Whether it is new; else it was there, and nothing was changed.
    pub created: bool,
    /// The bulk action that the job which was there belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    bulk: Option<BulkId>,
    /// Unfinished jobs of its group that nobody has leased, right after this one.
    backlog: u64,
}

impl JobEnqueued {
    /// The job if it is in the queue, be it new or there before.
    pub fn new(job: JobRef, id_from: IdFrom, receipt: JobReceipt, backlog: u64) -> Result<Self, Problem> {
        let (created, bulk) = match told(receipt, id_from) {
            JobReceipt::Created => (true, None),
            JobReceipt::Exists { bulk } => (false, bulk),
            JobReceipt::Differs { difference, .. } if id_from == IdFrom::Derived => {
                return Err(reused(&job, difference));
            }
            JobReceipt::Differs { difference, bulk: owner } => {
                return Err(Error::Differs { job, difference, owner }.into());
            }
            JobReceipt::Refused { refusal, retry_after_ms } => {
                let retry_after = Duration::from_millis(retry_after_ms);
                return Err(Error::Refused { job, refusal, retry_after }.into());
            }
        };
        let JobRef { group, id } = job;
        Ok(Self { group, id, created, bulk, backlog })
    }
}

/// What is there under an id that was drawn here was added here, by an attempt whose answer was lost.
fn told(receipt: JobReceipt, id_from: IdFrom) -> JobReceipt {
    match (receipt, id_from) {
        (JobReceipt::Exists { .. }, IdFrom::Drawn) => JobReceipt::Created,
        (receipt, _) => receipt,
    }
}

/// What became of the jobs of a batch.
#[derive(Serialize, ToSchema)]
pub struct BatchEnqueued {
    /// In the order of the request.
    receipts: Vec<ReceiptShown>,
    /// Jobs that are new.
    created: usize,
    /// Jobs that were there.
    existing: usize,
    /// Jobs whose id another job has.
    differing: usize,
    /// Jobs that were not taken.
    refused: usize,
}

impl BatchEnqueued {
    /// What became of these jobs, in their order.
    pub fn new(jobs: impl Iterator<Item = (JobRef, IdFrom)>, enqueued: Enqueued) -> Self {
        let answers = enqueued.receipts.into_iter().zip(enqueued.backlogs);
        let receipts: Vec<ReceiptShown> = jobs
            .zip(answers)
            .map(|((job, id_from), (receipt, backlog))| {
                ReceiptShown::new(job, told(receipt, id_from), backlog)
            })
            .collect();
        let count = |status: Status| receipts.iter().filter(|receipt| receipt.status == status).count();
        Self {
            created: count(Status::Created),
            existing: count(Status::Exists),
            differing: count(Status::Differs),
            refused: count(Status::Refused),
            receipts,
        }
    }
}

/// What became of one job of a batch.
#[derive(Serialize, ToSchema)]
#[schema(as = Receipt)]
struct ReceiptShown {
    /// Whose.
    #[schema(value_type = String)]
    group: GroupId,
    /// Which of theirs.
    #[schema(value_type = String)]
    id: JobId,
    /// Whether it is new, was there, has an id that another job has, or was not taken.
    status: Status,
    /// The bulk action that the job which was there belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    bulk: Option<BulkId>,
    /// Why it was not taken, or what the job that was there has otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<ReasonShown>,
    /// When it makes sense to try again; only if the queue is full.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// Unfinished jobs of its group that nobody has leased, right after this one.
    backlog: u64,
}

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ReceiptStatus)]
enum Status {
    /// It is new.
    Created,
    /// This very job was there; nothing was changed.
    Exists,
    /// Another job of this id was there; nothing was changed.
    Differs,
    /// It was not taken.
    Refused,
}

/// Why a job was not taken.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = ReceiptReason)]
enum ReasonShown {
    /// Its group has as many unfinished jobs as it may; try again later.
    GroupFull,
    /// All groups together have; try again later.
    WholeFull,
    /// Its group has as many bytes stored as it may, finished jobs included; try again later.
    GroupBytesFull,
    /// All groups together have as many bytes stored as they may; try again later.
    QueueBytesFull,
    /// A new type, and there are 64 already.
    TooManyTypes,
    /// Its bulk action is sealed, or has ended.
    BulkSealed,
    /// There is no such bulk action; open it first.
    BulkUnknown,
    /// The job of this id belongs to another bulk action, or one of both to none.
    OtherBulk,
    /// The job of this id has another type.
    OtherType,
    /// The job of this id has another level.
    OtherLevel,
    /// The job of this id has another cost.
    OtherCost,
    /// The job of this id has another payload.
    OtherPayload,
}

impl From<Refusal> for ReasonShown {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::GroupFull => Self::GroupFull,
            Refusal::WholeFull => Self::WholeFull,
            Refusal::GroupBytesFull => Self::GroupBytesFull,
            Refusal::QueueBytesFull => Self::QueueBytesFull,
            Refusal::TooManyTypes => Self::TooManyTypes,
            Refusal::BulkSealed => Self::BulkSealed,
            Refusal::BulkUnknown => Self::BulkUnknown,
        }
    }
}

impl From<Difference> for ReasonShown {
    fn from(difference: Difference) -> Self {
        match difference {
            Difference::Bulk => Self::OtherBulk,
            Difference::Type => Self::OtherType,
            Difference::Level => Self::OtherLevel,
            Difference::Cost => Self::OtherCost,
            Difference::Payload => Self::OtherPayload,
        }
    }
}

impl ReceiptShown {
    fn new(JobRef { group, id }: JobRef, receipt: JobReceipt, backlog: u64) -> Self {
        let (status, bulk, reason, retry_after_ms) = match receipt {
            JobReceipt::Created => (Status::Created, None, None, None),
            JobReceipt::Exists { bulk } => (Status::Exists, bulk, None, None),
            JobReceipt::Differs { difference, bulk } => {
                (Status::Differs, bulk, Some(difference.into()), None)
            }
            JobReceipt::Refused { refusal, retry_after_ms } => {
                (Status::Refused, None, Some(refusal.into()), refusal.is_full().then_some(retry_after_ms))
            }
        };
        Self { group, id, status, bulk, reason, retry_after_ms, backlog }
    }
}
