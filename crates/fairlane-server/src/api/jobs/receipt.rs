//! Receipts of enqueued jobs in responses.

use fairlane::Receipt;
use fairlane::views::EnqueuedView;
use fairlane_core::queue::{Difference, JobReceipt, JobRef, Refusal};
use fairlane_core::{BulkId, GroupId, JobId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::idempotency::{IdFrom, reused};
use crate::problem::Problem;

/// The job, if it is in the queue.
pub fn enqueued_view(receipt: Receipt, id_from: IdFrom) -> Result<EnqueuedView, Problem> {
    match effective(receipt, id_from) {
        Receipt { job, receipt: JobReceipt::Differs { difference, .. }, .. }
            if id_from == IdFrom::Derived =>
        {
            Err(reused(&job, difference))
        }
        receipt => Ok(EnqueuedView::try_from(receipt)?),
    }
}

/// The receipt for the client. A job that exists with a random id was created by this request, in
/// an attempt whose reply was lost.
fn effective(receipt: Receipt, id_from: IdFrom) -> Receipt {
    match (&receipt.receipt, id_from) {
        (JobReceipt::Exists { .. }, IdFrom::Random) => Receipt { receipt: JobReceipt::Created, ..receipt },
        _ => receipt,
    }
}

/// The receipts of a batch.
#[derive(Serialize, ToSchema)]
pub struct BatchEnqueued {
    /// The receipts in the order of the request.
    receipts: Vec<ReceiptResponse>,
    /// Jobs that are new.
    created: usize,
    /// Jobs that existed before.
    existing: usize,
    /// Jobs whose id another job has.
    differing: usize,
    /// Jobs that were refused.
    refused: usize,
}

impl BatchEnqueued {
    /// The receipts of these jobs, in their order.
    pub fn new(receipts: impl Iterator<Item = (Receipt, IdFrom)>) -> Self {
        let receipts: Vec<ReceiptResponse> =
            receipts.map(|(receipt, id_from)| effective(receipt, id_from).into()).collect();
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

/// The receipt of one job of a batch.
#[derive(Serialize, ToSchema)]
#[schema(as = Receipt)]
struct ReceiptResponse {
    /// The group of the job.
    #[schema(value_type = String)]
    group: GroupId,
    /// The id of the job.
    #[schema(value_type = String)]
    id: JobId,
    /// Whether the job is new, existed before, has an id that another job has, or was refused.
    status: Status,
    /// The bulk action of a job that existed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    bulk: Option<BulkId>,
    /// Why the job was refused, or in what the existing job differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<ReceiptReason>,
    /// After how many milliseconds to try again; only if the queue is full.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// Unfinished jobs of its group that are not leased, right after this one was added.
    backlog: u64,
}

/// The outcome of enqueueing a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ReceiptStatus)]
enum Status {
    /// The job is new.
    Created,
    /// The same job existed before; nothing was changed.
    Exists,
    /// Another job with this id existed before; nothing was changed.
    Differs,
    /// The job was refused.
    Refused,
}

/// Why a job was refused, or in what the existing job differs.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum ReceiptReason {
    /// The group has reached its maximum of unfinished jobs; try again later.
    GroupFull,
    /// The queue has reached its maximum of unfinished jobs; try again later.
    QueueFull,
    /// The group has reached its maximum of stored bytes, including finished jobs; try again later.
    GroupBytesFull,
    /// The queue has reached its maximum of stored bytes, including finished jobs; try again later.
    QueueBytesFull,
    /// The type is new, and there are 64 types already.
    TooManyTypes,
    /// The bulk action is sealed or has ended.
    BulkSealed,
    /// The bulk action does not exist; open it first.
    BulkUnknown,
    /// The job with this id belongs to another bulk action, or one of the two belongs to none.
    OtherBulk,
    /// The job with this id has another type.
    OtherType,
    /// The job with this id has another level.
    OtherLevel,
    /// The job with this id has another cost.
    OtherCost,
    /// The job with this id has another payload.
    OtherPayload,
}

impl From<Refusal> for ReceiptReason {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::GroupFull => Self::GroupFull,
            Refusal::QueueFull => Self::QueueFull,
            Refusal::GroupBytesFull => Self::GroupBytesFull,
            Refusal::QueueBytesFull => Self::QueueBytesFull,
            Refusal::TooManyTypes => Self::TooManyTypes,
            Refusal::BulkSealed => Self::BulkSealed,
            Refusal::BulkUnknown => Self::BulkUnknown,
        }
    }
}

impl From<Difference> for ReceiptReason {
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

impl From<Receipt> for ReceiptResponse {
    fn from(Receipt { job: JobRef { group, id }, receipt, backlog }: Receipt) -> Self {
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
