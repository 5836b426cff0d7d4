//! The interface of an engine, and its errors.
//!
//! An engine applies commands one at a time and wakes callers that wait for work. It knows of
//! commands and replies only what the registry tells about them. Invariant: a command may be
//! repeated after any error. Left out on purpose: retries, which need a policy, and refusals of
//! work, which are replies.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use fairlane_core::kernel::{Invalid, Registered};
use fairlane_core::limits::MAKE_DUE_JOBS_MAX;
use fairlane_core::queue::MakeDue;
use fairlane_core::{Command, GroupId, ProcessId, Reply, TypeId};
use tokio::sync::mpsc;

use crate::audit::ScanPage;
use crate::signals::Signals;

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The interface of an engine, which holds the state.
pub trait Engine: Send + Sync + 'static {
    /// Information about the engine for operators and callers.
    fn info(&self) -> EngineInfo;

    /// Applies one command; safe to repeat after an error.
    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>>;

    /// Waits until jobs of these types may be available, at most `at_most`; true if a
    /// wake-up arrived.
    fn wait<'a>(&'a self, types: &'a [TypeId], at_most: Duration)
    -> BoxFuture<'a, Result<bool, EngineError>>;

    /// Waits like [`wait`](Self::wait), then applies the command, also if no wake-up arrived. Where the
    /// engine can, it applies the command as soon as the wake-up is there, without another round trip.
    /// The command may be applied after the future was dropped; it is safe to repeat.
    fn submit_when_woken<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
        command: Command,
    ) -> BoxFuture<'a, Result<Reply, EngineError>>;

    /// Receives the signals to the waiters of a process. Completes when the subscription is
    /// confirmed: a waiter that registers later misses no signal. A process subscribes once.
    fn subscribe<'a>(&'a self, process: &'a ProcessId) -> BoxFuture<'a, Result<Signals, EngineError>>;

    /// The administrative interface of the store.
    fn admin(&self) -> &dyn Admin;
}

/// The administrative interface of the store.
pub trait Admin: Send + Sync {
    /// How full the store is; `None` if its limit is unknown or it has none.
    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>>;

    /// Whether changes are accepted now, new jobs included; the error is the reason. Unlike a read,
    /// this fails on a full disk, on a replica, and while a store waits for its replicas.
    fn check_writes(&self) -> BoxFuture<'_, Result<(), EngineError>>;

    /// Completes with the reason when the engine cannot continue until it is reopened: its disk is
    /// damaged, or its thread has ended. A process that serves the engine should then exit and be
    /// restarted. For an engine with its state in another process this never completes, because
    /// callers wait for that process.
    fn lost(&self) -> BoxFuture<'_, EngineError>;

    /// Records with the state where this process can be reached, for processes that find the state
    /// in use. Has no effect if many processes share the state.
    fn announce(&self, address: String) -> BoxFuture<'_, Result<(), EngineError>>;

    /// Reads the complete store and reports suspects, for
    /// [`audit_all`](trait.Engine.html#method.audit_all).
    fn scan(&self, pages: mpsc::Sender<ScanPage>) -> BoxFuture<'_, Result<(), EngineError>>;
}

/// Information about an engine for operators and callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    /// The kind of engine.
    pub name: &'static str,
    /// Warnings about settings that weaken its guarantees, a sentence each.
    pub warnings: Vec<String>,
}

/// The space that the state uses, and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in use: by the Redis server, or by the files of a data directory.
    pub used_bytes: u64,
    /// The limit in bytes: `maxmemory`, or the bytes in use plus the free disk space.
    pub limit_bytes: u64,
}

/// An error of an engine. A refusal to accept or lease jobs is not an error but a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The command is malformed and was not sent; repeating it does not help.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No reply arrived; the command may have been applied, and may be repeated.
    #[error("{engine} cannot be reached: {reason}; the command is safe to repeat")]
    Unavailable {
        /// The name of the engine.
        engine: &'static str,
        /// The reason, as its client reports it.
        reason: String,
    },
    /// The store cannot apply the command in its current state; the reason says what to do.
    #[error("{reason}")]
    Refused {
        /// The problem and what to do about it.
        reason: String,
    },
    /// The engine is incompatible with this program, or has stopped.
    #[error("{reason}")]
    Broken {
        /// What was found.
        reason: String,
    },
}

impl EngineError {
    /// Whether the same command may succeed if it is sent again after a pause.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    pub(crate) fn broken(reason: impl Into<String>) -> Self {
        Self::Broken { reason: reason.into() }
    }

    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into() }
    }
}

impl dyn Engine {
    /// Applies one operation; safe to repeat after an error.
    pub async fn call<O: Registered>(&self, operation: O) -> Result<O::Reply, EngineError> {
        reply_to::<O>(self.submit(operation.into_command()).await?)
    }

    /// Applies one operation when a wake-up arrives or the time is over; safe to repeat after an error.
    pub async fn call_when_woken<O: Registered>(
        &self,
        types: &[TypeId],
        at_most: Duration,
        operation: O,
    ) -> Result<O::Reply, EngineError> {
        reply_to::<O>(self.submit_when_woken(types, at_most, operation.into_command()).await?)
    }

    /// Waits, then applies the command: [`Engine::submit_when_woken`] in two steps.
    pub(crate) async fn wait_then_submit(
        &self,
        types: &[TypeId],
        at_most: Duration,
        command: Command,
    ) -> Result<Reply, EngineError> {
        self.wait(types, at_most).await?;
        self.submit(command).await
    }

    /// The kind of engine.
    pub fn name(&self) -> &'static str {
        self.info().name
    }

    /// Makes every waiting job of a group (or of all groups) due now, and returns their number.
    pub async fn make_all_due(&self, group: Option<GroupId>) -> Result<usize, EngineError> {
        let (mut moved, mut cursor) = (0, 0);
        loop {
            let command = MakeDue { group: group.clone(), cursor, jobs_max: MAKE_DUE_JOBS_MAX };
            let made = self.call(command).await?;
            moved += made.moved;
            match made.next {
                Some(next) => cursor = next,
                None => return Ok(moved),
            }
        }
    }
}

fn reply_to<O: Registered>(reply: Reply) -> Result<O::Reply, EngineError> {
    O::from_reply(reply).ok_or_else(|| {
        EngineError::broken(format!("{} was answered with the reply to another operation", O::STEM))
    })
}
