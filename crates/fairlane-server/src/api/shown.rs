//! Jobs and bulk actions as they are written.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane::{BulkPlan, is_too_deep, time_text};
use fairlane_core::Micros;
use fairlane_core::queue::{BulkCause, BulkState, BulkView, Course, JobLine, JobState, JobView};
use fairlane_worker::callback_id;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

/// A point in time, RFC 3339 in UTC.
pub(super) fn time(at: Micros) -> String {
    time_text(at.as_millis())
}

/// Bytes that are JSON by convention: as they are if they are JSON and not nested too deep for
/// readers, else in base64. One of the two is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    /// Valid JSON, byte for byte.
    pub json: Option<Box<RawValue>>,
    /// Anything else, in base64.
    pub base64: Option<String>,
}

impl Content {
    /// These bytes, even if there are none.
    pub fn new(bytes: &[u8]) -> Self {
        match serde_json::from_slice(bytes) {
            Ok(json) if !is_too_deep(bytes) => Self { json: Some(json), base64: None },
            _ => Self { json: None, base64: Some(BASE64.encode(bytes)) },
        }
    }

    /// These bytes; neither of the two if there are none.
    pub fn unless_empty(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::default() } else { Self::new(bytes) }
    }
}

/// A job as it stands. What does not apply is left out.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Job)]
pub(super) struct JobShown {
    /// Whose.
    #[schema(example = "customer-7")]
    pub group: String,
    /// Which of theirs.
    #[schema(example = "welcome-42")]
    pub id: String,
    /// Its type.
    #[schema(example = "mail")]
    pub r#type: String,
    /// Where it is. FAILED is dead: it failed for good, or is out of attempts.
    #[schema(schema_with = job_states)]
    pub state: &'static str,
    /// How urgent it is among jobs of its type.
    #[schema(schema_with = levels)]
    pub level: &'static str,
    /// What it counts for in its group's share.
    pub cost: u64,
    /// Attempts charged so far, the running one included.
    pub attempts: u32,
    /// Times the downstream refused it.
    pub throttles: u32,
    /// Leases it lost.
    pub losses: u32,
    /// The fence of its lease, else the one settled last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fence: Option<u64>,
    /// The bulk action it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bulk: Option<String>,
    /// The trace it belongs to, a W3C `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Who leased it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// When it was enqueued.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it is due (WAITING) or its lease ends (PROCESSING).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub until: Option<String>,
    /// When it was last settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub settled_at: Option<String>,
    /// What is to be done, byte for byte as it was sent; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// What is to be done, if that is not JSON; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// What came of it (COMPLETED).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// What came of it, if that is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<String>,
    /// Why it last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
}

/// Why a job failed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct JobError {
    /// A short word; summaries count by it.
    #[schema(example = "bounced")]
    pub code: String,
    /// A sentence for a person.
    pub reason: String,
}

impl From<JobView> for JobShown {
    fn from(view: JobView) -> Self {
        let is_dropped = view.payload.is_empty() && view.settled_at.is_some();
        let payload = if is_dropped { Content::default() } else { Content::new(&view.payload) };
        Self { payload: payload.json, payload_base64: payload.base64, ..JobLine::from(view).into() }
    }
}

impl From<JobLine> for JobShown {
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

/// A bulk action as it stands. What does not apply is left out.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Bulk)]
pub(super) struct BulkShown {
    /// Whose.
    #[schema(example = "customer-7")]
    pub group: String,
    /// Which of theirs.
    #[schema(example = "newsletter")]
    pub id: String,
    /// How far it has come.
    #[schema(schema_with = bulk_states)]
    pub state: &'static str,
    /// What becomes of its jobs when their turn comes: they run, are set aside, or are dropped.
    #[schema(schema_with = courses)]
    pub course: &'static str,
    /// Whether no job can be added any more.
    pub sealed: bool,
    /// Jobs added.
    pub total: u64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that are dead.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs set aside while it is held.
    pub on_hold: u64,
    /// Jobs that have not ended.
    pub unfinished: u64,
    /// How much of what was added has ended, from 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    pub progress: f64,
    /// It fails when more jobs than this have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures_max: Option<u64>,
    /// When it was opened.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When its first job was leased.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub started_at: Option<String>,
    /// When it reached its last state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    /// When it fails unless it has finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub deadline: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = bulk_causes, required = false)]
    pub cause: Option<&'static str>,
    /// Whom it tells when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<CallbackShown>,
    /// The fold that adds to its summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold: Option<String>,
    /// What its aggregation gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub summary: Option<Box<RawValue>>,
}

/// Whom a bulk action tells.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = BulkCallback)]
pub(super) struct CallbackShown {
    /// The address.
    pub url: String,
    /// The job that delivers it, of the type `fairlane-callback`.
    pub job: String,
}

impl From<BulkView> for BulkShown {
    fn from(view: BulkView) -> Self {
        // A plan that cannot be read is the aggregation's to report.
        let plan = BulkPlan::from_bytes(&view.payload).unwrap_or_default();
        let job = callback_id(&view);
        let ended = view.succeeded + view.failed + view.cancelled;
        Self {
            group: view.bulk.group.to_string(),
            id: view.bulk.id.to_string(),
            state: view.state.as_str(),
            course: view.course.as_str(),
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
            callback: plan.callback.map(|callback| CallbackShown { url: callback.url, job }),
            fold: plan.fold,
            summary: serde_json::from_slice(&view.summary).ok(),
        }
    }
}

/// A text that is one of these.
pub(super) fn one_of(words: impl IntoIterator<Item = &'static str>) -> Object {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}

/// Where a job can be.
pub(super) fn job_states() -> Object {
    use JobState::{Cancelled, Completed, Failed, Pending, Processing, Ready, Waiting};
    one_of([Pending, Ready, Waiting, Processing, Completed, Failed, Cancelled].map(JobState::as_str))
}

/// The levels.
pub(super) fn levels() -> Object {
    one_of(fairlane_core::Level::ALL.map(fairlane_core::Level::as_str))
}

fn bulk_states() -> Object {
    one_of(BulkState::ALL.map(BulkState::as_str))
}

fn courses() -> Object {
    one_of(Course::ALL.map(Course::as_str))
}

fn bulk_causes() -> Object {
    one_of(BulkCause::ALL.map(BulkCause::as_str))
}
