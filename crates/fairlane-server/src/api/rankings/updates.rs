//! Changes the scores of a board: events, cancellations and values.

use axum::extract::State;
use fairlane::views::{BoardOutcomeView, MemberRankView, schema};
use fairlane::{BoardOutcome, EventCancellation, EventId, EventTime, MemberId, NewEvent, NewScore, Standing};
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{AnyOfBuilder, KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{IntoParams, ToSchema};

use super::BoardPath;
use crate::api::jobs::AtMost;
use crate::app::Shared;
use crate::extract::{Json, Object, Path, Query};
use crate::problem::{Problem, ProblemKind};

/// Most events, cancellations or values in one request.
const UPDATES_MAX: usize = 1000;

/// The schema of the time of an event.
pub(super) fn times() -> Schema {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    let ms = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1_000_000_000_000_u64))
        .maximum(Some(4_294_967_294_000_u64));
    let either = AnyOfBuilder::new()
        .item(text)
        .item(ms)
        .description(Some(
            "When it happened, not when it is processed: a time such as 2026-11-17T09:30:00Z, or milliseconds since 1970.",
        ))
        .build();
    Schema::AnyOf(either)
}

/// An event.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvent, example = json!({"id": "reservation-1", "member": "concert-7", "at": "2026-11-17T09:30:00Z"}))]
pub(super) struct EventBody {
    /// The id, under which the event counts once.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    id: EventId,
    /// The member that it counts for.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    member: MemberId,
    /// What it adds to the score on a board by sum; 1 by default, and on a board that counts.
    #[serde(default = "one")]
    #[schema(minimum = -1_125_899_906_842_624_i64, maximum = 1_125_899_906_842_624_i64, default = 1)]
    delta: i64,
    #[schema(schema_with = times)]
    at: EventTime,
}

const fn one() -> i64 {
    1
}

impl From<EventBody> for NewEvent {
    fn from(body: EventBody) -> Self {
        Self { id: body.id, member: body.member, delta: body.delta, at_ms: body.at.ms }
    }
}

/// What the response has besides the outcome.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RecordQuery {
    /// Whether to respond with the rank of the member afterwards.
    #[serde(default)]
    rank: bool,
}

/// The result of an event.
#[derive(Serialize, ToSchema)]
#[schema(as = EventRecorded)]
pub(super) struct RecordResponse {
    /// `applied`; `late` for a sealed window or a closed season; `repeated` if the id is known.
    #[schema(schema_with = schema::board_outcomes)]
    outcome: &'static str,
    /// The rank of the member in the current season, if it was asked for and the member is in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<MemberRankView>,
}

/// Records an event
///
/// On a board by count or sum. It counts once under its id, so a lost response is no problem: send
/// the request again. An event that is older than the board's horizon is refused (409).
#[utoipa::path(
    post,
    path = "/api/rankings/{board}/events",
    tag = "rankings",
    params(BoardPath, RecordQuery),
    request_body = EventBody,
    responses((status = 200, description = "The outcome", body = RecordResponse)),
)]
pub(super) async fn record(
    State(app): State<Shared>,
    Path(BoardPath { board }): Path<BoardPath>,
    Query(query): Query<RecordQuery>,
    Json(event): Json<EventBody>,
) -> Result<Json<RecordResponse>, Problem> {
    let (ranking, member) = (app.fairlane.ranking(&board), event.member.to_string());
    let outcome = ranking.record_event(event.into()).await?.as_str();
    let rank = match query.rank {
        true => ranking.rank(Standing::All, &member).await?.map(MemberRankView::from),
        false => None,
    };
    Ok(Json(RecordResponse { outcome, rank }))
}

/// Events of one board.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvents)]
pub(super) struct EventsBody {
    /// The events.
    #[schema(value_type = Vec<EventBody>, min_items = 1, max_items = 1000)]
    events: AtMost<UPDATES_MAX, Object<EventBody>>,
}

/// The results of a batch.
#[derive(Serialize, ToSchema)]
#[schema(as = BoardUpdated)]
pub(super) struct UpdateResponse {
    /// The outcome of each, in the order of the request.
    outcomes: Vec<BoardOutcomeView>,
    /// How many of them were refused.
    refused: usize,
}

impl UpdateResponse {
    fn new(ids: impl Iterator<Item = String>, outcomes: &[BoardOutcome]) -> Self {
        let refused = outcomes.iter().filter(|outcome| !outcome.is_taken()).count();
        let outcomes = ids.zip(outcomes).map(|(id, outcome)| BoardOutcomeView::new(id, *outcome)).collect();
        Self { outcomes, refused }
    }
}

/// The items of a batch, which has at least one.
fn filled<T>(items: Vec<T>, field: &str) -> Result<Vec<T>, Problem> {
    if items.is_empty() {
        return Err(ProblemKind::Invalid
            .because(format!("the list of {field} is empty"))
            .at(format!("/{field}")));
    }
    Ok(items)
}

/// Records up to 1,000 events
///
/// The status is 200 even if the board refused some of them: check `refused`. Repeating the request
/// is safe.
#[utoipa::path(
    post,
    path = "/api/rankings/{board}/events/batch",
    tag = "rankings",
    params(BoardPath),
    request_body = EventsBody,
    responses((status = 200, description = "The outcomes", body = UpdateResponse)),
)]
pub(super) async fn record_batch(
    State(app): State<Shared>,
    Path(BoardPath { board }): Path<BoardPath>,
    Json(body): Json<EventsBody>,
) -> Result<Json<UpdateResponse>, Problem> {
    let events = filled(body.events.0, "events")?;
    let events: Vec<NewEvent> = events.into_iter().map(|event| event.0.into()).collect();
    let outcomes = app.fairlane.ranking(&board).record_all(events.clone()).await?;
    Ok(Json(UpdateResponse::new(events.iter().map(|event| event.id.to_string()), &outcomes)))
}

/// The cancellation of an event.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EventCancellation)]
pub(super) struct CancellationBody {
    /// The id of the event.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    id: EventId,
    #[schema(schema_with = times)]
    at: EventTime,
}

/// Cancellations of events of one board.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = EventCancellations, example = json!({"events": [{"id": "reservation-1", "at": "2026-11-17T09:30:00Z"}]}))]
pub(super) struct CancellationsBody {
    /// The events, each with its own time.
    #[schema(value_type = Vec<CancellationBody>, min_items = 1, max_items = 1000)]
    events: AtMost<UPDATES_MAX, Object<CancellationBody>>,
}

/// Cancels up to 1,000 events
///
/// A cancellation may arrive before its event (`pending`), which then counts for nothing. The time is
/// that of the event: it decides whether the board still remembers it. Repeating the request is safe.
#[utoipa::path(
    post,
    path = "/api/rankings/{board}/events/cancel",
    tag = "rankings",
    params(BoardPath),
    request_body = CancellationsBody,
    responses((status = 200, description = "The outcomes", body = UpdateResponse)),
)]
pub(super) async fn cancel(
    State(app): State<Shared>,
    Path(BoardPath { board }): Path<BoardPath>,
    Json(body): Json<CancellationsBody>,
) -> Result<Json<UpdateResponse>, Problem> {
    let cancellation =
        |Object(body): Object<CancellationBody>| EventCancellation { id: body.id, at_ms: body.at.ms };
    let events: Vec<_> = filled(body.events.0, "events")?.into_iter().map(cancellation).collect();
    let outcomes = app.fairlane.ranking(&board).cancel_all(events.clone()).await?;
    Ok(Json(UpdateResponse::new(events.iter().map(|event| event.id.to_string()), &outcomes)))
}

/// A value of a member.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewScore)]
pub(super) struct ScoreBody {
    /// The member.
    #[schema(value_type = String, min_length = 1, max_length = 128)]
    member: MemberId,
    /// The value in units of the board's last decimal place: 30.5 is 305 with one decimal place.
    #[schema(minimum = -1_125_899_906_842_624_i64, maximum = 1_125_899_906_842_624_i64)]
    value: i64,
    /// The version, of which the highest counts on a board by the latest value; 0 by default.
    #[serde(default)]
    #[schema(maximum = 9007199254740991_u64)]
    version: u64,
    #[schema(schema_with = times)]
    at: EventTime,
}

/// Values of members of one board.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewScores, example = json!({"scores": [{"member": "schedule-001", "value": 30500, "version": 1, "at": "2026-11-17T09:30:00Z"}]}))]
pub(super) struct ScoresBody {
    /// The values.
    #[schema(value_type = Vec<ScoreBody>, min_items = 1, max_items = 1000)]
    scores: AtMost<UPDATES_MAX, Object<ScoreBody>>,
}

/// Sets up to 1,000 values
///
/// On a board by maximum (the best value counts) or by the latest value (the highest version counts).
/// Values may arrive in any order and repeatedly.
#[utoipa::path(
    post,
    path = "/api/rankings/{board}/scores",
    tag = "rankings",
    params(BoardPath),
    request_body = ScoresBody,
    responses((status = 200, description = "The outcomes", body = UpdateResponse)),
)]
pub(super) async fn set_scores(
    State(app): State<Shared>,
    Path(BoardPath { board }): Path<BoardPath>,
    Json(body): Json<ScoresBody>,
) -> Result<Json<UpdateResponse>, Problem> {
    let score = |Object(body): Object<ScoreBody>| NewScore {
        member: body.member,
        value: body.value,
        version: body.version,
        at_ms: body.at.ms,
    };
    let scores: Vec<NewScore> = filled(body.scores.0, "scores")?.into_iter().map(score).collect();
    let outcomes = app.fairlane.ranking(&board).set_all(scores.clone()).await?;
    Ok(Json(UpdateResponse::new(scores.iter().map(|score| score.member.to_string()), &outcomes)))
}
