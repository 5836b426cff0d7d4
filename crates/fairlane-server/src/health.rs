//! Liveness and readiness.

use std::time::{Duration, Instant};

use axum::extract::State;
use fairlane::{EngineError, Error, Fairlane};
use fairlane_engine::observe::TARGET;
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::extract::Json;
use crate::problem::{Problem, ProblemDocument, ProblemKind};

/// How long the engine may take to reply before the server is not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);
/// How long the result of a check is reused.
const CHECK_EVERY: Duration = Duration::from_secs(1);

pub(crate) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// The state of the server.
#[derive(Serialize, ToSchema)]
struct Health {
    /// `alive` or `ready`.
    #[schema(example = "ready")]
    status: &'static str,
}

/// Liveness
///
/// Whether the process responds. It does not depend on the engine. Requires no key.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operation",
    security(()),
    responses(
        (status = 200, description = "The server is alive", body = Health),
    )
)]
async fn healthz() -> Json<Health> {
    Json(Health { status: "alive" })
}

/// Readiness
///
/// Whether the engine replies and accepts writes, which it does not on a full disk, for example. A
/// server that is stopping is not ready, so that load balancers stop sending requests. Requires no
/// key.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operation",
    security(()),
    responses(
        (status = 200, description = "The server is ready", body = Health),
        (status = "default", description = "The server is not ready, and why", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn readyz(State(app): State<Shared>) -> Result<Json<Health>, Problem> {
    if app.stopping.is_cancelled() {
        return Err(ProblemKind::Unavailable.because("the server is stopping; use another one"));
    }
    match app.readiness.check(&app.fairlane).await {
        Ok(()) => Ok(Json(Health { status: "ready" })),
        Err(reason) => Err(ProblemKind::Unavailable.because(reason)),
    }
}

/// Whether the engine replied and accepted writes when it was last checked. The route is public, so
/// the engine is checked at most once a second.
#[derive(Default)]
pub struct Readiness(Mutex<Option<(Instant, Result<(), String>)>>);

impl Readiness {
    /// Checks the engine. An error is the reason, without internal details.
    pub(crate) async fn check(&self, fairlane: &Fairlane) -> Result<(), String> {
        let mut checked = self.0.lock().await;
        if let Some((at, readiness)) = &*checked
            && at.elapsed() < CHECK_EVERY
        {
            return readiness.clone();
        }
        let check = async {
            fairlane.queue_view().await?;
            Ok::<_, Error>(fairlane.engine().admin().check_writes().await?)
        };
        let readiness = match tokio::time::timeout(READY_WITHIN, check).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                tracing::warn!(target: TARGET, %error, "not ready");
                Err(reason(&error))
            }
            Err(_) => {
                tracing::warn!(target: TARGET, "not ready: the engine does not reply");
                Err("the engine does not reply; see the server's log".to_owned())
            }
        };
        *checked = Some((Instant::now(), readiness.clone()));
        readiness
    }
}

/// Why the engine is not ready, without internal details: the log has the full error.
fn reason(error: &Error) -> String {
    let reason = match error {
        Error::Engine(EngineError::Unavailable { .. }) => "the engine cannot be reached".to_owned(),
        Error::Engine(EngineError::Refused { reason }) => {
            format!("the engine accepts no writes: {}", without_paths(reason))
        }
        _ => "the engine has stopped or failed".to_owned(),
    };
    format!("{reason}; see the server's log")
}

/// The text without its quoted paths.
fn without_paths(text: &str) -> String {
    let parts = text.split('"').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 && part.contains('/') { "its file" } else { part }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_for_not_being_ready_contains_no_path() {
        let full = "no space is left for \"/srv/data/fairlane.db\"; nothing acknowledged is lost";
        let reason = reason(&EngineError::Refused { reason: full.to_owned() }.into());
        assert!(reason.contains("no space is left for its file; nothing"), "{reason}");
        assert!(!reason.contains("/srv"), "{reason}");
    }
}
