//! Extractors of bodies, queries and paths, with problems that say what is invalid and where.
//!
//! - `extract/object.rs`: JSON objects, which are not lists. `extract/serde_messages.rs`: serde's
//!   messages for users of the API.
//! - `extract/parse.rs`: threads that parse large bodies.

mod object;
mod parse;
mod serde_messages;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use fairlane_core::limits::NAME_BYTES_MAX;
use fairlane_core::{BulkId, GroupId, JobId, TypeId};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_path_to_error::{Path as JsonPath, Segment};
use tokio::time::timeout;

use crate::access::Caller;
use crate::app::Shared;
use crate::bodies::FREE_BYTES;
use crate::problem::{Fault, Problem, ProblemKind};
use crate::quota::charge_body;
pub use object::{Object, object};
pub(crate) use parse::Parsers;
pub use serde_messages::plain;
use serde_messages::unknown_field;

/// A JSON body of a request or a response.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Shared> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        check_content_type(request.headers(), "application/json")?;
        let body = read_body(request, app).await?;
        app.parsers.parse(body, |body| parse_json(body)).await.map(Self)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => ProblemKind::Broken
                .because(format!("the response cannot be serialized: {error}"))
                .into_response(),
        }
    }
}

/// Parses a JSON object. A body that is not JSON is malformed; one with other fields or types is
/// invalid.
pub fn parse_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map(|Object(value)| value).map_err(|error| {
        // A number where the name of a variant is expected is reported as a syntax error.
        let is_json = error.is_data() || serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
        if body.is_empty() {
            return ProblemKind::Malformed.because("the body is empty; send JSON");
        }
        if !is_json {
            return ProblemKind::Malformed.because(format!("the body is not JSON: {error}"));
        }
        // Only an invalid body is parsed a second time, to find the position.
        let again = &mut serde_json::Deserializer::from_slice(body);
        match serde_path_to_error::deserialize::<_, Object<T>>(again) {
            Ok(_) => ProblemKind::Invalid.because(format!("invalid body: {}", plain(&error.to_string()))),
            Err(error) => invalid_body(error.path(), &error.inner().to_string()),
        }
    })
}

/// The problem of an invalid body, with the position.
fn invalid_body(path: &JsonPath, message: &str) -> Problem {
    let mut pointer = String::new();
    let mut add = |key: &str| pointer.extend(["/", &key.replace('~', "~0").replace('/', "~1")]);
    for segment in path {
        match segment {
            Segment::Seq { index } => add(&index.to_string()),
            Segment::Map { key } => add(key),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    if let Some(key) = unknown_field(message).filter(|key| key.len() <= NAME_BYTES_MAX)
        && !matches!(path.iter().next_back(), Some(Segment::Map { key: last }) if last == key)
    {
        add(key);
    }
    let detail = plain(message);
    let prefix = if pointer.is_empty() { String::new() } else { format!("{pointer}: ") };
    ProblemKind::Invalid
        .because(format!("invalid body: {prefix}{detail}"))
        .with_errors(vec![Fault { pointer, detail }])
}

/// Refuses a body with another content type: a browser cannot send JSON to another site without a
/// CORS preflight. Refuses a compressed body, which would be parsed as if it were not.
pub fn check_content_type(headers: &HeaderMap, wanted: &str) -> Result<(), Problem> {
    let codings = headers.get_all(header::CONTENT_ENCODING);
    if let Some(coding) = codings.iter().find(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(ProblemKind::UnsupportedType.because(format!(
            "the body has the header content-encoding: {coding:?}; send it uncompressed, without this header"
        )));
    }
    let named = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = named.split(';').next().unwrap_or("").trim();
    if essence.eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    let found = match named {
        "" => "the request has none".to_owned(),
        named => format!("the request has {named:?}"),
    };
    Err(ProblemKind::UnsupportedType.because(format!("send the header content-type: {wanted}; {found}")))
}

/// Reads a body completely, within the limits of size and time; its memory is released with the
/// response.
pub async fn read_body(request: Request, app: &Shared) -> Result<Bytes, Problem> {
    body_up_to(app.settings.body_bytes_max, request, app).await
}

/// Reads a body completely, with another limit of its size.
pub async fn body_up_to(bytes_max: usize, request: Request, app: &Shared) -> Result<Bytes, Problem> {
    let settings = &app.settings;
    let mut memory = app.bodies.memory(&request, bytes_max);
    let mut body = Limited::new(request.into_body(), bytes_max);
    let too_slow = |_| ProblemKind::TooSlow.because("the body did not arrive in time; send it again");
    let reading = async {
        let mut bytes = Vec::new();
        // Most bodies are small and come in one chunk, which is used without a copy.
        if body.size_hint().upper().is_some_and(|bytes| bytes <= FREE_BYTES as u64) {
            match timeout(settings.body_timeout, body.frame()).await.map_err(too_slow)? {
                None => return Ok(Bytes::new()),
                Some(frame) => {
                    let frame = frame.map_err(|error| broken_off(&*error, bytes_max))?;
                    let data = frame.into_data().unwrap_or_default();
                    if body.is_end_stream() {
                        return Ok(data);
                    }
                    memory.reserve(&mut bytes, data.len())?;
                    bytes.extend_from_slice(&data);
                }
            }
        }
        while let Some(frame) = timeout(settings.body_timeout, body.frame()).await.map_err(too_slow)? {
            let frame = frame.map_err(|error| broken_off(&*error, bytes_max))?;
            let Some(data) = frame.data_ref() else { continue };
            memory.reserve(&mut bytes, data.len())?;
            bytes.extend_from_slice(data);
        }
        Ok(Bytes::from(bytes))
    };
    let read = timeout(settings.body_whole_timeout, reading).await;
    let bytes = read.unwrap_or_else(|late| Err(too_slow(late)))?;
    if bytes.len() > FREE_BYTES {
        charge_body(bytes.len(), &app.stopping).await;
    }
    Ok(bytes)
}

fn broken_off(error: &(dyn std::error::Error + 'static), most: usize) -> Problem {
    if !error.is::<LengthLimitError>() {
        return ProblemKind::Malformed.because("the body was cut off");
    }
    ProblemKind::TooLarge.because(format!(
        "a body may have at most {most} bytes; send fewer jobs in one request, or stream them to /api/jobs/stream"
    ))
}

/// The query of a request.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|query| Self(query.0))
            .map_err(|error| ProblemKind::Invalid.because(plain(&error.body_text())))
    }
}

/// The parameters in the path.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Shared> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Problem> {
        axum::extract::Path::from_request_parts(parts, app)
            .await
            .map(|path| Self(path.0))
            .map_err(|error| ProblemKind::Invalid.because(error.body_text()))
    }
}

impl FromRequestParts<Shared> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| ProblemKind::Broken.because("the request bypassed the guard"))
    }
}

/// A name from a path, a query or a body.
pub trait Named: Sized {
    /// Validates the name.
    fn named(text: &str) -> Result<Self, Problem>;
}

macro_rules! named {
    ($($name:ident),*) => {
        $(impl Named for $name {
            fn named(text: &str) -> Result<Self, Problem> {
                Self::new(text).map_err(Problem::from)
            }
        })*
    };
}

named!(GroupId, JobId, TypeId, BulkId);
