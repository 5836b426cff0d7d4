//! What a client still sends of a body that nobody reads any further.
//!
//! A little of it is read and thrown away, so that the connection can be used again. If there is more, the connection is
//! closed, and takes the rest until its client has read the answer (`serve/timed.rs`).

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// How long the rest is thrown away.
const REST_TIME: Duration = Duration::from_secs(5);
/// How much of it.
const REST_BYTES_MAX: usize = 64 * 1024;

/// A body whose rest is thrown away when it is dropped.
pub(super) struct Whole {
    body: Body,
    stopping: CancellationToken,
    /// It was waited for when it was last asked for more: its client is slow, not refused.
    is_waiting: bool,
}

impl Whole {
    pub fn new(body: Body, headers: &HeaderMap, stopping: CancellationToken) -> Self {
        // A client that asks before it sends is not to be told to go on.
        Self { body, stopping, is_waiting: headers.contains_key(header::EXPECT) }
    }
}

impl hyper::body::Body for Whole {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.is_waiting = frame.is_pending();
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if self.is_waiting || self.body.is_end_stream() {
            return;
        }
        // There is none any more when the whole program ends.
        let Ok(runtime) = Handle::try_current() else { return };
        let reading = tokio::time::timeout(REST_TIME, throw_away(mem::take(&mut self.body)));
        runtime.spawn(self.stopping.clone().run_until_cancelled_owned(reading));
    }
}

async fn throw_away(mut body: Body) {
    let mut left = REST_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        if bytes > left {
            return;
        }
        left -= bytes;
    }
}
