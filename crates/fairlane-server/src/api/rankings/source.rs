//! Rebuilds a board from its source, or compares it with one; a source is lines of JSON.
//!
//! Invariant: a body is read as fast as the engine takes its rows, in memory that does not depend on
//! its length; a comparison keeps a bounded number of members.

use std::future::Future;
use std::io::ErrorKind;
use std::time::Duration;

use axum::extract::{Request, State};
use fairlane::views::BoardAuditView;
use fairlane::{Error, RankingLines, RebuildId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::BoardPath;
use crate::api::stream::BodyReader;
use crate::app::Shared;
use crate::extract::{Json, Path, Query, check_content_type};
use crate::problem::{Problem, ProblemKind};

/// Most members of a source that one audit keeps in memory.
const AUDIT_MEMBERS_MAX: usize = 100_000;

/// Identifies a rebuild.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RebuildQuery {
    /// The id of the rebuild. A rebuild that was interrupted continues under its id.
    #[param(value_type = String, min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$", example = "nightly-2026-11-17")]
    id: RebuildId,
}

/// A board that was rebuilt.
#[derive(Serialize, ToSchema)]
#[schema(as = BoardRebuilt)]
pub(super) struct RebuildResponse {
    /// The members of the board.
    members: u64,
}

/// Rebuilds a board from its source
///
/// The body is NDJSON of any length: on each line an event (`id`, `member`, `at` and, by sum,
/// `delta`) or a value (`member`, `value`, `at` and `version`). Readers see the old board until the last
/// line; then the new one replaces it in one step. Events that arrive meanwhile count once, so begin
/// before the source is read. Old events and sealed windows count, too. If the response was lost or the
/// body was cut off, send all lines again under the same id: those that were taken are skipped.
#[utoipa::path(
    post,
    path = "/api/rankings/{board}/rebuild",
    tag = "rankings",
    params(BoardPath, RebuildQuery),
    request_body(content = String, content_type = "application/x-ndjson", example = "{\"id\": \"r1\", \"member\": \"concert-7\", \"at\": \"2026-11-17T09:30:00Z\"}\n"),
    responses((status = 200, description = "The board is rebuilt", body = RebuildResponse)),
)]
pub(super) async fn rebuild(
    State(app): State<Shared>,
    Path(BoardPath { board }): Path<BoardPath>,
    Query(RebuildQuery { id }): Query<RebuildQuery>,
    request: Request,
) -> Result<Json<RebuildResponse>, Problem> {
    let mut lines = lines(&app, request)?;
    let ranking = app.fairlane.ranking(&board);
    let members = read(&app, ranking.rebuild_from(&id.to_string(), &mut lines)).await?;
    Ok(Json(RebuildResponse { members }))
}

/// Compares a board with its source
///
/// The body is that of a rebuild, with at most 100,000 different members; the program and the library
/// compare larger sources. Members that change meanwhile may be listed.
#[utoipa::path(
    post,
    path = "/api/rankings/{board}/audit",
    tag = "rankings",
    params(BoardPath),
    request_body(content = String, content_type = "application/x-ndjson", example = "{\"id\": \"r1\", \"member\": \"concert-7\", \"at\": \"2026-11-17T09:30:00Z\"}\n"),
    responses((status = 200, description = "The members that differ", body = BoardAuditView)),
)]
pub(super) async fn audit(
    State(app): State<Shared>,
    Path(BoardPath { board }): Path<BoardPath>,
    request: Request,
) -> Result<Json<BoardAuditView>, Problem> {
    let mut lines = lines(&app, request)?;
    let ranking = app.fairlane.ranking(&board);
    let audit = read(&app, ranking.audit_up_to(AUDIT_MEMBERS_MAX, &mut lines)).await?;
    Ok(Json(audit.into()))
}

/// The lines of a body while it arrives.
fn lines(app: &Shared, request: Request) -> Result<RankingLines<BodyReader>, Problem> {
    check_content_type(request.headers(), "application/x-ndjson")?;
    Ok(RankingLines::new(BodyReader::new(request.into_body(), app.settings.body_timeout)))
}

/// Reads a body to its end, unless the server stops.
async fn read<T>(app: &Shared, reading: impl Future<Output = Result<T, Error>>) -> Result<T, Problem> {
    let read = tokio::select! {
        read = reading => read,
        () = app.stopping.cancelled() => {
            let stopping = ProblemKind::Unavailable.because("the server is stopping; send the source again");
            return Err(stopping.retry_after(Duration::from_secs(1)));
        }
    };
    read.map_err(|error| match error {
        Error::Io(error) if error.kind() == ErrorKind::TimedOut => {
            ProblemKind::TooSlow.because("the body paused for too long; send the source again")
        }
        Error::Io(_) => ProblemKind::Malformed.because("the body was cut off; send the source again"),
        error => error.into(),
    })
}
