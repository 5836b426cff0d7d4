//! The engine inside this process: the core's machine behind one owner thread.
//!
//! Callers send requests over a channel; each turn of the owner applies all that is queued, then replies.
//! A caller has one request under way at a time, which bounds the channel. Invariant: every call ends:
//! once the owner has stopped, for whatever reason, it gets [`EngineError::Broken`].
//! Left out for now: a durable store; what this engine holds ends with it.

mod owner;
mod waiters;

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use fairlane_core::queue::{Command, Dump, Machine, Reply, Settings};
use fairlane_core::{Micros, TypeId};
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::engine::{BoxFuture, Engine, EngineError};
use owner::Request;
use waiters::Waiting;

/// What this engine is called.
const NAME: &str = "embedded";

/// A queue in this process. Dropping it stops its thread.
#[derive(Debug)]
pub struct EmbeddedEngine {
    requests: Option<mpsc::Sender<Request>>,
    owner: Option<JoinHandle<()>>,
}

impl EmbeddedEngine {
    /// An empty queue with these settings.
    pub fn new(settings: Settings, clock: Clock) -> Result<Self, EngineError> {
        let (requests, queued) = mpsc::channel();
        let machine = Machine::new(settings, clock.now());
        let owner = std::thread::Builder::new()
            .name("fairlane-owner".into())
            .spawn(move || owner::run(machine, &clock, &queued))
            .map_err(|error| EngineError::refused(format!("no thread for the embedded engine: {error}")))?;
        Ok(Self { requests: Some(requests), owner: Some(owner) })
    }

    /// The whole state, to be compared in tests.
    pub async fn dump(&self) -> Result<Dump, EngineError> {
        self.look(|machine, now| machine.dump(now)).await
    }

    /// Recounts the whole state in tests; the inner error names the first thing that does not fit.
    pub async fn check(&self) -> Result<Result<(), String>, EngineError> {
        self.look(|machine, _| machine.check()).await
    }

    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Machine, Micros) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let (answer, answered) = oneshot::channel();
        self.send(Request::Look(Box::new(move |machine, now| {
            // Whoever asked may have gone; nobody else wants to know.
            let _ = answer.send(look(machine, now));
        })))?;
        answered.await.map_err(|_| stopped())
    }

    fn sender(&self) -> &mpsc::Sender<Request> {
        self.requests.as_ref().expect("the sender is there until drop")
    }

    fn send(&self, request: Request) -> Result<(), EngineError> {
        self.sender().send(request).map_err(|_| stopped())
    }
}

fn stopped() -> EngineError {
    EngineError::broken("the embedded engine has stopped; open a new one")
}

impl Engine for EmbeddedEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        Box::pin(async move {
            command.validate()?;
            let (reply, replied) = oneshot::channel();
            self.send(Request::Execute { command, reply })?;
            replied.await.map_err(|_| stopped())
        })
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        Box::pin(async move {
            let (token, woken) = oneshot::channel();
            self.send(Request::Wait { types: types.to_vec(), token })?;
            Waiting::new(woken, self.sender().clone()).at_most(at_most).await.map_err(|_| stopped())
        })
    }
}

impl Drop for EmbeddedEngine {
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(owner) = self.owner.take() {
            // A panic of the owner has been printed, and every caller has been told.
            let _ = owner.join();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
