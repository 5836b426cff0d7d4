//! A subscription to the signals of a process: a response that lasts.

use std::time::Duration;

use fairlane_core::ProcessId;
use reqwest::Response;
use tokio::sync::mpsc;

use super::client::{self, Client};
use super::unavailable;
use super::wire::{self, Frames, SignalStep, Subscribe};
use crate::engine::EngineError;
use crate::signals::{Signals, Woken};

/// How long a server may be silent before the connection counts as lost.
const SILENCE_MAX: Duration = Duration::from_millis(wire::HEARTBEAT_MS * wire::HEARTBEATS_MISSED_MAX as u64);

/// Subscribes, and passes signals on until the connection or the receiver ends.
pub(super) async fn subscribe(client: &Client, process: &ProcessId) -> Result<Signals, EngineError> {
    let subscribe = wire::encode(&Subscribe { process: process.clone() });
    let response = client.send(wire::SUBSCRIBE_PATH, subscribe).await?;
    let mut steps = Steps { response, frames: Frames::default() };
    match steps.next().await? {
        Some(SignalStep::Confirmed) => {}
        Some(SignalStep::Failed(error)) => return Err(error.into()),
        _ => return Err(unavailable("its response does not begin with a confirmation")),
    }
    let (sender, signals) = Signals::channel(process.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = pass_on(steps, &sender) => {}
            () = sender.closed() => {}
        }
    });
    Ok(signals)
}

/// The end of this function drops the connection. The subscriber then subscribes again, so the
/// reason is not needed.
async fn pass_on(mut steps: Steps, sender: &mpsc::Sender<Woken>) {
    while let Ok(Some(step)) = steps.next().await {
        if let SignalStep::Signal(waiter) = step {
            // A signal that does not fit into the buffer may be lost. A waiter that the lock was granted to
            // acquires it, and gets that grant.
            let _ = sender.try_send((waiter, None));
        }
    }
}

struct Steps {
    response: Response,
    frames: Frames,
}

impl Steps {
    /// The next step; `None` at the end of the response.
    async fn next(&mut self) -> Result<Option<SignalStep>, EngineError> {
        loop {
            if let Some(step) = self.frames.next_step().map_err(client::unreadable)? {
                return Ok(Some(step));
            }
            let chunk = tokio::time::timeout(SILENCE_MAX, self.response.chunk()).await;
            let chunk = chunk.map_err(|_| unavailable("it was silent for too long"))?;
            match chunk.map_err(client::unanswered)? {
                Some(bytes) => self.frames.push(&bytes),
                None => return Ok(None),
            }
        }
    }
}
