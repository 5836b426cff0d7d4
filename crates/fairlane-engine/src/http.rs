//! A Fairlane server as an engine: commands are sent to it unchanged, and its replies come back.
//!
//! - `http/wire.rs`: the protocol. `http/address.rs`: the address of a server and the key.
//! - `http/client.rs`: requests. `http/error_response.rs`: the meaning of error responses.
//! - `http/health.rs`: whether a server is ready. `http/subscription.rs`: the signals to a process.
//!
//! Invariant: a command without a response is [`EngineError::Unavailable`] and safe to repeat, as
//! with every engine. Left out on purpose: retries, except for a server that sends a retry time
//! (429, 503) and a key that was changed during a wait; HTTP/2; proxy settings of the environment.

mod address;
mod client;
mod error_response;
mod health;
mod subscription;
pub mod wire;

use std::fmt;
use std::time::{Duration, Instant};

use fairlane_core::kernel::Invalid;
use fairlane_core::limits::TYPES_MAX;
use fairlane_core::numbers::within;
use fairlane_core::queue::Promote;
use fairlane_core::{Command, ProcessId, Reply, TypeId};
use tokio::sync::mpsc;

use crate::audit::ScanPage;
use crate::engine::{Admin, BoxFuture, Engine, EngineError, EngineInfo, Space};
use crate::observe::{self, Meters};
use crate::signals::Signals;
pub(crate) use address::ServerAddress;
pub use address::{KEY_VARIABLE, Key};
use client::Client;
pub(crate) use client::Reconnect;
pub use health::ready;
use wire::{Frames, ScanStep, Wait, WireError};

/// The name of this engine.
pub(crate) const NAME: &str = "http";
/// How late the response to a wait may be before the connection counts as dead.
const WAIT_GRACE: Duration = Duration::from_secs(5);
/// The shortest wait, even for a client with a shorter response timeout.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// Options for connecting to a server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The key to send if the address has none.
    pub key: Option<Key>,
    /// How long a server may be silent before the command counts as unanswered.
    pub response_timeout: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self { key: None, response_timeout: Duration::from_secs(60) }
    }
}

impl HttpOptions {
    /// Options with the key from the environment variable `FAIRLANE_KEY`, if it is set.
    pub fn from_environment() -> Result<Self, EngineError> {
        Ok(Self { key: Key::from_environment()?, ..Self::default() })
    }
}

/// A queue behind a server.
pub struct HttpEngine {
    client: Client,
    /// The longest wait of one request, because the client gives up on a server that is
    /// silent for longer.
    wait_max: Duration,
    warnings: Vec<String>,
    meters: Meters,
}

impl HttpEngine {
    /// Connects to `http://host:port` or `https://host`, with a path if the server is behind one. A
    /// key before the host takes precedence over the key of the options.
    pub async fn connect(url: &str, options: HttpOptions) -> Result<Self, EngineError> {
        Self::connect_to(ServerAddress::read(url)?, options, Reconnect::default()).await
    }

    pub(crate) async fn connect_to(
        address: ServerAddress,
        options: HttpOptions,
        reconnect: Reconnect,
    ) -> Result<Self, EngineError> {
        let client = Client::new(address, &options, reconnect)?;
        let mut warnings = client.server_info().await?.warnings;
        warnings.extend(client.warning());
        observe::server_warnings(NAME, &warnings);
        let heard_within = options.response_timeout.saturating_sub(WAIT_GRACE).max(WAIT_MIN);
        let wait_max = heard_within.min(Duration::from_millis(wire::WAIT_MS_MAX));
        Ok(Self { client, wait_max, warnings, meters: Meters::new(NAME) })
    }

    async fn run(&self, command: &Command) -> Result<Reply, EngineError> {
        let answer: Result<Reply, WireError> =
            self.client.ask(wire::SUBMIT_PATH, wire::encode(command), wire::REPLY_BYTES_MAX, None).await?;
        Ok(answer?)
    }

    /// Sends one request of a wait.
    async fn wait_once(&self, types: &[TypeId], at_most: Duration) -> Result<bool, EngineError> {
        let at_most_ms = at_most.as_micros().div_ceil(1000) as u64;
        let wait = wire::encode(&Wait { types: types.to_vec(), at_most_ms });
        let patience = Some(at_most + WAIT_GRACE);
        let answer: Result<bool, WireError> =
            self.client.ask(wire::WAIT_PATH, wait, ANSWER_BYTES_MAX, patience).await?;
        Ok(answer?)
    }

    async fn wait_for(&self, types: &[TypeId], at_most: Duration) -> Result<bool, EngineError> {
        within("the types of one wait", types.len() as u64, 0, TYPES_MAX as u64).map_err(Invalid::from)?;
        if types.is_empty() {
            tokio::time::sleep(at_most).await;
            return Ok(false);
        }
        let started = Instant::now();
        loop {
            let left = at_most.saturating_sub(started.elapsed());
            let step = left.min(self.wait_max);
            let asked = Instant::now();
            if self.wait_once(types, step).await? {
                return Ok(true);
            }
            // A server that responds early allows no longer waits or is stopping; the caller then
            // checks for itself.
            if step == left || asked.elapsed() < step {
                return Ok(false);
            }
        }
    }

    async fn scan_all(&self, pages: mpsc::Sender<ScanPage>) -> Result<(), EngineError> {
        let mut answer = self.client.send(wire::SCAN_PATH, Vec::new()).await?;
        let mut frames = Frames::default();
        while let Some(bytes) = answer.chunk().await.map_err(client::unanswered)? {
            frames.push(&bytes);
            while let Some(step) = frames.next_step().map_err(client::unreadable)? {
                match step {
                    // A receiver that was dropped reports its own failure.
                    ScanStep::Page(page) => drop(pages.send(page).await),
                    ScanStep::Failed(error) => return Err(error.into()),
                    ScanStep::End => return Ok(()),
                }
            }
        }
        Err(unavailable("its response is incomplete"))
    }
}

/// Largest response that is not a reply to a command, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

pub(crate) fn unavailable(reason: impl Into<String>) -> EngineError {
    EngineError::Unavailable { engine: "the server", reason: reason.into() }
}

impl fmt::Debug for HttpEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpEngine").field(&self.client.address().to_string()).finish()
    }
}

impl Engine for HttpEngine {
    /// The information includes the warnings of the server at the time of connecting.
    fn info(&self) -> EngineInfo {
        EngineInfo { name: NAME, warnings: self.warnings.clone() }
    }

    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        let running = self.meters.begin(&command);
        Box::pin(running.until(async move {
            command.validate()?;
            self.run(&command).await
        }))
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        Box::pin(self.meters.waiting(self.wait_for(types, at_most)))
    }

    fn submit_when_woken<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
        command: Command,
    ) -> BoxFuture<'a, Result<Reply, EngineError>> {
        Box::pin((self as &dyn Engine).wait_then_submit(types, at_most, command))
    }

    fn subscribe<'a>(&'a self, process: &'a ProcessId) -> BoxFuture<'a, Result<Signals, EngineError>> {
        Box::pin(subscription::subscribe(&self.client, process))
    }

    fn admin(&self) -> &dyn Admin {
        self
    }
}

impl Admin for HttpEngine {
    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn check_writes(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async {
            let engine: &dyn Engine = self;
            engine.call(Promote { jobs_max: 1 }).await.map(drop)
        })
    }

    fn lost(&self) -> BoxFuture<'_, EngineError> {
        Box::pin(std::future::pending())
    }

    fn announce(&self, _: String) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn scan(&self, pages: mpsc::Sender<ScanPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(self.scan_all(pages))
    }
}

#[cfg(test)]
mod tests;
