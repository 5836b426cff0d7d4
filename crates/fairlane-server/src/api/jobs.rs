//! Jobs, one or many: in, looked at, cancelled, again.
//!
//! - `jobs/new.rs`: jobs to be added, as they come. `jobs/receipt.rs`: what became of them. `jobs/list.rs`: jobs page by
//!   page.

mod list;
mod new;
mod receipt;

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use fairlane::Error;
use fairlane_core::queue::{
    CancelJob, Cancellation, Enqueued, Explanation, Inspect, Inspected, JobRef, NewJob, RequeueDead, Requeued,
};
use fairlane_core::{GroupId, JobId};
use fairlane_engine::EngineError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::shown::{JobShown, job_states};
use crate::access::Caller;
use crate::app::Shared;
use crate::extract::{Json, Named, Object, Path, check_content_type, whole_body};
use crate::idempotency::{IdFrom, Idempotency, insist};
use crate::problem::{Problem, ProblemDocument, ProblemKind};
use crate::trace::TraceOf;

pub(super) use new::{AtMost, LevelWord};
use new::{BatchBody, Checked, JobBody, read_batch, read_job};
use receipt::{BatchEnqueued, JobEnqueued};

/// Most jobs that one request cancels.
const CANCEL_JOBS_MAX: usize = 500;
/// What a producer is told to wait when a dead job finds no room.
const FULL_RETRY: Duration = Duration::from_secs(1);

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(enqueue, list::list))
        .routes(routes!(enqueue_batch))
        .routes(routes!(cancel_many))
        .routes(routes!(show))
        .routes(routes!(why))
        .routes(routes!(cancel))
        .routes(routes!(requeue))
}

/// Adds a job
///
/// A job with an id is added at most once, so the request may be repeated. A job without one gets one: with an
/// Idempotency-Key one that is the same whenever the request is repeated, for as long as the job is kept; else a new
/// UUID, and a request that is repeated adds the job twice. When another job is there under the id, with another type,
/// payload, level, cost or bulk action, nothing is changed and it is refused with 409: job-differs, or
/// idempotency-key-reused if the id came from the key. Delay and trace are not compared. A full queue is told with
/// status 429 and the time to come back; a bulk action that is sealed or unknown with 409, and so is a type that is new
/// if the key is bound to groups.
#[utoipa::path(
    post,
    path = "/api/jobs",
    tag = "jobs",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to repeat the request when the job has no id", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    request_body = JobBody,
    responses(
        (status = 201, description = "It is new", body = JobEnqueued),
        (status = 200, description = "It was there; nothing was changed", body = JobEnqueued),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn enqueue(
    State(app): State<Shared>,
    caller: Caller,
    Idempotency(key): Idempotency,
    TraceOf(trace): TraceOf,
    request: Request,
) -> Result<(StatusCode, Json<JobEnqueued>), Problem> {
    check_content_type(request.headers(), "application/json")?;
    let body = whole_body(request, &app).await?;
    let read = move |body: &[u8]| read_job(body, key.as_ref(), trace.as_ref());
    let Checked { new, id_from } = app.parsers.parse(body, read).await?;
    caller.check_group(&new.job.group)?;
    app.check_type(&caller, &new.type_id).await?;
    let enqueued = match id_from {
        IdFrom::Drawn => insist(&app, || add(&app, vec![new.clone()])).await?,
        IdFrom::Request | IdFrom::Derived => add(&app, vec![new.clone()]).await?,
    };
    let answer = enqueued.receipts.into_iter().zip(enqueued.backlogs).next();
    let (receipt, backlog) = answer.ok_or_else(|| unanswered("enqueue"))?;
    let job = JobEnqueued::new(new.job, id_from, receipt, backlog)?;
    Ok((if job.created { StatusCode::CREATED } else { StatusCode::OK }, Json(job)))
}

async fn add(app: &Shared, jobs: Vec<NewJob>) -> Result<Enqueued, Error> {
    Ok(app.engine().enqueue_all(jobs).await?)
}

/// Adds up to 1,000 jobs
///
/// All of them are checked first: if one is wrong, nothing is added, and the answer names what is wrong (at most 20
/// places). Then they are added in their order, with a receipt for each; one that was refused because the queue is full
/// may be sent again, and has the time to do so. One whose id another job has, with another type, payload, level, cost
/// or bulk action, changes nothing: its receipt says `differs`, and the others are added. Jobs without an id get one as
/// in POST /api/jobs; with an Idempotency-Key from the key and their position in the request, so repeat the request as
/// it was. A type that is new is refused (409) if the key is bound to groups. More jobs than these go faster as a
/// stream (POST /api/jobs/stream).
#[utoipa::path(
    post,
    path = "/api/jobs/batch",
    tag = "jobs",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to repeat the request when jobs have no ids", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    request_body = BatchBody,
    responses(
        (status = 200, description = "What became of each", body = BatchEnqueued),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn enqueue_batch(
    State(app): State<Shared>,
    caller: Caller,
    Idempotency(key): Idempotency,
    TraceOf(trace): TraceOf,
    request: Request,
) -> Result<Json<BatchEnqueued>, Problem> {
    check_content_type(request.headers(), "application/json")?;
    let body = whole_body(request, &app).await?;
    let read = move |body: &[u8]| read_batch(body, key.as_ref(), trace.as_ref());
    let jobs = app.parsers.parse(body, read).await?;
    for job in &jobs {
        caller.check_group(&job.new.job.group)?;
        app.check_type(&caller, &job.new.type_id).await?;
    }
    let all = || jobs.iter().map(|job| job.new.clone()).collect();
    let enqueued = match jobs.iter().any(|job| job.id_from == IdFrom::Drawn) {
        true => insist(&app, || add(&app, all())).await?,
        false => add(&app, all()).await?,
    };
    let named = jobs.into_iter().map(|job| (job.new.job, job.id_from));
    Ok(Json(BatchEnqueued::new(named, enqueued)))
}

/// A job as it stands
///
/// With its payload, and what came of it. A job that has ended is kept for a while (its retention) and then unknown.
#[utoipa::path(
    get,
    path = "/api/jobs/{group}/{job}",
    tag = "jobs",
    params(
        ("group" = String, Path, description = "Whose", min_length = 1, max_length = 128),
        ("job" = String, Path, description = "Which of theirs", min_length = 1, max_length = 128),
    ),
    responses(
        (status = 200, description = "The job", body = JobShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn show(State(app): State<Shared>, path: Path<(String, String)>) -> Result<Json<JobShown>, Problem> {
    let job = named(&path)?;
    match app.engine().inspect(Inspect::Job(job.clone())).await? {
        Inspected::Job(Some(view)) => Ok(Json(view.into())),
        Inspected::Job(None) => Err(unknown(&job)),
        _ => Err(unanswered("inspect")),
    }
}

/// Why a job is not running.
#[derive(Serialize, ToSchema)]
struct Why {
    /// Whose.
    group: String,
    /// Which of theirs.
    id: String,
    /// Where it is.
    #[schema(schema_with = job_states)]
    state: &'static str,
    /// The reason to name first, as a word for programs.
    #[schema(example = "no-worker")]
    reason: &'static str,
    /// The same for people.
    sentence: String,
    /// When it may start; an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    starts_in_ms: Option<u64>,
    /// Jobs before it in its lane; an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u64>,
    /// What this follows from.
    facts: Vec<Fact>,
}

/// One thing that matters for a job.
#[derive(Serialize, ToSchema)]
struct Fact {
    /// What it is about.
    about: &'static str,
    /// What is so.
    text: String,
}

impl From<Explanation> for Why {
    fn from(explanation: Explanation) -> Self {
        let job = &explanation.job;
        Self {
            group: job.job.group.to_string(),
            id: job.job.id.to_string(),
            state: job.state.as_str(),
            reason: explanation.reason().as_str(),
            sentence: explanation.sentence(),
            starts_in_ms: explanation.starts_in_us().map(|us| us / 1000),
            ahead: explanation.position,
            facts: explanation.facts().into_iter().map(|(about, text)| Fact { about, text }).collect(),
        }
    }
}

/// Why a job is not running
///
/// In one sentence, with the facts behind it. It looks and changes nothing; positions and times to come are estimates.
#[utoipa::path(
    get,
    path = "/api/jobs/{group}/{job}/why",
    tag = "jobs",
    params(
        ("group" = String, Path, description = "Whose", min_length = 1, max_length = 128),
        ("job" = String, Path, description = "Which of theirs", min_length = 1, max_length = 128),
    ),
    responses(
        (status = 200, description = "Why", body = Why),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn why(State(app): State<Shared>, path: Path<(String, String)>) -> Result<Json<Why>, Problem> {
    let job = named(&path)?;
    let explanation = app.fairlane.job(&job.group, &job.id).explain().await?;
    explanation.map(|explanation| Json(explanation.into())).ok_or_else(|| unknown(&job))
}

/// What became of a job that was to be cancelled.
#[derive(Serialize, ToSchema)]
struct CancelledShown {
    /// `cancelled`: it will not run. `requested`: it is running; its worker is told, and it is not tried again.
    /// `ended`: it has ended before.
    state: CancelState,
}

/// What became of a job that was to be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum CancelState {
    /// It will not run.
    Cancelled,
    /// It is running; its worker is told, and it is not tried again.
    Requested,
    /// It has ended before.
    Ended,
    /// There is no such job.
    Unknown,
}

impl From<Cancellation> for CancelState {
    fn from(cancellation: Cancellation) -> Self {
        match cancellation {
            Cancellation::Cancelled => Self::Cancelled,
            Cancellation::Requested => Self::Requested,
            Cancellation::Ended => Self::Ended,
            Cancellation::Unknown => Self::Unknown,
        }
    }
}

/// Cancels a job
///
/// One that has not started will not. One that is running is told by its worker, and not tried again.
#[utoipa::path(
    post,
    path = "/api/jobs/{group}/{job}/cancel",
    tag = "jobs",
    params(
        ("group" = String, Path, description = "Whose", min_length = 1, max_length = 128),
        ("job" = String, Path, description = "Which of theirs", min_length = 1, max_length = 128),
    ),
    responses(
        (status = 200, description = "What became of it", body = CancelledShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn cancel(
    State(app): State<Shared>,
    path: Path<(String, String)>,
) -> Result<Json<CancelledShown>, Problem> {
    let job = named(&path)?;
    let cancelled = app.engine().cancel_job(CancelJob { jobs: vec![job.clone()] }).await?;
    let cancellation = cancelled.cancellations.first().copied().ok_or_else(|| unanswered("cancel_job"))?;
    match cancellation.into() {
        CancelState::Unknown => Err(unknown(&job)),
        state => Ok(Json(CancelledShown { state })),
    }
}

/// Jobs to be cancelled.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"jobs": [{"group": "customer-7", "id": "welcome-42"}]}))]
struct CancelBody {
    /// Each once.
    #[schema(value_type = Vec<JobName>, max_items = 500)]
    jobs: AtMost<CANCEL_JOBS_MAX, Object<JobName>>,
}

/// A job's full name.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobName {
    /// Whose.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "customer-7")]
    pub group: GroupId,
    /// Which of theirs.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "welcome-42")]
    pub id: JobId,
}

/// What became of jobs that were to be cancelled.
#[derive(Serialize, ToSchema)]
struct ManyCancelled {
    /// In the order of the request.
    jobs: Vec<OneCancelled>,
}

/// What became of one of them.
#[derive(Serialize, ToSchema)]
struct OneCancelled {
    /// Whose.
    #[schema(value_type = String)]
    group: GroupId,
    /// Which of theirs.
    #[schema(value_type = String)]
    id: JobId,
    /// What became of it.
    state: CancelState,
}

/// Cancels up to 500 jobs
///
/// In one step. A whole bulk action is cancelled at once by POST /api/bulks/{group}/{bulk}/cancel.
#[utoipa::path(
    post,
    path = "/api/jobs/cancel",
    tag = "jobs",
    request_body = CancelBody,
    responses(
        (status = 200, description = "What became of each", body = ManyCancelled),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn cancel_many(
    State(app): State<Shared>,
    caller: Caller,
    Json(body): Json<CancelBody>,
) -> Result<Json<ManyCancelled>, Problem> {
    let mut jobs = Vec::with_capacity(body.jobs.0.len());
    for Object(JobName { group, id }) in body.jobs.0 {
        caller.check_group(&group)?;
        jobs.push(JobRef { group, id });
    }
    let cancelled = app.engine().cancel_job(CancelJob { jobs: jobs.clone() }).await?.cancellations;
    let one = |(JobRef { group, id }, cancellation): (JobRef, Cancellation)| OneCancelled {
        group,
        id,
        state: cancellation.into(),
    };
    Ok(Json(ManyCancelled { jobs: jobs.into_iter().zip(cancelled).map(one).collect() }))
}

/// What became of a dead job.
#[derive(Serialize, ToSchema)]
struct RequeuedShown {
    /// Always: it is in its lane again.
    requeued: bool,
}

/// Lets a dead job run again
///
/// It gets all its attempts again, goes before the rest of its lane, and leaves its bulk action, where its failure has
/// been counted. A job that is not dead is told with status 409, a full queue with 429.
#[utoipa::path(
    post,
    path = "/api/jobs/{group}/{job}/requeue",
    tag = "jobs",
    params(
        ("group" = String, Path, description = "Whose", min_length = 1, max_length = 128),
        ("job" = String, Path, description = "Which of theirs", min_length = 1, max_length = 128),
    ),
    responses(
        (status = 200, description = "It is in its lane again", body = RequeuedShown),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn requeue(
    State(app): State<Shared>,
    path: Path<(String, String)>,
) -> Result<Json<RequeuedShown>, Problem> {
    let job = named(&path)?;
    let requeued = app.engine().requeue_dead(RequeueDead { jobs: vec![job.clone()] }).await?;
    match requeued.jobs.first() {
        Some(Requeued::Requeued) => Ok(Json(RequeuedShown { requeued: true })),
        Some(Requeued::NotDead) => Err(ProblemKind::Conflict.because(format!(
            "job {} of {} is not dead, and only dead jobs can be run again",
            job.id, job.group
        ))),
        Some(Requeued::Full) => Err(ProblemKind::QueueFull
            .because("the group, or the queue, has as many unfinished jobs as it may; the job stays dead")
            .retry_after(FULL_RETRY)),
        Some(Requeued::Unknown) => Err(unknown(&job)),
        None => Err(unanswered("requeue_dead")),
    }
}

fn named(Path((group, job)): &Path<(String, String)>) -> Result<JobRef, Problem> {
    Ok(JobRef { group: GroupId::named(group)?, id: JobId::named(job)? })
}

fn unknown(JobRef { group, id }: &JobRef) -> Problem {
    ProblemKind::NotFound.because(format!(
        "{group} has no job {id}; it was never enqueued, or it ended and is past its retention"
    ))
}

fn unanswered(operation: &str) -> Problem {
    EngineError::Broken { reason: format!("{operation} was answered with something else") }.into()
}
