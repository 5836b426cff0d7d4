//! An answer that keeps its places until its client has it, and ends when its key does.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Error;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use fairlane_engine::BoxFuture;
use hyper::body::{Frame, SizeHint};

use super::purse::{Purse, Spending};

/// Bytes handed on at once. A connection takes more when these are written, so that an answer is not gone from here
/// long before its client has it.
const PIECE_BYTES: usize = 16 * 1024;

/// The answer with its places; with a key that may end, it breaks off then. What is done while it is written is paid
/// for by whoever spends on it.
pub(super) fn keep<R: Send + Unpin + 'static>(
    answer: Response,
    ended: Option<BoxFuture<'static, ()>>,
    spending: Option<Arc<Spending>>,
    room: R,
) -> Response {
    // A small answer is out of here as soon as it is begun, kept or not.
    if ended.is_none() && answer.body().size_hint().upper().is_some_and(|bytes| bytes <= PIECE_BYTES as u64) {
        return answer;
    }
    answer.map(|body| Body::new(Kept { body, rest: Bytes::new(), ended, spending, _room: room }))
}

struct Kept<R> {
    body: Body,
    /// What is left of a piece that was too large.
    rest: Bytes,
    ended: Option<BoxFuture<'static, ()>>,
    spending: Option<Arc<Spending>>,
    _room: R,
}

impl<R> Kept<R> {
    fn piece(&mut self) -> Frame<Bytes> {
        Frame::data(self.rest.split_to(self.rest.len().min(PIECE_BYTES)))
    }
}

impl<R: Unpin> HttpBody for Kept<R> {
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
            return Poll::Ready(Some(Ok(self.piece())));
        }
        let this = &mut *self;
        let body = Pin::new(&mut this.body);
        let polled = match &this.spending {
            Some(spending) => Purse::step(spending, || body.poll_frame(context)),
            None => body.poll_frame(context),
        };
        let frame = match ready!(polled) {
            Some(Ok(frame)) => frame,
            other => return Poll::Ready(other),
        };
        Poll::Ready(Some(Ok(match frame.into_data() {
            Ok(data) => {
                self.rest = data;
                self.piece()
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
