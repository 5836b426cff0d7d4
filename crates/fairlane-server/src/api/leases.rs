//! For workers: lease jobs, extend leases and settle jobs.
//!
//! - `leases/poll.rs`: long polls.
//! - `leases/settle.rs`: extends leases and settles jobs.

mod poll;
mod settle;

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane::views::Time;
use fairlane::views::schema::levels;
use fairlane::{LeasedJob, is_too_deep};
use fairlane_core::limits::{LEASE_JOBS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, TYPES_MAX};
use fairlane_core::numbers::within;
use fairlane_core::{BulkId, GroupId, JobId, Trace, TypeId, WorkerId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::access::{Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Json, Named};
use crate::problem::{Problem, ProblemKind};
pub(crate) use poll::Polls;
use poll::{PollReply, PollRequest};

/// The default length of a lease, in milliseconds.
const LEASE_MS: u64 = 30_000;
/// The approximate size of a job in a response beside its payload, in bytes.
const JOB_BYTES: usize = 256;

pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Pace::Held, Permission::Work, Scope::AllGroups, routes!(lease))
        .add(Pace::Brief, Permission::Work, Scope::Named, routes!(settle::extend))
        .add(Pace::Brief, Permission::Work, Scope::Named, routes!(settle::settle))
}

/// A request of a worker for jobs.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LeaseRequest, example = json!({"worker": "mailer-1", "types": ["mail"], "count": 10, "wait_ms": 20000, "request": 1}))]
struct LeaseRequest {
    /// The name of the worker; best a new one for each start of its process.
    #[schema(min_length = 1, max_length = 128, example = "mailer-1")]
    worker: String,
    /// The types of the jobs to lease.
    #[schema(min_items = 1, max_items = 64, example = json!(["mail"]))]
    types: Vec<String>,
    /// The maximum number of jobs to lease.
    #[schema(minimum = 1, maximum = 500, default = 1)]
    count: Option<u64>,
    /// The length of the leases in milliseconds; extend them before they end, or the jobs are
    /// leased to another worker.
    #[schema(minimum = 100, maximum = 900000, default = 30000)]
    lease_ms: Option<u64>,
    /// How many milliseconds to wait for the first job if there is none; a server may allow less
    /// than a minute.
    #[schema(minimum = 0, maximum = 60000, default = 0)]
    wait_ms: Option<u64>,
    /// The number of this request, larger than that of the worker's last one; the same if its
    /// response was lost.
    #[schema(minimum = 1, maximum = 8796093022207_u64)]
    request: Option<u64>,
}

/// The leased jobs, and when to ask again.
#[derive(Serialize, ToSchema)]
#[schema(as = Leases)]
struct LeasesResponse<'a> {
    /// The jobs to process and settle, each with its fence.
    jobs: Vec<LeaseResponse<'a>>,
    /// Without jobs: after how many milliseconds there may be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    wake_in_ms: Option<u64>,
    /// Without jobs: those of the requested types that do not exist yet. A type exists from its first
    /// job on, so this is no error, but it can be a misspelled name.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<String>, required = false)]
    unknown_types: &'a [TypeId],
}

/// A leased job.
#[derive(Serialize, ToSchema)]
#[schema(as = Lease)]
struct LeaseResponse<'a> {
    /// The group of the job.
    #[schema(value_type = String, example = "customer-7")]
    group: &'a GroupId,
    /// The id of the job.
    #[schema(value_type = String, example = "welcome-42")]
    id: &'a JobId,
    /// The type of the job.
    #[schema(value_type = String, example = "mail")]
    r#type: &'a TypeId,
    /// The level of the job among jobs of its type.
    #[schema(schema_with = levels)]
    level: &'static str,
    /// How much the job counts in its group's share.
    cost: u64,
    /// The payload, byte for byte as it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// The payload in base64, if it is not JSON or nested deeper than 96 levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// The fence of the lease, to be sent with extend and settle.
    fence: u64,
    /// The number of the attempt, counted from 1.
    attempt: u32,
    /// The bulk action that the job belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    bulk: Option<&'a BulkId>,
    /// The trace that the job was enqueued with (W3C Trace Context), to be continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    trace: Option<&'a str>,
    /// When the job was enqueued.
    #[schema(format = DateTime)]
    created_at: &'a str,
}

impl<'a> LeaseResponse<'a> {
    fn new(job: &'a LeasedJob, created_at: &'a str) -> Self {
        // Parsing it as raw JSON validates it without a copy.
        let payload: Option<&RawValue> = serde_json::from_slice(&job.payload).ok();
        // A payload that a client cannot parse must not cost it the other jobs of the response.
        let payload = payload.filter(|_| !is_too_deep(&job.payload));
        Self {
            group: &job.job.group,
            id: &job.job.id,
            r#type: &job.type_id,
            level: job.level.as_str(),
            cost: job.cost.get(),
            payload_base64: payload.is_none().then(|| BASE64.encode(&job.payload)),
            payload,
            fence: job.fence.0,
            attempt: job.attempt,
            bulk: job.bulk.as_ref(),
            trace: job.trace.as_ref().map(Trace::as_str),
            created_at,
        }
    }
}

/// Leases jobs
///
/// Leases up to `count` jobs of the types to the worker, in fair order and within every limit. With
/// `wait_ms` the response waits until there is a job or the time is over (long poll); then it is
/// 200 with no jobs.
///
/// **Lost responses.** Give each request of a worker a `request` number larger than the last one,
/// and repeat the same number if the response was lost: the response has the same jobs as long as
/// they are leased, and no others. If none of them is leased any more, or there were none, a
/// repeated request with `wait_ms` waits for new ones. A number below the worker's latest is
/// refused with 409 `superseded`. At most one numbered request of a worker waits at a time: the
/// same or a larger number ends the previous one.
///
/// Without a number the server numbers the requests itself. If the server notices that the client
/// is gone, it releases the jobs at once; if a response is lost otherwise, its jobs wait until
/// their leases end.
#[utoipa::path(
    post,
    path = "/api/leases",
    tag = "leases",
    request_body = LeaseRequest,
    responses(
        (status = 200, description = "The jobs; none if there were none in time", body = LeasesResponse),
    )
)]
async fn lease(State(app): State<Shared>, Json(request): Json<LeaseRequest>) -> Result<Response, Problem> {
    let request = request.checked(app.settings.poll_max)?;
    let reply = poll::poll(&app, &request).await?;
    let unknown_types = match reply.jobs.is_empty() {
        true => app.unknown_types(request.lease.types).await,
        false => Vec::new(),
    };
    Ok(serialize(&reply, &unknown_types))
}

impl LeaseRequest {
    fn checked(self, poll_max: Duration) -> Result<PollRequest, Problem> {
        let number = |what, field, got, least, most| {
            within(what, got, least, most).map_err(|error| Problem::from(error).at(field))
        };
        let poll_max_ms = poll_max.as_millis() as u64;
        let types = self.types.len() as u64;
        number("the types of one lease", "/types", types, 1, TYPES_MAX as u64)?;
        let jobs_max =
            number("the jobs of one lease", "/count", self.count.unwrap_or(1), 1, LEASE_JOBS_MAX as u64)?;
        let lease_ms = self.lease_ms.unwrap_or(LEASE_MS);
        number("the length of a lease in ms", "/lease_ms", lease_ms, LEASE_MS_MIN, LEASE_MS_MAX)?;
        let wait_ms = number("a wait in ms", "/wait_ms", self.wait_ms.unwrap_or(0), 0, poll_max_ms)?;
        if let Some(request) = self.request {
            number("a request number", "/request", request, 1, fairlane::LeaseRequest::NUMBER_MAX)?;
        }
        let types = self.types.iter().enumerate();
        let types =
            types.map(|(at, name)| TypeId::named(name).map_err(|error| error.at(format!("/types/{at}"))));
        let lease = fairlane::LeaseRequest {
            worker: WorkerId::new(&self.worker).map_err(|error| Problem::from(error).at("/worker"))?,
            types: types.collect::<Result<_, _>>()?,
            jobs_max: jobs_max as usize,
            length: Duration::from_millis(lease_ms),
            number: self.request,
        };
        Ok(PollRequest { lease, wait: Duration::from_millis(wait_ms) })
    }
}

/// Serializes the jobs without copying their payloads first: batches of hundreds are common.
fn serialize(reply: &PollReply, unknown_types: &[TypeId]) -> Response {
    let wake_at = reply.wake_at.filter(|_| reply.jobs.is_empty());
    // Jobs of one batch were enqueued at one time, and formatting a time is slow.
    let batches = reply.jobs.chunk_by(|one, next| one.created_at == next.created_at);
    let batches: Vec<(&[LeasedJob], String)> =
        batches.map(|jobs| (jobs, Time(jobs[0].created_at).to_string())).collect();
    let mut jobs = Vec::with_capacity(reply.jobs.len());
    for (batch, created_at) in &batches {
        jobs.extend(batch.iter().map(|job| LeaseResponse::new(job, created_at)));
    }
    let wake_in = wake_at.map(|at| at.saturating_duration_since(Instant::now()));
    let wake_in_ms = wake_in.map(|left| left.as_micros().div_ceil(1000) as u64);
    let response = LeasesResponse { jobs, wake_in_ms, unknown_types };
    let bytes: usize = reply.jobs.iter().map(|job| job.payload.len() + JOB_BYTES).sum();
    let mut body = Vec::with_capacity(bytes + JOB_BYTES);
    match serde_json::to_writer(&mut body, &response) {
        Ok(()) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => {
            ProblemKind::Broken.because(format!("the response cannot be serialized: {error}")).into_response()
        }
    }
}
