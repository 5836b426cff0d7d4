//! Redis, Valkey and Redis Cluster: one script per operation, same stem as the operation in core.
//!
//! - `redis/scripts/*.lua`: the operations; `scripts/include/*.lua`: what they share.
//! - `redis/script.rs`: expands and runs them, whatever the server has forgotten.
//! - `redis/encode.rs`, `redis/decode.rs`: commands to arguments, replies to values.
//! - `redis/keys.rs`: every key's name. `redis/address.rs`: one server or a cluster, with or without TLS.
//! - `redis/connection.rs`: a connection that is replaced. `redis/errors.rs`: what each error means.
//! - `redis/write_guard.rs`, `redis/probe.lua`: what must hold before a write goes out.
//! - `redis/switchboard.rs`: one blocking pop for all who wait.
//! - `redis/audit.rs`: the walk of an audit.
//! - `redis/startup.rs`: what is checked when connecting. `redis/dump.rs`: state to compare, for tests.
//!
//! Invariant: a command is one script call, and repeating it after an error is safe. A script that fails midway
//! is not rolled back: its groups are repaired before their next write. Left out: partitions (there is one),
//! Sentinel.

mod address;
mod audit;
mod connection;
mod decode;
mod dump;
mod encode;
mod errors;
mod keys;
mod script;
mod startup;
mod switchboard;
mod write_guard;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairlane_core::queue::{Command, Dump, Reply};
use fairlane_core::{Micros, TypeId};
use tokio::sync::mpsc;

use crate::audit::WalkPage;
use crate::clock::Clock;
use crate::engine::{BoxFuture, Engine, EngineError, Space};
use crate::observe::{self, Meters};
use address::Address;
pub(crate) use address::is_redis;
use connection::{Connection, Link};
use keys::Keys;
use script::Scripts;
use switchboard::Switchboard;
use write_guard::WriteGuard;

/// Changes a script's source, given its stem; for tests that plant a fault.
pub type ScriptEdit = fn(&str, &str) -> String;

/// How to talk to Redis.
#[derive(Clone)]
pub struct RedisOptions {
    /// Whose time it is: the server's, unless a test gives it.
    pub clock: Clock,
    /// What every key begins with.
    pub prefix: String,
    /// How long a reply may take before the command counts as unanswered.
    pub response_timeout: Duration,
    /// For tests: changes scripts before they are used.
    pub edit_script: Option<ScriptEdit>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            clock: Clock::System,
            prefix: "bulk-action:".into(),
            response_timeout: Duration::from_secs(10),
            edit_script: None,
        }
    }
}

/// A queue in Redis.
pub struct RedisEngine {
    commands: Connection,
    keys: Keys,
    scripts: Arc<Scripts>,
    clock: Clock,
    waits: Switchboard,
    guard: WriteGuard,
    warnings: Vec<String>,
    meters: Meters,
}

/// Whether this can be the address of a Redis, without asking it.
pub(crate) fn check_address(url: &str) -> Result<(), EngineError> {
    Address::read(url).map(drop)
}

impl RedisEngine {
    /// Connects to `redis://host:port[/db]` or `redis+cluster://host:port,host:port`; `rediss` instead of `redis`
    /// connects with TLS. Writes nothing.
    pub async fn connect(url: &str, options: RedisOptions) -> Result<Self, EngineError> {
        let (address, is_met) = (Arc::new(Address::read(url)?), Arc::new(AtomicBool::new(false)));
        let open = |timeout| Connection::open(address.clone(), timeout, is_met.clone());
        let (commands, blocking) = (open(Some(options.response_timeout)).await?, open(None).await?);
        let keys = Keys::new(&options.prefix, commands.is_cluster());
        startup::check_layout(&commands.link().await?, &keys).await?;
        let warnings = startup::warnings(&commands).await?;
        let meters = Meters::new(name(&commands)).with_scripts();
        observe::server_warnings(name(&commands), &warnings);
        Ok(Self {
            waits: Switchboard::start(commands.clone(), blocking, keys.clone()),
            guard: WriteGuard::default(),
            commands,
            scripts: Scripts::new(options.edit_script),
            keys,
            clock: options.clock,
            warnings,
            meters,
        })
    }

    /// The whole state, for comparison in tests.
    pub async fn dump(&self, now: Micros) -> Result<Dump, EngineError> {
        dump::dump(&self.commands, &self.keys, now).await
    }

    /// Takes one wake-up token of any of these types without waiting; for tests.
    pub async fn take_token(&self, types: &[TypeId]) -> Result<Option<TypeId>, EngineError> {
        for name in types {
            let mut pop = redis::cmd("LPOP");
            pop.arg(self.keys.wake(name));
            if self.commands.query(&pop).await? != redis::Value::Nil {
                return Ok(Some(name.clone()));
            }
        }
        Ok(None)
    }

    /// Runs a script. A server that was emptied since it was connected to is marked with our layout again; one that another
    /// program has marked meanwhile is refused.
    async fn run_script(
        &self,
        link: &Link,
        command: &Command,
        stem: &'static str,
        arguments: &[Vec<u8>],
    ) -> Result<redis::Value, EngineError> {
        let partition = self.keys.partition();
        let run = || self.scripts.run(link, stem, &partition, arguments);
        let reply = match run().await {
            Err(error) if script::is_other_layout(&error) => {
                startup::mark_layout(link, &self.keys).await?;
                run().await
            }
            reply => reply,
        };
        reply.map_err(|error| self.guard.failed(link, command, stem, &error))
    }

    async fn run(&self, command: Command, given: Option<Micros>) -> Result<Reply, EngineError> {
        let link = match write_guard::writes(&command) {
            true => self.guard.prepare(self, &command).await?,
            false => self.commands.link().await?,
        };
        let (stem, arguments) = encode::arguments(&command, given);
        let reply = self.meters.script(stem, self.run_script(&link, &command, stem, &arguments)).await?;
        let now = given.unwrap_or_else(|| Clock::System.now());
        decode::reply(&command, reply, now)
    }
}

fn name(commands: &Connection) -> &'static str {
    if commands.is_cluster() { "redis cluster" } else { "redis" }
}

impl Engine for RedisEngine {
    fn name(&self) -> &'static str {
        name(&self.commands)
    }

    /// As the server's settings were when it was connected to.
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>> {
        Box::pin(startup::space(&self.commands, &self.keys))
    }

    fn check_writes(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(startup::check_writes(&self.commands, &self.keys))
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        let given = match &self.clock {
            Clock::System => None,
            given @ Clock::Given(_) => Some(given.now()),
        };
        let running = self.meters.begin(&command);
        Box::pin(running.until(async move {
            command.validate()?;
            self.run(command, given).await
        }))
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        Box::pin(self.meters.waiting(self.waits.wait(types, at_most)))
    }

    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(audit::Walk::new(self, pages).run())
    }
}
