//! The rest of a body that no handler reads.
//!
//! Up to 64 KiB of it are read and discarded, so that the connection can be reused. If there is
//! more, the connection is closed, and the rest is discarded until the client has read the response
//! (`serve/timeout_stream.rs`).

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

/// How long the rest of a body is drained.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// Most bytes of the rest that are drained.
const DRAIN_BYTES_MAX: usize = 64 * 1024;

/// A body that drains its rest when it is dropped.
pub(super) struct DrainBody {
    body: Body,
    stopping: CancellationToken,
    /// Whether the last poll was pending: the client is slow, and its request was not refused.
    is_waiting: bool,
}

impl DrainBody {
    pub fn new(body: Body, headers: &HeaderMap, stopping: CancellationToken) -> Self {
        // Polling the body of a request with `Expect: 100-continue` would make the client send it.
        Self { body, stopping, is_waiting: headers.contains_key(header::EXPECT) }
    }
}

impl hyper::body::Body for DrainBody {
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

impl Drop for DrainBody {
    fn drop(&mut self) {
        if self.is_waiting || self.body.is_end_stream() {
            return;
        }
        // Without a runtime the process is exiting.
        let Ok(runtime) = Handle::try_current() else { return };
        let draining = tokio::time::timeout(DRAIN_TIME, drain(mem::take(&mut self.body)));
        runtime.spawn(self.stopping.clone().run_until_cancelled_owned(draining));
    }
}

async fn drain(mut body: Body) {
    let mut left = DRAIN_BYTES_MAX;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        if bytes > left {
            return;
        }
        left -= bytes;
    }
}
