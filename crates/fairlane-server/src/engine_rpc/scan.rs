//! A scan as a response body, one frame at a time as the client reads.
//!
//! Invariant: the scan is part of its response: it pauses while the client does not read, and ends
//! with the response.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use fairlane_engine::wire::{self, ScanStep};
use fairlane_engine::{BoxFuture, Engine, EngineError, ScanPage};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Most pages that the scan may be ahead of the client.
const PAGES_AHEAD: usize = 1;

/// A scan in progress.
pub(super) struct ScanBody {
    /// `None` when the scan has ended.
    scan: Option<BoxFuture<'static, Result<(), EngineError>>>,
    pages: mpsc::Receiver<ScanPage>,
    ready: VecDeque<Bytes>,
}

impl ScanBody {
    pub fn begin(engine: Arc<dyn Engine>, stopping: CancellationToken) -> Self {
        let (sender, pages) = mpsc::channel(PAGES_AHEAD);
        let scan = Box::pin(async move {
            tokio::select! {
                ended = engine.admin().scan(sender) => ended,
                () = stopping.cancelled() => {
                    Err(EngineError::Unavailable { engine: "server", reason: "it is stopping".into() })
                }
            }
        });
        Self { scan: Some(scan), pages, ready: VecDeque::new() }
    }

    fn push(&mut self, page: &ScanPage) {
        self.ready.extend(ScanStep::pages(page).iter().map(|step| Bytes::from(wire::frame(step))));
    }

    /// Queues the remaining pages and the last frame.
    fn end(&mut self, ended: Result<(), EngineError>) {
        self.scan = None;
        while let Ok(page) = self.pages.try_recv() {
            self.push(&page);
        }
        let last = match ended {
            Ok(()) => ScanStep::End,
            Err(error) => ScanStep::Failed(super::wire_error(error)),
        };
        self.ready.push_back(wire::frame(&last).into());
    }
}

impl HttpBody for ScanBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if let Poll::Ready(Some(page)) = self.pages.poll_recv(context) {
                self.push(&page);
                continue;
            }
            let Some(scan) = &mut self.scan else { return Poll::Ready(None) };
            match scan.as_mut().poll(context) {
                Poll::Ready(ended) => self.end(ended),
                // A page that was just sent wakes the task that polled the receiver above.
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
