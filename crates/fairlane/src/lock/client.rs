//! The thread of a handle's locks. Renewals and wake-ups have a runtime of their own, which an
//! application that blocks its runtime does not hold up.
//!
//! A queue in another process is connected to a second time from this thread, because a connection
//! belongs to the runtime in which it was opened.

use std::io;
use std::sync::Arc;
use std::thread;

use fairlane_core::ProcessId;
use fairlane_core::kernel::Registered;
use fairlane_engine::{BoxFuture, Engine, EngineError, Signals, attach};
use tokio::runtime::Builder;
use tokio::sync::{OnceCell, mpsc, oneshot};
use tokio::task::JoinSet;

use super::acquisition::Acquisition;
use super::guard::LockGuard;
use super::random;
use super::waiters::Waiters;
use crate::error::Error;
use crate::fairlane::broken;

type Task = BoxFuture<'static, ()>;

/// Acquires the locks of one handle.
pub(crate) struct LockClient {
    /// The thread ends when this is dropped and every lock is released.
    tasks: mpsc::UnboundedSender<Task>,
    waiters: Arc<Waiters>,
}

/// The engine of a client, and the address to open it at if it belongs to another runtime.
pub(super) struct OwnEngine {
    shared: Arc<dyn Engine>,
    address: Option<String>,
    own: OnceCell<Arc<dyn Engine>>,
}

impl LockClient {
    /// Starts a thread.
    pub fn start(engine: Arc<dyn Engine>, address: Option<String>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (client, work) = Self::new(engine, address);
        thread::Builder::new().name("fairlane-locks".to_owned()).spawn(move || runtime.block_on(work))?;
        Ok(client)
    }

    /// A client and its work, which ends when the client is dropped and every lock is released.
    pub(super) fn new(
        engine: Arc<dyn Engine>,
        address: Option<String>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (tasks, mut queued) = mpsc::unbounded_channel::<Task>();
        let address = address.filter(|_| matches!(engine.name(), "redis" | "http"));
        let process = ProcessId::new(random()).expect("hexadecimal digits are a name");
        let engine = OwnEngine { shared: engine, address, own: OnceCell::new() };
        let work = async move {
            let mut running = JoinSet::new();
            while let Some(task) = queued.recv().await {
                running.spawn(task);
                while running.try_join_next().is_some() {}
            }
            while running.join_next().await.is_some() {}
        };
        (Self { tasks, waiters: Arc::new(Waiters::new(process, engine)) }, work)
    }

    /// The id of this client among all that wait for locks.
    pub fn process(&self) -> &ProcessId {
        self.waiters.process()
    }

    /// Acquires a lock.
    pub(super) async fn acquire(&self, acquisition: Acquisition) -> Result<LockGuard, Error> {
        let (caller, granted) = oneshot::channel();
        let task = acquisition.run(self.waiters.clone(), caller);
        let ended = |()| broken("the thread of the locks has ended");
        self.tasks.send(Box::pin(task)).map_err(|_| ended(()))?;
        granted.await.map_err(|_| ended(()))?
    }
}

impl OwnEngine {
    async fn get(&self) -> Result<&Arc<dyn Engine>, EngineError> {
        match &self.address {
            Some(address) => self.own.get_or_try_init(|| attach(address)).await,
            None => Ok(&self.shared),
        }
    }

    pub fn name(&self) -> &'static str {
        self.shared.name()
    }

    pub async fn call<O: Registered>(&self, operation: O) -> Result<O::Reply, EngineError> {
        self.get().await?.call(operation).await
    }

    pub async fn subscribe(&self, process: &ProcessId) -> Result<Signals, EngineError> {
        self.get().await?.subscribe(process).await
    }
}
