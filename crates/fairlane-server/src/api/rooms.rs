//! Waiting rooms: users join, poll and leave; operators set limits, pause, open and close.
//!
//! The application's back end calls these routes for its users, since keys must not reach browsers.
//! The user keeps the token of the place, for instance in a cookie.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use fairlane::views::{PlaceView, RoomLimitsView, RoomView};
use fairlane::{PlaceToken, Room, RoomName, UserId};
use fairlane_core::limits::{INTEGER_MAX, RETRY_AFTER_MS_MAX, ROOM_TTL_MS_MAX, ROOM_TTL_MS_MIN};
use fairlane_core::numbers::within;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::change::{self, PAGE};
use crate::access::{Pace, Permission, Routes, Scope};
use crate::app::Shared;
use crate::extract::{Json, Path, Query};
use crate::passes;
use crate::problem::{Problem, ProblemKind};

pub(super) fn routes() -> Routes {
    Routes::default()
        .add(Pace::Brief, Permission::Read, Scope::AllGroups, routes!(list))
        .add(Pace::Brief, Permission::Read, Scope::AllGroups, routes!(show))
        .add(Pace::Brief, Permission::Operate, Scope::AllGroups, routes!(change_limits))
        .add(Pace::Brief, Permission::Work, Scope::AllGroups, routes!(join))
        .add(Pace::Brief, Permission::Read, Scope::AllGroups, routes!(show_place))
        .add(Pace::Brief, Permission::Work, Scope::AllGroups, routes!(leave))
        .add(Pace::Brief, Permission::Work, Scope::AllGroups, routes!(keep))
        .add(Pace::Brief, Permission::Operate, Scope::AllGroups, routes!(revoke))
        .add(Pace::Brief, Permission::Operate, Scope::AllGroups, routes!(pause))
        .add(Pace::Brief, Permission::Operate, Scope::AllGroups, routes!(resume))
        .add(Pace::Brief, Permission::Operate, Scope::AllGroups, routes!(open))
        .add(Pace::Brief, Permission::Operate, Scope::AllGroups, routes!(close))
        .add(Pace::Brief, Permission::Operate, Scope::AllGroups, routes!(begin_prequeue))
        .add(Pace::Brief, Permission::Work, Scope::AllGroups, routes!(report))
        .add(Pace::Brief, Permission::Operate, Scope::AllGroups, routes!(bypass))
}

/// The room in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
struct RoomPath {
    /// The name of the room.
    #[param(value_type = String, min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$", example = "concert")]
    room: RoomName,
}

/// The place in a path.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct PlacePath {
    /// The name of the room.
    #[param(value_type = String, min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$", example = "concert")]
    pub room: RoomName,
    /// The token of the place.
    #[param(value_type = String, min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$", example = "5f0c2b9e6d1f4a2e")]
    pub token: PlaceToken,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// Where the page begins: the `next` of the last page.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128, pattern = r"^[^\u0000-\u001f\u007f-\u009f]+$")]
    cursor: Option<RoomName>,
    /// The maximum number of rooms on the page; 100 by default.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
}

/// A page of rooms.
#[derive(Serialize, ToSchema)]
#[schema(as = Rooms)]
struct RoomsPage {
    /// The rooms by name.
    rooms: Vec<RoomView>,
    /// Where the next page begins; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Lists waiting rooms
///
/// In the order of their names, page by page.
#[utoipa::path(
    get,
    path = "/api/rooms",
    tag = "rooms",
    params(Page),
    responses((status = 200, description = "A page", body = RoomsPage)),
)]
async fn list(State(app): State<Shared>, Query(page): Query<Page>) -> Result<Json<RoomsPage>, Problem> {
    let listed = app.fairlane.rooms(page.cursor, page.limit.unwrap_or(PAGE)).await?;
    let rooms = listed.rooms.into_iter().map(RoomView::from).collect();
    Ok(Json(RoomsPage { rooms, next: listed.next.map(|next| next.to_string()) }))
}

async fn view(room: &Room, name: &RoomName) -> Result<Json<RoomView>, Problem> {
    let view = room.view().await?;
    let view = view.ok_or_else(|| {
        ProblemKind::NotFound.because(format!("there is no room {name}; a user who joins makes it"))
    });
    Ok(Json(view?.into()))
}

/// Shows a waiting room
///
/// Its phase, its limits, and how many users are active and wait.
#[utoipa::path(
    get,
    path = "/api/rooms/{room}",
    tag = "rooms",
    params(RoomPath),
    responses((status = 200, description = "The room", body = RoomView)),
)]
async fn show(
    State(app): State<Shared>,
    Path(RoomPath { room: name }): Path<RoomPath>,
) -> Result<Json<RoomView>, Problem> {
    view(&app.fairlane.room(&name), &name).await
}

/// A change of a room's limits; absent limits stay unchanged.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RoomChange, example = json!({"max_active": 200, "rate": "600/min"}))]
struct Change {
    /// Most places that are active at once.
    #[schema(maximum = 1_000_000)]
    max_active: Option<u32>,
    /// How many milliseconds a place is active, from its admission on.
    #[schema(minimum = 1000, maximum = 86_400_000)]
    active_ttl_ms: Option<u64>,
    /// How many milliseconds a waiter keeps its place after the poll that it missed.
    #[schema(minimum = 1000, maximum = 86_400_000)]
    retention_ms: Option<u64>,
    /// Polls of all waiters in a second.
    #[schema(minimum = 1, maximum = 1_000_000)]
    polls_per_second: Option<u32>,
    /// Most admissions over time; null removes the limit.
    #[serde(default, deserialize_with = "change::nullable")]
    #[schema(schema_with = change::rates, required = false)]
    rate: Option<Option<String>>,
    /// The weight of each priority class, at most 8.
    #[schema(min_items = 1, max_items = 8)]
    weights: Option<Vec<u32>>,
}

/// Changes the limits of a waiting room
///
/// Absent limits stay unchanged. A lower limit ends no place. A new room is created. The response
/// has the limits in effect.
#[utoipa::path(
    patch,
    path = "/api/rooms/{room}",
    tag = "rooms",
    params(RoomPath),
    request_body = Change,
    responses((status = 200, description = "The limits in effect", body = RoomLimitsView)),
)]
async fn change_limits(
    State(app): State<Shared>,
    Path(RoomPath { room: name }): Path<RoomPath>,
    Json(change): Json<Change>,
) -> Result<Json<RoomLimitsView>, Problem> {
    let rate = change::rate(change.rate)?;
    let _one_at_a_time = app.changing_settings.lock().await;
    let room = app.fairlane.room(&name);
    let updated = room.update(|settings| {
        settings.max_active = change.max_active.unwrap_or(settings.max_active);
        settings.active_ttl_ms = change.active_ttl_ms.unwrap_or(settings.active_ttl_ms);
        settings.retention_ms = change.retention_ms.unwrap_or(settings.retention_ms);
        settings.polls_per_second = change.polls_per_second.unwrap_or(settings.polls_per_second);
        settings.rate = rate.unwrap_or(settings.rate);
        if let Some(weights) = change.weights {
            settings.weights = weights;
        }
    });
    Ok(Json((&updated.await?).into()))
}

/// A user who joins a room.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = JoinRequest, example = json!({"user": "ada"}))]
struct JoinRequest {
    /// The user. A user has one place in a room.
    #[schema(min_length = 1, max_length = 128)]
    user: String,
    /// The priority class, from 0.
    #[serde(default)]
    #[schema(maximum = 7)]
    class: u32,
}

/// A place that a user has joined.
#[derive(Serialize, ToSchema)]
#[schema(as = Joined)]
struct JoinResponse {
    /// The token of the place: what polls it, leaves it, and proves it. Only the user should have it.
    token: String,
    /// The state of the place.
    #[serde(flatten)]
    place: PlaceView,
}

/// Joins a waiting room
///
/// A user who has a place keeps it, with the same token; so a lost response is asked for again. The
/// user is active at once if the room has a free place.
#[utoipa::path(
    post,
    path = "/api/rooms/{room}/join",
    tag = "rooms",
    params(RoomPath),
    request_body = JoinRequest,
    responses((status = 200, description = "The place", body = JoinResponse)),
)]
async fn join(
    State(app): State<Shared>,
    Path(RoomPath { room: name }): Path<RoomPath>,
    Json(request): Json<JoinRequest>,
) -> Result<Json<JoinResponse>, Problem> {
    let joined = app.fairlane.room(&name).join_class(&request.user, request.class).await?;
    let place = app.place_view(&name, joined.status);
    Ok(Json(JoinResponse { token: joined.token.to_string(), place }))
}

/// Shows a place
///
/// Without a sign of life. Let a user pass only if the state is `active`.
#[utoipa::path(
    get,
    path = "/api/rooms/{room}/places/{token}",
    tag = "rooms",
    params(PlacePath),
    responses((status = 200, description = "The place", body = PlaceView)),
)]
async fn show_place(
    State(app): State<Shared>,
    Path(PlacePath { room, token }): Path<PlacePath>,
) -> Result<Json<PlaceView>, Problem> {
    let status = app.fairlane.room(&room).show(&token).await?;
    Ok(Json(app.place_view(&room, status)))
}

/// Polls a place
///
/// The sign of life of a waiter. Poll again after `next_poll_ms`; a waiter that does not loses its
/// place after the room's retention. For an active place it issues a new pass.
#[utoipa::path(
    post,
    path = "/api/rooms/{room}/places/{token}/keep",
    tag = "rooms",
    params(PlacePath),
    responses((status = 200, description = "The place", body = PlaceView)),
)]
async fn keep(
    State(app): State<Shared>,
    Path(PlacePath { room, token }): Path<PlacePath>,
) -> Result<Json<PlaceView>, Problem> {
    let status = app.fairlane.room(&room).keep(&token).await?;
    Ok(Json(app.place_view(&room, status)))
}

/// Gives up a place
///
/// Waiting or active. A free place goes to the next waiter in the same step.
#[utoipa::path(
    delete,
    path = "/api/rooms/{room}/places/{token}",
    tag = "rooms",
    params(PlacePath),
    responses((status = 204, description = "The place is given up")),
)]
async fn leave(
    State(app): State<Shared>,
    Path(PlacePath { room, token }): Path<PlacePath>,
) -> Result<StatusCode, Problem> {
    app.fairlane.room(&room).leave(&token).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A user whose place is taken away.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RevokeRequest)]
struct RevokeRequest {
    /// The user.
    #[schema(min_length = 1, max_length = 128)]
    user: String,
}

/// Takes a user's place away
///
/// For operators. The user may join again, behind all others.
#[utoipa::path(
    post,
    path = "/api/rooms/{room}/revoke",
    tag = "rooms",
    params(RoomPath),
    request_body = RevokeRequest,
    responses((status = 204, description = "The place is taken away")),
)]
async fn revoke(
    State(app): State<Shared>,
    Path(RoomPath { room: name }): Path<RoomPath>,
    Json(request): Json<RevokeRequest>,
) -> Result<StatusCode, Problem> {
    app.fairlane.room(&name).revoke(&request.user).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A pause.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RoomPause)]
struct PauseRequest {
    /// The reason, which waiters see.
    #[serde(default)]
    #[schema(max_length = 500)]
    reason: String,
}

/// Pauses a waiting room
///
/// It admits no waiters until it is resumed. Users still join, and active places stay.
#[utoipa::path(
    post,
    path = "/api/rooms/{room}/pause",
    tag = "rooms",
    params(RoomPath),
    request_body = PauseRequest,
    responses((status = 200, description = "The room", body = RoomView)),
)]
async fn pause(
    State(app): State<Shared>,
    Path(RoomPath { room: name }): Path<RoomPath>,
    Json(request): Json<PauseRequest>,
) -> Result<Json<RoomView>, Problem> {
    let room = app.fairlane.room(&name);
    room.pause(&request.reason).await?;
    view(&room, &name).await
}

/// Resumes a paused waiting room
///
/// Waiters are admitted at once.
#[utoipa::path(
    post,
    path = "/api/rooms/{room}/resume",
    tag = "rooms",
    params(RoomPath),
    responses((status = 200, description = "The room", body = RoomView)),
)]
async fn resume(
    State(app): State<Shared>,
    Path(RoomPath { room: name }): Path<RoomPath>,
) -> Result<Json<RoomView>, Problem> {
    let room = app.fairlane.room(&name);
    room.resume().await?;
    view(&room, &name).await
}

/// Opens a waiting room
///
/// Users join and are admitted. A pre-queue is opened by `fairlane room open`, which also publishes
/// the list of tickets.
#[utoipa::path(
    post,
    path = "/api/rooms/{room}/open",
    tag = "rooms",
    params(RoomPath),
    responses((status = 200, description = "The room", body = RoomView)),
)]
async fn open(
    State(app): State<Shared>,
    Path(RoomPath { room: name }): Path<RoomPath>,
) -> Result<Json<RoomView>, Problem> {
    let room = app.fairlane.room(&name);
    room.open().await?;
    view(&room, &name).await
}

/// Closes a waiting room
///
/// No user joins any more; those who wait are admitted.
#[utoipa::path(
    post,
    path = "/api/rooms/{room}/close",
    tag = "rooms",
    params(RoomPath),
    responses((status = 200, description = "The room", body = RoomView)),
)]
async fn close(
    State(app): State<Shared>,
    Path(RoomPath { room: name }): Path<RoomPath>,
) -> Result<Json<RoomView>, Problem> {
    let room = app.fairlane.room(&name);
    room.close().await?;
    view(&room, &name).await
}

/// Begins a pre-queue
///
/// Users draw tickets until the room opens, and the commitment to the seed is published in `draw`.
/// Refused (409) if the room has waiters.
#[utoipa::path(
    post,
    path = "/api/rooms/{room}/prequeue",
    tag = "rooms",
    params(RoomPath),
    responses((status = 200, description = "The room", body = RoomView)),
)]
async fn begin_prequeue(
    State(app): State<Shared>,
    Path(RoomPath { room: name }): Path<RoomPath>,
) -> Result<Json<RoomView>, Problem> {
    let room = app.fairlane.room(&name);
    room.begin_prequeue().await?;
    view(&room, &name).await
}

/// Responses of the back end behind a room.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RoomReport, example = json!({"answered": 120, "refused": true, "retry_after_ms": 2000}))]
struct ReportRequest {
    /// Responses that were not refusals.
    #[serde(default)]
    #[schema(maximum = 1_000_000)]
    answered: u64,
    /// Whether the back end refused a request.
    #[serde(default)]
    refused: bool,
    /// The time to retry that came with a refusal, in milliseconds; longer ones count as a minute.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 9007199254740991_u64)]
    retry_after_ms: u64,
}

/// The effect of a report.
#[derive(Serialize, ToSchema)]
#[schema(as = RoomReported)]
struct ReportResponse {
    /// The admission rate in thousandths per second; absent if it is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_milli: Option<u64>,
    /// Active places.
    active: u64,
}

/// Reports responses of the back end
///
/// A refusal lowers the admission rate, which then grows back.
#[utoipa::path(
    post,
    path = "/api/rooms/{room}/report",
    tag = "rooms",
    params(RoomPath),
    request_body = ReportRequest,
    responses((status = 200, description = "The rate in effect", body = ReportResponse)),
)]
async fn report(
    State(app): State<Shared>,
    Path(RoomPath { room: name }): Path<RoomPath>,
    Json(request): Json<ReportRequest>,
) -> Result<Json<ReportResponse>, Problem> {
    let retry_after_ms = within("retry_after_ms", request.retry_after_ms, 0, INTEGER_MAX - 1)?;
    let retry_after = Duration::from_millis(retry_after_ms.min(RETRY_AFTER_MS_MAX));
    let reported = app.fairlane.room(&name).report(request.answered, request.refused, retry_after).await?;
    Ok(Json(ReportResponse { rate_milli: reported.rate_milli, active: reported.active }))
}

/// A user who passes without a place.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BypassRequest, example = json!({"user": "operator", "ttl_ms": 3600000}))]
struct BypassRequest {
    /// The user.
    #[schema(min_length = 1, max_length = 128)]
    user: String,
    /// How many milliseconds the pass lasts.
    #[schema(minimum = 1000, maximum = 86_400_000)]
    ttl_ms: u64,
}

/// A pass.
#[derive(Serialize, ToSchema)]
#[schema(as = Pass)]
struct PassResponse {
    /// The pass, a JWT.
    pass: String,
    /// When it expires, in seconds since 1970.
    pass_expires_at: u64,
}

/// Issues a pass without a place
///
/// For operators and tests. The pass says so in its claim `bypass`, takes no place, and cannot be
/// revoked other than with its key.
#[utoipa::path(
    post,
    path = "/api/rooms/{room}/bypass",
    tag = "rooms",
    params(RoomPath),
    request_body = BypassRequest,
    responses((status = 200, description = "The pass", body = PassResponse)),
)]
async fn bypass(
    State(app): State<Shared>,
    Path(RoomPath { room }): Path<RoomPath>,
    Json(request): Json<BypassRequest>,
) -> Result<Json<PassResponse>, Problem> {
    let ttl_ms = within("ttl_ms", request.ttl_ms, ROOM_TTL_MS_MIN, ROOM_TTL_MS_MAX)?;
    let passes = app.passes.as_ref().ok_or_else(passes::no_keys)?;
    let ttl = Duration::from_millis(ttl_ms);
    let pass = passes.keys().issue_bypass(&room, &UserId::new(&request.user)?, passes::now_secs(), ttl);
    Ok(Json(PassResponse { pass: pass.jwt, pass_expires_at: pass.expires_at }))
}
