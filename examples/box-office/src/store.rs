//! The database of the shop: one SQLite file, which several instances may share.
//!
//! - `schema.rs`: tables and constraints. `sale.rs`: the transactions of a purchase.
//! - `views.rs`: reads. `outbox.rs`: what a transaction leaves for later.
//!
//! Invariant: a write is one short transaction that takes the write lock at its beginning, so that it
//! never fails half way for want of it. Reads have connections of their own and see a snapshot.

mod outbox;
mod sale;
mod schema;
mod views;

pub use outbox::{Effect, Lane, OutboxRow};
pub use sale::{Attempt, Held, Payable, Released, SaleError};
pub use schema::{Catalogue, SEATS_MAX, SEATS_PER_ROW};
pub use views::{ConcertView, Counts, ReservationView, ScheduleTitle, ScheduleView, SeatStatus, SeatView};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

/// How long a connection waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause before a statement that did not wait by itself is repeated.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// Connections for reads that are kept open.
const READERS_MAX: usize = 4;

/// An error of the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite reports an error.
    #[error("the database cannot be used: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A row has text that this version does not know.
    #[error("the database has {0:?}, which this version does not know; use the version that wrote it")]
    Unknown(String),
    /// The thread of a query has ended.
    #[error("the query was stopped; the program is ending")]
    Stopped,
}

/// A handle to the database. Clones refer to the same connections.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
    /// The connection that counts the commits of all others.
    watcher: Mutex<Connection>,
    title_queries: AtomicU64,
}

impl Store {
    /// Opens or makes the file, and adds the concerts of the catalogue that it does not have.
    pub fn open(path: &Path, catalogue: &Catalogue) -> Result<Self, StoreError> {
        let mut connection = connect(path, false)?;
        schema::prepare(&mut connection, catalogue)?;
        let (writer, watcher) = (Mutex::new(connection), Mutex::new(connect(path, true)?));
        let (readers, title_queries) = (Mutex::default(), AtomicU64::default());
        Ok(Self(Arc::new(Inner { path: path.to_owned(), writer, readers, watcher, title_queries })))
    }

    /// Runs a transaction on a thread that may block.
    pub async fn write<T, E>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let store = self.clone();
        let run = move || {
            let mut writer = store.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
            let begun = writer.transaction_with_behavior(TransactionBehavior::Immediate);
            let transaction = begun.map_err(StoreError::from)?;
            let done = work(&transaction)?;
            transaction.commit().map_err(StoreError::from)?;
            Ok(done)
        };
        tokio::task::spawn_blocking(run).await.unwrap_or(Err(StoreError::Stopped.into()))
    }

    /// Runs a read on a thread that may block.
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.clone();
        let run = move || {
            let kept = store.readers().pop();
            let mut reader = match kept {
                Some(reader) => reader,
                None => connect(&store.0.path, true)?,
            };
            let done = work(&reader.transaction()?)?;
            let mut readers = store.readers();
            if readers.len() < READERS_MAX {
                readers.push(reader);
            }
            Ok(done)
        };
        tokio::task::spawn_blocking(run).await.unwrap_or(Err(StoreError::Stopped))
    }

    /// A number that changes with every commit, of any instance.
    pub async fn data_version(&self) -> Result<i64, StoreError> {
        let store = self.clone();
        let run = move || {
            let watcher = store.0.watcher.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(watcher.pragma_query_value(None, "data_version", |row| row.get(0))?)
        };
        tokio::task::spawn_blocking(run).await.unwrap_or(Err(StoreError::Stopped))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// How many queries for titles there were.
    pub fn title_queries(&self) -> u64 {
        self.0.title_queries.load(Ordering::Relaxed)
    }

    fn readers(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.0.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection with the settings of every connection.
pub(crate) fn connect(path: &Path, is_read_only: bool) -> Result<Connection, StoreError> {
    let connection = if is_read_only {
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?
    } else {
        Connection::open(path)?
    };
    connection.busy_timeout(BUSY_TIMEOUT)?;
    if !is_read_only {
        use_write_ahead_log(&connection)?;
        // A confirmed seat stays sold after a loss of power.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
    }
    Ok(connection)
}

/// Switches a new file to a write-ahead log. Another instance may do the same at this moment: SQLite
/// then returns an error at once, whatever the timeout of the connection is.
fn use_write_ahead_log(connection: &Connection) -> Result<(), rusqlite::Error> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                if Instant::now() > deadline {
                    return Err(error);
                }
                std::thread::sleep(BUSY_PAUSE);
            }
            switched => return switched,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_that_make_the_file_at_the_same_time_all_open_it() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("shop.db");
            std::thread::scope(|scope| {
                let opening: Vec<_> = (0..8).map(|_| scope.spawn(|| connect(&path, false))).collect();
                for opened in opening {
                    opened.join().unwrap().unwrap();
                }
            });
        }
    }
}
