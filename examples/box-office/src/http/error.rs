//! Errors as JSON: a code for programs, a message, and what to do about it.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use fairlane::RoomError;
use serde::Serialize;

use crate::boards::BoardsError;
use crate::shop::ShopError;
use crate::store::{SaleError, StoreError};

/// An error response.
#[derive(Debug, Serialize)]
pub struct ApiError {
    #[serde(skip)]
    status: StatusCode,
    code: &'static str,
    message: String,
    cure: String,
}

impl ApiError {
    fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self { status, code, message: message.into(), cure: cure.into() }
    }

    pub fn unknown_route() -> Self {
        let cure = "See the README of the box office for all paths.";
        Self::new(StatusCode::NOT_FOUND, "unknown-path", "There is nothing at this path.", cure)
    }

    pub fn wrong_method() -> Self {
        let message = "This path does not take this method.";
        let cure = "See the README of the box office for the methods of each path.";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "wrong-method", message, cure)
    }

    pub fn invalid(message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-request", message, cure)
    }

    pub fn not_found(message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", message, cure)
    }

    pub fn unauthorized(message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message, cure)
    }

    fn conflict(code: &'static str, message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message, cure)
    }

    fn unavailable(code: &'static str, message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message, cure)
    }

    /// Details of a failure go to the log, not to the client.
    fn internal(error: &StoreError) -> Self {
        tracing::error!("{error}");
        Self::unavailable("database", "The shop cannot reach its database.", "Try again in a moment.")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::internal(&error)
    }
}

impl From<SaleError> for ApiError {
    fn from(error: SaleError) -> Self {
        let choose = "Choose another seat.";
        let hold_again = "Hold the seat again.";
        let message = sentence(&error);
        match error {
            SaleError::UnknownSeat { .. } => {
                Self::not_found(message, "Use a schedule of GET /api/concerts and a seat of its plan.")
            }
            SaleError::Taken | SaleError::StaleFence => Self::conflict("seat-taken", message, choose),
            SaleError::TooManySeats => {
                Self::conflict("too-many-seats", message, "Cancel one of your seats, or choose another date.")
            }
            SaleError::UnknownReservation => Self::not_found(message, hold_again),
            SaleError::HoldEnded => Self::conflict("hold-ended", message, hold_again),
            SaleError::Cancelled => Self::conflict("cancelled", message, hold_again),
            SaleError::Paying => {
                Self::conflict("payment-under-way", message, "Ask for the reservation in a few seconds.")
            }
            SaleError::Store(error) => Self::internal(&error),
        }
    }
}

impl From<ShopError> for ApiError {
    fn from(error: ShopError) -> Self {
        let message = sentence(&error);
        match error {
            ShopError::Sale(error) => error.into(),
            ShopError::SeatBusy => {
                Self::conflict("seat-busy", message, "Choose another seat, or try again in a few seconds.")
            }
            ShopError::TooFewPoints => Self::new(
                StatusCode::PAYMENT_REQUIRED,
                "too-few-points",
                message,
                "Add points, then pay again.",
            ),
            ShopError::PaymentFailed => {
                Self::conflict("payment-failed", message, "Pay again while the hold lasts.")
            }
            ShopError::Provider(_) => {
                Self::unavailable("payment-provider", message, "Ask for the reservation in a few seconds.")
            }
            ShopError::Room(RoomError::Refused(_)) => {
                Self::unavailable("room-closed", message, "Come back when the sale is open.")
            }
            ShopError::Room(_) => Self::conflict("room", message, "Join the waiting room again."),
            ShopError::Name(_) => Self::invalid(message, "Use letters, digits, - and _."),
            ShopError::Engine(reason) => {
                tracing::warn!("{reason}");
                let cure = "Try again in a moment. A seat that you hold can be paid all the same.";
                Self::unavailable("waiting-room", "The waiting room does not answer.", cure)
            }
        }
    }
}

impl From<BoardsError> for ApiError {
    fn from(error: BoardsError) -> Self {
        match error {
            BoardsError::Store(error) => Self::internal(&error),
            error => {
                tracing::warn!("{error}");
                Self::unavailable("rankings", "The rankings do not answer.", "Try again in a moment.")
            }
        }
    }
}

/// A message as a sentence.
fn sentence(error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
