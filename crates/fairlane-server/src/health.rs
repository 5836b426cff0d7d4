//! Whether the server lives, and whether it can work.

use std::time::Duration;

use axum::extract::State;
use fairlane_core::queue::Inspect;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::extract::Json;
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// How long the engine has to answer before the server is not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// All is well.
#[derive(Serialize, ToSchema)]
struct Health {
    /// `alive` or `ready`.
    #[schema(example = "ready")]
    status: &'static str,
}

/// Whether the server lives
///
/// Asks nobody else: a server whose engine is away lives. Needs no key.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operation",
    security(()),
    responses(
        (status = 200, description = "It lives", body = Health),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn healthz() -> Json<Health> {
    Json(Health { status: "alive" })
}

/// Whether the server can work
///
/// Asks the engine. Says no as soon as the server is told to stop, so that a load balancer turns away. Needs no key.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operation",
    security(()),
    responses(
        (status = 200, description = "It can work", body = Health),
        (status = "default", description = "It cannot, and why", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn readyz(State(app): State<Shared>) -> Result<Json<Health>, Problem> {
    if app.stopping.is_cancelled() {
        return Err(ProblemKind::Unavailable.because("the server is stopping; ask another"));
    }
    match tokio::time::timeout(READY_WITHIN, app.engine().inspect(Inspect::Whole)).await {
        Ok(looked) => {
            looked?;
            Ok(Json(Health { status: "ready" }))
        }
        Err(_) => Err(ProblemKind::Unavailable.because("the engine does not answer")),
    }
}
