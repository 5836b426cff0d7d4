//! One server or a cluster, behind one `query`.
//!
//! A connection reconnects by itself; a command that got no answer is an error that says so, and whoever
//! sent it decides when to repeat it. Blocking pops have a connection of their own, without a reply timeout.

use std::time::Duration;

use ::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use ::redis::cluster::ClusterClient;
use ::redis::cluster_async::ClusterConnection;
use ::redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use ::redis::{Client, Cmd, ErrorKind, RedisError, ServerErrorKind, Value};

use crate::engine::EngineError;
use crate::open::without_user;

const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(20);
const RECONNECT_DELAY_MAX: Duration = Duration::from_millis(1000);
const RECONNECT_ATTEMPTS: usize = 6;
const CLUSTER_RETRIES: u32 = 3;

/// A way to a server or cluster; clones share it.
#[derive(Clone)]
pub(super) enum Connection {
    Single(ConnectionManager),
    Cluster(ClusterConnection),
}

impl Connection {
    pub async fn open(url: &str, response_timeout: Option<Duration>) -> Result<Self, EngineError> {
        match url.strip_prefix("redis+cluster://") {
            Some(nodes) => Self::open_cluster(nodes, response_timeout).await,
            None => Self::open_single(url, response_timeout).await,
        }
    }

    async fn open_single(url: &str, response_timeout: Option<Duration>) -> Result<Self, EngineError> {
        let client = client(url)?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECTION_TIMEOUT))
            .set_response_timeout(response_timeout)
            .set_min_delay(RECONNECT_DELAY_MIN)
            .set_max_delay(RECONNECT_DELAY_MAX)
            .set_number_of_retries(RECONNECT_ATTEMPTS);
        let manager = client.get_connection_manager_with_config(config).await;
        manager.map(Self::Single).map_err(|error| explain(&error))
    }

    async fn open_cluster(nodes: &str, response_timeout: Option<Duration>) -> Result<Self, EngineError> {
        let client = cluster_client(nodes, response_timeout)?;
        client.get_async_connection().await.map(Self::Cluster).map_err(|error| explain(&error))
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Sends one command; the server's own words are kept in the error.
    pub async fn query(&self, command: &Cmd) -> Result<Value, EngineError> {
        self.query_raw(command).await.map_err(|error| explain(&error))
    }

    /// Sends a command that names no key to the server that has this key.
    pub async fn query_at(&self, key: &str, command: &Cmd) -> Result<Value, EngineError> {
        let Self::Cluster(cluster) = self else { return self.query(command).await };
        let node = SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master));
        let reply = cluster.clone().route_command(command.clone(), RoutingInfo::SingleNode(node)).await;
        reply.map_err(|error| explain(&error))
    }

    pub async fn query_raw(&self, command: &Cmd) -> Result<Value, RedisError> {
        match self {
            Self::Single(manager) => command.query_async(&mut manager.clone()).await,
            Self::Cluster(cluster) => command.query_async(&mut cluster.clone()).await,
        }
    }
}

/// Whether a connection can be tried, without trying it.
pub(super) fn check_address(url: &str) -> Result<(), EngineError> {
    match url.strip_prefix("redis+cluster://") {
        Some(nodes) => cluster_client(nodes, None).map(drop),
        None => client(url).map(drop),
    }
}

fn client(url: &str) -> Result<Client, EngineError> {
    Client::open(url).map_err(|error| bad_address(url, &error))
}

fn cluster_client(nodes: &str, response_timeout: Option<Duration>) -> Result<ClusterClient, EngineError> {
    let urls: Vec<String> = nodes.split(',').map(|node| format!("redis://{node}")).collect();
    let builder = ClusterClient::builder(urls.iter().map(String::as_str))
        .connection_timeout(CONNECTION_TIMEOUT)
        .retries(CLUSTER_RETRIES)
        .response_timeout(response_timeout.unwrap_or(Duration::from_secs(600)));
    builder.build().map_err(|error| bad_address(&format!("redis+cluster://{nodes}"), &error))
}

/// Never shows a user or a password.
fn bad_address(url: &str, error: &RedisError) -> EngineError {
    let shown = without_user(url);
    EngineError::refused(format!("{shown:?} is not a Redis address: {error}; write redis://host:port"))
}

/// What is said of a replica.
const READ_ONLY: &str = "it is a read-only replica; name its primary in the address";

pub(super) fn unavailable(reason: impl Into<String>) -> EngineError {
    EngineError::Unavailable { engine: "redis", reason: reason.into() }
}

/// What a Redis error means for the caller.
pub(super) fn explain(error: &RedisError) -> EngineError {
    match error.kind() {
        _ if error.code() == Some("NOAUTH") => EngineError::refused(
            "Redis wants a password and the address has none; write redis://:password@host:port, or \
             redis://user:password@host:port",
        ),
        ErrorKind::AuthenticationFailed => {
            EngineError::refused(format!("Redis did not accept the password or user in the address: {error}"))
        }
        // The client's own words are several lines about bytes.
        _ if error.to_string().contains("Parse error") => EngineError::refused(
            "what answers at this address does not speak as Redis does; is it the port of something else?",
        ),
        // A failover is on its way, or this is the wrong server; which one only time tells.
        ErrorKind::Server(ServerErrorKind::ReadOnly) => unavailable(READ_ONLY),
        ErrorKind::Server(ServerErrorKind::NoPerm) => EngineError::refused(format!(
            "the Redis user lacks a permission: {error}; it needs EVAL, EVALSHA and the commands scripts use"
        )),
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::TryAgain
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask,
        )
        | ErrorKind::Io
        | ErrorKind::ClusterConnectionNotFound => unavailable(error.to_string()),
        _ if error.code() == Some("OOM") || error.to_string().contains("OOM") => EngineError::refused(
            "Redis is out of memory: enqueues are refused, draining goes on; raise maxmemory, shorten \
             retention or let workers catch up",
        ),
        _ if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() => {
            unavailable(error.to_string())
        }
        _ => EngineError::broken(format!("Redis answered with an error: {error}")),
    }
}
