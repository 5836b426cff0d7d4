//! A walk as the body of an answer, frame by frame as the client reads.
//!
//! Invariant: the walk is part of its answer: it stops where a client stops reading, and ends with it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use fairlane_engine::wire::{self, WalkStep};
use fairlane_engine::{BoxFuture, Engine, EngineError, WalkPage};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Pages that the walk may be ahead of the client.
const PAGES_AHEAD: usize = 1;

/// A walk under way.
pub(super) struct Walk {
    /// None when it has ended.
    walking: Option<BoxFuture<'static, Result<(), EngineError>>>,
    pages: mpsc::Receiver<WalkPage>,
    ready: VecDeque<Bytes>,
}

impl Walk {
    pub fn begin(engine: Arc<dyn Engine>, stopping: CancellationToken) -> Self {
        let (sender, pages) = mpsc::channel(PAGES_AHEAD);
        let walking = Box::pin(async move {
            tokio::select! {
                walked = engine.walk(sender) => walked,
                () = stopping.cancelled() => {
                    Err(EngineError::Unavailable { engine: "server", reason: "it stops".into() })
                }
            }
        });
        Self { walking: Some(walking), pages, ready: VecDeque::new() }
    }

    fn push(&mut self, page: &WalkPage) {
        self.ready.extend(WalkStep::pages(page).iter().map(|step| Bytes::from(wire::frame(step))));
    }

    /// What is left, and how it ended.
    fn end(&mut self, walked: Result<(), EngineError>) {
        self.walking = None;
        while let Ok(page) = self.pages.try_recv() {
            self.push(&page);
        }
        let last = match walked {
            Ok(()) => WalkStep::End,
            Err(error) => WalkStep::Failed(super::trouble(error)),
        };
        self.ready.push_back(wire::frame(&last).into());
    }
}

impl HttpBody for Walk {
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
            let Some(walking) = &mut self.walking else { return Poll::Ready(None) };
            match walking.as_mut().poll(context) {
                Poll::Ready(walked) => self.end(walked),
                // A page that has just been sent wakes whoever has asked for one above.
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
