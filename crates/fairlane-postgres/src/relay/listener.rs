//! Receives notifications of commits. The relay finds other commits by polling.

use std::str::FromStr;
use std::sync::Arc;

use fairlane_engine::Backoff;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{ConnectOptions, PgPool};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::JoinHandle;

use super::{CHANNEL, TARGET};

/// The application name of the connections on which relays listen, by which a view counts relays.
pub(crate) const APPLICATION: &str = "fairlane relay";

/// A task that listens on a connection of its own.
pub(super) struct Listener {
    wakeup: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Listener {
    /// Listens at this address, or else at that of the pool.
    pub fn start(pool: &PgPool, url: Option<&str>) -> Self {
        let wakeup = Arc::new(Notify::new());
        let options = match url.map(PgConnectOptions::from_str) {
            Some(Ok(options)) => options.disable_statement_logging(),
            _ => (*pool.connect_options()).clone(),
        };
        let task = tokio::spawn(listen(options.application_name(APPLICATION), wakeup.clone()));
        Self { wakeup, task }
    }

    /// Completes with the next message, or at once if one arrived since the last call.
    pub fn wakeup(&self) -> Notified<'_> {
        self.wakeup.notified()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(options: PgConnectOptions, wakeup: Arc<Notify>) {
    let mut backoff = Backoff::default();
    loop {
        if let Err(error) = listen_once(&options, &wakeup, &mut backoff).await {
            tracing::debug!(target: TARGET, %error, "the relay receives no notifications of commits; it polls");
        }
        backoff.sleep().await;
    }
}

async fn listen_once(
    options: &PgConnectOptions,
    wakeup: &Notify,
    backoff: &mut Backoff,
) -> Result<(), sqlx::Error> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(CHANNEL).await?;
    // Messages that were sent before this connection was made are lost, so the relay polls once.
    wakeup.notify_one();
    // `None` is a connection that was lost, and with it perhaps a message.
    while let Some(_message) = listener.try_recv().await? {
        backoff.reset();
        wakeup.notify_one();
    }
    wakeup.notify_one();
    Ok(())
}
