//! A real engine behind a gate: it can be away, answers to leases can be kept back or lost, and looks at bulk actions are
//! counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane::Fairlane;
use fairlane_core::TypeId;
use fairlane_core::queue::{Command, Inspect, Reply};
use fairlane_engine::{BoxFuture, Engine, EngineError, WalkPage};
use fairlane_server::ServerSettings;
use tokio::sync::{mpsc, watch};

use crate::running::Running;

/// The gate of one engine.
pub struct Gate {
    engine: Arc<dyn Engine>,
    open: watch::Sender<bool>,
    /// Leases that were carried out.
    leases: watch::Sender<usize>,
    /// Answers to leases that are still to be lost.
    lost: AtomicUsize,
    away: AtomicBool,
    /// By the bulk action's id.
    looks: Mutex<HashMap<String, usize>>,
}

impl Gate {
    /// A server over an engine in memory with an open gate.
    pub async fn start() -> (Running, Arc<Self>) {
        Self::start_with(ServerSettings::default()).await
    }

    /// The same with other settings.
    pub async fn start_with(settings: ServerSettings) -> (Running, Arc<Self>) {
        let fairlane = Fairlane::open("memory:").await.unwrap();
        let gate = Arc::new(Self {
            engine: fairlane.engine().clone(),
            open: watch::Sender::new(true),
            leases: watch::Sender::new(0),
            lost: AtomicUsize::new(0),
            away: AtomicBool::new(false),
            looks: Mutex::default(),
        });
        let gated = Fairlane::from_engine(gate.clone());
        (Running::start_with(gated, None, settings).await, gate)
    }

    /// Keeps answers to leases back.
    pub fn close(&self) {
        self.open.send_replace(false);
    }

    /// Lets them go.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Loses the answers to the next leases, which are carried out.
    pub fn lose(&self, answers: usize) {
        self.lost.store(answers, Ordering::SeqCst);
    }

    /// Waits until the engine has carried out so many leases.
    pub async fn leased(&self, count: usize) {
        self.leases.subscribe().wait_for(|leases| *leases >= count).await.unwrap();
    }

    /// Answers nothing, or everything again.
    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// How often any bulk action was looked at.
    pub fn looks(&self) -> usize {
        self.looks.lock().unwrap().values().sum()
    }

    /// How often this one was.
    pub fn looks_at(&self, id: &str) -> usize {
        self.looks.lock().unwrap().get(id).copied().unwrap_or(0)
    }
}

impl Engine for Gate {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        Box::pin(async move {
            let is_lease = matches!(command, Command::Lease(_));
            if self.away.load(Ordering::SeqCst) {
                return Err(EngineError::Unavailable { engine: "gate", reason: "away".into() });
            }
            if let Command::Inspect(Inspect::Bulk(bulk)) = &command {
                *self.looks.lock().unwrap().entry(bulk.id.to_string()).or_default() += 1;
            }
            let reply = self.engine.execute(command).await;
            if is_lease {
                self.leases.send_modify(|leases| *leases += 1);
                self.open.subscribe().wait_for(|open| *open).await.unwrap();
                let one_less = |lost: usize| lost.checked_sub(1);
                if self.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                    return Err(EngineError::Unavailable { engine: "gate", reason: "lost".into() });
                }
            }
            reply
        })
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.engine.wait(types, at_most)
    }

    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        self.engine.walk(pages)
    }
}
