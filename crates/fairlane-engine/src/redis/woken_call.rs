//! A function that the server calls as soon as a wake-up token arrives.
//!
//! A blocking pop and the call are sent together, on a connection of their own. The server runs the
//! call when the pop has ended, so that no round trip lies between a token and its lease. The
//! connection serves one caller at a time; others wait and call in two steps.
//!
//! Invariant: a caller that is dropped closes the connection, so that the server forgets a call that
//! it has not begun. One that it has begun is repeated by the caller under the same number.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ::redis::{Cmd, RedisError, Value};
use fairlane_core::TypeId;
use tokio::sync::Mutex;

use super::address::Address;
use super::connection::{Connection, Link};
use super::keys::Keys;
use super::wake_listener::{POP_MAX, POP_MIN, answered, pop};
use crate::engine::EngineError;

/// How long callers do without the connection after it could not be opened.
const CONNECT_PAUSE: Duration = Duration::from_secs(30);

pub(super) struct WokenCall {
    address: Arc<Address>,
    is_met: Arc<AtomicBool>,
    /// Held by the current caller.
    line: Mutex<Line>,
}

/// The connection, opened by the first caller.
#[derive(Default)]
struct Line {
    connection: Option<Connection>,
    /// Until when no caller tries to connect, because the last one could not.
    closed_until: Option<Instant>,
}

/// How a call ended, and whether a token had arrived.
pub(super) struct WokenReply {
    pub is_woken: bool,
    pub reply: Result<Value, RedisError>,
    /// The connection that carried it.
    pub link: Link,
}

impl WokenCall {
    pub fn new(address: Arc<Address>, is_met: Arc<AtomicBool>) -> Self {
        Self { address, is_met, line: Mutex::default() }
    }

    /// Waits for a token of one of these types and runs the call; `None` if the connection is in use, or
    /// if the server accepts no further one.
    pub async fn run(
        &self,
        keys: &Keys,
        types: &[TypeId],
        at_most: Duration,
        call: Cmd,
    ) -> Result<Option<WokenReply>, EngineError> {
        let Ok(mut line) = self.line.try_lock() else { return Ok(None) };
        if line.closed_until.is_some_and(|until| Instant::now() < until) {
            return Ok(None);
        }
        let at_most = at_most.clamp(POP_MIN, POP_MAX);
        let connected = tokio::time::timeout(at_most, self.connect(&mut line.connection)).await;
        let Ok(Ok((connection, link))) = connected else {
            line.closed_until = Some(Instant::now() + CONNECT_PAUSE);
            return Ok(None);
        };
        let close = CloseOnDrop { connection: &connection, is_over: false };
        let both = [pop(keys, types, at_most), call];
        let [popped, reply] = answered(&connection, at_most, link.query_both(both)).await?;
        close.over();
        let is_woken = popped.map_err(|error| link.explain(&error))? != Value::Nil;
        Ok(Some(WokenReply { is_woken, reply, link }))
    }

    async fn connect(&self, held: &mut Option<Connection>) -> Result<(Connection, Link), EngineError> {
        let connection = match held {
            Some(connection) => connection,
            None => held.insert(Connection::open(self.address.clone(), None, self.is_met.clone()).await?),
        };
        Ok((connection.clone(), connection.link().await?))
    }
}

/// Closes the connection of a call that is dropped before its end.
struct CloseOnDrop<'a> {
    connection: &'a Connection,
    is_over: bool,
}

impl CloseOnDrop<'_> {
    fn over(mut self) {
        self.is_over = true;
    }
}

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.connection.drop_link();
        }
    }
}
