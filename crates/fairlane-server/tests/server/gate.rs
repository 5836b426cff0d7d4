//! A real engine behind a gate: it can be unavailable, replies to leases can be delayed or lost,
//! and reads of bulk actions are counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fairlane::Fairlane;
use fairlane_core::queue::{self, InspectBulk};
use fairlane_core::{Command, Reply};
use fairlane_engine::{BoxFuture, Engine, EngineError, Hooks, layer};
use fairlane_server::ServerSettings;
use tokio::sync::watch;

use crate::running::Running;

/// The gate of one engine.
pub struct Gate {
    open: watch::Sender<bool>,
    /// Leases that were carried out.
    leases: watch::Sender<usize>,
    /// Replies to leases that are still to be lost.
    lost: AtomicUsize,
    is_away: AtomicBool,
    /// Reads by the id of the bulk action.
    reads: Mutex<HashMap<String, usize>>,
}

impl Gate {
    /// A server over an engine in memory with an open gate.
    pub async fn start() -> (Running, Arc<Self>) {
        Self::start_with(ServerSettings::default()).await
    }

    /// The same with these settings.
    pub async fn start_with(settings: ServerSettings) -> (Running, Arc<Self>) {
        let fairlane = Fairlane::open("memory:").await.unwrap();
        let gate = Arc::new(Self {
            open: watch::Sender::new(true),
            leases: watch::Sender::new(0),
            lost: AtomicUsize::new(0),
            is_away: AtomicBool::new(false),
            reads: Mutex::default(),
        });
        let submit = {
            let gate = gate.clone();
            move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Submitted> {
                let gate = gate.clone();
                Box::pin(async move { gate.submit(engine, command).await })
            }
        };
        let engine = layer(fairlane.engine().clone(), Hooks::default().submit(submit));
        (Running::start_with(Fairlane::from_engine(engine), None, settings).await, gate)
    }

    /// Delays replies to leases.
    pub fn close(&self) {
        self.open.send_replace(false);
    }

    /// Releases delayed replies.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Loses the replies to the next leases, which are carried out.
    pub fn lose(&self, replies: usize) {
        self.lost.store(replies, Ordering::SeqCst);
    }

    /// Waits until the engine has carried out this many leases.
    pub async fn leased(&self, count: usize) {
        self.leases.subscribe().wait_for(|leases| *leases >= count).await.unwrap();
    }

    /// Makes the engine unavailable, or available again.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    /// How often any bulk action was read.
    pub fn reads(&self) -> usize {
        self.reads.lock().unwrap().values().sum()
    }

    /// How often this bulk action was read.
    pub fn reads_of(&self, id: &str) -> usize {
        self.reads.lock().unwrap().get(id).copied().unwrap_or(0)
    }

    async fn submit(&self, engine: Arc<dyn Engine>, command: Command) -> Submitted {
        let is_lease = matches!(command, Command::Queue(queue::Command::Lease(_)));
        if self.is_away.load(Ordering::SeqCst) {
            return Err(EngineError::Unavailable { engine: "gate", reason: "away".into() });
        }
        if let Command::Queue(queue::Command::InspectBulk(InspectBulk { bulk })) = &command {
            *self.reads.lock().unwrap().entry(bulk.id.to_string()).or_default() += 1;
        }
        let reply = engine.submit(command).await;
        if is_lease {
            self.leases.send_modify(|leases| *leases += 1);
            self.open.subscribe().wait_for(|open| *open).await.unwrap();
            let one_less = |lost: usize| lost.checked_sub(1);
            if self.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                return Err(EngineError::Unavailable { engine: "gate", reason: "lost".into() });
            }
        }
        reply
    }
}

/// What an engine returns for a command.
type Submitted = Result<Reply, EngineError>;
