//! A real server before an embedded engine, and the `http` engine as its client.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fairlane::Fairlane;
use fairlane_conformance::subject::START;
use fairlane_core::queue::Settings;
use fairlane_engine::{Clock, EmbeddedEngine, Engine};
use fairlane_server::{Server, ServerSettings};

/// A server, and the engine that it serves.
pub struct Served {
    /// The engine behind the server.
    pub embedded: Arc<EmbeddedEngine>,
    /// The clock of that engine, in microseconds.
    pub us: Arc<AtomicU64>,
    server: Server,
}

impl Served {
    /// Starts a server before a queue in memory with its own clock.
    pub async fn start() -> Self {
        let us = Arc::new(AtomicU64::new(START.0));
        let engine = EmbeddedEngine::new(Settings::default(), Clock::Given(us.clone())).expect("a thread");
        let embedded = Arc::new(engine);
        Self { server: serve(embedded.clone()).await, embedded, us }
    }

    /// The port of the server.
    pub fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// Connects to the server.
    pub async fn connect(&self) -> Arc<dyn Engine> {
        connect(self.port()).await
    }
}

/// Starts a server before an engine, without keys and without a rate limit.
pub async fn serve(engine: Arc<dyn Engine>) -> Server {
    let settings = ServerSettings { key_rate: None, ..ServerSettings::default() };
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    Server::start(Fairlane::from_engine(engine), address, None, settings).await.expect("a port is free")
}

/// Connects to the server on this port.
pub async fn connect(port: u16) -> Arc<dyn Engine> {
    fairlane_engine::attach(&format!("http://127.0.0.1:{port}")).await.expect("the server listens")
}
