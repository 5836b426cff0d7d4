//! Whether the server lives, and whether it can work.

use std::time::{Duration, Instant};

use axum::extract::State;
use fairlane_core::queue::Inspect;
use fairlane_engine::Engine;
use fairlane_engine::observe::TARGET;
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::extract::Json;
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// How long the engine has to answer before the server is not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);
/// How long an answer of the engine counts.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
    if app.readiness.look(&**app.engine()).await {
        return Ok(Json(Health { status: "ready" }));
    }
    Err(ProblemKind::Unavailable
        .because("the engine does not answer as it should; the server's log says why"))
}

/// Whether the engine answered when it was last asked: anybody may want to know, and it is asked once a second at most.
#[derive(Default)]
pub struct Readiness(Mutex<Option<(Instant, bool)>>);

impl Readiness {
    async fn look(&self, engine: &dyn Engine) -> bool {
        let mut looked = self.0.lock().await;
        if let Some((at, is_ready)) = *looked
            && at.elapsed() < LOOK_EVERY
        {
            return is_ready;
        }
        let asked = tokio::time::timeout(READY_WITHIN, engine.inspect(Inspect::Whole)).await;
        let is_ready = match asked {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::warn!(target: TARGET, %error, "not ready");
                false
            }
            Err(_) => {
                tracing::warn!(target: TARGET, "not ready: the engine does not answer");
                false
            }
        };
        *looked = Some((Instant::now(), is_ready));
        is_ready
    }
}
