//! The state of the queue.

use axum::extract::State;
use fairlane::views::QueueView;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::extract::Json;
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(status))
}

/// The state of the queue and of this server.
#[derive(Serialize, ToSchema)]
struct Status {
    #[serde(flatten)]
    queue: QueueView,
    /// The version of this server.
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// How long this server has been running, in milliseconds.
    uptime_ms: u64,
}

/// Shows the state of the queue
///
/// Counts over all groups and types, and what operators should know about the server and its store.
#[utoipa::path(
    get,
    path = "/api/status",
    tag = "queue",
    responses((status = 200, description = "The state of the queue", body = Status)),
)]
async fn status(State(app): State<Shared>) -> Result<Json<Status>, Problem> {
    Ok(Json(Status {
        queue: (&app.fairlane.state().await?).into(),
        version: env!("CARGO_PKG_VERSION"),
        uptime_ms: app.started.elapsed().as_millis() as u64,
    }))
}
