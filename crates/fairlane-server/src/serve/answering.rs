//! An answer of unknown length: its connection is not idle until the answer has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Error;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};

use super::connections::Connection;

/// Marks the connection as idle once the answer has ended. One of known length is as good as written: a client that
/// does not read it is dropped for that.
pub(super) fn answering(answer: Response, connection: Arc<Connection>) -> Response {
    if answer.body().size_hint().exact().is_some() {
        connection.end();
        return answer;
    }
    answer.map(|body| Body::new(Answering { body, connection }))
}

struct Answering {
    body: Body,
    connection: Arc<Connection>,
}

impl HttpBody for Answering {
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

impl Drop for Answering {
    fn drop(&mut self) {
        self.connection.end();
    }
}
