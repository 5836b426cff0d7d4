//! A Fairlane server as an engine: commands go there as they are, and replies come back.
//!
//! - `http/wire.rs`: what is said, as bytes. `http/address.rs`: where, and with which key.
//! - `http/client.rs`: requests. `http/answer.rs`: what an answer that is none means.
//! - `http/health.rs`: whether a server can work.
//!
//! Invariant: a command that got no answer is [`EngineError::Unavailable`] and safe to repeat, as with every engine.
//! Left out on purpose: retrying, but for a server that says when (429, 503) and a key that was changed while a wait was
//! held; HTTP/2; proxies of the environment.

mod address;
mod answer;
mod client;
mod health;
pub mod wire;

use std::fmt;
use std::time::{Duration, Instant};

use fairlane_core::TypeId;
use fairlane_core::limits::TYPES_MAX;
use fairlane_core::numbers::within;
use fairlane_core::queue::{Command, Invalid, Reply};
use tokio::sync::mpsc;

use crate::audit::WalkPage;
use crate::engine::{BoxFuture, Engine, EngineError};
use crate::observe::{self, Meters};
pub(crate) use address::ServerAddress;
pub use address::{KEY_VARIABLE, Key};
use client::Client;
pub(crate) use client::Way;
pub use health::ready;
use wire::{Facts, Frames, Trouble, Wait, WalkStep};

/// What this engine is called.
pub(crate) const NAME: &str = "http";
/// How much later than asked an answer to a wait may come before the connection counts as dead.
const WAIT_GRACE: Duration = Duration::from_secs(5);
/// The shortest, however impatient the client is.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// How to talk to a server.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The key that is shown if the address has none.
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
    /// With the key in the environment variable `FAIRLANE_KEY`, if that is set.
    pub fn from_environment() -> Result<Self, EngineError> {
        Ok(Self { key: Key::from_environment()?, ..Self::default() })
    }
}

/// A queue behind a server.
pub struct HttpEngine {
    client: Client,
    /// The longest wait of one request: the client gives up on a server that is silent for longer.
    wait_max: Duration,
    warnings: Vec<String>,
    meters: Meters,
}

impl HttpEngine {
    /// Connects to `http://host:port` or `https://host`, with a path if the server stands behind one. A key that
    /// stands before the host goes before that of the options.
    pub async fn connect(url: &str, options: HttpOptions) -> Result<Self, EngineError> {
        Self::connect_to(ServerAddress::read(url)?, options, Way::default()).await
    }

    pub(crate) async fn connect_to(
        address: ServerAddress,
        options: HttpOptions,
        way: Way,
    ) -> Result<Self, EngineError> {
        let client = Client::new(address, &options, way)?;
        let facts: Facts = client.facts().await?;
        let mut warnings = facts.warnings;
        warnings.extend(client.warning());
        observe::server_warnings(NAME, &warnings);
        let heard_within = options.response_timeout.saturating_sub(WAIT_GRACE).max(WAIT_MIN);
        let wait_max = heard_within.min(Duration::from_millis(wire::WAIT_MS_MAX));
        Ok(Self { client, wait_max, warnings, meters: Meters::new(NAME) })
    }

    async fn run(&self, command: &Command) -> Result<Reply, EngineError> {
        let answer: Result<Reply, Trouble> =
            self.client.ask(wire::EXECUTE_PATH, wire::encode(command), wire::REPLY_BYTES_MAX, None).await?;
        Ok(answer?)
    }

    /// One request of a wait.
    async fn wait_once(&self, types: &[TypeId], at_most: Duration) -> Result<bool, EngineError> {
        let at_most_ms = at_most.as_micros().div_ceil(1000) as u64;
        let wait = wire::encode(&Wait { types: types.to_vec(), at_most_ms });
        let patience = Some(at_most + WAIT_GRACE);
        let answer: Result<bool, Trouble> =
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
            // A server that answers early allows no longer waits, or stops: whoever waits looks for itself.
            if step == left || asked.elapsed() < step {
                return Ok(false);
            }
        }
    }

    async fn walk_through(&self, pages: mpsc::Sender<WalkPage>) -> Result<(), EngineError> {
        let mut answer = self.client.send(wire::WALK_PATH, Vec::new()).await?;
        let mut frames = Frames::default();
        while let Some(bytes) = answer.chunk().await.map_err(client::unanswered)? {
            frames.push(&bytes);
            while let Some(step) = frames.next_step().map_err(client::unreadable)? {
                match step {
                    // Whoever looks at suspects has failed then, and says so itself.
                    WalkStep::Page(page) => drop(pages.send(page).await),
                    WalkStep::Failed(trouble) => return Err(trouble.into()),
                    WalkStep::End => return Ok(()),
                }
            }
        }
        Err(unavailable("its answer broke off"))
    }
}

/// Largest answer that is no reply to a command.
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
    fn name(&self) -> &'static str {
        NAME
    }

    /// Those of the server, as they were when it was connected to.
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
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

    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(self.walk_through(pages))
    }
}

#[cfg(test)]
mod tests;
