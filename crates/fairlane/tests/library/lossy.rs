//! An engine that carries out every command and loses some of the replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fairlane::{EngineError, Fairlane, Settings};
use fairlane_core::{Command, queue};
use fairlane_engine::{Hooks, layer};

/// The faults of an engine, and its counts.
#[derive(Default)]
pub struct Lossy {
    /// Number of replies still to lose.
    pub to_lose: AtomicU64,
    /// Number of enqueue commands so far.
    pub enqueues: AtomicU64,
}

impl Lossy {
    /// Opens a queue in memory, with these settings, whose replies can be lost.
    pub async fn open(settings: Settings) -> (Arc<Self>, Fairlane) {
        let inner = fairlane_engine::open("memory:", settings).await.unwrap();
        let lossy = Arc::new(Self::default());
        let state = lossy.clone();
        let hooks = Hooks::default().submit(move |inner, command| {
            let state = state.clone();
            Box::pin(async move {
                if matches!(command, Command::Queue(queue::Command::Enqueue(_))) {
                    state.enqueues.fetch_add(1, Ordering::SeqCst);
                }
                let reply = inner.submit(command).await?;
                if state.loses() {
                    let reason = "the reply is lost".into();
                    return Err(EngineError::Unavailable { engine: "lossy", reason });
                }
                Ok(reply)
            })
        });
        (lossy, Fairlane::from_engine(layer(inner, hooks)))
    }

    fn loses(&self) -> bool {
        let decrement = |left: u64| left.checked_sub(1);
        self.to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, decrement).is_ok()
    }
}
