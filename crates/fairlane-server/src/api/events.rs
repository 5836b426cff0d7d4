//! What happens, as it happens: server-sent events.
//!
//! - `events/bulks.rs`: one watcher for each bulk action that somebody follows. `events/whole.rs`: the whole's figures.
//! - `events/heard.rs`: the engine as all requests use it, so that watchers hear what passes through this server.
//! - `events/listener.rs`: one stream to one client.
//!
//! Invariant: nothing is looked up while nobody listens; a client that reads slowly misses states, and none are
//! kept for it.

mod bulks;
mod heard;
mod listener;
mod whole;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use fairlane_core::queue::BulkRef;
use fairlane_core::{BulkId, GroupId};
use fairlane_engine::Engine;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::Shared;
use crate::extract::{Named, Path, Query};
use crate::problem::{Problem, ProblemDocument, ProblemKind};
use bulks::Bulks;
use heard::{Counts, Heard};
use whole::Whole;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(bulk_events)).routes(routes!(events))
}

/// What is followed at the moment.
#[derive(Default)]
pub(crate) struct Live {
    bulks: Bulks,
    whole: Whole,
    counts: Counts,
}

impl Live {
    /// The engine as all requests are to use it.
    pub fn heard(self: &Arc<Self>, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        Arc::new(Heard::new(engine, self.clone()))
    }
}

/// One event: its name, its id and its data.
struct Event {
    name: &'static str,
    id: String,
    data: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Seen {
    /// The id of the last event that was seen, for clients that cannot send the header.
    #[param(max_length = 128)]
    last_event_id: Option<String>,
}

impl Seen {
    fn id(self, headers: &HeaderMap) -> Option<String> {
        let header = headers.get("last-event-id").and_then(|value| value.to_str().ok());
        header.map(str::to_owned).or(self.last_event_id)
    }
}

/// Follows a bulk action
///
/// Server-sent events: `progress` with the bulk action as JSON, first as it stands and then whenever it has changed,
/// and `ended` when it is completed, failed or cancelled; then the stream ends. A state that was seen, as the id of the
/// last event says (`Last-Event-ID`), is not sent again. Whoever comes back after the end gets `ended` once more, or
/// 204 if that was seen, so that browsers stop asking.
#[utoipa::path(
    get,
    path = "/api/bulks/{group}/{bulk}/events",
    tag = "events",
    params(
        ("group" = String, Path, min_length = 1, max_length = 128, description = "Whose"),
        ("bulk" = String, Path, min_length = 1, max_length = 128, description = "Which of theirs"),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was seen"),
        Seen,
    ),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = 204, description = "It has ended, and that was seen"),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn bulk_events(
    State(app): State<Shared>,
    Path((group, bulk)): Path<(String, String)>,
    Query(seen): Query<Seen>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let bulk = BulkRef { group: GroupId::named(&group)?, id: BulkId::named(&bulk)? };
    let last = seen.id(&headers);
    // Listening comes before the look, so that no change falls between them.
    let sights = app.live.bulks.listen(&app, &bulk);
    let first = bulks::look(app.engine(), &bulk).await?.ok_or_else(|| {
        ProblemKind::NotFound.because(format!("there is no bulk action {} of group {}", bulk.id, bulk.group))
    })?;
    if first.is_end() && last.as_ref() == Some(&first.id) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(listener::follow_bulk(&app, sights, Arc::new(first), last))
}

/// Follows the whole
///
/// Server-sent events: `figures` about once a second, as JSON: `at`, `backlog`, `waiting`, `in_flight`, `dead`,
/// `active_groups`, and what passed through this server since the figures before, as `enqueued_per_second` and
/// `settled_per_second` over `over_ms`. The last 300 are kept: whoever comes back with the id of the last event that
/// was seen (`Last-Event-ID`) gets those that were missed. The stream ends when the server stops.
#[utoipa::path(
    get,
    path = "/api/events",
    tag = "events",
    params(
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was seen"),
        Seen,
    ),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = "default", description = "A problem", body = ProblemDocument, content_type = "application/problem+json"),
    )
)]
async fn events(State(app): State<Shared>, Query(seen): Query<Seen>, headers: HeaderMap) -> Response {
    let last = seen.id(&headers);
    let (missed, newest) = app.live.whole.listen(&app, last.as_deref());
    listener::follow_whole(&app, missed, newest)
}
