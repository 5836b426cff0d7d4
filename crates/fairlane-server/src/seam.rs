//! The seam as routes: what an `http` engine asks of this server's engine (`fairlane_engine::wire`).
//!
//! - `seam/permission.rs`: what a command needs. `seam/walk.rs`: a walk as the body of an answer.
//!
//! A refusal of the engine is an answer like any other; a problem document is what the server itself refuses.
//! Left out on purpose: the API's description, for the format is that of one version and not for people.

mod permission;
mod walk;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use fairlane_core::queue::{Command, Reply};
use fairlane_engine::EngineError;
use fairlane_engine::wire::{self, Facts, Trouble, Wait};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::access::{Caller, Permission};
use crate::app::Shared;
use crate::extract::{body_up_to, check_content_type};
use crate::problem::{Problem, ProblemKind, STORE_REFUSES};
use permission::{check_command, permission_of, without_others};
use walk::Walk;

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route(wire::FACTS_PATH, get(facts))
        .route(wire::EXECUTE_PATH, post(execute))
        .route(wire::WAIT_PATH, post(wait))
        .route(wire::WALK_PATH, post(walk_through))
}

/// A value in the format of the seam.
struct Wired<T>(T);

impl<T: Serialize> IntoResponse for Wired<T> {
    fn into_response(self) -> Response {
        wired(wire::encode(&self.0))
    }
}

fn wired(body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, wire::CONTENT_TYPE)], body.into()).into_response()
}

async fn facts(State(app): State<Shared>) -> Wired<Facts> {
    let engine = app.engine();
    Wired(Facts { name: engine.name().to_owned(), warnings: engine.warnings() })
}

async fn execute(
    State(app): State<Shared>,
    caller: Caller,
    request: Request,
) -> Result<Wired<Result<Reply, Trouble>>, Problem> {
    // Only what a worker settles is large.
    let bytes_max = match caller.role.may(Permission::Work) {
        true => wire::COMMAND_BYTES_MAX,
        false => wire::PRODUCER_COMMAND_BYTES_MAX,
    };
    let command: Command = read(request, &app, bytes_max).await?;
    check_command(&caller, &command)?;
    if let Command::Enqueue(enqueue) = &command {
        for job in &enqueue.jobs {
            app.check_type(&caller, &job.type_id).await?;
        }
    }
    let _changing = match command {
        Command::SetWhole(_) => Some(app.changing_settings.lock().await),
        _ => None,
    };
    let operates = permission_of(&command).0 == Permission::Operate;
    let answered = app.engine().execute(command).await;
    if operates && answered.is_ok() {
        // What was changed is told by the engine.
        tracing::info!(target: "fairlane", key = &*caller.name, path = wire::EXECUTE_PATH, "operated");
    }
    Ok(Wired(answered.map(|reply| without_others(&caller, reply)).map_err(trouble)))
}

/// A client that goes away drops this, and what it waits for is left to others.
async fn wait(State(app): State<Shared>, request: Request) -> Result<Wired<Result<bool, Trouble>>, Problem> {
    let Wait { types, at_most_ms } = read(request, &app, wire::WAIT_BYTES_MAX).await?;
    let at_most = Duration::from_millis(at_most_ms.min(wire::WAIT_MS_MAX)).min(app.settings.poll_max);
    let woken = tokio::select! {
        woken = app.engine().wait(&types, at_most) => woken,
        () = app.stopping.cancelled() => Ok(false),
    };
    Ok(Wired(woken.map_err(trouble)))
}

async fn walk_through(State(app): State<Shared>, request: Request) -> Result<Response, Problem> {
    check_content_type(request.headers(), wire::CONTENT_TYPE)?;
    Ok(wired(Body::new(Walk::begin(app.engine().clone(), app.stopping.clone()))))
}

/// The value a request brings.
async fn read<T>(request: Request, app: &Shared, bytes_max: usize) -> Result<T, Problem>
where
    T: DeserializeOwned + Send + 'static,
{
    check_content_type(request.headers(), wire::CONTENT_TYPE)?;
    let body = body_up_to(bytes_max, request, app).await?;
    let decode =
        |body: &[u8]| wire::decode(body).map_err(|error| ProblemKind::Malformed.because(error.to_string()));
    app.parsers.parse(body, decode).await
}

/// What broke is for the operator: it may speak of the inside.
fn trouble(error: EngineError) -> Trouble {
    if let EngineError::Broken { .. } = error {
        tracing::error!(target: "fairlane", %error, "the engine broke");
        return Trouble::Broken("the engine behind the server broke; the server's log says how".into());
    }
    if let EngineError::Refused { .. } = error {
        return Trouble::Refused(STORE_REFUSES.into());
    }
    error.into()
}
