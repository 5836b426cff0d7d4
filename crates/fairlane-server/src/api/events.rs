//! Server-sent events.
//!
//! - `events/bulks.rs`: one watcher for each followed bulk action. `events/queue.rs`: counts of the
//!   queue.
//! - `events/jobs.rs`: one job. `events/places.rs`: places in waiting rooms.
//! - `events/event_tap.rs`: an engine layer that notifies the watchers of commands through this
//!   server.
//! - `events/wait_histogram.rs`: how long jobs wait. `events/customer_counts.rs`: jobs by customer.
//! - `events/listener.rs`: one stream to one client.
//!
//! Invariant: nothing is read while no client listens. A slow client skips states; none are
//! buffered for it.

mod bulks;
mod customer_counts;
mod event_tap;
mod jobs;
mod listener;
mod places;
mod queue;
mod wait_histogram;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use fairlane::PlaceStatus;
use fairlane_core::queue::BulkRef;
use fairlane_engine::Engine;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::bulks::BulkPath;
use super::jobs::JobPath;
use super::rooms::PlacePath;
use crate::access::{Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Path, Query};
use crate::problem::{Problem, ProblemKind};
use bulks::BulkWatchers;
pub(crate) use customer_counts::{CustomerJobs, Jobs};
use event_tap::{Counts, event_tap};
pub(crate) use places::follow as follow_place;
use queue::QueueEvents;

pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Pace::Held, Permission::Read, Scope::Path, routes!(bulk_events))
        .add(Pace::Held, Permission::Read, Scope::Path, routes!(job_events))
        .add(Pace::Held, Permission::Read, Scope::AllGroups, routes!(events))
        .add(Pace::Held, Permission::Work, Scope::AllGroups, routes!(place_events))
}

/// The state behind all event streams.
#[derive(Default)]
pub(crate) struct Live {
    bulks: BulkWatchers,
    queue: QueueEvents,
    counts: Counts,
}

impl Live {
    /// The engine with a layer that feeds the events; all requests and the workers of the process use it.
    pub fn tap(self: &Arc<Self>, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        event_tap(engine, self.clone())
    }

    /// Jobs that were enqueued and settled through this server.
    pub fn totals(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.counts.enqueued), read(&self.counts.settled))
    }

    /// Jobs that arrived and were served, by customer, since the last call.
    pub fn take_customers(&self) -> CustomerJobs {
        self.counts.customers.take()
    }

    /// As [`take_customers`](Self::take_customers), but without resetting the counts.
    pub fn customers_so_far(&self) -> CustomerJobs {
        self.counts.customers.so_far()
    }

    /// The median and the 99th percentile of the waits, in milliseconds, since the last call.
    pub fn take_waits(&self) -> Option<(u64, u64)> {
        self.counts.waits.take()
    }
}

/// One event: its name, its id and its data.
pub(crate) struct Event {
    pub name: &'static str,
    pub id: String,
    pub data: String,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct LastEvent {
    /// The id of the last received event, for clients that cannot send the header.
    #[param(max_length = 128)]
    last_event_id: Option<String>,
}

impl LastEvent {
    fn id(self, headers: &HeaderMap) -> Option<String> {
        let header = headers.get("last-event-id").and_then(|value| value.to_str().ok());
        header.map(str::to_owned).or(self.last_event_id)
    }
}

/// Follows a bulk action
///
/// Server-sent events: `progress` with the bulk action as JSON, first its current state and then
/// whenever it has changed, and `ended` when it is completed, failed or cancelled; then the stream
/// ends. A state that the client has received, by the id of its last event (`Last-Event-ID`), is
/// not sent again. A client that reconnects after the end gets `ended` once more, or 204 if it has
/// received that, so that browsers stop reconnecting.
#[utoipa::path(
    get,
    path = "/api/bulks/{group}/{bulk}/events",
    tag = "events",
    params(
        BulkPath,
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last received event"),
        LastEvent,
    ),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The bulk action has ended, and the client has received the last event"),
    )
)]
async fn bulk_events(
    State(app): State<Shared>,
    Path(BulkPath { group, bulk }): Path<BulkPath>,
    Query(last): Query<LastEvent>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let bulk = BulkRef { group, id: bulk };
    let last = last.id(&headers);
    // The subscription comes before the read, so that no change is missed between them.
    let states = app.live.bulks.subscribe(&app, &bulk);
    let first = bulks::read(&app.fairlane, &bulk).await?.ok_or_else(|| {
        ProblemKind::NotFound.because(format!("there is no bulk action {} of group {}", bulk.id, bulk.group))
    })?;
    if first.is_end() && last.as_ref() == Some(&first.id) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok(listener::follow_bulk(&app, states, Arc::new(first), last))
}

/// Follows a job
///
/// Server-sent events: `progress` with the job as JSON, without its payload, first its current state
/// and then whenever its state, attempts or progress have changed, and `ended` when it is completed,
/// dead or cancelled; then the stream ends. A state that the client has received, by the id of its last
/// event (`Last-Event-ID`), is not sent again.
#[utoipa::path(
    get,
    path = "/api/jobs/{group}/{job}/events",
    tag = "events",
    params(
        JobPath,
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last received event"),
        LastEvent,
    ),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The job has ended, and the client has received the last event"),
    )
)]
async fn job_events(
    State(app): State<Shared>,
    Path(path): Path<JobPath>,
    Query(last): Query<LastEvent>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    jobs::follow(&app, path.job(), last.id(&headers)).await
}

/// Follows a place in a waiting room
///
/// Server-sent events: `progress` with the place as JSON while the user waits, and `ended` when the
/// place is active or the token has none; then the stream ends. An open stream keeps the place, so the
/// client does not poll.
#[utoipa::path(
    get,
    path = "/api/rooms/{room}/places/{token}/events",
    tag = "events",
    params(
        PlacePath,
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last received event"),
        LastEvent,
    ),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
    )
)]
async fn place_events(
    State(app): State<Shared>,
    Path(PlacePath { room, token }): Path<PlacePath>,
    Query(last): Query<LastEvent>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let show = {
        let (app, room) = (app.clone(), room.clone());
        move |status: &PlaceStatus| places::event(app.place_view(&room, status.clone()))
    };
    follow_place(&app, room, token, last.id(&headers), show).await
}

/// Follows the queue
///
/// Server-sent events: `figures` about once a second, as JSON: `at`, `backlog`, `waiting`,
/// `in_flight`, `dead`, `active_groups`, and the throughput of this server since the last event, as
/// `enqueued_per_second` and `settled_per_second` over `over_ms`. The last 300 events are kept: a
/// client that reconnects with the id of its last event (`Last-Event-ID`) gets those it has missed.
/// The stream ends when the server stops.
#[utoipa::path(
    get,
    path = "/api/events",
    tag = "events",
    params(
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last received event"),
        LastEvent,
    ),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
    )
)]
async fn events(State(app): State<Shared>, Query(last): Query<LastEvent>, headers: HeaderMap) -> Response {
    let last = last.id(&headers);
    let (missed, latest) = app.live.queue.subscribe(&app, last.as_deref());
    listener::follow_queue(&app, missed, latest)
}

/// An event about once a second, without data, for pages that reload themselves.
pub(crate) async fn ticks(State(app): State<Shared>) -> Response {
    let (_, latest) = app.live.queue.subscribe(&app, None);
    listener::follow_ticks(&app, latest)
}
