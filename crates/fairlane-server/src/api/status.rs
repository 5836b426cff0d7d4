//! The state of the queue.

use axum::extract::State;
use fairlane_core::queue::{Discipline, QueueView};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::views;
use crate::app::{App, Shared};
use crate::extract::Json;
use crate::problem::{Problem, ProblemDocument};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(status))
}

/// The state of the queue.
#[derive(Serialize, ToSchema)]
pub(super) struct Status {
    /// Unfinished jobs that are not in flight.
    backlog: u64,
    /// Of these, jobs that must not run yet.
    waiting: u64,
    /// Leased jobs.
    in_flight: u64,
    /// Completed and cancelled jobs that are kept and belong to no bulk action.
    completed: u64,
    /// Dead jobs that are kept.
    dead: u64,
    /// Stored bytes, including finished jobs: payloads and results of jobs, payloads and summaries
    /// of bulk actions.
    stored_bytes: u64,
    /// The stored bytes at which every enqueue is refused.
    stored_bytes_max: u64,
    /// Groups with unfinished jobs.
    active_groups: u64,
    /// Lanes in order, by level, over all types.
    active_lanes: LaneCounts,
    /// Lanes whose group's rate is used up.
    parked_lanes: u64,
    /// Complete bulk actions that wait for aggregation or are being aggregated.
    aggregating: u64,
    /// Bulk actions with dropped or resumed jobs to be swept.
    sweeping: u64,
    /// Useless attempts that backoff has avoided, an estimate.
    saved_spins: u64,
    /// The known types.
    #[schema(example = json!(["mail"]))]
    types: Vec<String>,
    /// The discipline: the rules for order, gate and denial.
    #[schema(schema_with = disciplines)]
    discipline: &'static str,
    /// The kind of engine, where the state lives.
    #[schema(example = "redis")]
    engine: &'static str,
    /// Warnings for operators, a sentence each: what weakens the guarantees of the store, types
    /// with jobs and no worker, a queue that is nearly full. `fairlane status` shows the same.
    warnings: Vec<String>,
    /// The version of this server.
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// How long this server has been running, in milliseconds.
    uptime_ms: u64,
}

/// The number of lanes by level.
#[derive(Serialize, ToSchema)]
pub(super) struct LaneCounts {
    high: u64,
    normal: u64,
    low: u64,
}

impl From<[u64; 3]> for LaneCounts {
    fn from([high, normal, low]: [u64; 3]) -> Self {
        Self { high, normal, low }
    }
}

/// The schema of a discipline.
pub(super) fn disciplines() -> Object {
    views::one_of([Discipline::Share, Discipline::Classic].map(Discipline::as_str))
}

impl Status {
    async fn new(view: QueueView, app: &App) -> Result<Self, Problem> {
        Ok(Self {
            warnings: warnings(&view, app).await?,
            backlog: view.backlog,
            waiting: view.waiting,
            in_flight: view.in_flight,
            completed: view.completed,
            dead: view.failed,
            stored_bytes: view.stored_bytes,
            stored_bytes_max: view.settings.stored_bytes_max,
            active_groups: view.active_groups,
            active_lanes: view.active_lanes.into(),
            parked_lanes: view.parked_lanes,
            aggregating: view.aggregating,
            sweeping: view.sweeping,
            saved_spins: view.saved_spins,
            types: view.types.iter().map(ToString::to_string).collect(),
            discipline: view.settings.discipline.as_str(),
            engine: app.engine().name(),
            version: env!("CARGO_PKG_VERSION"),
            uptime_ms: app.started.elapsed().as_millis() as u64,
        })
    }
}

/// The same warnings that `fairlane status` shows.
async fn warnings(queue: &QueueView, app: &App) -> Result<Vec<String>, Problem> {
    let mut types = Vec::new();
    // Warnings about types concern waiting jobs only.
    for name in queue.types.iter().filter(|_| queue.backlog > 0) {
        if let Some(view) = app.fairlane.job_type(name).view().await? {
            types.push((name, view));
        }
    }
    let mut warnings = app.engine().info().warnings;
    warnings.extend(fairlane::warnings_of(queue, types.iter().map(|(name, view)| (*name, view))));
    Ok(warnings)
}

/// Shows the state of the queue
///
/// Counts over all groups and types, and what operators should know about the server and its store.
#[utoipa::path(
    get,
    path = "/api/status",
    tag = "queue",
    responses(
        (status = 200, description = "The state of the queue", body = Status),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn status(State(app): State<Shared>) -> Result<Json<Status>, Problem> {
    Ok(Json(Status::new(app.fairlane.queue_view().await?, &app).await?))
}
