//! Jobs and bulk actions in responses.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane::{BulkPlan, is_too_deep, time_text};
use fairlane_core::Micros;
use fairlane_core::queue::{BulkCause, BulkMode, BulkState, BulkView, JobLine, JobState, JobView};
use fairlane_worker::callback_id;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

/// An instant as RFC 3339 text in UTC.
pub(super) fn time(at: Micros) -> String {
    time_text(at.as_millis())
}

/// Bytes that are JSON by convention: unchanged if they are JSON that is not nested too deep for
/// parsers, otherwise in base64. At most one of the two fields is set.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    /// Valid JSON, byte for byte.
    pub json: Option<Box<RawValue>>,
    /// Anything else, in base64.
    pub base64: Option<String>,
}

impl Content {
    /// The content of these bytes, even if they are empty.
    pub fn new(bytes: &[u8]) -> Self {
        match serde_json::from_slice(bytes) {
            Ok(json) if !is_too_deep(bytes) => Self { json: Some(json), base64: None },
            _ => Self { json: None, base64: Some(BASE64.encode(bytes)) },
        }
    }

    /// The content of these bytes; neither field is set if they are empty.
    pub fn unless_empty(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::default() } else { Self::new(bytes) }
    }
}

/// A job. Fields that do not apply are omitted.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Job)]
pub(super) struct JobResponse {
    /// The group of the job.
    #[schema(example = "customer-7")]
    pub group: String,
    /// The id of the job, unique within its group.
    #[schema(example = "welcome-42")]
    pub id: String,
    /// The type of the job.
    #[schema(example = "mail")]
    pub r#type: String,
    /// The state of the job. FAILED is dead: it failed for good, or is out of attempts.
    #[schema(schema_with = job_states)]
    pub state: &'static str,
    /// The level of the job among jobs of its type.
    #[schema(schema_with = levels)]
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
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When the job is due (WAITING) or its lease ends (PROCESSING).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub until: Option<String>,
    /// When the job was last settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub settled_at: Option<String>,
    /// The payload, byte for byte as it was sent; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// The payload in base64, if it is not JSON; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// The result (COMPLETED).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// The result in base64, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// Why the job last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
}

/// Why a job failed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct JobError {
    /// A short code; summaries count errors by it.
    #[schema(example = "bounced")]
    pub code: String,
    /// A sentence for a person.
    pub reason: String,
}

impl From<JobView> for JobResponse {
    fn from(view: JobView) -> Self {
        let is_dropped = view.payload.is_empty() && view.settled_at.is_some();
        let payload = if is_dropped { Content::default() } else { Content::new(&view.payload) };
        Self { payload: payload.json, payload_base64: payload.base64, ..JobLine::from(view).into() }
    }
}

impl From<JobLine> for JobResponse {
    fn from(line: JobLine) -> Self {
        let is_done = line.state == JobState::Completed;
        let result = if is_done { Content::unless_empty(&line.note) } else { Content::default() };
        let error = (!is_done && !line.note.is_empty()).then(|| {
            let fairlane::Problem { code, message: reason } = fairlane::Problem::from_bytes(&line.note);
            JobError { code, reason }
        });
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
            trace: line.trace.map(|trace| trace.as_str().to_owned()),
            worker: line.worker.map(|worker| worker.given_name()),
            created_at: time(line.created_at),
            until: line.until.map(time),
            settled_at: line.settled_at.map(time),
            payload: None,
            payload_base64: None,
            result: result.json,
            result_base64: result.base64,
            error,
        }
    }
}

/// A bulk action. Fields that do not apply are omitted.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Bulk)]
pub(super) struct BulkResponse {
    /// The group of the bulk action.
    #[schema(example = "customer-7")]
    pub group: String,
    /// The id of the bulk action, unique within its group.
    #[schema(example = "newsletter")]
    pub id: String,
    /// The state of the bulk action.
    #[schema(schema_with = bulk_states)]
    pub state: &'static str,
    /// What happens to its jobs when their turn comes: they run, are set aside, or are dropped.
    #[schema(schema_with = bulk_modes)]
    pub mode: &'static str,
    /// Whether it is sealed: no more jobs can be added.
    pub sealed: bool,
    /// The number of jobs.
    pub total: u64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that are dead.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs set aside while the bulk action is held.
    pub on_hold: u64,
    /// Jobs that have not ended.
    pub unfinished: u64,
    /// The fraction of its jobs that have ended, from 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    pub progress: f64,
    /// The bulk action fails when more jobs than this have failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures_max: Option<u64>,
    /// When it was opened.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When its first job was leased.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    /// When it reached its final state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    /// When it fails, unless it has finished before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub deadline: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = bulk_causes, required = false)]
    pub cause: Option<&'static str>,
    /// The callback that is sent when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<BulkCallback>,
    /// The fold that adds to its summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<String>,
    /// The result of its aggregation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub summary: Option<Box<RawValue>>,
}

/// The callback of a bulk action.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct BulkCallback {
    /// The address that the callback is sent to.
    pub url: String,
    /// The id of the job that delivers it, of the type `fairlane-callback`.
    pub job: String,
}

impl From<BulkView> for BulkResponse {
    fn from(view: BulkView) -> Self {
        // The aggregation reports a plan that cannot be read.
        let plan = BulkPlan::from_bytes(&view.payload).unwrap_or_default();
        let job = callback_id(&view);
        let ended = view.succeeded + view.failed + view.cancelled;
        Self {
            group: view.bulk.group.to_string(),
            id: view.bulk.id.to_string(),
            state: view.state.as_str(),
            mode: view.mode.as_str(),
            sealed: view.sealed,
            total: view.total,
            succeeded: view.succeeded,
            failed: view.failed,
            cancelled: view.cancelled,
            on_hold: view.on_hold,
            unfinished: view.total.saturating_sub(ended),
            progress: if view.total == 0 { 0.0 } else { ended as f64 / view.total as f64 },
            failures_max: view.failures_max,
            created_at: time(view.created_at),
            started_at: view.started_at.map(time),
            finished_at: view.finished_at.map(time),
            deadline: view.deadline.map(time),
            cause: view.cause.map(BulkCause::as_str),
            callback: plan.callback.map(|callback| BulkCallback { url: callback.url, job }),
            fold: plan.fold,
            summary: serde_json::from_slice(&view.summary).ok(),
        }
    }
}

/// The schema of a string that is one of these.
pub(super) fn one_of(words: impl IntoIterator<Item = &'static str>) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}

/// The schema of a job's state.
pub(super) fn job_states() -> Object {
    use JobState::{Cancelled, Completed, Failed, Pending, Processing, Ready, Waiting};
    one_of([Pending, Ready, Waiting, Processing, Completed, Failed, Cancelled].map(JobState::as_str))
}

/// The schema of a level.
pub(super) fn levels() -> Object {
    one_of(fairlane_core::Level::ALL.map(fairlane_core::Level::as_str))
}

fn bulk_states() -> Object {
    one_of(BulkState::ALL.map(BulkState::as_str))
}

fn bulk_modes() -> Object {
    one_of(BulkMode::ALL.map(BulkMode::as_str))
}

fn bulk_causes() -> Object {
    one_of(BulkCause::ALL.map(BulkCause::as_str))
}
