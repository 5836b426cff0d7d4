//! A request's body as it comes, for whoever watches the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};

use super::timed::Exchanges;

/// A body that holds on to its exchange until it has come as a whole, or nobody wants the rest.
pub(super) struct Arriving {
    body: Incoming,
    has_ended: bool,
    exchanges: Arc<Exchanges>,
    _begun: Arc<()>,
}

impl Arriving {
    pub fn new(body: Incoming, exchanges: &Arc<Exchanges>, begun: Arc<()>) -> Self {
        Self { body, has_ended: false, exchanges: exchanges.clone(), _begun: begun }
    }
}

impl Body for Arriving {
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

impl Drop for Arriving {
    fn drop(&mut self) {
        if !self.has_ended && !self.body.is_end_stream() {
            self.exchanges.cut();
        }
    }
}
