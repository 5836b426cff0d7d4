//! A real server before an engine in memory, and the `http` engine before that.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fairlane::Fairlane;
use fairlane_conformance::subject::START;
use fairlane_core::queue::Settings;
use fairlane_engine::{Clock, EmbeddedEngine, Engine};
use fairlane_server::{Server, ServerSettings};

/// A server, and what it serves.
pub struct Served {
    /// What is behind it.
    pub embedded: Arc<EmbeddedEngine>,
    /// The time of the engine behind it.
    pub us: Arc<AtomicU64>,
    server: Server,
}

impl Served {
    /// A queue in memory, on a clock of its own, behind a server.
    pub async fn start() -> Self {
        let us = Arc::new(AtomicU64::new(START.0));
        let engine = EmbeddedEngine::new(Settings::default(), Clock::Given(us.clone())).expect("a thread");
        let embedded = Arc::new(engine);
        Self { server: serve(embedded.clone()).await, embedded, us }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// The way to it.
    pub async fn connect(&self) -> Arc<dyn Engine> {
        connect(self.port()).await
    }
}

/// A server before an engine, without keys and as fast as it can.
pub async fn serve(engine: Arc<dyn Engine>) -> Server {
    let settings = ServerSettings { key_rate: None, ..ServerSettings::default() };
    let address = (Ipv4Addr::LOCALHOST, 0).into();
    Server::start(Fairlane::from_engine(engine), address, None, settings).await.expect("a port is free")
}

/// The engine of whoever listens there.
pub async fn connect(port: u16) -> Arc<dyn Engine> {
    fairlane_engine::attach(&format!("http://127.0.0.1:{port}")).await.expect("a server is there")
}
