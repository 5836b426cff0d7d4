//! One server or a cluster, behind one `query`.
//!
//! A connection reconnects by itself; a command that got no answer is an error that says so, and whoever
//! sent it decides when to repeat it. Blocking pops have a connection of their own, without a reply timeout.

use std::time::Duration;

use ::redis::aio::{ConnectionManager, ConnectionManagerConfig};
use ::redis::cluster::ClusterClient;
use ::redis::cluster_async::ClusterConnection;
use ::redis::{Client, Cmd, ErrorKind, RedisError, ServerErrorKind, Value};

use crate::engine::EngineError;

const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(20);
const RECONNECT_DELAY_MAX: Duration = Duration::from_millis(1000);
const RECONNECT_ATTEMPTS: usize = 6;
const CLUSTER_RETRIES: u32 = 3;
/// How much later than asked a blocking pop may come back before the connection counts as dead.
pub(super) const BLOCKING_GRACE: Duration = Duration::from_secs(5);

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
        let client = Client::open(url).map_err(|error| bad_address(url, &error))?;
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
        let nodes: Vec<String> = nodes.split(',').map(|node| format!("redis://{node}")).collect();
        let mut builder = ClusterClient::builder(nodes.iter().map(String::as_str))
            .connection_timeout(CONNECTION_TIMEOUT)
            .retries(CLUSTER_RETRIES);
        builder = builder.response_timeout(response_timeout.unwrap_or(Duration::from_secs(600)));
        let client = builder.build().map_err(|error| bad_address(&nodes.join(","), &error))?;
        client.get_async_connection().await.map(Self::Cluster).map_err(|error| explain(&error))
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Sends one command; the server's own words are kept in the error.
    pub async fn query(&self, command: &Cmd) -> Result<Value, EngineError> {
        self.query_raw(command).await.map_err(|error| explain(&error))
    }

    pub async fn query_raw(&self, command: &Cmd) -> Result<Value, RedisError> {
        match self {
            Self::Single(manager) => command.query_async(&mut manager.clone()).await,
            Self::Cluster(cluster) => command.query_async(&mut cluster.clone()).await,
        }
    }
}

fn bad_address(url: &str, error: &RedisError) -> EngineError {
    EngineError::refused(format!("{url:?} is not a Redis address: {error}; write redis://host:port"))
}

pub(super) fn unavailable(reason: impl Into<String>) -> EngineError {
    EngineError::Unavailable { engine: "redis", reason: reason.into() }
}

/// What a Redis error means for the caller.
pub(super) fn explain(error: &RedisError) -> EngineError {
    match error.kind() {
        ErrorKind::AuthenticationFailed => {
            EngineError::refused(format!("Redis did not accept the password or user in the address: {error}"))
        }
        ErrorKind::Server(ServerErrorKind::NoPerm) => EngineError::refused(format!(
            "the Redis user lacks a permission: {error}; it needs EVAL, EVALSHA and the commands scripts use"
        )),
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ReadOnly
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
