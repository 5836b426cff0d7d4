//! Receives notifications of commits. The relay finds other commits by polling.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fairlane_engine::Backoff;
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::{CHANNEL, TARGET};
use crate::sql::{Database, in_time};

/// The application name of the connections on which relays listen, by which a view counts relays.
pub(crate) const APPLICATION: &str = "fairlane relay";

/// After this time without a message the connection is checked. A connection whose server has vanished
/// looks like one without messages.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// A task that listens on a connection of its own.
pub(super) struct Listener(JoinHandle<()>);

impl Listener {
    /// Listens at this address, or else at that of the database, and notifies with each message.
    pub fn start(database: &Database, url: Option<&str>, wakeup: Arc<Notify>) -> Self {
        let options = match url.map(PgConnectOptions::from_str) {
            Some(Ok(options)) => options.disable_statement_logging(),
            _ => (*database.pool.connect_options()).clone(),
        };
        let options = options.application_name(APPLICATION);
        Self(tokio::spawn(listen(options, wakeup, database.reply_timeout)))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn listen(options: PgConnectOptions, wakeup: Arc<Notify>, reply_timeout: Duration) {
    let mut backoff = Backoff::default();
    loop {
        if let Err(error) = listen_once(&options, &wakeup, &mut backoff, reply_timeout).await {
            tracing::debug!(target: TARGET, %error, "the relay receives no notifications of commits; it polls");
        }
        backoff.sleep().await;
    }
}

async fn listen_once(
    options: &PgConnectOptions,
    wakeup: &Notify,
    backoff: &mut Backoff,
    reply_timeout: Duration,
) -> Result<(), sqlx::Error> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options.clone());
    let mut listener = in_time(reply_timeout, PgListener::connect_with(&pool)).await?;
    in_time(reply_timeout, listener.listen(CHANNEL)).await?;
    // Messages that were sent before this connection was made are lost, so the relay polls once.
    wakeup.notify_one();
    loop {
        match tokio::time::timeout(CHECK_INTERVAL, listener.try_recv()).await {
            Ok(Ok(Some(_message))) => {
                backoff.reset();
                wakeup.notify_one();
            }
            // The connection was lost, and with it perhaps a message.
            Ok(Ok(None)) => break,
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                in_time(reply_timeout, sqlx::raw_sql("SELECT 1").execute(&mut listener)).await?;
            }
        }
    }
    wakeup.notify_one();
    Ok(())
}
