//! Errors as JSON: a code for programs, a message, and what to do about it.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::services::Invalid;

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
        let cure = "See the README of the service for all paths.";
        Self::new(StatusCode::NOT_FOUND, "unknown-path", "There is nothing at this path.", cure)
    }

    pub fn wrong_method() -> Self {
        let (message, cure) =
            ("This path does not take this method.", "See the README of the service for the methods.");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "wrong-method", message, cure)
    }

    pub fn invalid(message: impl Into<String>, cure: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-request", message, cure)
    }

    pub fn bad_form(reason: &str) -> Self {
        let cure = "Send multipart/form-data: curl -F service_type=multi-style -F image=@picture.png.";
        Self::invalid(format!("The form cannot be read: {}.", reason.trim_end_matches('.')), cure)
    }

    pub fn too_large(what: &str, bytes_max: usize) -> Self {
        let message = format!("{what} has more than {bytes_max} bytes.");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", message, "Send less, or a smaller picture.")
    }

    pub fn slow_upload() -> Self {
        let message = "The form did not arrive in time.";
        Self::new(StatusCode::REQUEST_TIMEOUT, "too-slow", message, "Send it again, or a smaller picture.")
    }

    pub fn key_reused(id: i64) -> Self {
        let message = format!("The Idempotency-Key belongs to job {id}, which is another one.");
        let cure = "Use a new key for each job, and the same key only to repeat a request.";
        Self::new(StatusCode::CONFLICT, "key-reused", message, cure)
    }

    pub fn no_job(id: i64) -> Self {
        let cure = "Use the job_id that POST /jobs/file returned.";
        Self::new(StatusCode::NOT_FOUND, "no-job", format!("There is no job {id}."), cure)
    }

    pub fn busy(what: &str) -> Self {
        let message = format!("There are too many {what} at the moment.");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message, "Try again in a second.")
    }

    pub fn not_yet_queued() -> Self {
        let message = "The job is accepted, and not yet in the queue.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-yet-queued", message, "Try again in a second.")
    }

    /// Details of a failure go to the log, not to the client.
    pub fn queue(error: &fairlane::Error) -> Self {
        tracing::warn!("{error}");
        let message = "The queue does not answer.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "queue", message, "Try again in a second.")
    }

    pub fn files(error: &std::io::Error) -> Self {
        tracing::error!("an upload cannot be stored: {error}");
        let message = "The file cannot be stored.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "files", message, "Try again in a second.")
    }
}

impl From<Invalid> for ApiError {
    fn from(Invalid { message, cure }: Invalid) -> Self {
        Self::invalid(message, cure)
    }
}

impl From<fairlane_postgres::Error> for ApiError {
    fn from(error: fairlane_postgres::Error) -> Self {
        tracing::error!("{error}");
        let cure = "Send the request again in a second, with the same Idempotency-Key.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "database", "The database does not answer.", cure)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}
