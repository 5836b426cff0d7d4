//! The HTTP side of the shop.
//!
//! - `http/api.rs`: purchases and boards. `http/events.rs`: server-sent events.
//! - `http/error.rs`: errors, which say what to do. `http/page.rs`: the page.

mod api;
mod error;
mod events;
mod page;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{delete, get, post};

use crate::boards::Boards;
use crate::live::Live;
use crate::shop::Shop;
use error::ApiError;

/// The largest request body, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Nothing from elsewhere, nothing inline, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What every handler has.
#[derive(Clone)]
pub struct App {
    /// The shop.
    pub shop: Arc<Shop>,
    /// The boards.
    pub boards: Boards,
    /// Where pages listen.
    pub live: Live,
}

/// All routes.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/style.css", get(page::style))
        .route("/app.js", get(page::script))
        .route("/api/queue/token", post(api::join).delete(api::leave))
        .route("/api/queue/status", get(api::status))
        .route("/api/concerts", get(api::concerts))
        .route("/api/schedules/{id}/seats", get(api::seats))
        .route("/api/reservations", post(api::reserve))
        .route("/api/reservations/{id}", delete(api::cancel).get(api::reservation))
        .route("/api/reservations/{id}/pay", post(api::pay))
        .route("/api/rankings/sold-out", get(api::sold_out))
        .route("/api/rankings/popular", get(api::popular))
        .route("/api/events", get(events::events))
        .fallback(async || ApiError::unknown_route())
        .method_not_allowed_fallback(async || ApiError::wrong_method())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::map_response(with_headers))
        .with_state(app)
}

async fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 4] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
