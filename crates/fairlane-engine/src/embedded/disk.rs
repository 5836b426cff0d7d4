//! A data directory: the rows of a queue in SQLite, in tables that people can read.
//!
//! - `disk/lock.rs`: one process owns a directory. `disk/reserve.rs`: space kept back for a full disk.
//! - `disk/schema.rs`: the tables, and how older ones become today's.
//! - `disk/rows.rs`: changed rows into the tables, and the tables into a machine.
//! - `disk/export.rs`: every row that can be read. `disk/import.rs`: rows into a new directory.
//! - `disk/discard.rs`: jobs removed without a machine.
//! - `disk/failure.rs`: what can be wrong with a directory, and what to do about it.
//!
//! Invariant: [`Disk::write`] writes all of its changes or none, and when it returns they are on disk
//! (unless asked otherwise). Left out on purpose: what to answer when it fails, which is the owner's.

mod discard;
mod export;
mod failure;
mod import;
mod lock;
mod persistence;
mod reserve;
mod rows;
mod schema;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fairlane_core::{Changes, Machines};
use rusqlite::{Connection, OpenFlags};

pub use discard::{SelectedJobs, Selection, StoredState};
pub use export::{Exported, Field, Record, export};
pub use failure::DiskError;
pub use import::{Import, Imported};
pub(crate) use lock::address_in;
pub use lock::{Owner, owner_of};
pub(super) use persistence::DiskPersistence;
pub use reserve::space;
pub use rows::Loading;

use lock::Lock;
use reserve::Reserve;

/// The file with the tables.
pub(super) const FILE: &str = "fairlane.db";
/// Frames of the write-ahead log after which they are moved into the file: 4 MiB.
const CHECKPOINT_PAGES: u32 = 1000;
/// The log is cut back to this after it was larger.
const LOG_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How long another program may hold the file before a write fails.
const PATIENCE: Duration = Duration::from_secs(1);
/// Kept of the file in memory.
const CACHE_KIB: u32 = 32 * 1024;
/// Statements kept ready; there are fewer.
const STATEMENTS_MAX: usize = 64;
/// Unused pages from which on the file is made smaller, if they are also a fourth of it.
const FREE_PAGES_MAX: u64 = 1000;
/// Pages given back in one step.
const VACUUM_PAGES: u32 = 1000;
/// Bytes that must fit before changes are taken again after a failure.
const PROBE_BYTES: u32 = 128 * 1024;

/// When what was written is safe from a failure of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sync {
    /// When a write returns.
    #[default]
    Each,
    /// Soon after.
    Soon,
    /// When the operating system likes; for tests.
    Never,
}

/// What a check has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Jobs that are there.
    pub jobs: u64,
    /// What is wrong, a sentence each.
    pub found: Vec<String>,
}

/// Whether a directory holds a queue, as far as names tell.
pub fn holds_queue(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// An open directory that this process owns.
#[derive(Debug)]
pub struct Disk {
    connection: Connection,
    folder: PathBuf,
    reserve: Reserve,
    _lock: Lock,
}

impl Disk {
    /// Opens a directory, which is made if it is not there, and keeps `reserve_bytes` back in it.
    pub fn open(folder: &Path, sync: Sync, reserve_bytes: u64) -> Result<Self, DiskError> {
        lock::make_folder(folder)?;
        let lock = Lock::take(folder)?;
        let mut reserve = Reserve::make(folder, reserve_bytes);
        let file = folder.join(FILE);
        lock::make_private(&file);
        let connection = match open_file(&file, sync) {
            // What was kept back lets a full disk be drained.
            Err(DiskError::Full { .. }) if reserve.release() => open_file(&file, sync)?,
            opened => opened?,
        };
        Ok(Self { connection, folder: folder.to_owned(), reserve, _lock: lock })
    }

    /// Opens a directory that is there and holds a queue; nothing is kept back.
    pub fn open_existing(folder: &Path) -> Result<Self, DiskError> {
        if !holds_queue(folder) {
            return Err(DiskError::Missing { folder: folder.to_owned() });
        }
        Self::open(folder, Sync::Each, 0)
    }

    /// The machines made of all rows, or `None` in a new directory; reports to `progress`.
    pub fn load(&self, progress: &mut dyn FnMut(Loading)) -> Result<Option<Machines>, DiskError> {
        rows::load(&self.connection, &self.file(), progress)
    }

    /// Writes all of these changes, or none.
    pub fn write(&mut self, changes: &Changes) -> Result<(), DiskError> {
        let written = self.transact(|connection| rows::write(connection, changes));
        written.map_err(|error| DiskError::of_write(error, &self.file()))
    }

    /// Whether changes can be written: tries it with some that mean nothing.
    pub fn probe(&mut self) -> Result<(), DiskError> {
        let tried = self.transact(|connection| {
            connection.execute("INSERT INTO probe (bytes) VALUES (zeroblob(?1))", [PROBE_BYTES]).map(drop)
        });
        let tried =
            tried.and_then(|()| self.transact(|connection| connection.execute_batch("DELETE FROM probe")));
        tried.map_err(|error| DiskError::of(error, &self.file()))
    }

    /// Whether there was too little space to keep some back.
    pub fn is_short(&self) -> bool {
        self.reserve.is_short()
    }

    /// The error of a disk that is full.
    pub fn full(&self) -> DiskError {
        DiskError::Full { file: self.file() }
    }

    /// Gives up the space that was kept back; false if there is none.
    pub fn release_reserve(&mut self) -> bool {
        self.reserve.release()
    }

    /// Keeps space back again; false if there is not enough.
    pub fn keep_reserve(&mut self) -> bool {
        self.reserve.keep()
    }

    /// Gives some unused space back; true if there may be more to do.
    pub fn tidy(&mut self) -> Result<bool, DiskError> {
        self.tidy_some().map_err(|error| DiskError::of(error, &self.file()))
    }

    /// Gives all unused space back, and sorts the rows within the file.
    pub fn vacuum(&mut self) -> Result<(), DiskError> {
        let all = "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)";
        self.connection.execute_batch(all).map_err(|error| DiskError::of(error, &self.file()))
    }

    /// What SQLite finds wrong with its own file; empty if nothing.
    pub fn integrity(&self) -> Result<Vec<String>, DiskError> {
        integrity(&self.connection).map_err(|error| DiskError::of(error, &self.file()))
    }

    /// Everything that is wrong with the directory, to people; empty if it is sound.
    pub fn check(&self, progress: &mut dyn FnMut(Loading)) -> Result<Checked, DiskError> {
        let mut found = self.integrity()?;
        let mut jobs = 0;
        match self.load(progress) {
            Ok(Some(machines)) => {
                jobs = machines.queue.jobs();
                found.extend(machines.check().err());
            }
            Ok(None) => {}
            Err(error) => found.push(error.to_string()),
        }
        Ok(Checked { jobs, found })
    }

    /// Bytes of its files, without what is kept back.
    pub fn bytes(&self) -> u64 {
        let length = |end: &str| {
            std::fs::metadata(self.folder.join(format!("{FILE}{end}"))).map_or(0, |file| file.len())
        };
        length("") + length("-wal")
    }

    /// Says where the owner can be talked to.
    pub fn announce(&self, address: &str) -> Result<(), DiskError> {
        self._lock.announce(address)
    }

    fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    fn transact(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let worked = work(&self.connection).and_then(|()| self.connection.execute_batch("COMMIT"));
        if worked.is_err() && !self.connection.is_autocommit() {
            // What cannot be rolled back was not written either; the first error says more.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        worked
    }

    fn tidy_some(&self) -> rusqlite::Result<bool> {
        let ask = |pragma: &str| self.connection.query_row(pragma, [], |row| row.get::<_, u64>(0));
        let (free, all) = (ask("PRAGMA freelist_count")?, ask("PRAGMA page_count")?);
        if free > FREE_PAGES_MAX && free * 4 > all {
            // Each step of this statement gives one page back.
            let mut vacuum =
                self.connection.prepare(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?;
            let mut pages = vacuum.query([])?;
            while pages.next()?.is_some() {}
            return Ok(true);
        }
        self.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
        Ok(false)
    }
}

/// A directory that is only looked at; its owner may be at work meanwhile.
pub(super) fn look_at(folder: &Path) -> Result<Connection, DiskError> {
    let file = folder.join(FILE);
    if !file.exists() {
        return Err(DiskError::Missing { folder: folder.to_owned() });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(&file, flags).map_err(|error| DiskError::of(error, &file))
}

fn open_file(file: &Path, sync: Sync) -> Result<Connection, DiskError> {
    let failed = |error| DiskError::of(error, file);
    let connection = Connection::open(file).map_err(failed)?;
    prepare(&connection, sync).map_err(failed)?;
    schema::bring_up(&connection, file)?;
    Ok(connection)
}

fn prepare(connection: &Connection, sync: Sync) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.busy_timeout(PATIENCE)?;
    let synchronous = match sync {
        Sync::Each => "FULL",
        Sync::Soon => "NORMAL",
        Sync::Never => "OFF",
    };
    // The first of these only matters for a new file, and only before the log is there.
    connection.execute_batch(&format!(
        "PRAGMA auto_vacuum = INCREMENTAL;
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = {synchronous};
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
         PRAGMA journal_size_limit = {LOG_BYTES_MAX};
         PRAGMA cache_size = -{CACHE_KIB};
         PRAGMA trusted_schema = OFF;"
    ))
}

fn integrity(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut check = connection.prepare("PRAGMA integrity_check")?;
    let found = check.query_map([], |row| row.get::<_, String>(0))?;
    let found: Vec<String> = found.collect::<rusqlite::Result<_>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}
