//! A response of unknown length: its connection is busy until the response has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Error;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};

use super::connections::Connection;

/// Marks the connection as idle once the response has ended. A response of known length counts as
/// sent right away: the write timeout closes the connection of a client that does not read it.
pub(super) fn track_response(response: Response, connection: Arc<Connection>) -> Response {
    if response.body().size_hint().exact().is_some() {
        connection.end();
        return response;
    }
    response.map(|body| Body::new(TrackedResponse { body, connection }))
}

struct TrackedResponse {
    body: Body,
    connection: Arc<Connection>,
}

impl HttpBody for TrackedResponse {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedResponse {
    fn drop(&mut self) {
        self.connection.end();
    }
}
