//! The signals to a process as a response body, one frame at a time.
//!
//! Invariant: the subscription is part of its response and ends with it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use fairlane_engine::wire::{self, SignalStep};
use fairlane_engine::{BoxFuture, EngineError, Signals};
use hyper::body::Frame;
use tokio_util::sync::CancellationToken;

const HEARTBEAT: Duration = Duration::from_millis(wire::HEARTBEAT_MS);

/// A subscription that is being sent.
pub(super) struct SubscriptionBody {
    ready: Option<SignalStep>,
    /// The step that follows; `None` if the subscription has ended.
    next: BoxFuture<'static, Option<(SignalStep, Subscription)>>,
}

impl SubscriptionBody {
    pub fn begin(subscribed: Result<Signals, EngineError>, stopping: CancellationToken) -> Self {
        match subscribed {
            Ok(signals) => Self {
                ready: Some(SignalStep::Confirmed),
                next: Box::pin(Subscription { signals, stopping }.next()),
            },
            Err(error) => Self {
                ready: Some(SignalStep::Failed(super::wire_error(error))),
                next: Box::pin(std::future::ready(None)),
            },
        }
    }
}

struct Subscription {
    signals: Signals,
    stopping: CancellationToken,
}

impl Subscription {
    async fn next(mut self) -> Option<(SignalStep, Self)> {
        let step = tokio::select! {
            signal = self.signals.next() => SignalStep::Signal(signal?.waiter),
            () = tokio::time::sleep(HEARTBEAT) => SignalStep::Heartbeat,
            () = self.stopping.cancelled() => return None,
        };
        Some((step, self))
    }
}

impl HttpBody for SubscriptionBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let step = match self.ready.take() {
            Some(step) => step,
            None => match ready!(self.next.as_mut().poll(context)) {
                Some((step, subscription)) => {
                    self.next = Box::pin(subscription.next());
                    step
                }
                None => {
                    self.next = Box::pin(std::future::ready(None));
                    return Poll::Ready(None);
                }
            },
        };
        Poll::Ready(Some(Ok(Frame::data(wire::frame(&step).into()))))
    }
}
