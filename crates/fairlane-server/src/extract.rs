//! Bodies, queries and paths as they come, with problems that say what is wrong.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use fairlane_core::{BulkId, GroupId, JobId, TypeId};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::access::Caller;
use crate::app::Shared;
use crate::problem::{Problem, ProblemKind};

/// A body in JSON, and an answer in it.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Shared> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, Problem> {
        check_content_type(request.headers(), "application/json")?;
        let body = whole_body(request, app).await?;
        read_json(&body).map(Self)
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

/// Reads JSON; what cannot be read and what does not fit are two kinds of problems.
pub fn read_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        // A number where a word is wanted is told as if it were no JSON.
        let is_json = error.is_data() || serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
        let kind = if is_json { ProblemKind::Invalid } else { ProblemKind::Malformed };
        kind.because(format!("the body does not fit: {error}"))
    })
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

/// A body of at most this many bytes is taken as it came, if it came in one piece.
const PIECE_BYTES: u64 = 16 * 1024;

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
        if body.size_hint().upper().is_some_and(|bytes| bytes <= PIECE_BYTES) {
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
    timeout(settings.body_whole_timeout, reading).await.unwrap_or_else(|late| Err(too_slow(late)))
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
            .map_err(|error| ProblemKind::Invalid.because(error.body_text()))
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
