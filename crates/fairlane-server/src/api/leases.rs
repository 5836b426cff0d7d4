//! What a worker needs: jobs to work on, their leases kept alive, and what became of them.
//!
//! - `leases/poll.rs`: asks until there is something or the time is over. `leases/numbers.rs`: under which numbers.
//! - `leases/handed.rs`: jobs on their way to a client, handed back if it has gone.
//! - `leases/settle.rs`: extends leases and settles jobs.

mod handed;
mod numbers;
mod poll;
mod settle;

use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane::is_too_deep;
use fairlane_core::limits::{LEASE_JOBS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, TYPES_MAX};
use fairlane_core::numbers::within;
use fairlane_core::queue::LeasedJob;
use fairlane_core::{BulkId, GroupId, JobId, Trace, TypeId, WorkerId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::shown::{levels, time};
use crate::app::Shared;
use crate::extract::{Json, Named};
use crate::problem::{Problem, ProblemDocument, ProblemKind};
use numbers::REQUEST_MAX;
pub(crate) use poll::Polls;
use poll::{Asked, Found};

/// How long jobs are leased for unless it is said.
const LEASE_MS: u64 = 30_000;
/// What a job takes in an answer beside its payload, about.
const JOB_BYTES: usize = 256;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(lease))
        .routes(routes!(settle::extend))
        .routes(routes!(settle::settle))
}

/// Who asks for what.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LeaseRequest, example = json!({"worker": "mailer-1", "types": ["mail"], "count": 10, "wait_ms": 20000, "request": 1}))]
struct LeaseRequest {
    /// Who asks; best new for each start of a process.
    #[schema(min_length = 1, max_length = 128, example = "mailer-1")]
    worker: String,
    /// Jobs of these types.
    #[schema(min_items = 1, max_items = 64, example = json!(["mail"]))]
    types: Vec<String>,
    /// At most this many.
    #[schema(minimum = 1, maximum = 500, default = 1)]
    count: Option<u64>,
    /// For how long; extend the leases before, or the jobs are given to somebody else.
    #[schema(minimum = 100, maximum = 900000, default = 30000)]
    lease_ms: Option<u64>,
    /// How long to wait for the first job if there is none; a server may allow less than a minute.
    #[schema(minimum = 0, maximum = 60000, default = 0)]
    wait_ms: Option<u64>,
    /// The number of this request, larger than that of the one before; the same when an answer was lost.
    #[schema(minimum = 1, maximum = 8796093022207_u64)]
    request: Option<u64>,
}

/// The jobs, and when to ask again.
#[derive(Serialize, ToSchema)]
#[schema(as = Leases)]
struct LeasesShown<'a> {
    /// To be worked on and settled, each under its fence.
    jobs: Vec<LeaseShown<'a>>,
    /// Without jobs: something may be there after this long; ask again then.
    #[serde(skip_serializing_if = "Option::is_none")]
    wake_in_ms: Option<u64>,
}

/// A leased job.
#[derive(Serialize, ToSchema)]
#[schema(as = Lease)]
struct LeaseShown<'a> {
    /// Whose.
    #[schema(value_type = String, example = "customer-7")]
    group: &'a GroupId,
    /// Which of theirs.
    #[schema(value_type = String, example = "welcome-42")]
    id: &'a JobId,
    /// Its type.
    #[schema(value_type = String, example = "mail")]
    r#type: &'a TypeId,
    /// How urgent it is among jobs of its type.
    #[schema(schema_with = levels)]
    level: &'static str,
    /// What it counts for in its group's share.
    cost: u64,
    /// What is to be done, byte for byte as it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<&'a RawValue>,
    /// What is to be done, if that is not JSON, or nested deeper than 96 levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// To be shown at extend and settle.
    fence: u64,
    /// 1 for the first.
    attempt: u32,
    /// The bulk action it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    bulk: Option<&'a BulkId>,
    /// The trace it was enqueued with (W3C Trace Context), to go on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    trace: Option<&'a str>,
    /// When it was enqueued.
    #[schema(format = DateTime)]
    created_at: &'a str,
}

impl<'a> LeaseShown<'a> {
    fn new(job: &'a LeasedJob, created_at: &'a str) -> Self {
        // Reading it as raw JSON checks it without a copy.
        let payload: Option<&RawValue> = serde_json::from_slice(&job.payload).ok();
        // One that cannot be read must not cost a worker the other jobs of the answer.
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

/// Takes jobs
///
/// Takes up to `count` jobs of the types, in fair order and within every limit, and leases them to the worker. With
/// `wait_ms` the answer waits until there is a job or the time is over (long poll); then it is 200 with no jobs.
///
/// **A lost answer.** Give each request of a worker a `request` number that is larger than the one before, and repeat
/// the same number when the answer did not come: the jobs it leased are given again as long as they are leased, and no
/// others beside them. If none of them is leased any more, or it got none, a repeated number that may wait goes on
/// waiting for new ones. A number below the worker's newest is refused with 409 `superseded`. At most one numbered
/// request of a worker is answered at a time: the same or a larger number ends one that still waits.
///
/// Without a number the server numbers the requests itself. Jobs for a client that is seen to have gone are handed
/// back at once; if an answer is lost otherwise, its jobs wait until their leases have run out.
#[utoipa::path(
    post,
    path = "/api/leases",
    tag = "leases",
    request_body = LeaseRequest,
    responses(
        (status = 200, description = "The jobs; none if there were none in time", body = LeasesShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn lease(State(app): State<Shared>, Json(request): Json<LeaseRequest>) -> Result<Response, Problem> {
    let asked = request.checked(app.settings.poll_max)?;
    let found = poll::poll(&app, asked).await?;
    Ok(written(&found))
}

impl LeaseRequest {
    fn checked(self, poll_max: Duration) -> Result<Asked, Problem> {
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
            number("a request number", "/request", request, 1, REQUEST_MAX)?;
        }
        let types = self.types.iter().enumerate();
        let types =
            types.map(|(at, name)| TypeId::named(name).map_err(|error| error.at(format!("/types/{at}"))));
        Ok(Asked {
            worker: WorkerId::new(&self.worker).map_err(|error| Problem::from(error).at("/worker"))?,
            types: types.collect::<Result<_, _>>()?,
            jobs_max: jobs_max as usize,
            lease_ms,
            wait: Duration::from_millis(wait_ms),
            request: self.request,
        })
    }
}

/// Writes the jobs without copying what is in them first: batches of hundreds are common.
fn written(found: &Found) -> Response {
    let wake_at = found.wake_at.filter(|_| found.jobs.is_empty());
    // Jobs of one batch were enqueued at one time, and a time is slow to write.
    let batches = found.jobs.chunk_by(|one, next| one.created_at == next.created_at);
    let batches: Vec<(&[LeasedJob], String)> = batches.map(|jobs| (jobs, time(jobs[0].created_at))).collect();
    let mut jobs = Vec::with_capacity(found.jobs.len());
    for (batch, created_at) in &batches {
        jobs.extend(batch.iter().map(|job| LeaseShown::new(job, created_at)));
    }
    let wake_in = wake_at.map(|at| at.saturating_duration_since(Instant::now()));
    let shown = LeasesShown { jobs, wake_in_ms: wake_in.map(|left| left.as_micros().div_ceil(1000) as u64) };
    let bytes: usize = found.jobs.iter().map(|job| job.payload.len() + JOB_BYTES).sum();
    let mut body = Vec::with_capacity(bytes + JOB_BYTES);
    match serde_json::to_writer(&mut body, &shown) {
        Ok(()) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => {
            ProblemKind::Broken.because(format!("an answer cannot be written: {error}")).into_response()
        }
    }
}

/// A worker that has asked with a larger number since.
fn superseded(newest: u64) -> Problem {
    ProblemKind::Superseded
        .because(format!(
            "the newest request of this worker has the number {newest}; go on above it, or under a worker id of your own"
        ))
        .at("/request")
}
