//! A database with an outbox.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fairlane::views::{HorizonHolder, OutboxStatus};
use fairlane::{Fairlane, Worker};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, PgPool, Postgres, Transaction};

use crate::error::Error;
use crate::mirror::{self, MirroredJob};
use crate::poke::Poker;
use crate::reconcile::{ReconcileReport, ReconcileSettings, Reconciler};
use crate::relay::NOTIFY;
use crate::sql::{Database, REPLY_TIMEOUT};
use crate::{schema, status};

/// Most connections of a pool that [`Outbox::connect`] makes.
const CONNECTIONS_MAX: u32 = 10;
/// How long a call waits for a connection.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// How [`Outbox::commit`] notifies relays of a commit. Without a notification they find it by
/// polling, every 50 ms to 1 s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Notify {
    /// After the commit, on a connection of its own, at most every 5 ms.
    #[default]
    AfterCommit,
    /// Inside the transaction. PostgreSQL takes one lock for the commits of all such transactions,
    /// so producers commit one after the other; a few hundred commits a second are the limit.
    Transaction,
    /// No notification: relays poll.
    Off,
}

/// A PostgreSQL database with an outbox. Clones share their connections.
#[derive(Clone)]
pub struct Outbox {
    database: Database,
    poker: Arc<Poker>,
    notify: Notify,
}

impl Outbox {
    /// Connects to the database at an address such as `postgres://user@host/database`, or to a
    /// PgBouncer in transaction mode.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let (options, connect) = options(url)?;
        Ok(Self::from_pool(options.connect_with(connect).await?))
    }

    /// As [`connect`](Self::connect), for a database that may not reply yet.
    pub fn connect_lazy(url: &str) -> Result<Self, Error> {
        let (options, connect) = options(url)?;
        Ok(Self::from_pool(options.connect_lazy_with(connect)))
    }

    /// An outbox in the database of an application's own pool.
    pub fn from_pool(pool: PgPool) -> Self {
        let poker = Arc::new(Poker::start((*pool.connect_options()).clone()));
        let database = Database { pool, reply_timeout: REPLY_TIMEOUT };
        Self { database, poker, notify: Notify::default() }
    }

    /// The same outbox, whose commits notify relays in this way.
    #[must_use]
    pub fn notify(self, notify: Notify) -> Self {
        Self { notify, ..self }
    }

    /// The same outbox, whose relays and mirrors wait this long for the reply to a statement: 30 s by
    /// default. Then they close the connection and repeat the statement on another one.
    #[must_use]
    pub fn reply_timeout(self, reply_timeout: Duration) -> Self {
        Self { database: Database { reply_timeout, ..self.database }, ..self }
    }

    /// The pool of connections.
    pub fn pool(&self) -> &PgPool {
        &self.database.pool
    }

    pub(crate) fn database(&self) -> &Database {
        &self.database
    }

    /// Makes the tables, or brings them up to date; returns the number of steps that were missing.
    pub async fn migrate(&self) -> Result<usize, Error> {
        schema::migrate(self.pool()).await
    }

    /// Begins a transaction.
    pub async fn begin(&self) -> Result<Transaction<'static, Postgres>, Error> {
        Ok(self.pool().begin().await?)
    }

    /// Commits a transaction and notifies relays, as [`notify`](Self::notify) says: by default after
    /// the commit on a connection of its own, so that commits never wait for each other. If the
    /// notification is lost, relays find the jobs at their next poll.
    pub async fn commit(&self, mut transaction: Transaction<'_, Postgres>) -> Result<(), Error> {
        if self.notify == Notify::Transaction {
            sqlx::raw_sql(NOTIFY).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        if self.notify == Notify::AfterCommit {
            self.poke();
        }
        Ok(())
    }

    /// Notifies relays that jobs were committed: at once, then at most every 5 ms.
    pub fn poke(&self) {
        self.poker.poke();
    }

    /// Adds the mirror to a worker: the state of each of its jobs is kept in the database.
    ///
    /// A job that has succeeded in the database is settled without being run. An end is written to
    /// the database before it is settled in the queue, and only by the youngest lease. While the
    /// database does not reply, attempts wait, and their jobs are released when they time out.
    pub fn mirror(&self, worker: Worker, fairlane: &Fairlane) -> Worker {
        mirror::attach(self.database.clone(), worker, fairlane)
    }

    /// The state of a job; `None` if no transaction has committed it, or its retention is over.
    pub async fn job(&self, group: &str, id: &str) -> Result<Option<MirroredJob>, Error> {
        mirror::read(&self.database, group, id).await
    }

    /// Compares open jobs of the mirror with the queue once, and repairs what differs.
    pub async fn reconcile(
        &self,
        fairlane: &Fairlane,
        settings: ReconcileSettings,
    ) -> Result<ReconcileReport, Error> {
        Reconciler::new(self.database.clone(), fairlane.clone(), settings).run().await
    }

    /// Jobs that wait in the outbox.
    pub async fn status(&self) -> Result<OutboxStatus, Error> {
        status::read(&self.database).await
    }

    /// The transactions that keep committed jobs from being passed on, oldest first.
    pub async fn horizon_holders(&self) -> Result<Vec<HorizonHolder>, Error> {
        status::horizon_holders(&self.database).await
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.pool().close().await;
    }
}

fn options(url: &str) -> Result<(PgPoolOptions, PgConnectOptions), Error> {
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS_MAX).acquire_timeout(ACQUIRE_TIMEOUT);
    // Connections are not tested before use: if one is broken, its first statement fails and is
    // repeated.
    Ok((pool.test_before_acquire(false), connect_options(url)?))
}

/// The options of a connection to the database at this address.
pub(crate) fn connect_options(url: &str) -> Result<PgConnectOptions, Error> {
    // The parser accepts the addresses of other databases.
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(sqlx::Error::Configuration("it begins with another scheme".into()).into());
    }
    Ok(PgConnectOptions::from_str(url)?.disable_statement_logging())
}

/// Whether the tables exist and are as new as this version.
pub(crate) async fn check_tables(database: &Database) -> Result<(), Error> {
    // A function of the newest step is named with its arguments: an older one may have the same name.
    let newest = "SELECT 'fairlane_outbox_claim'::regproc, \
                      'fairlane_outbox_move_known(smallint, jsonb)'::regprocedure \
                  FROM fairlane_outbox, fairlane_mirror LIMIT 0";
    let mut transaction = database.begin().await?;
    database.in_time(sqlx::raw_sql(newest).execute(transaction.connection())).await?;
    transaction.commit().await
}
