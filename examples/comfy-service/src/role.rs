//! Starts and stops the roles: API, relay and worker, each in its own process or all in one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fairlane::{Fairlane, Pool};
use fairlane_postgres::{Outbox, ReconcileSettings, Relay, RelaySettings};
use tokio::net::TcpListener;
use tokio::sync::{OnceCell, oneshot};
use tokio::task::JoinHandle;

use crate::api::{self, App};
use crate::files::Files;
use crate::options::Options;
use crate::{StartError, store, worker};

/// The pause before a database or queue that does not reply is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// How long open connections have when the API stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// The roles that a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// Accepts jobs.
    pub api: bool,
    /// Passes jobs on from the database to the queue.
    pub relay: bool,
    /// Runs prompts and sends callbacks.
    pub worker: bool,
}

impl Roles {
    /// All roles in one process.
    pub const ALL: Self = Self { api: true, relay: true, worker: true };
    /// The API only.
    pub const API: Self = Self { api: true, relay: false, worker: false };
    /// A relay only.
    pub const RELAY: Self = Self { api: false, relay: true, worker: false };
    /// A worker only.
    pub const WORKER: Self = Self { api: false, relay: false, worker: true };
}

/// A queue that is opened when it is first needed: the API accepts jobs without it.
pub struct Queue {
    url: String,
    opened: OnceCell<Fairlane>,
}

impl Queue {
    /// The queue at this address.
    pub fn at(url: &str) -> Self {
        Self { url: url.to_owned(), opened: OnceCell::new() }
    }

    /// A queue that is already open.
    pub fn opened(fairlane: Fairlane) -> Self {
        Self { url: String::new(), opened: OnceCell::new_with(Some(fairlane)) }
    }

    /// Opens the queue, unless it is open.
    pub async fn open(&self) -> Result<&Fairlane, fairlane::Error> {
        self.opened.get_or_try_init(|| Fairlane::open(&self.url)).await
    }
}

/// Running roles.
pub struct Running {
    /// The address of the API.
    pub address: Option<SocketAddr>,
    /// The database.
    pub outbox: Outbox,
    server: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    relay: Option<JoinHandle<()>>,
    pool: Option<Pool>,
}

/// Starts these roles; waits for a database or queue that does not reply yet.
pub async fn start(roles: Roles, options: &Options) -> Result<Running, StartError> {
    start_on(Queue::at(&options.engine), roles, options).await
}

/// Starts these roles on this queue.
pub async fn start_on(queue: Queue, roles: Roles, options: &Options) -> Result<Running, StartError> {
    if roles.worker {
        // Settings that cannot work are reported before anything is waited for.
        options.engine_settings()?;
        options.callbacks().check()?;
    }
    let catalogue = options.catalogue()?;
    let files = Files::open(&options.files).map_err(|error| {
        format!("{} cannot be used: {error}; name another --files", options.files.display())
    })?;
    let outbox = Outbox::connect_lazy(&options.database)?;
    wait_for("the database", async || store::migrate(&outbox).await).await?;
    let mut running = Running { address: None, outbox, server: None, relay: None, pool: None };
    if roles.relay || roles.worker {
        let fairlane = wait_for("the queue", async || queue.open().await.cloned()).await?;
        if roles.relay {
            running.relay = Some(start_relay(&running.outbox, &fairlane, options));
        }
        if roles.worker {
            if let Err(error) = wait_for("the queue", async || worker::prepare(&fairlane).await).await {
                // A key of the role worker may not change types.
                tracing::warn!("callbacks have as many retries as other jobs: {error}");
            }
            running.pool = Some(worker::start(&running.outbox, &fairlane, &files, options)?);
        }
    }
    if roles.api {
        let listener = TcpListener::bind(options.listen).await;
        let listener = listener.map_err(|error| {
            format!("cannot listen on {}: {error}; name another --listen", options.listen)
        })?;
        running.address = Some(listener.local_addr()?);
        let app = App {
            outbox: running.outbox.clone(),
            queue: Arc::new(queue),
            files,
            catalogue: Arc::new(catalogue),
            addresses: options.addresses(),
        };
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            if let Err(error) = axum::serve(listener, api::router(app)).with_graceful_shutdown(stopped).await
            {
                tracing::error!("the API has ended: {error}");
            }
        });
        running.server = Some((stop, server));
    }
    Ok(running)
}

fn start_relay(outbox: &Outbox, fairlane: &Fairlane, options: &Options) -> JoinHandle<()> {
    let settings = RelaySettings {
        reconcile_interval: Some(options.reconcile_every),
        reconcile: ReconcileSettings { stale_after: options.reconcile_every, ..ReconcileSettings::default() },
        ..RelaySettings::default()
    };
    let relay = Relay::new(outbox, fairlane, settings);
    tokio::spawn(async move {
        if let Err(error) = relay.run(std::future::pending()).await {
            tracing::error!("the relay has ended: {error}");
        }
    })
}

/// Tries again while a store does not reply. What trying again does not cure is an error.
async fn wait_for<T, E: std::error::Error + Send + Sync + 'static>(
    what: &str,
    open: impl AsyncFn() -> Result<T, E>,
) -> Result<T, StartError> {
    loop {
        match open().await {
            Ok(opened) => return Ok(opened),
            Err(error) if is_unavailable(&error) => {
                tracing::warn!("{what} does not reply, and is tried again: {error}");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_unavailable(error: &(dyn std::error::Error + 'static)) -> bool {
    use fairlane_postgres::sqlx::Error as SqlError;
    let queue = error.downcast_ref::<fairlane::Error>();
    let queue_is_down = queue.is_some_and(fairlane::Error::is_retryable);
    let database_is_down = match error.downcast_ref::<fairlane_postgres::Error>() {
        Some(fairlane_postgres::Error::Database(SqlError::Database(error))) => {
            // The classes of connections, resources, and servers that start or stop.
            let code = error.code().unwrap_or_default();
            ["08", "40", "53", "57", "58"].iter().any(|class| code.starts_with(class))
        }
        Some(fairlane_postgres::Error::Database(SqlError::Configuration(_))) => false,
        Some(fairlane_postgres::Error::Database(_)) => true,
        _ => false,
    };
    queue_is_down || database_is_down
}

impl Running {
    /// The base URL of the API; empty without one.
    pub fn url(&self) -> String {
        self.address.map(|address| format!("http://{address}")).unwrap_or_default()
    }

    /// Stops accepting requests, lets running attempts end or hands them back, and stops the relay.
    pub async fn stop(self) {
        if let Some((stop, mut server)) = self.server {
            let _ = stop.send(());
            // Streams of events have no end of their own.
            if tokio::time::timeout(STOP_TIMEOUT, &mut server).await.is_err() {
                server.abort();
            }
        }
        if let Some(pool) = self.pool {
            pool.stop().await;
        }
        if let Some(relay) = self.relay {
            relay.abort();
        }
        self.outbox.close().await;
    }
}
