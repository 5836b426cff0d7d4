//! Whether the server lives, and whether it can work.

use std::time::{Duration, Instant};

use axum::extract::State;
use fairlane_core::queue::Inspect;
use fairlane_engine::observe::TARGET;
use fairlane_engine::{Engine, EngineError};
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
/// Asks the engine, and whether it takes changes: not on a full disk, for one. Says no as soon as the server is told to stop, so that a load balancer turns away. Needs no key.
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
    match app.readiness.check(&**app.engine()).await {
        Ok(()) => Ok(Json(Health { status: "ready" })),
        Err(reason) => Err(ProblemKind::Unavailable.because(reason)),
    }
}

/// Whether the engine answered and took changes when it was last asked. Anybody may want to know, so the engine is
/// asked at most once a second.
#[derive(Default)]
pub struct Readiness(Mutex<Option<(Instant, Result<(), String>)>>);

impl Readiness {
    /// An error says why not, in words that anybody may read.
    pub(crate) async fn check(&self, engine: &dyn Engine) -> Result<(), String> {
        let mut checked = self.0.lock().await;
        if let Some((at, readiness)) = &*checked
            && at.elapsed() < LOOK_EVERY
        {
            return readiness.clone();
        }
        let asked = async {
            engine.inspect(Inspect::Whole).await?;
            engine.check_writes().await
        };
        let readiness = match tokio::time::timeout(READY_WITHIN, asked).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                tracing::warn!(target: TARGET, %error, "not ready");
                Err(reason(&error))
            }
            Err(_) => {
                tracing::warn!(target: TARGET, "not ready: the engine does not answer");
                Err("the engine does not answer; the server's log says more".to_owned())
            }
        };
        *checked = Some((Instant::now(), readiness.clone()));
        readiness
    }
}

/// Why the engine is not ready, without what is nobody else's business: the whole error is in the log.
fn reason(error: &EngineError) -> String {
    let what = match error {
        EngineError::Unavailable { .. } => "the engine cannot be reached".to_owned(),
        EngineError::Refused { reason } => {
            format!("the engine takes no changes: {}", without_paths(reason))
        }
        EngineError::Broken { .. } | EngineError::Invalid(_) => "the engine has stopped or broken".to_owned(),
    };
    format!("{what}; the server's log says more")
}

/// The text with its quoted paths left out.
fn without_paths(text: &str) -> String {
    let parts = text.split('"').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 && part.contains('/') { "its file" } else { part }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_server_that_is_not_ready_names_no_path() {
        let full = "no space is left for \"/srv/data/fairlane.db\"; nothing acknowledged is lost";
        let told = reason(&EngineError::Refused { reason: full.to_owned() });
        assert!(told.contains("no space is left for its file; nothing"), "{told}");
        assert!(!told.contains("/srv"), "{told}");
    }
}
