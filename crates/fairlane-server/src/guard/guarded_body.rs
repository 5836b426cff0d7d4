//! A response body that holds the permits of its request until it is sent, and is aborted when the
//! key of the request ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use fairlane_engine::BoxFuture;
use hyper::body::{Frame, SizeHint};

use crate::quota::{KeyQuota, RequestQuota};

/// The largest chunk in bytes. A connection takes the next chunk when the last one is written, so a
/// large response stays here until its client has read most of it.
const CHUNK_BYTES: usize = 16 * 1024;

/// The response with its permits. It is aborted when `ended` completes. Work that is done while it
/// is written is charged to `quota`.
pub(crate) fn guard_body<P: Send + Unpin + 'static>(
    response: Response,
    ended: Option<BoxFuture<'static, ()>>,
    quota: Option<Arc<KeyQuota>>,
    permits: P,
) -> Response {
    let is_small = response.body().size_hint().upper().is_some_and(|bytes| bytes <= CHUNK_BYTES as u64);
    // A small response is a single chunk, so guarding it would make no difference.
    if ended.is_none() && is_small {
        return response;
    }
    response.map(|body| Body::new(GuardedBody { body, rest: Bytes::new(), ended, quota, _permits: permits }))
}

struct GuardedBody<P> {
    body: Body,
    /// The unsent part of a frame that is larger than a chunk.
    rest: Bytes,
    ended: Option<BoxFuture<'static, ()>>,
    quota: Option<Arc<KeyQuota>>,
    _permits: P,
}

impl<P> GuardedBody<P> {
    fn chunk(&mut self) -> Frame<Bytes> {
        Frame::data(self.rest.split_to(self.rest.len().min(CHUNK_BYTES)))
    }
}

impl<P: Unpin> HttpBody for GuardedBody<P> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some(ended) = &mut self.ended
            && ended.as_mut().poll(context).is_ready()
        {
            self.ended = None;
            let error = io::Error::new(io::ErrorKind::PermissionDenied, "the key has ended or was changed");
            return Poll::Ready(Some(Err(Error::new(error))));
        }
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.chunk())));
        }
        let this = &mut *self;
        let body = Pin::new(&mut this.body);
        let polled = match &this.quota {
            Some(quota) => RequestQuota::scope_poll(quota, || body.poll_frame(context)),
            None => body.poll_frame(context),
        };
        let frame = match ready!(polled) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other),
        };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(data) => {
                self.rest = data;
                self.chunk()
            }
            Err(other) => other,
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (left, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        if let Some(upper) = left.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(left.lower() + rest);
        hint
    }
}
