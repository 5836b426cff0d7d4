//! The state that all locks of one handle share: waiters, leases, and the thread that renews them.
//!
//! An acquisition waits on the runtime of its caller and uses the connection of the handle, so that no
//! other thread stands between a reply and the caller. A lease that is released before its first
//! renewal never reaches the thread (see `lock/renewals.rs`).

use std::io;
use std::sync::Arc;
use std::thread;

use fairlane_core::ProcessId;
use fairlane_engine::{BoxFuture, Engine};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::acquisition::Acquisition;
use super::guard::LockGuard;
use super::random;
use super::renewals::Renewals;
use super::waiters::Waiters;
use crate::error::Error;
use crate::fairlane::broken;

type Task = BoxFuture<'static, ()>;

/// Acquires the locks of one handle; clones share everything.
#[derive(Clone)]
pub(crate) struct LockClient(Arc<Inner>);

struct Inner {
    /// Tasks for the thread. It ends when the last client and the last guard have dropped this
    /// sender and every lock is released.
    tasks: mpsc::UnboundedSender<Task>,
    waiters: Arc<Waiters>,
    renewals: Arc<Renewals>,
}

impl LockClient {
    /// A client whose work runs on a thread of its own.
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
        let process = ProcessId::new(random()).expect("hexadecimal digits are a name");
        let renewals = Arc::new(Renewals::new(engine.clone(), address));
        let inner = Inner { tasks, waiters: Arc::new(Waiters::new(process, engine)), renewals };
        let renewals = inner.renewals.clone();
        let work = async move {
            let mut running = JoinSet::new();
            let connected = renewals.clone();
            // If connecting fails, the first renewal tries again.
            running.spawn(async move { drop(connected.engine().await) });
            loop {
                tokio::select! {
                    task = queued.recv() => match task {
                        Some(task) => {
                            running.spawn(task);
                        }
                        None => break,
                    },
                    leases = renewals.due() => {
                        for lease in leases {
                            running.spawn(lease.keep(renewals.clone()));
                        }
                    }
                }
                while running.try_join_next().is_some() {}
            }
            while running.join_next().await.is_some() {}
        };
        (Self(Arc::new(inner)), work)
    }

    /// The id of this client among all that wait for locks.
    pub fn process(&self) -> &ProcessId {
        self.waiters().process()
    }

    /// Acquires a lock. A task of its own sends the requests, because they must not be cancelled with
    /// the caller; without a runtime, the thread runs it.
    pub(super) async fn acquire(&self, acquisition: Acquisition) -> Result<LockGuard, Error> {
        let (caller, granted) = oneshot::channel();
        let task = acquisition.run(self.clone(), caller);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(task)),
            Err(_) => self.run(task),
        }
        granted.await.unwrap_or_else(|_| Err(broken("the runtime of the acquisition has ended")))
    }

    /// Runs a task on the thread.
    pub(super) fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        // This cannot fail, because the thread outlives all clients.
        let _ = self.0.tasks.send(Box::pin(task));
    }

    pub(super) fn waiters(&self) -> &Arc<Waiters> {
        &self.0.waiters
    }

    pub(super) fn renewals(&self) -> &Arc<Renewals> {
        &self.0.renewals
    }
}
