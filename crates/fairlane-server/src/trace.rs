//! The trace of a request (W3C Trace Context).

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use fairlane_core::Trace;

use crate::app::Shared;

/// The trace of a request, if it has a valid `traceparent`; an invalid one is ignored, as W3C
/// requires.
pub struct TraceOf(pub Option<Trace>);

impl FromRequestParts<Shared> for TraceOf {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Infallible> {
        let named = parts.headers.get("traceparent").and_then(|value| value.to_str().ok());
        Ok(Self(named.and_then(|text| Trace::new(text).ok())))
    }
}
