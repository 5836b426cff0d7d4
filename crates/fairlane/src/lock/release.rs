//! A release that is sent even if the task that sends it is cancelled.

use std::time::Duration;

use fairlane_core::lock::{LockName, LockReleased, ReleaseLock};
use fairlane_engine::{Backoff, Engine, EngineError};
use tokio::time::Instant;

use super::client::LockClient;
use super::waiters::TokenInUse;

/// The release of an acquisition, of its lock or of its place among the waiters. Dropping it passes
/// it to the thread for locks.
pub(super) struct Release {
    client: LockClient,
    unsent: Option<Unsent>,
}

struct Unsent {
    name: LockName,
    token: TokenInUse,
    /// When the lease has ended, so that no release is needed.
    give_up: Option<Instant>,
    ttl: Duration,
}

impl Release {
    pub fn new(client: LockClient, name: LockName, token: TokenInUse, ttl: Duration) -> Self {
        Self { client, unsent: Some(Unsent { name, token, give_up: None, ttl }) }
    }

    pub fn client(&self) -> &LockClient {
        &self.client
    }

    /// Sets the time at which the lease has ended, so that the release is not retried any longer.
    pub fn give_up_at(&mut self, deadline: Instant) {
        if let Some(unsent) = &mut self.unsent {
            unsent.give_up = Some(deadline);
        }
    }

    /// Cancels the release: dropping it sends nothing.
    pub fn cancel(&mut self) {
        self.unsent = None;
    }

    /// Sends the release; true if the lock was held until now.
    pub async fn send(mut self, engine: &dyn Engine) -> Result<bool, EngineError> {
        let released = match &self.unsent {
            Some(unsent) => unsent.send(engine).await,
            None => Ok(false),
        };
        self.unsent = None;
        released
    }
}

impl Unsent {
    async fn send(&self, engine: &dyn Engine) -> Result<bool, EngineError> {
        let give_up = self.give_up.unwrap_or_else(|| Instant::now() + self.ttl);
        let mut backoff = Backoff::default();
        let mut is_repeated = false;
        loop {
            let (name, token) = (self.name.clone(), self.token.token().clone());
            match engine.call(ReleaseLock { name, token }).await {
                Ok(LockReleased::Released) => return Ok(true),
                // An earlier try whose reply was lost may have released the lock.
                Ok(_) => return Ok(is_repeated && Instant::now() < give_up),
                Err(error) if error.is_retryable() && Instant::now() < give_up => backoff.sleep().await,
                Err(error) => return Err(error),
            }
            is_repeated = true;
        }
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        let Some(unsent) = self.unsent.take() else { return };
        let renewals = self.client.renewals().clone();
        self.client.run(async move {
            if let Ok(engine) = renewals.engine().await {
                let _ = unsent.send(&**engine).await;
            }
        });
    }
}
