//! The engine RPC: the routes that an `http` engine calls on this server's engine
//! (`fairlane_engine::wire`).
//!
//! - `engine_rpc/permission.rs`: the permission a command requires. `engine_rpc/scan.rs`,
//!   `engine_rpc/subscription.rs`: a scan and the signals to a process as response bodies.
//!
//! An error of the engine is a reply like any other (status 200); a problem document is a refusal
//! by the server itself. Left out on purpose: the API description, as the format belongs to one
//! version and is not meant for people.

mod permission;
mod scan;
mod subscription;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use fairlane_core::{Command, Reply, queue};
use fairlane_engine::EngineError;
use fairlane_engine::wire::{self, ServerInfo, Subscribe, Wait, WireError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::access::{Caller, Pace, Permission, Route, Scope, Surface, Verb};
use crate::app::Shared;
use crate::extract::{body_up_to, check_content_type};
use crate::problem::{Problem, ProblemKind, STORE_REFUSES};
use permission::{check_command, redact};
use scan::ScanBody;
use subscription::SubscriptionBody;

/// The routes; the command decides about its permission (`engine_rpc/permission.rs`).
pub(crate) fn table() -> [Route; 5] {
    use Permission::{Operate, Read, Work};
    [
        (Verb::Get, wire::INFO_PATH, Read, Scope::NoGroup, Pace::Brief),
        (Verb::Post, wire::SUBMIT_PATH, Read, Scope::Named, Pace::Brief),
        (Verb::Post, wire::WAIT_PATH, Work, Scope::AllGroups, Pace::Held),
        // A process id is unguessable, and the signals to it name no lock and no group.
        (Verb::Post, wire::SUBSCRIBE_PATH, Work, Scope::NoGroup, Pace::Held),
        (Verb::Post, wire::SCAN_PATH, Operate, Scope::AllGroups, Pace::Stream),
    ]
    .map(|(method, path, permission, scope, pace)| {
        let surface = Surface::Api;
        Route { method, path, permission, scope, pace, surface }
    })
}

pub(crate) fn routes() -> Router<Shared> {
    Router::new()
        .route(wire::INFO_PATH, get(info))
        .route(wire::SUBMIT_PATH, post(submit))
        .route(wire::WAIT_PATH, post(wait))
        .route(wire::SUBSCRIBE_PATH, post(subscribe))
        .route(wire::SCAN_PATH, post(scan))
}

/// A value in the wire format.
struct Wired<T>(T);

impl<T: Serialize> IntoResponse for Wired<T> {
    fn into_response(self) -> Response {
        wired(wire::encode(&self.0))
    }
}

fn wired(body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, wire::CONTENT_TYPE)], body.into()).into_response()
}

async fn info(State(app): State<Shared>) -> Wired<ServerInfo> {
    let info = app.engine().info();
    Wired(ServerInfo { name: info.name.to_owned(), warnings: info.warnings })
}

async fn submit(
    State(app): State<Shared>,
    caller: Caller,
    request: Request,
) -> Result<Wired<Result<Reply, WireError>>, Problem> {
    // Only the commands of a worker are large: they settle jobs with their results.
    let bytes_max = match caller.role.may(Permission::Work) {
        true => wire::COMMAND_BYTES_MAX,
        false => wire::PRODUCER_COMMAND_BYTES_MAX,
    };
    let command: Command = read(request, &app, bytes_max).await?;
    check_command(&caller, &command)?;
    if let Command::Queue(queue::Command::Enqueue(enqueue)) = &command {
        for job in &enqueue.jobs {
            app.check_type(&caller, &job.type_id).await?;
        }
    }
    let _changing = match command {
        Command::Queue(queue::Command::SetQueue(_)) => Some(app.changing_settings.lock().await),
        _ => None,
    };
    let (operates, operation) = (command.access().permission == Permission::Operate, command.stem());
    let reply = app.engine().submit(command).await;
    if operates && reply.is_ok() {
        // The engine logs what was changed.
        tracing::info!(target: "fairlane", key = &*caller.name, path = wire::SUBMIT_PATH, operation, "operated");
    }
    Ok(Wired(reply.map(|reply| redact(&caller, reply)).map_err(wire_error)))
}

/// A client that goes away drops this handler, and its wake-up is left to other waiters.
async fn wait(
    State(app): State<Shared>,
    request: Request,
) -> Result<Wired<Result<bool, WireError>>, Problem> {
    let Wait { types, at_most_ms } = read(request, &app, wire::WAIT_BYTES_MAX).await?;
    let at_most = Duration::from_millis(at_most_ms.min(wire::WAIT_MS_MAX)).min(app.settings.poll_max);
    let woken = tokio::select! {
        woken = app.engine().wait(&types, at_most) => woken,
        () = app.stopping.cancelled() => Ok(false),
    };
    Ok(Wired(woken.map_err(wire_error)))
}

async fn subscribe(State(app): State<Shared>, request: Request) -> Result<Response, Problem> {
    let Subscribe { process } = read(request, &app, wire::SUBSCRIBE_BYTES_MAX).await?;
    let subscribed = app.engine().subscribe(&process).await;
    Ok(wired(Body::new(SubscriptionBody::begin(subscribed, app.stopping.clone()))))
}

async fn scan(State(app): State<Shared>, request: Request) -> Result<Response, Problem> {
    check_content_type(request.headers(), wire::CONTENT_TYPE)?;
    Ok(wired(Body::new(ScanBody::begin(app.engine().clone(), app.stopping.clone()))))
}

/// Reads and decodes the body of a request.
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

/// The error as clients see it. Internal details go to the log only.
fn wire_error(error: EngineError) -> WireError {
    if let EngineError::Broken { .. } = error {
        tracing::error!(target: "fairlane", %error, "the engine failed");
        return WireError::Broken("the engine behind the server failed; see the server's log".into());
    }
    if let EngineError::Refused { .. } = error {
        return WireError::Refused(STORE_REFUSES.into());
    }
    error.into()
}
