//! Notifies relays of commits.
//!
//! A transaction with a NOTIFY takes a lock that all such transactions share, from before its
//! commit to after it, which serialises the commits of all producers. So the NOTIFY is sent after
//! the commit, on a connection of its own, and many commits share one.

use std::time::Duration;

use sqlx::{ConnectOptions, PgConnection, postgres::PgConnectOptions};
use tokio::sync::mpsc;

use crate::relay::NOTIFY;
use crate::sql::{REPLY_TIMEOUT, in_time};

/// The shortest time between two messages.
const POKE_INTERVAL: Duration = Duration::from_millis(5);
/// The pause after a message that could not be sent; relays poll meanwhile.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// A task that sends messages to relays.
pub(crate) struct Poker {
    wanted: mpsc::Sender<()>,
}

impl Poker {
    /// Starts the task. It connects when it sends its first message, and ends when this value is
    /// dropped.
    pub fn start(options: PgConnectOptions) -> Self {
        let (wanted, requests) = mpsc::channel(1);
        tokio::spawn(send(options, requests));
        Self { wanted }
    }

    /// Requests a message. A message that is already requested and not yet sent covers this request
    /// too.
    pub fn poke(&self) {
        let _ = self.wanted.try_send(());
    }
}

async fn send(options: PgConnectOptions, mut requests: mpsc::Receiver<()>) {
    let mut connection = None;
    while requests.recv().await.is_some() {
        let sent = in_time(REPLY_TIMEOUT, notify(&options, &mut connection)).await;
        if let Err(error) = &sent {
            tracing::debug!(%error, "relays were not notified of a commit; they find it by polling");
            connection = None;
        }
        tokio::time::sleep(if sent.is_ok() { POKE_INTERVAL } else { FAILURE_PAUSE }).await;
    }
}

async fn notify(options: &PgConnectOptions, kept: &mut Option<PgConnection>) -> Result<(), sqlx::Error> {
    let connection = match kept {
        Some(connection) => connection,
        None => kept.insert(options.connect().await?),
    };
    // The name of the channel is a constant, and a simple query needs no prepared statement.
    sqlx::raw_sql(NOTIFY).execute(connection).await?;
    Ok(())
}
