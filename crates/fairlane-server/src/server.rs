//! The lifecycle of a server.

use std::net::SocketAddr;
use std::sync::Arc;

use fairlane::{Engine, Fairlane};
use tokio::net::TcpListener;

use crate::api;
use crate::app::App;
use crate::keys::Keys;
use crate::metrics;
use crate::serve;
use crate::settings::ServerSettings;

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
        Self::check_guarded(address, keys.as_deref())?;
        let listen = |reason| ServerError::Listen { address, reason };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let app = Arc::new(App::new(fairlane, keys.clone(), settings));
        if let Some(keys) = keys {
            tokio::spawn(keys.watch(app.stopping.clone()));
        }
        let stopping = app.stopping.clone();
        tokio::spawn(async move { stopping.run_until_cancelled(metrics::upkeep()).await });
        let serving = tokio::spawn(serve::serve(listener, api::router(app.clone()), app.clone()));
        Ok(Self { app, address, serving })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The engine for workers in the process of the server: what they lease and settle appears in the
    /// server's event streams.
    pub fn worker_engine(&self) -> &Arc<dyn Engine> {
        &self.app.worker_engine
    }

    /// Stops: accepts no new connections, ends long polls and streams, and lets other requests
    /// finish.
    pub async fn stop(self) {
        self.app.stopping.cancel();
        // The runtime has reported a panic of the accept loop already.
        let _ = self.serving.await;
    }
}
