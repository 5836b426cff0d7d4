//! A server from its start to its end.

use std::net::SocketAddr;
use std::sync::Arc;

use fairlane::Fairlane;
use tokio::net::TcpListener;

use crate::api;
use crate::app::App;
use crate::figures;
use crate::keys::Keys;
use crate::serve;
use crate::settings::ServerSettings;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("{address} cannot be listened on: {reason}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        reason: std::io::Error,
    },
    /// Everybody could come in from outside.
    #[error(
        "without a valid key the server listens on loopback only, and {0} is not; create a key first (fairlane key \
         create), or listen on 127.0.0.1"
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
    /// Whether it may and can listen there, for those who would make something first: without a valid key only this
    /// machine is listened to, and a port that is in use is nobody else's.
    pub fn check(address: SocketAddr, keys: Option<&Keys>) -> Result<(), ServerError> {
        Self::check_guarded(address, keys)?;
        let tried = std::net::TcpListener::bind(address);
        tried.map(drop).map_err(|reason| ServerError::Listen { address, reason })
    }

    fn check_guarded(address: SocketAddr, keys: Option<&Keys>) -> Result<(), ServerError> {
        let is_guarded = address.ip().is_loopback() || keys.is_some_and(Keys::any_valid);
        if is_guarded { Ok(()) } else { Err(ServerError::Open(address)) }
    }

    /// Listens and serves until it is stopped. Port 0 is any free one.
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
        tokio::spawn(async move { stopping.run_until_cancelled(figures::upkeep()).await });
        let serving = tokio::spawn(serve::serve(listener, api::router(app.clone()), app.clone()));
        Ok(Self { app, address, serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: takes no new connections, ends what waits, and lets what is being answered finish.
    pub async fn stop(self) {
        self.app.stopping.cancel();
        // A panic in the accept loop has been told by the runtime already.
        let _ = self.serving.await;
    }
}
