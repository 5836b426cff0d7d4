//! Jobs, one or many: enqueued, read, cancelled and requeued.
//!
//! - `jobs/new.rs`: jobs in requests. `jobs/receipt.rs`: receipts in responses. `jobs/list.rs`:
//!   lists of jobs.

mod list;
mod new;
mod receipt;

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use fairlane::views::{CancellationView, EnqueuedView, ExplanationView, JobView, RequeuedView};
use fairlane::{Cancellation, Requeued};
use fairlane_core::queue::JobRef;
use fairlane_core::{GroupId, JobId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::access::{Caller, Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Json, Object, Path, check_content_type, read_body};
use crate::idempotency::{IdFrom, Idempotency, retry_random_ids};
use crate::problem::{Problem, ProblemKind};
use crate::trace::TraceOf;

pub(super) use list::Jobs;
pub(super) use new::{AtMost, LevelName};
use new::{BatchBody, CheckedJob, JobBody, parse_batch, parse_job};
use receipt::{BatchEnqueued, enqueued_view};

/// The maximum number of jobs that one request cancels.
const CANCEL_JOBS_MAX: usize = 500;
/// The `Retry-After` when the queue is too full to requeue a dead job.
const FULL_RETRY: Duration = Duration::from_secs(1);

pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Pace::Brief, Permission::Produce, Scope::Named, routes!(enqueue))
        .add(Pace::Brief, Permission::Read, Scope::Named, routes!(list::list))
        .add(Pace::Brief, Permission::Produce, Scope::Named, routes!(enqueue_batch))
        .add(Pace::Brief, Permission::Produce, Scope::Named, routes!(cancel_many))
        .add(Pace::Brief, Permission::Read, Scope::Path, routes!(show))
        .add(Pace::Brief, Permission::Read, Scope::Path, routes!(why))
        .add(Pace::Brief, Permission::Produce, Scope::Path, routes!(cancel))
        .add(Pace::Brief, Permission::Produce, Scope::Path, routes!(requeue))
}

/// Enqueues a job
///
/// A job with an id is added at most once, so the request is idempotent. The server generates the
/// id of a job without one: with an Idempotency-Key it is the same whenever the request is
/// repeated, for as long as the job is kept; without one it is a new UUID, and a repeated request
/// adds the job twice. If another job exists with the id, with another type, payload, level, cost
/// or bulk action, nothing is changed and the request is refused with 409: job-differs, or
/// idempotency-key-reused if the id came from the key. Delay and trace are not compared. If the
/// queue is full, the response is 429 with a Retry-After. A bulk action that is sealed or unknown
/// is refused with 409, and so is a new type if the key is bound to groups.
#[utoipa::path(
    post,
    path = "/api/jobs",
    tag = "jobs",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to repeat the request when the job has no id", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    request_body = JobBody,
    responses(
        (status = 201, description = "The job was added", body = EnqueuedView),
        (status = 200, description = "The job existed before; nothing was changed", body = EnqueuedView),
    )
)]
async fn enqueue(
    State(app): State<Shared>,
    caller: Caller,
    Idempotency(key): Idempotency,
    TraceOf(trace): TraceOf,
    request: Request,
) -> Result<(StatusCode, Json<EnqueuedView>), Problem> {
    check_content_type(request.headers(), "application/json")?;
    let body = read_body(request, &app).await?;
    let parse = move |body: &[u8]| parse_job(body, key.as_ref(), trace.as_ref());
    let CheckedJob { new, id_from } = app.parsers.parse(body, parse).await?;
    caller.check_group(&new.job.group)?;
    app.check_type(&caller, &new.type_id).await?;
    let add = || app.fairlane.enqueue_commands(vec![new.clone()]);
    let receipts = match id_from {
        IdFrom::Random => retry_random_ids(&app, add).await?,
        IdFrom::Request | IdFrom::Derived => add().await?,
    };
    let receipt = receipts.into_iter().next();
    let receipt = receipt.ok_or_else(|| ProblemKind::Broken.because("the reply to an enqueue is empty"))?;
    let job = enqueued_view(receipt, id_from)?;
    Ok((if job.created { StatusCode::CREATED } else { StatusCode::OK }, Json(job)))
}

/// Enqueues up to 1,000 jobs
///
/// All of them are validated first: if one is invalid, nothing is added, and the response names
/// what is invalid (at most 20 values). Then they are added, those of one group in order, with a
/// receipt for each. The receipt of a job that was refused because the queue is full says when to
/// send it again. A job whose id another job has, with another type, payload, level, cost or bulk
/// action, changes nothing: its receipt says `differs`, and the others are added. Ids of jobs
/// without one are generated as in POST /api/jobs; with an Idempotency-Key they are derived from
/// the key and the position in the request, so repeat the request unchanged. A new type is refused
/// (409) if the key is bound to groups. For more jobs, a stream is faster (POST /api/jobs/stream).
#[utoipa::path(
    post,
    path = "/api/jobs/batch",
    tag = "jobs",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes it safe to repeat the request when jobs have no ids", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    request_body = BatchBody,
    responses((status = 200, description = "A receipt for each job", body = BatchEnqueued)),
)]
async fn enqueue_batch(
    State(app): State<Shared>,
    caller: Caller,
    Idempotency(key): Idempotency,
    TraceOf(trace): TraceOf,
    request: Request,
) -> Result<Json<BatchEnqueued>, Problem> {
    check_content_type(request.headers(), "application/json")?;
    let body = read_body(request, &app).await?;
    let parse = move |body: &[u8]| parse_batch(body, key.as_ref(), trace.as_ref());
    let jobs = app.parsers.parse(body, parse).await?;
    for job in &jobs {
        caller.check_group(&job.new.job.group)?;
        app.check_type(&caller, &job.new.type_id).await?;
    }
    let add = || app.fairlane.enqueue_commands(jobs.iter().map(|job| job.new.clone()).collect());
    let receipts = match jobs.iter().any(|job| job.id_from == IdFrom::Random) {
        true => retry_random_ids(&app, add).await?,
        false => add().await?,
    };
    let id_from = jobs.iter().map(|job| job.id_from);
    Ok(Json(BatchEnqueued::new(receipts.into_iter().zip(id_from))))
}

/// The job in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct JobPath {
    /// The group of the job.
    #[param(value_type = String, min_length = 1, max_length = 128, example = "customer-7")]
    group: GroupId,
    /// The id of the job.
    #[param(value_type = String, min_length = 1, max_length = 128, example = "welcome-42")]
    job: JobId,
}

impl JobPath {
    pub(super) fn job(self) -> JobRef {
        JobRef { group: self.group, id: self.job }
    }
}

/// Shows a job
///
/// With its payload, and its result or error. A job that has ended is kept for its retention, and
/// then not found.
#[utoipa::path(
    get,
    path = "/api/jobs/{group}/{job}",
    tag = "jobs",
    params(JobPath),
    responses((status = 200, description = "The job", body = JobView)),
)]
async fn show(State(app): State<Shared>, Path(path): Path<JobPath>) -> Result<Json<JobView>, Problem> {
    let job = path.job();
    let view = app.fairlane.job(&job.group, &job.id).view().await?;
    view.map(|view| Json(view.into())).ok_or_else(|| unknown(&job))
}

/// Explains why a job is not running
///
/// In one sentence, with the facts behind it. It changes nothing; positions and future times are
/// estimates.
#[utoipa::path(
    get,
    path = "/api/jobs/{group}/{job}/why",
    tag = "jobs",
    params(JobPath),
    responses((status = 200, description = "The explanation", body = ExplanationView)),
)]
async fn why(State(app): State<Shared>, Path(path): Path<JobPath>) -> Result<Json<ExplanationView>, Problem> {
    let job = path.job();
    let explanation = app.fairlane.job(&job.group, &job.id).explain().await?;
    explanation.map(|explanation| Json((&explanation).into())).ok_or_else(|| unknown(&job))
}

/// Cancels a job
///
/// A job that has not started will not run. The worker of a running job is asked to stop, and the
/// job is not retried.
#[utoipa::path(
    post,
    path = "/api/jobs/{group}/{job}/cancel",
    tag = "jobs",
    params(JobPath),
    responses((status = 200, description = "The outcome", body = CancellationView)),
)]
async fn cancel(
    State(app): State<Shared>,
    Path(path): Path<JobPath>,
) -> Result<Json<CancellationView>, Problem> {
    let job = path.job();
    match app.fairlane.job(&job.group, &job.id).cancel().await? {
        Cancellation::Unknown => Err(unknown(&job)),
        cancellation => Ok(Json(CancellationView::new(&job, cancellation))),
    }
}

/// Jobs to be cancelled.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"jobs": [{"group": "customer-7", "id": "welcome-42"}]}))]
struct CancelBody {
    /// The jobs, each at most once.
    #[schema(value_type = Vec<JobName>, max_items = 500)]
    jobs: AtMost<CANCEL_JOBS_MAX, Object<JobName>>,
}

/// The group and the id of a job.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobName {
    /// The group of the job.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "customer-7")]
    pub group: GroupId,
    /// The id of the job.
    #[schema(value_type = String, min_length = 1, max_length = 128, example = "welcome-42")]
    pub id: JobId,
}

/// The outcomes of several cancellations.
#[derive(Serialize, ToSchema)]
struct ManyCancelled {
    /// The outcomes in the order of the request.
    jobs: Vec<CancellationView>,
}

/// Cancels up to 500 jobs
///
/// In one step. POST /api/bulks/{group}/{bulk}/cancel cancels all jobs of a bulk action.
#[utoipa::path(
    post,
    path = "/api/jobs/cancel",
    tag = "jobs",
    request_body = CancelBody,
    responses((status = 200, description = "The outcome of each", body = ManyCancelled)),
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
    let cancelled = app.fairlane.cancel_jobs(jobs.clone()).await?;
    let views = jobs.iter().zip(cancelled).map(|(job, outcome)| CancellationView::new(job, outcome));
    Ok(Json(ManyCancelled { jobs: views.collect() }))
}

/// Requeues a dead job
///
/// It gets all its attempts again, goes before the rest of its lane, and leaves its bulk action,
/// which has counted its failure. A job that is not dead is refused with 409, and 429 says that the
/// queue is full.
#[utoipa::path(
    post,
    path = "/api/jobs/{group}/{job}/requeue",
    tag = "jobs",
    params(JobPath),
    responses(
        (status = 200, description = "The job is in its lane again", body = RequeuedView),
    )
)]
async fn requeue(
    State(app): State<Shared>,
    Path(path): Path<JobPath>,
) -> Result<Json<RequeuedView>, Problem> {
    let job = path.job();
    match app.fairlane.job(&job.group, &job.id).requeue().await? {
        Requeued::Requeued => Ok(Json(RequeuedView::new(&job))),
        Requeued::NotDead => Err(ProblemKind::Conflict.because(format!(
            "job {} of {} is not dead, and only dead jobs can be requeued",
            job.id, job.group
        ))),
        Requeued::Full => Err(ProblemKind::QueueFull
            .because("the group or the queue has reached its maximum of unfinished jobs; the job stays dead")
            .retry_after(FULL_RETRY)),
        Requeued::Unknown => Err(unknown(&job)),
    }
}

fn unknown(JobRef { group, id }: &JobRef) -> Problem {
    ProblemKind::NotFound.because(format!(
        "{group} has no job {id}; it was never enqueued, or it ended and is past its retention"
    ))
}
