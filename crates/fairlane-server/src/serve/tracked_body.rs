//! The body of a request while it arrives, tracked in the state of its connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use super::timeout_stream::ConnectionState;

/// A body that keeps its request open until it has arrived completely or is dropped.
pub(super) struct TrackedBody {
    body: Incoming,
    has_ended: bool,
    state: Arc<ConnectionState>,
    _open_request: Arc<()>,
}

impl TrackedBody {
    pub fn new(body: Incoming, state: &Arc<ConnectionState>, open_request: Arc<()>) -> Self {
        Self { body, has_ended: false, state: state.clone(), _open_request: open_request }
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.has_ended |= matches!(frame, Poll::Ready(None));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if !self.has_ended && !self.body.is_end_stream() {
            self.state.abandon_body();
        }
    }
}
