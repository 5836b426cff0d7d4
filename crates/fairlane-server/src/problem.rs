//! Error responses: problem documents (RFC 9457) with stable types.
//!
//! Invariant: a `type` never changes its meaning; `detail` is for people and says what to do.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fairlane::{Error, LockError, LockRefusal, RankingError, RoomError};
use fairlane_core::kernel::Invalid;
use fairlane_core::queue::Refusal;
use fairlane_core::{InvalidName, OutOfRange};
use fairlane_engine::EngineError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::guard::set_security_headers;

/// The prefix of every problem type.
const TYPE_PREFIX: &str = "urn:fairlane:problem:";
/// The detail for a client whose command the store refuses.
pub(crate) const STORE_REFUSES: &str = "the store behind the server refuses writes at the moment, because it is out of space or lacks a permission; the \
     server's log says why; try again later";
/// The content type of a problem document.
pub const CONTENT_TYPE: &str = "application/problem+json";

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $slug:literal, $status:ident, $title:literal;)*) => {
        /// Kinds of problems; `docs/http.md` lists them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ProblemKind { $($(#[$doc])* $kind,)* }

        impl ProblemKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The last part of the problem type.
            pub const fn slug(self) -> &'static str {
                match self { $(Self::$kind => $slug),* }
            }

            /// The HTTP status of the response.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status),* }
            }

            /// The title, the same for every problem of the kind.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$kind => $title),* }
            }
        }
    };
}

kinds! {
    /// The request cannot be parsed.
    Malformed = "malformed", BAD_REQUEST, "Malformed request";
    /// The request can be parsed, and an argument is invalid.
    Invalid = "invalid", UNPROCESSABLE_ENTITY, "Invalid request";
    /// The request has no valid key.
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "Authentication required";
    /// The key does not grant the permission.
    Forbidden = "forbidden", FORBIDDEN, "Forbidden";
    /// The job, bulk action, group, type or path does not exist.
    NotFound = "not-found", NOT_FOUND, "Not found";
    /// The path exists and does not support the method.
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED, "Method not allowed";
    /// The body did not arrive in time.
    TooSlow = "too-slow", REQUEST_TIMEOUT, "Request timeout";
    /// The current state does not allow the request.
    Conflict = "conflict", CONFLICT, "Conflict";
    /// Another job has this id.
    JobDiffers = "job-differs", CONFLICT, "Another job has this id";
    /// The idempotency key was used for another request.
    KeyReused = "idempotency-key-reused", CONFLICT, "Idempotency key reused";
    /// The worker has sent a request with a larger number.
    Superseded = "superseded", CONFLICT, "Superseded by a newer request";
    /// The request has too many bytes.
    TooLarge = "too-large", PAYLOAD_TOO_LARGE, "Request too large";
    /// The body has another content type or encoding than the route accepts.
    UnsupportedType = "unsupported-type", UNSUPPORTED_MEDIA_TYPE, "Unsupported content type";
    /// The queue accepts no more jobs at the moment.
    QueueFull = "queue-full", TOO_MANY_REQUESTS, "Queue full";
    /// The key has used up its quota.
    RateLimited = "rate-limited", TOO_MANY_REQUESTS, "Rate limit exceeded";
    /// The server has reached its maximum of concurrent requests.
    Overloaded = "overloaded", SERVICE_UNAVAILABLE, "Server overloaded";
    /// The engine does not reply, or the server is stopping.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "Queue unavailable";
    /// The server or the engine has failed.
    Broken = "broken", INTERNAL_SERVER_ERROR, "Internal error";
}

impl ProblemKind {
    /// A problem of this kind. The detail says what happened and what to do.
    pub fn because(self, detail: impl Into<String>) -> Problem {
        Problem { kind: self, detail: detail.into(), retry_after: None, errors: Vec::new() }
    }
}

/// One invalid value in a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fault {
    /// The position in the body, as a JSON pointer.
    #[schema(example = "/jobs/3/group")]
    pub pointer: String,
    /// What is invalid, and what is expected instead.
    pub detail: String,
}

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    kind: ProblemKind,
    detail: String,
    retry_after: Option<Duration>,
    errors: Vec<Fault>,
}

/// The detail of a problem, attached to its response.
#[derive(Clone)]
pub(crate) struct ProblemDetail(pub Arc<str>);

/// The body of an error response.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDocument<'a> {
    /// The type of the problem; stable, for programs.
    #[schema(example = "urn:fairlane:problem:invalid")]
    r#type: String,
    /// The title, the same for all problems of the type.
    title: &'a str,
    /// The HTTP status of the response.
    #[schema(example = 422)]
    status: u16,
    /// What happened and what to do.
    detail: &'a str,
    /// After how many milliseconds to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The invalid values in the body.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [Fault],
}

impl Problem {
    /// The kind of the problem.
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// What happened and what to do.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// With the time after which to try again.
    pub fn retry_after(self, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..self }
    }

    /// With the position in the body, as a JSON pointer.
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.errors.push(Fault { pointer: pointer.into(), detail: self.detail.clone() });
        self
    }

    /// With a pointer that its positions in the body are relative to; with the pointer alone if it
    /// has no position.
    pub fn within(mut self, pointer: &str) -> Self {
        if self.errors.is_empty() {
            return self.at(pointer);
        }
        for fault in &mut self.errors {
            fault.pointer.insert_str(0, pointer);
        }
        self
    }

    /// With all invalid values in the body.
    pub fn with_errors(self, errors: Vec<Fault>) -> Self {
        Self { errors, ..self }
    }

    /// The problem of a job that was refused.
    pub fn refused(refusal: Refusal, detail: String, retry_after: Duration) -> Self {
        match refusal {
            full if full.is_full() => ProblemKind::QueueFull.because(detail).retry_after(retry_after),
            _ => ProblemKind::Conflict.because(detail),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.kind.status();
        let document = ProblemDocument {
            r#type: format!("{TYPE_PREFIX}{}", self.kind.slug()),
            title: self.kind.title(),
            status: status.as_u16(),
            detail: &self.detail,
            retry_after_ms: self.retry_after.map(|after| after.as_millis() as u64),
            errors: &self.errors,
        };
        let body = serde_json::to_vec(&document).expect("text and numbers can be serialized");
        let mut response = (status, [(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response();
        set_security_headers(&mut response);
        // For metrics, logs and the pages of the dashboard.
        response.extensions_mut().insert(self.kind);
        response.extensions_mut().insert(ProblemDetail(self.detail.as_str().into()));
        let headers = response.headers_mut();
        if let Some(after) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(after.as_millis().div_ceil(1000) as u64));
        }
        if self.kind == ProblemKind::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"fairlane\""));
        }
        response
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Invalid(Invalid::TooLarge { .. }) => {
                ProblemKind::TooLarge.because(error.to_string())
            }
            EngineError::Invalid(_) => ProblemKind::Invalid.because(error.to_string()),
            EngineError::Unavailable { .. } => {
                ProblemKind::Unavailable.because(error.to_string()).retry_after(Duration::from_secs(1))
            }
            // The reason goes to the log only: it may contain paths and addresses of the server.
            EngineError::Refused { .. } => {
                ProblemKind::Unavailable.because(STORE_REFUSES).retry_after(Duration::from_secs(5))
            }
            EngineError::Broken { .. } => {
                // The reason goes to the log only: it may contain internal details.
                tracing::error!(target: "fairlane", %error, "the engine failed");
                ProblemKind::Broken.because("the engine failed; see the server's log")
            }
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        match error {
            Error::Engine(error) => error.into(),
            Error::Refused { refusal, retry_after, .. } | Error::BulkRefused { refusal, retry_after, .. } => {
                Self::refused(refusal, detail, retry_after)
            }
            Error::Superseded { .. } => ProblemKind::Superseded.because(detail).at("/request"),
            Error::Room(RoomError::UnknownPlace) => ProblemKind::NotFound.because(detail),
            Error::Lock(LockError::Refused {
                refusal: LockRefusal::TooManyLocks | LockRefusal::TooManyWaiters,
                ..
            }) => ProblemKind::QueueFull.because(detail).retry_after(Duration::from_secs(1)),
            Error::Ranking(RankingError::UnknownBoard(_) | RankingError::Forgotten(_)) => {
                ProblemKind::NotFound.because(detail)
            }
            Error::RankingLine(_) | Error::Ranking(RankingError::NoWindow { .. }) => {
                ProblemKind::Invalid.because(detail)
            }
            Error::Lock(_) | Error::Room(_) | Error::Ranking(_) => ProblemKind::Conflict.because(detail),
            Error::NoSuchBulk(_) => ProblemKind::NotFound.because(detail),
            Error::Differs { .. } => ProblemKind::JobDiffers.because(detail),
            Error::Conflict { .. }
            | Error::OtherSource { .. }
            | Error::Mismatch { .. }
            | Error::SealedWithOthers { .. }
            | Error::TooManyBulks(_)
            | Error::TooManyTypes(_)
            | Error::DisciplineInUse
            | Error::TypeHasJobs { .. } => ProblemKind::Conflict.because(detail),
            _ => ProblemKind::Invalid.because(detail),
        }
    }
}

impl From<InvalidName> for Problem {
    fn from(error: InvalidName) -> Self {
        ProblemKind::Invalid.because(error.to_string())
    }
}

impl From<OutOfRange> for Problem {
    fn from(error: OutOfRange) -> Self {
        ProblemKind::Invalid.because(error.to_string())
    }
}
