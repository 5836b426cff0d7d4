//! The HTTP side of the service.
//!
//! - `api/submission.rs`: reads and checks uploads. `api/jobs.rs`: state, cancellation and events.
//! - `api/error.rs`: errors, which say what to do.
//!
//! Invariant: a job is accepted without the queue, and once. The queue may be down; the same
//! `Idempotency-Key` is the same job.

mod error;
mod jobs;
mod submission;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Multipart, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use fairlane_postgres::Outbox;
use fairlane_targets::AddressRule;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::files::Files;
use crate::role::Queue;
use crate::services::Catalogue;
use crate::store::{self, Inserted};
use error::ApiError;
pub use submission::{FILE_BYTES_MAX, FILES_MAX};

/// How long a client may take to send a job.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Uploads at a time; each has one file open and little in memory.
const UPLOADS_MAX: usize = 64;
/// Streams of events at a time.
const STREAMS_MAX: usize = 1000;

static UPLOADS: Semaphore = Semaphore::const_new(UPLOADS_MAX);
static STREAMS: Semaphore = Semaphore::const_new(STREAMS_MAX);

/// What every handler has.
#[derive(Clone)]
pub struct App {
    /// The database.
    pub outbox: Outbox,
    /// The queue.
    pub queue: Arc<Queue>,
    /// Uploaded files.
    pub files: Files,
    /// The services on offer.
    pub catalogue: Arc<Catalogue>,
    /// The addresses that callbacks may go to.
    pub addresses: AddressRule,
}

/// All routes.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/jobs/file", post(submit).layer(DefaultBodyLimit::max(submission::BODY_BYTES_MAX)))
        .route("/jobs/{id}", get(jobs::show))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/jobs/{id}/events", get(jobs::events))
        .route("/health", get(health))
        .fallback(async || ApiError::unknown_route())
        .method_not_allowed_fallback(async || ApiError::wrong_method())
        .layer(axum::middleware::map_response(with_headers))
        .with_state(app)
}

async fn with_headers(mut response: Response) -> Response {
    let is_unavailable = response.status() == StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if is_unavailable {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Accepts a job: checks it, stores its files, and commits its row with its entry in the outbox.
async fn submit(
    State(app): State<App>,
    headers: HeaderMap,
    form: Result<Multipart, axum::extract::multipart::MultipartRejection>,
) -> Result<Response, ApiError> {
    let _permit = UPLOADS.try_acquire().map_err(|_| ApiError::busy("uploads"))?;
    let form = form.map_err(|error| ApiError::bad_form(&error.body_text()))?;
    let reading = submission::read(&app, &headers, form);
    let new = tokio::time::timeout(UPLOAD_TIMEOUT, reading).await.map_err(|_| ApiError::slow_upload())??;
    let (id, is_new) = match store::insert(&app.outbox, new).await? {
        Inserted::Created(id) => (id, true),
        Inserted::Existing(id) => (id, false),
        Inserted::Differs(id) => return Err(ApiError::key_reused(id)),
    };
    let mut response = Json(json!({ "job_id": id, "status": "queued" })).into_response();
    if !is_new {
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Whether the API can accept jobs.
async fn health(State(app): State<App>) -> Result<Json<serde_json::Value>, ApiError> {
    app.outbox.status().await?;
    Ok(Json(json!({ "status": "ok" })))
}
