//! A connection that is replaced when it breaks or leads to the wrong server.
//!
//! The connection manager of the client library keeps a connection to a primary that was demoted,
//! so this module does the reconnecting. An error that `errors.rs` attributes to the wrong server
//! drops the link, and the next command resolves the name and connects again. A command without a
//! reply is an error; its caller decides when to repeat it. Blocking pops have a connection of
//! their own, without a response timeout.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ::redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use ::redis::{Cmd, RedisError, Value};

use super::address::{Address, Line};
use super::errors::{self, Stage, explain};
use crate::engine::EngineError;

const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(20);
const RECONNECT_ATTEMPTS: u32 = 7;
/// A younger link is kept after an error of the wrong server, so that many callers of a replica do
/// not each open a new connection.
const LINK_AGE_MIN: Duration = Duration::from_millis(100);

/// A connection to a server or cluster; clones share it.
#[derive(Clone)]
pub(super) struct Connection(Arc<Inner>);

struct Inner {
    address: Arc<Address>,
    response_timeout: Option<Duration>,
    /// Whether any connection to this address has executed a command.
    is_met: Arc<AtomicBool>,
    link: Mutex<Option<Link>>,
    links: AtomicU64,
    /// Held while connecting; contains the error of the last attempt, if it failed.
    connecting: tokio::sync::Mutex<Option<(Instant, RedisError)>>,
}

/// The reply to one command, or the error of the server.
pub(super) type QueryReply = Result<Value, RedisError>;

/// One open connection.
#[derive(Clone)]
pub(super) struct Link {
    /// The number of the connection, counted from 1.
    pub number: u64,
    opened: Instant,
    line: Line,
    connection: std::sync::Weak<Inner>,
    is_met: Arc<AtomicBool>,
}

impl Connection {
    /// Opens a connection. Connections with the same `is_met` lead to the same address.
    pub async fn open(
        address: Arc<Address>,
        response_timeout: Option<Duration>,
        is_met: Arc<AtomicBool>,
    ) -> Result<Self, EngineError> {
        let connection = Self(Arc::new(Inner {
            address,
            response_timeout,
            is_met,
            link: Mutex::new(None),
            links: AtomicU64::new(0),
            connecting: tokio::sync::Mutex::new(None),
        }));
        connection.link().await?;
        Ok(connection)
    }

    pub fn is_cluster(&self) -> bool {
        self.0.address.is_cluster()
    }

    /// The name of the user in Redis' access control lists.
    pub fn user(&self) -> String {
        self.0.address.user()
    }

    /// Sends one command; the error contains the message of the server.
    pub async fn query(&self, command: &Cmd) -> Result<Value, EngineError> {
        self.link().await?.query(command).await
    }

    /// Sends a command without keys to the server that has this key.
    pub async fn query_at(&self, key: &str, command: &Cmd) -> Result<Value, EngineError> {
        let link = self.link().await?;
        link.query_at(key, command).await.map_err(|error| link.explain(&error))
    }

    /// The current link, or a new one.
    pub async fn link(&self) -> Result<Link, EngineError> {
        if let Some(link) = self.0.current() {
            return Ok(link);
        }
        self.0.connect(&self.0).await.map_err(|error| match error.is_timeout() && self.0.address.has_tls() {
            // A port without TLS does not respond to a TLS handshake.
            true => {
                errors::unavailable(format!("{error}; is this the TLS port? A plain one does not answer TLS"))
            }
            false => explain(&error, stage(&self.0.is_met)),
        })
    }

    /// Drops the current link, because it did not respond in time.
    pub fn drop_link(&self) {
        self.0.slot().take();
    }
}

impl Inner {
    fn slot(&self) -> MutexGuard<'_, Option<Link>> {
        self.link.lock().expect("nothing panics while it holds the link")
    }

    fn current(&self) -> Option<Link> {
        self.slot().clone()
    }

    /// Connects, unless another caller has done so in the meantime. Callers that waited for a
    /// failed attempt share its error.
    async fn connect(&self, own: &Arc<Self>) -> Result<Link, RedisError> {
        let asked = Instant::now();
        let mut failed = self.connecting.lock().await;
        if let Some(link) = self.current() {
            return Ok(link);
        }
        if let Some((at, error)) = &*failed
            && *at > asked
        {
            return Err(error.clone());
        }
        match self.try_to_connect().await {
            Ok(line) => {
                let link = Link {
                    number: self.links.fetch_add(1, Ordering::Relaxed) + 1,
                    opened: Instant::now(),
                    line,
                    connection: Arc::downgrade(own),
                    is_met: self.is_met.clone(),
                };
                *failed = None;
                *self.slot() = Some(link.clone());
                Ok(link)
            }
            Err(error) => {
                *failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Retries for a moment, so that callers do not notice the restart of a server. Each attempt
    /// resolves the name again.
    async fn try_to_connect(&self) -> Result<Line, RedisError> {
        let mut delay = RECONNECT_DELAY_MIN;
        for _ in 1..RECONNECT_ATTEMPTS {
            match self.address.connect(self.response_timeout).await {
                Err(error) if error.is_connection_refusal() || error.is_connection_dropped() => {}
                ended => return ended,
            }
            tokio::time::sleep(delay).await;
            delay *= 2;
        }
        self.address.connect(self.response_timeout).await
    }
}

impl Link {
    /// Sends one command; the error contains the message of the server.
    pub async fn query(&self, command: &Cmd) -> Result<Value, EngineError> {
        self.query_raw(command).await.map_err(|error| self.explain(&error))
    }

    pub async fn query_raw(&self, command: &Cmd) -> Result<Value, RedisError> {
        let reply = match &self.line {
            Line::Single(single) => command.query_async(&mut single.clone()).await,
            Line::Cluster(cluster) => command.query_async(&mut cluster.clone()).await,
        };
        self.note(reply)
    }

    /// Sends two commands together to a single server. The server begins the second when the first
    /// has ended.
    pub async fn query_both(&self, [first, second]: [Cmd; 2]) -> Result<[QueryReply; 2], EngineError> {
        let Line::Single(single) = &self.line else {
            return Err(EngineError::broken("two commands were sent together to a cluster"));
        };
        let mut both = ::redis::pipe();
        both.add_command(first).add_command(second);
        let replies = single.clone().send_packed_commands(&both, 0, 2).await;
        let replies = replies.map_err(|error| {
            let error = self.note(Err(error)).expect_err("an error stays one");
            self.explain(&error)
        })?;
        let replies: Vec<QueryReply> =
            replies.into_iter().map(|reply| self.note(reply.extract_error())).collect();
        replies.try_into().map_err(|_| EngineError::broken("two commands did not get two replies"))
    }

    /// Sends a command without keys to the server that has this key.
    pub async fn query_at(&self, key: &str, command: &Cmd) -> Result<Value, RedisError> {
        let Line::Cluster(cluster) = &self.line else { return self.query_raw(command).await };
        let node = SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master));
        self.note(cluster.clone().route_command(command.clone(), RoutingInfo::SingleNode(node)).await)
    }

    /// The meaning of an error of this link.
    pub fn explain(&self, error: &RedisError) -> EngineError {
        explain(error, stage(&self.is_met))
    }

    /// The error for a missing permission: final before the first command, transient later.
    pub fn refuse(&self, reason: String) -> EngineError {
        errors::access(reason, stage(&self.is_met))
    }

    /// Records that a command was executed: from now on, errors of access are transient.
    pub fn met(&self) {
        if !self.is_met.load(Ordering::Relaxed) {
            self.is_met.store(true, Ordering::Relaxed);
        }
    }

    /// Passes the reply on, and drops the link if the error shows that it is broken or leads to
    /// the wrong server.
    fn note(&self, reply: QueryReply) -> QueryReply {
        if let Err(error) = &reply
            && errors::replaces_link(error)
            && (error.code().is_none() || self.opened.elapsed() >= LINK_AGE_MIN)
            && let Some(connection) = self.connection.upgrade()
        {
            connection.slot().take_if(|link| link.number == self.number);
        }
        reply
    }
}

fn stage(is_met: &AtomicBool) -> Stage {
    if is_met.load(Ordering::Relaxed) { Stage::Later } else { Stage::First }
}
