//! Jobs, and the results of enqueueing, cancelling and requeueing them.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane_core::queue::{self, Cancellation, JobLine, JobReceipt, JobRef, JobState};
use fairlane_worker::Problem;
use serde::Serialize;
use serde_json::value::RawValue;

use super::Time;
#[cfg(feature = "openapi")]
use super::schema;
use crate::depth::is_too_deep;
use crate::error::Error;
use crate::job::Receipt;

/// A job. Fields that do not apply are omitted.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Job))]
pub struct JobView {
    /// The group of the job.
    #[cfg_attr(feature = "openapi", schema(example = "customer-7"))]
    pub group: String,
    /// The id of the job, unique within its group.
    #[cfg_attr(feature = "openapi", schema(example = "welcome-42"))]
    pub id: String,
    /// The type of the job.
    #[cfg_attr(feature = "openapi", schema(example = "mail"))]
    pub r#type: String,
    /// The state of the job. A dead job failed for good, or is out of attempts.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::job_states))]
    pub state: &'static str,
    /// The level of the job among jobs of its type.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::levels))]
    pub level: &'static str,
    /// How much the job counts in its group's share.
    pub cost: u64,
    /// Attempts so far, including the running one.
    pub attempts: u32,
    /// How often the downstream refused the job.
    pub throttles: u32,
    /// How many leases of the job were lost.
    pub losses: u32,
    /// The fence of its lease, or else that of its last settlement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// The bulk action that the job belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bulk: Option<String>,
    /// The trace of the job, a W3C `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The worker that leased the job last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When the job was enqueued.
    pub created_at: Time,
    /// When the job is due (waiting) or its lease ends (in flight).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// When the job was last settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Time>,
    /// The payload, byte for byte as it was sent; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub payload: Option<Box<RawValue>>,
    /// The payload in base64, if it is not JSON; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// The result of a completed job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub result: Option<Box<RawValue>>,
    /// The result in base64, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// Why the job last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorView>,
    /// How far its running attempt is, if its worker has reported it; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressView>,
}

/// How far an attempt is, in a unit of its worker's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Progress))]
pub struct ProgressView {
    /// Units done so far.
    #[cfg_attr(feature = "openapi", schema(example = 12))]
    pub done: u64,
    /// Units in total.
    #[cfg_attr(feature = "openapi", schema(example = 20))]
    pub total: u64,
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = JobError))]
pub struct ErrorView {
    /// A short code; summaries count errors by it.
    #[cfg_attr(feature = "openapi", schema(example = "bounced"))]
    pub code: String,
    /// A sentence for a person.
    pub reason: String,
}

impl ErrorView {
    /// The error in the note of a job; a dead job always has one.
    pub(crate) fn of(state: JobState, note: &[u8]) -> Option<Self> {
        let is_error = state != JobState::Completed && !note.is_empty();
        (is_error || state == JobState::Failed).then(|| {
            let Problem { code, message: reason } = Problem::from_bytes(note);
            Self { code, reason }
        })
    }
}

/// Bytes that are JSON by convention: unchanged if they are JSON that is not nested too deep for
/// parsers, otherwise in base64.
fn json_or_base64(bytes: &[u8]) -> (Option<Box<RawValue>>, Option<String>) {
    match serde_json::from_slice(bytes) {
        Ok(json) if !is_too_deep(bytes) => (Some(json), None),
        _ => (None, Some(BASE64.encode(bytes))),
    }
}

impl From<queue::JobView> for JobView {
    fn from(view: queue::JobView) -> Self {
        // A settled job may have dropped its payload.
        let is_dropped = view.payload.is_empty() && view.settled_at.is_some();
        let (payload, payload_base64) = if is_dropped { (None, None) } else { json_or_base64(&view.payload) };
        let progress = view.progress.map(|queue::Progress { done, total }| ProgressView { done, total });
        Self { payload, payload_base64, progress, ..JobLine::from(view).into() }
    }
}

impl From<JobLine> for JobView {
    fn from(line: JobLine) -> Self {
        let has_result = line.state == JobState::Completed && !line.note.is_empty();
        let (result, result_base64) = if has_result { json_or_base64(&line.note) } else { (None, None) };
        Self {
            group: line.job.group.to_string(),
            id: line.job.id.to_string(),
            r#type: line.type_id.to_string(),
            state: line.state.as_str(),
            level: line.level.as_str(),
            cost: line.cost.get(),
            attempts: line.attempts,
            throttles: line.throttles,
            losses: line.losses,
            fence: line.fence.map(|fence| fence.0),
            bulk: line.bulk.map(|bulk| bulk.to_string()),
            trace: line.trace.map(|trace| trace.to_string()),
            worker: line.worker.map(|worker| worker.given_name()),
            created_at: Time(line.created_at),
            until: line.until.map(Time),
            settled_at: line.settled_at.map(Time),
            payload: None,
            payload_base64: None,
            result,
            result_base64,
            error: ErrorView::of(line.state, &line.note),
            progress: None,
        }
    }
}

/// A job that is in the queue, added by this request or before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Enqueued))]
pub struct EnqueuedView {
    /// The group of the job.
    pub group: String,
    /// The id of the job.
    pub id: String,
    /// Whether the job is new; otherwise it existed before, and nothing was changed.
    pub created: bool,
    /// The bulk action of a job that existed before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bulk: Option<String>,
    /// Unfinished jobs of its group that are not leased, right after this one was added.
    pub backlog: u64,
}

impl TryFrom<Receipt> for EnqueuedView {
    type Error = Error;

    /// The job of a receipt; an error if it is not in the queue ([`Receipt::accepted`]).
    fn try_from(receipt: Receipt) -> Result<Self, Error> {
        let (created, backlog) = (receipt.is_created(), receipt.backlog);
        let bulk = match &receipt.receipt {
            JobReceipt::Exists { bulk } => bulk.as_ref().map(ToString::to_string),
            _ => None,
        };
        let JobRef { group, id } = receipt.accepted()?;
        Ok(Self { group: group.to_string(), id: id.to_string(), created, bulk, backlog })
    }
}

/// The outcome of a cancellation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Cancelled))]
pub struct CancellationView {
    /// The group of the job.
    pub group: String,
    /// The id of the job.
    pub id: String,
    /// `cancelled`: the job will not run. `requested`: it is running; its worker is asked to stop,
    /// and it is not retried. `ended`: it had ended before. `unknown`: it does not exist.
    #[cfg_attr(feature = "openapi", schema(schema_with = outcomes))]
    pub outcome: &'static str,
}

#[cfg(feature = "openapi")]
fn outcomes() -> utoipa::openapi::schema::Object {
    schema::one_of(["cancelled", "requested", "ended", "unknown"])
}

impl CancellationView {
    /// The outcome for this job.
    pub fn new(job: &JobRef, cancellation: Cancellation) -> Self {
        let outcome = match cancellation {
            Cancellation::Cancelled => "cancelled",
            Cancellation::Requested => "requested",
            Cancellation::Ended => "ended",
            Cancellation::Unknown => "unknown",
        };
        Self { group: job.group.to_string(), id: job.id.to_string(), outcome }
    }
}

/// A dead job that was requeued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Requeued))]
pub struct RequeuedView {
    /// The group of the job.
    pub group: String,
    /// The id of the job.
    pub id: String,
    /// Always true: the job is in its lane again.
    pub requeued: bool,
}

impl RequeuedView {
    /// This job is in its lane again.
    pub fn new(job: &JobRef) -> Self {
        Self { group: job.group.to_string(), id: job.id.to_string(), requeued: true }
    }
}
