//! What goes wrong, as it is told: problem documents (RFC 9457) with stable types.
//!
//! Invariant: a `type` never changes its meaning; `detail` is for people and says what to do.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fairlane::Error;
use fairlane_core::queue::{Invalid, Refusal};
use fairlane_core::{InvalidName, OutOfRange};
use fairlane_engine::EngineError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::guard::mark;

/// What a type begins with.
const TYPE_PREFIX: &str = "urn:fairlane:problem:";
/// The response to a client whose command the store refuses.
pub(crate) const STORE_REFUSES: &str = "the store behind the server does not take this at the moment, be it out of space or not allowed; the server's log \
     says why; try again later";
/// What a problem document is.
pub const CONTENT_TYPE: &str = "application/problem+json";

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $slug:literal, $status:ident, $title:literal;)*) => {
        /// Kinds of problems; `docs/http.md` lists them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ProblemKind { $($(#[$doc])* $kind,)* }

        impl ProblemKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),*];

            /// The last part of its type.
            pub const fn slug(self) -> &'static str {
                match self { $(Self::$kind => $slug),* }
            }

            /// The status it is told with.
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status),* }
            }

            /// The same sentence for every problem of the kind.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$kind => $title),* }
            }
        }
    };
}

kinds! {
    /// The request cannot be read.
    Malformed = "malformed", BAD_REQUEST, "The request cannot be read.";
    /// The request can be read and makes no sense.
    Invalid = "invalid", UNPROCESSABLE_ENTITY, "The request asks for something that cannot be.";
    /// No key, or none that is known.
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "A valid key is needed.";
    /// The key is not for this.
    Forbidden = "forbidden", FORBIDDEN, "The key does not allow this.";
    /// Nothing is there.
    NotFound = "not-found", NOT_FOUND, "There is no such thing.";
    /// The path is there, the method is not.
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED, "The path does not take this method.";
    /// The body was too slow.
    TooSlow = "too-slow", REQUEST_TIMEOUT, "The request came too slowly.";
    /// As things stand it cannot be done.
    Conflict = "conflict", CONFLICT, "It does not fit what is there.";
    /// Another job has this id.
    JobDiffers = "job-differs", CONFLICT, "Another job has this id.";
    /// The same idempotency key with another request.
    KeyReused = "idempotency-key-reused", CONFLICT, "The idempotency key was used for another request.";
    /// A newer request of this worker has been answered.
    Superseded = "superseded", CONFLICT, "A newer request of this worker has been answered.";
    /// Too many bytes.
    TooLarge = "too-large", PAYLOAD_TOO_LARGE, "The request is too large.";
    /// Another content type is needed.
    UnsupportedType = "unsupported-type", UNSUPPORTED_MEDIA_TYPE, "The body is of another type than is read here.";
    /// The queue takes no more jobs at the moment.
    QueueFull = "queue-full", TOO_MANY_REQUESTS, "The queue is full.";
    /// The key has used up its rate.
    RateLimited = "rate-limited", TOO_MANY_REQUESTS, "The key has used up its rate.";
    /// The server has as many requests as it takes.
    Overloaded = "overloaded", SERVICE_UNAVAILABLE, "The server has as many requests as it takes.";
    /// The engine does not answer, or the server stops.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "The queue cannot be reached.";
    /// Something broke.
    Broken = "broken", INTERNAL_SERVER_ERROR, "Something broke.";
}

impl ProblemKind {
    /// A problem of this kind, with what happened and what to do.
    pub fn because(self, detail: impl Into<String>) -> Problem {
        Problem { kind: self, detail: detail.into(), retry_after: None, errors: Vec::new() }
    }
}

/// One thing that is wrong within a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fault {
    /// Where it stands in the body, as a JSON pointer.
    #[schema(example = "/jobs/3/group")]
    pub pointer: String,
    /// What is wrong, and what to write instead.
    pub detail: String,
}

/// A problem, as an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    kind: ProblemKind,
    detail: String,
    retry_after: Option<Duration>,
    errors: Vec<Fault>,
}

/// As it is written.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDocument<'a> {
    /// Stable; programs decide by it.
    #[schema(example = "urn:fairlane:problem:invalid")]
    r#type: String,
    /// The same for all problems of the type.
    title: &'a str,
    /// The status of the answer.
    #[schema(example = 422)]
    status: u16,
    /// What happened and what to do.
    detail: &'a str,
    /// When it makes sense to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// Where in the body something is wrong.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [Fault],
}

impl Problem {
    /// Its kind.
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// What happened and what to do.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// With the time after which it makes sense to try again.
    pub fn retry_after(self, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..self }
    }

    /// With the place in the body.
    pub fn at(mut self, pointer: impl Into<String>) -> Self {
        self.errors.push(Fault { pointer: pointer.into(), detail: self.detail.clone() });
        self
    }

    /// With the place in the body that its places are within; with it alone if none is known.
    pub fn within(mut self, place: &str) -> Self {
        if self.errors.is_empty() {
            return self.at(place);
        }
        for fault in &mut self.errors {
            fault.pointer.insert_str(0, place);
        }
        self
    }

    /// With all the places in the body where something is wrong.
    pub fn with_errors(self, errors: Vec<Fault>) -> Self {
        Self { errors, ..self }
    }

    /// Why a job was not taken.
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
        let body = serde_json::to_vec(&document).expect("text and numbers can be written");
        let mut response = (status, [(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response();
        mark(&mut response);
        // For whoever counts and logs.
        response.extensions_mut().insert(self.kind);
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
            // The reason is in the log: it may name files and addresses of the server.
            EngineError::Refused { .. } => {
                ProblemKind::Unavailable.because(STORE_REFUSES).retry_after(Duration::from_secs(5))
            }
            EngineError::Broken { .. } => {
                // What broke is for the operator: it may speak of the inside.
                tracing::error!(target: "fairlane", %error, "the engine broke");
                ProblemKind::Broken.because("the engine broke; the server's log says how")
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
            Error::NoSuchBulk(_) => ProblemKind::NotFound.because(detail),
            Error::Differs { .. } => ProblemKind::JobDiffers.because(detail),
            Error::Conflict { .. }
            | Error::OtherSource { .. }
            | Error::Mismatch { .. }
            | Error::SealedWithOthers { .. }
            | Error::TooManyBulks(_)
            | Error::TooManyTypes(_)
            | Error::TypeHasJobs { .. }
            | Error::NoTypeForCallbacks => ProblemKind::Conflict.because(detail),
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
