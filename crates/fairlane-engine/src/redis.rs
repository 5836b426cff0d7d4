//! Redis, Valkey and Redis Cluster: one function per operation, named after the operation in core.
//!
//! - `redis/lua/queue/ops/*.lua`: the operations; `redis/lua/**`: the functions that they share.
//! - `redis/lua.rs`: joins the Lua files into a library. `redis/script.rs`: runs operations, even if
//!   the server has forgotten or refuses the library.
//! - `redis/codec.rs`: commands to arguments, replies to values; `redis/codec/queue.rs` those of hot
//!   operations, `redis/packed.rs` all others.
//! - `redis/keys.rs`: the names of all keys. `redis/address.rs`: one server or a cluster,
//!   with or without TLS.
//! - `redis/connection.rs`: a connection that is replaced. `redis/errors.rs`: the
//!   meaning of each error.
//! - `redis/write_guard.rs`, `redis/probe.lua`: the conditions for a write.
//! - `redis/wake_listener.rs`: one blocking pop for all waiters. `redis/woken_call.rs`: a pop and the
//!   call that follows it. `redis/signal_listener.rs`: signals to the waiters of processes.
//! - `redis/audit.rs`: the scan of an audit.
//! - `redis/startup.rs`: the checks on connecting. `redis/dump.rs`: the state to
//!   compare, for tests.
//!
//! Invariant: a command is one function call, and it is safe to repeat it after an error. A script
//! that fails midway is not rolled back: its groups are repaired before their next write. Left out:
//! more than one partition, Sentinel.

mod address;
mod audit;
mod codec;
mod connection;
mod dump;
mod errors;
mod keys;
mod lua;
#[doc(hidden)]
pub mod packed;
mod script;
mod signal_listener;
mod startup;
mod wake_listener;
mod woken_call;
mod write_guard;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairlane_core::kernel::Dump;
use fairlane_core::{Command, Micros, ProcessId, Reply, TypeId};
use tokio::sync::mpsc;

use crate::audit::ScanPage;
use crate::clock::Clock;
use crate::engine::{Admin, BoxFuture, Engine, EngineError, EngineInfo, Space};
use crate::observe::{self, Meters};
use crate::signals::Signals;
use address::Address;
pub(crate) use address::is_redis;
use connection::{Connection, Link};
use keys::Keys;
use script::Scripts;
use signal_listener::SignalListener;
use wake_listener::WakeListener;
use woken_call::WokenCall;
use write_guard::WriteGuard;

/// Changes the source of a Lua file, given its stem; for tests that plant a fault.
pub type ScriptEdit = fn(&str, &str) -> String;

/// Options for connecting to Redis.
#[derive(Clone)]
pub struct RedisOptions {
    /// The source of time: the server's clock, unless a test sets it.
    pub clock: Clock,
    /// The prefix of every key.
    pub prefix: String,
    /// How long a reply may take before the command counts as unanswered.
    pub response_timeout: Duration,
    /// Changes Lua files before they are used, for tests.
    pub edit_script: Option<ScriptEdit>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            clock: Clock::System,
            prefix: keys::DEFAULT_PREFIX.into(),
            response_timeout: Duration::from_secs(10),
            edit_script: None,
        }
    }
}

/// A queue in Redis.
pub struct RedisEngine {
    commands: Connection,
    keys: Keys,
    scripts: Scripts,
    clock: Clock,
    waits: WakeListener,
    /// For one caller at a time; a cluster has none.
    woken_call: Option<WokenCall>,
    signals: SignalListener,
    guard: WriteGuard,
    warnings: Vec<String>,
    meters: Meters,
}

/// Decodes the reply of a command's script from the bytes that Redis sent, for fuzzing.
#[doc(hidden)]
pub fn decode_reply(command: &Command, bytes: &[u8], now: Micros) -> Result<Reply, EngineError> {
    let value = ::redis::parse_redis_value(bytes).map_err(|error| EngineError::broken(error.to_string()))?;
    codec::decode(command, value, now)
}

/// Whether this can be the address of a Redis, without a connection.
pub(crate) fn check_address(url: &str) -> Result<(), EngineError> {
    Address::read(url).map(drop)
}

impl RedisEngine {
    /// Connects to `redis://host:port[/db]` or `redis+cluster://host:port,host:port`; `rediss`
    /// instead of `redis` connects with TLS. Writes nothing.
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
            waits: WakeListener::start(commands.clone(), blocking, keys.clone()),
            woken_call: (!commands.is_cluster()).then(|| WokenCall::new(address.clone(), is_met)),
            signals: SignalListener::new(address.clone(), options.response_timeout),
            guard: WriteGuard::default(),
            commands,
            scripts: Scripts::new(options.edit_script),
            keys,
            clock: options.clock,
            warnings,
            meters,
        })
    }

    /// The state of the queue, for comparison in tests.
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

    /// Runs a script. A server that was emptied after the connection was opened is marked with our
    /// layout again. A server that another program has marked in the meantime is refused.
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
        let link = match command.is_read_only() {
            true => self.commands.link().await?,
            false => self.guard.prepare(self, &command).await?,
        };
        let (stem, arguments) = (command.stem(), codec::encode(&command, given));
        let reply = self.meters.script(stem, self.run_script(&link, &command, stem, &arguments)).await?;
        let now = given.unwrap_or_else(|| Clock::System.now());
        codec::decode(&command, reply, now)
    }

    /// Has the server apply a command when a token arrives. `None` if the command has to be submitted
    /// after a wait; else the reply if there is one, and whether a token had arrived.
    async fn run_woken(
        &self,
        types: &[TypeId],
        at_most: Duration,
        command: &Command,
    ) -> Result<Option<(bool, Option<Reply>)>, EngineError> {
        let Some(woken_call) = &self.woken_call else { return Ok(None) };
        if types.is_empty() || !matches!(self.clock, Clock::System) {
            return Ok(None);
        }
        self.guard.prepare(self, command).await?;
        let (stem, arguments) = (command.stem(), codec::encode(command, None));
        let Some(call) = self.scripts.function_call(stem, &self.keys.partition(), &arguments) else {
            return Ok(None);
        };
        let Some(ended) = woken_call.run(&self.keys, types, at_most, call).await? else { return Ok(None) };
        let reply = match ended.reply {
            Ok(reply) => Some(codec::decode(command, reply, Clock::System.now())?),
            Err(error) if errors::is_midway(&error) => {
                return Err(self.guard.failed(&ended.link, command, stem, &error));
            }
            // Such as a function that is not loaded yet: the command was not begun.
            Err(_) => None,
        };
        Ok(Some((ended.is_woken, reply)))
    }
}

fn name(commands: &Connection) -> &'static str {
    if commands.is_cluster() { "redis cluster" } else { "redis" }
}

impl Engine for RedisEngine {
    /// The information includes warnings about the server's settings at the time of connecting, and
    /// about a permission that a waiter for a lock has lacked since.
    fn info(&self) -> EngineInfo {
        let warnings = self.warnings.iter().chain(self.signals.warning()).cloned().collect();
        EngineInfo { name: name(&self.commands), warnings }
    }

    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
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

    fn submit_when_woken<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
        command: Command,
    ) -> BoxFuture<'a, Result<Reply, EngineError>> {
        Box::pin(async move {
            command.validate()?;
            let running = self.meters.begin(&command);
            match self.run_woken(types, at_most, &command).await {
                Ok(Some((is_woken, Some(reply)))) => running.ended_wait(is_woken, Ok(reply)),
                Ok(Some((is_woken, None))) => {
                    self.meters.wait_ended(is_woken);
                    self.submit(command).await
                }
                Ok(None) => (self as &dyn Engine).wait_then_submit(types, at_most, command).await,
                Err(error) => running.ended_wait(false, Err(error)),
            }
        })
    }

    fn subscribe<'a>(&'a self, process: &'a ProcessId) -> BoxFuture<'a, Result<Signals, EngineError>> {
        Box::pin(self.signals.subscribe(process))
    }

    fn admin(&self) -> &dyn Admin {
        self
    }
}

impl Admin for RedisEngine {
    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>> {
        Box::pin(startup::space(&self.commands, &self.keys))
    }

    fn check_writes(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(startup::check_writes(&self.commands, &self.keys))
    }

    fn lost(&self) -> BoxFuture<'_, EngineError> {
        Box::pin(std::future::pending())
    }

    fn announce(&self, _: String) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn scan(&self, pages: mpsc::Sender<ScanPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(audit::Scan::new(self, pages).run())
    }
}
