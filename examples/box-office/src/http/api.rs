//! Purchases and boards.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::App;
use super::error::ApiError;
use crate::boards::{BoardsError, Ranking};
use crate::identity::QueueToken;
use crate::now_ms;
use crate::shop::{HeldSeat, Payment, QueueStatus};
use crate::store::{Released, ReservationView};

/// The longest name of a user, in bytes.
const USER_BYTES_MAX: usize = 64;
/// Entries of a board without a limit in the request.
const BOARD_LIMIT: usize = 10;
/// Most entries of a board.
const BOARD_LIMIT_MAX: usize = 100;
/// How long the boards may take to answer.
const BOARDS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);

type Body = Result<Bytes, BytesRejection>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Join {
    user_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Reserve {
    schedule_id: String,
    seat: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    limit: Option<usize>,
}

#[derive(Serialize)]
pub struct Rankings {
    rankings: Vec<Ranking>,
}

pub async fn join(State(app): State<App>, body: Body) -> Result<(StatusCode, Json<QueueStatus>), ApiError> {
    let Join { user_id } = parse(body, r#"{"userId": "ada"}"#)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if user_id.is_empty() || user_id.len() > USER_BYTES_MAX || !user_id.bytes().all(is_plain) {
        let cure = format!("Use 1 to {USER_BYTES_MAX} letters, digits, - and _.");
        return Err(ApiError::invalid("The userId is not valid.", cure));
    }
    Ok((StatusCode::CREATED, Json(app.shop.join(&user_id).await?)))
}

pub async fn status(State(app): State<App>, headers: HeaderMap) -> Result<Json<QueueStatus>, ApiError> {
    Ok(Json(app.shop.poll(queue_token(&app, &headers)?).await?))
}

pub async fn leave(State(app): State<App>, headers: HeaderMap) -> Result<StatusCode, ApiError> {
    app.shop.leave(queue_token(&app, &headers)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn concerts(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    Ok(Json(json!({"concerts": app.shop.store.concerts(now_ms()).await?})))
}

pub async fn seats(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    let seats = app.shop.store.seats(id.clone(), now_ms()).await?;
    if seats.is_empty() {
        let cure = "Use the id of a schedule of GET /api/concerts.";
        return Err(ApiError::not_found("There is no such schedule.", cure));
    }
    Ok(Json(json!({"scheduleId": id, "seats": seats})))
}

pub async fn reserve(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<HeldSeat>), ApiError> {
    let user = app.shop.identity.user_of_pass(bearer(&headers)?).map_err(bad_pass)?;
    let wanted: Reserve = parse(body, r#"{"scheduleId": "schedule-001", "seat": 7}"#)?;
    let held = app.shop.hold(wanted.schedule_id, wanted.seat, user).await?;
    Ok((StatusCode::CREATED, Json(held)))
}

pub async fn reservation(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<ReservationView>, ApiError> {
    let user = buyer(&app, &id, &headers)?;
    let view = app.shop.store.reservation(id, user, now_ms()).await?;
    Ok(Json(view.ok_or(crate::store::SaleError::UnknownReservation)?))
}

pub async fn pay(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let user = buyer(&app, &id, &headers)?;
    let (shop, reservation) = (app.shop.clone(), id.clone());
    // A client that hangs up does not stop its payment half way.
    let paying = tokio::spawn(async move { shop.pay(reservation, user).await });
    let payment = paying.await.unwrap_or(Ok(Payment::Pending))?;
    Ok(match payment {
        Payment::Confirmed => (StatusCode::OK, Json(json!({"reservationId": id, "status": "CONFIRMED"}))),
        Payment::Pending => (StatusCode::ACCEPTED, Json(json!({"reservationId": id, "status": "PAYING"}))),
    })
}

pub async fn cancel(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, ApiError> {
    let user = buyer(&app, &id, &headers)?;
    let released = app.shop.cancel(id.clone(), user).await?;
    let refunded = released == Released::Confirmed;
    Ok(Json(json!({"reservationId": id, "status": "CANCELLED", "refunded": refunded})))
}

pub async fn sold_out(
    State(app): State<App>,
    limit: Result<Query<Limit>, QueryRejection>,
) -> Result<Json<Rankings>, ApiError> {
    Ok(Json(rankings(app.boards.sold_out(entries(limit)?)).await?))
}

pub async fn popular(
    State(app): State<App>,
    limit: Result<Query<Limit>, QueryRejection>,
) -> Result<Json<Rankings>, ApiError> {
    Ok(Json(rankings(app.boards.popular(entries(limit)?)).await?))
}

async fn rankings(
    board: impl Future<Output = Result<Vec<Ranking>, BoardsError>>,
) -> Result<Rankings, ApiError> {
    let rankings = timeout(BOARDS_TIMEOUT, board).await.unwrap_or(Err(BoardsError::Timeout))?;
    Ok(Rankings { rankings })
}

fn entries(limit: Result<Query<Limit>, QueryRejection>) -> Result<usize, ApiError> {
    let cure = format!("Use a limit from 1 to {BOARD_LIMIT_MAX}, or none.");
    let limit = limit.map(|Query(limit)| limit.limit.unwrap_or(BOARD_LIMIT)).ok();
    let limit = limit.filter(|limit| (1..=BOARD_LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| ApiError::invalid("The limit is not valid.", cure))
}

fn parse<T: DeserializeOwned>(body: Body, example: &str) -> Result<T, ApiError> {
    let cure = format!("Send JSON such as {example}.");
    let body = body.map_err(|error| ApiError::invalid(error.body_text(), cure.clone()))?;
    serde_json::from_slice(&body)
        .map_err(|error| ApiError::invalid(format!("The body is not valid: {error}."), cure))
}

fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    value.and_then(|value| value.strip_prefix("Bearer ")).ok_or_else(|| {
        let cure = "Send Authorization: Bearer with the token of POST /api/queue/token or its pass.";
        ApiError::unauthorized("The request has no token.", cure)
    })
}

fn queue_token(app: &App, headers: &HeaderMap) -> Result<QueueToken, ApiError> {
    app.shop.identity.read_queue_token(bearer(headers)?).ok_or_else(|| {
        let cure = "Get one with POST /api/queue/token.";
        ApiError::unauthorized("The queue token is not one of this shop.", cure)
    })
}

/// The user of a reservation: by its payment token, or by a pass.
fn buyer(app: &App, reservation: &str, headers: &HeaderMap) -> Result<String, ApiError> {
    let bearer = bearer(headers)?;
    match app.shop.identity.user_of_payment_token(reservation, bearer) {
        Some(user) => Ok(user),
        None => app.shop.identity.user_of_pass(bearer).map_err(bad_pass),
    }
}

fn bad_pass(error: fairlane::PassError) -> ApiError {
    let cure = "Get a pass with GET /api/queue/status when your place is active.";
    ApiError::unauthorized(format!("A pass is needed: {error}."), cure)
}
