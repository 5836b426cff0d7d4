//! Bodies, queries and paths as they come, with problems that say what is wrong and where.
//!
//! - `extract/object.rs`: objects, which are not lists. `extract/words.rs`: what is wrong, in plain words.
//! - `extract/parse.rs`: where large bodies are parsed.

mod object;
mod parse;
mod words;

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
use crate::guard::large_body;
use crate::problem::{Fault, Problem, ProblemKind};
pub use object::{Object, object};
pub(crate) use parse::Parsers;
pub use words::plain;
use words::unknown_key;

/// A body in JSON, and an answer in it.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<Shared> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        check_content_type(request.headers(), "application/json")?;
        let body = whole_body(request, app).await?;
        app.parsers.parse(body, |body| read_json(body)).await.map(Self)
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            Err(error) => {
                ProblemKind::Broken.because(format!("an answer cannot be written: {error}")).into_response()
            }
        }
    }
}

/// Reads an object in JSON; what cannot be read and what does not fit are two kinds of problems.
pub fn read_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map(|Object(value)| value).map_err(|error| {
        // A number where a word is wanted is told as if it were no JSON.
        let is_json = error.is_data() || serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
        if body.is_empty() {
            return ProblemKind::Malformed.because("the body is empty; send JSON");
        }
        if !is_json {
            return ProblemKind::Malformed.because(format!("the body is not JSON: {error}"));
        }
        // Only what does not fit is read again, to say where.
        let again = &mut serde_json::Deserializer::from_slice(body);
        match serde_path_to_error::deserialize::<_, Object<T>>(again) {
            Ok(_) => {
                ProblemKind::Invalid.because(format!("the body does not fit: {}", plain(&error.to_string())))
            }
            Err(error) => unfit(error.path(), &error.inner().to_string()),
        }
    })
}

/// What does not fit, with its place.
fn unfit(path: &JsonPath, message: &str) -> Problem {
    let mut pointer = String::new();
    let mut add = |key: &str| pointer.extend(["/", &key.replace('~', "~0").replace('/', "~1")]);
    for segment in path {
        match segment {
            Segment::Seq { index } => add(&index.to_string()),
            Segment::Map { key } => add(key),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    if let Some(key) = unknown_key(message).filter(|key| key.len() <= NAME_BYTES_MAX)
        && !matches!(path.iter().next_back(), Some(Segment::Map { key: last }) if last == key)
    {
        add(key);
    }
    let detail = plain(message);
    let place = if pointer.is_empty() { String::new() } else { format!("{pointer}: ") };
    ProblemKind::Invalid
        .because(format!("the body does not fit: {place}{detail}"))
        .with_errors(vec![Fault { pointer, detail }])
}

/// Refuses a body that says it is something else; a browser cannot send JSON to another site unasked. One that says it
/// is packed would be read as if it were not.
pub fn check_content_type(headers: &HeaderMap, wanted: &str) -> Result<(), Problem> {
    let codings = headers.get_all(header::CONTENT_ENCODING);
    if let Some(coding) = codings.iter().find(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(ProblemKind::UnsupportedType.because(format!(
            "the body came with the header content-encoding: {coding:?}; send it as it is, without this header"
        )));
    }
    let named = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = named.split(';').next().unwrap_or("").trim();
    if essence.eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    Err(ProblemKind::UnsupportedType.because(format!(
        "the body must be sent with the header content-type: {wanted}, and came with {named:?}"
    )))
}

/// Reads the whole body, within the limits of size and time; its room is given back when the request is answered.
pub async fn whole_body(request: Request, app: &Shared) -> Result<Bytes, Problem> {
    body_up_to(app.settings.body_bytes_max, request, app).await
}

/// The same with another limit of size.
pub async fn body_up_to(bytes_max: usize, request: Request, app: &Shared) -> Result<Bytes, Problem> {
    let settings = &app.settings;
    let mut room = app.bodies.room(&request, bytes_max);
    let mut body = Limited::new(request.into_body(), bytes_max);
    let too_slow = |_| ProblemKind::TooSlow.because("the body did not come in time; send it again");
    let reading = async {
        let mut whole = Vec::new();
        // Most bodies are small and come in one piece, which is taken as it is.
        if body.size_hint().upper().is_some_and(|bytes| bytes <= FREE_BYTES as u64) {
            match timeout(settings.body_timeout, body.frame()).await.map_err(too_slow)? {
                None => return Ok(Bytes::new()),
                Some(piece) => {
                    let piece = piece.map_err(|error| broken_off(&*error, bytes_max))?;
                    let data = piece.into_data().unwrap_or_default();
                    if body.is_end_stream() {
                        return Ok(data);
                    }
                    room.take(&mut whole, data.len())?;
                    whole.extend_from_slice(&data);
                }
            }
        }
        while let Some(piece) = timeout(settings.body_timeout, body.frame()).await.map_err(too_slow)? {
            let piece = piece.map_err(|error| broken_off(&*error, bytes_max))?;
            let Some(data) = piece.data_ref() else { continue };
            room.take(&mut whole, data.len())?;
            whole.extend_from_slice(data);
        }
        Ok(Bytes::from(whole))
    };
    let read = timeout(settings.body_whole_timeout, reading).await;
    let whole = read.unwrap_or_else(|late| Err(too_slow(late)))?;
    if whole.len() > FREE_BYTES {
        large_body(whole.len(), &app.stopping).await;
    }
    Ok(whole)
}

fn broken_off(error: &(dyn std::error::Error + 'static), most: usize) -> Problem {
    if !error.is::<LengthLimitError>() {
        return ProblemKind::Malformed.because("the body broke off");
    }
    ProblemKind::TooLarge.because(format!(
        "a body has at most {most} bytes here; send fewer jobs at once, or a stream to /api/jobs/stream"
    ))
}

/// What stands behind the `?`.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|query| Self(query.0))
            .map_err(|error| ProblemKind::Invalid.because(query_fault(&error.body_text())))
    }
}

/// What is wrong with a query: the parameter, if it is about one, and what is wanted.
fn query_fault(message: &str) -> String {
    let message = message.strip_prefix("Failed to deserialize query string: ").unwrap_or(message);
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match message.split_once(": ").filter(|(name, _)| is_name(name)) {
        Some((_, rest)) if unknown_key(rest).is_some() => format!("the query does not fit: {}", plain(rest)),
        Some((name, rest)) => format!("the query does not fit: {name}: {}", plain(rest)),
        None => format!("the query does not fit: {}", plain(message)),
    }
}

/// What stands in the path.
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
        caller.ok_or_else(|| ProblemKind::Broken.because("the request came past the guard"))
    }
}

/// A name from a path, a query or a body.
pub trait Named: Sized {
    /// Checks it.
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
