//! An engine whose answers get lost, and one that cannot be reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlane::{Engine, EngineError, Fairlane, Settings, TypeId};
use fairlane_core::queue::{Command, Reply};
use fairlane_engine::{BoxFuture, WalkPage};
use tokio::sync::mpsc;

/// Carries every command out, and loses the answers that it is told to lose.
pub struct Lossy {
    inner: Arc<dyn Engine>,
    /// Answers to lose, counted down.
    pub to_lose: AtomicU64,
    /// Enqueue commands so far.
    pub enqueues: AtomicU64,
}

impl Lossy {
    /// In memory, with these settings.
    pub async fn open(settings: Settings) -> (Arc<Self>, Fairlane) {
        let inner = fairlane_engine::open("memory:", settings).await.unwrap();
        let lossy = Arc::new(Self { inner, to_lose: AtomicU64::new(0), enqueues: AtomicU64::new(0) });
        (lossy.clone(), Fairlane::from_engine(lossy))
    }

    fn loses(&self) -> bool {
        let lower = |left: u64| left.checked_sub(1);
        self.to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lower).is_ok()
    }
}

impl Engine for Lossy {
    fn name(&self) -> &'static str {
        "lossy"
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        Box::pin(async move {
            if matches!(command, Command::Enqueue(_)) {
                self.enqueues.fetch_add(1, Ordering::SeqCst);
            }
            let reply = self.inner.execute(command).await?;
            if self.loses() {
                return Err(EngineError::Unavailable {
                    engine: "lossy",
                    reason: "the answer is lost".into(),
                });
            }
            Ok(reply)
        })
    }

    fn wait<'a>(&'a self, types: &'a [TypeId], most: Duration) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.inner.wait(types, most)
    }

    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        self.inner.walk(pages)
    }
}
