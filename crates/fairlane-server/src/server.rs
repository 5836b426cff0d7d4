//! The lifecycle of a server.

use std::net::SocketAddr;
use std::sync::Arc;

use fairlane::Fairlane;
use tokio::net::{TcpListener, TcpSocket};

use crate::api;
use crate::app::App;
use crate::keys::Keys;
use crate::metrics;
use crate::outbox::OutboxSource;
use crate::passes::{PassFileError, Passes};
use crate::serve;
use crate::settings::ServerSettings;
use crate::ui;

/// Connections that may wait to be accepted; the system lowers it to its own maximum
/// (`net.core.somaxconn` on Linux).
const BACKLOG: u32 = 4096;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// The error of the operating system.
        reason: std::io::Error,
    },
    /// Every client on the network would have access.
    #[error(
        "without a valid key the server listens on loopback addresses only, and {0} is not one; create a key first \
         (fairlane key create), or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// The keys that sign passes cannot be used.
    #[error(transparent)]
    PassKeys(#[from] PassFileError),
}

/// A running server.
pub struct Server {
    app: Arc<App>,
    address: SocketAddr,
    serving: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Whether a server may and can listen on the address, for callers that create something before
    /// they start one. Without a valid key a server listens on loopback addresses only.
    pub fn check(address: SocketAddr, keys: Option<&Keys>) -> Result<(), ServerError> {
        Self::check_guarded(address, keys)?;
        let tried = std::net::TcpListener::bind(address);
        tried.map(drop).map_err(|reason| ServerError::Listen { address, reason })
    }

    fn check_guarded(address: SocketAddr, keys: Option<&Keys>) -> Result<(), ServerError> {
        let is_guarded = address.ip().is_loopback() || keys.is_some_and(Keys::any_valid);
        if is_guarded { Ok(()) } else { Err(ServerError::Open(address)) }
    }

    /// Listens and serves until it is stopped. Port 0 is any free port.
    pub async fn start(
        fairlane: Fairlane,
        address: SocketAddr,
        keys: Option<Arc<Keys>>,
        settings: ServerSettings,
    ) -> Result<Self, ServerError> {
        Self::start_with_outbox(fairlane, address, keys, settings, None).await
    }

    /// As [`start`](Self::start), with the outbox that the dashboard and `GET /api/outbox` show.
    pub async fn start_with_outbox(
        fairlane: Fairlane,
        address: SocketAddr,
        keys: Option<Arc<Keys>>,
        settings: ServerSettings,
        outbox: Option<Arc<dyn OutboxSource>>,
    ) -> Result<Self, ServerError> {
        Self::check_guarded(address, keys.as_deref())?;
        let listen = |reason| ServerError::Listen { address, reason };
        let passes = settings.pass_keys.as_ref().map(|path| Passes::open(path, settings.pass_ttl));
        let passes = passes.transpose()?.map(Arc::new);
        let listener = bind(address).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let app = Arc::new(App::with(fairlane, keys.clone(), settings, passes.clone(), outbox));
        if let Some(keys) = keys {
            tokio::spawn(keys.watch(app.stopping.clone()));
        }
        if let Some(passes) = passes {
            tokio::spawn(passes.watch(app.stopping.clone()));
        }
        let stopping = app.stopping.clone();
        tokio::spawn(async move { stopping.run_until_cancelled(metrics::upkeep()).await });
        tokio::spawn(ui::sample(app.clone()));
        tokio::spawn(ui::sample_types(app.clone()));
        let serving = tokio::spawn(serve::serve(listener, api::router(app.clone()), app.clone()));
        Ok(Self { app, address, serving })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The queue for workers in the process of the server: what they lease and settle appears in the
    /// server's event streams, and is charged to no key.
    pub fn uncharged(&self) -> &Fairlane {
        &self.app.uncharged
    }

    /// Stops: accepts no new connections, ends long polls and streams, and lets other requests
    /// finish.
    pub async fn stop(self) {
        self.app.stopping.cancel();
        // The runtime has reported a panic of the accept loop already.
        let _ = self.serving.await;
    }
}

/// Listens with a backlog that outlasts a burst of connections. When it is full, the system drops
/// the handshakes of all clients, and each of them waits for a retransmission.
fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that restarts may use its address at once, as with `TcpListener::bind`.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpStream;
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn a_burst_of_connections_waits_to_be_accepted_without_loss() {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let system_max = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
        let system_max = system_max.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(128);
        let mut burst: JoinSet<_> = (0..400.min(system_max)).map(|_| TcpStream::connect(address)).collect();
        let mut connected = Vec::new();
        while let Some(stream) = burst.join_next().await {
            connected.push(stream.unwrap().unwrap());
        }
        // None of the connections above has been accepted yet.
        for _ in &connected {
            let accepted = tokio::time::timeout(Duration::from_secs(30), listener.accept()).await;
            accepted.expect("every handshake is complete").unwrap();
        }
    }
}
