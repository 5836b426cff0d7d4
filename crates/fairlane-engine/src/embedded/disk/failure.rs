//! What can be wrong with a data directory, and what to do about it.

use std::path::{Path, PathBuf};

use fairlane_core::kernel::row::Damage;
use rusqlite::ErrorCode;
use rusqlite::ffi;

use crate::engine::EngineError;

/// Why a directory cannot be opened, read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// This process has it.
    #[error("this process has {folder:?} open already; clone the Fairlane you have")]
    OpenHere {
        /// The directory.
        folder: PathBuf,
    },
    /// Another process has it.
    #[error(
        "{folder:?} belongs to process {pid}, which is running; stop it first, or use another directory: one process \
         at a time has a data directory, and several share a Redis (docs/workers.md)"
    )]
    Taken {
        /// The directory.
        folder: PathBuf,
        /// Who has it.
        pid: String,
    },
    /// There is no queue.
    #[error("{folder:?} holds no queue: there is no {} in it", super::FILE)]
    Missing {
        /// The directory.
        folder: PathBuf,
    },
    /// There is one already.
    #[error("{folder:?} holds a queue already; name a directory that does not")]
    Occupied {
        /// The directory.
        folder: PathBuf,
    },
    /// The directory itself is the trouble.
    #[error(
        "{folder:?} cannot be used as a data directory: {reason}; make it a directory this user can write to"
    )]
    Folder {
        /// The directory.
        folder: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The disk is full.
    #[error(
        "no space is left for {file:?}; nothing acknowledged is lost, and changes are taken again once there is space"
    )]
    Full {
        /// Which file.
        file: PathBuf,
    },
    /// It may not be written.
    #[error("{file:?} cannot be written ({reason}); changes are taken again once it can")]
    ReadOnly {
        /// Which file.
        file: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// Another program holds a lock on the file.
    #[error("{file:?} is locked by another program, perhaps an open transaction of sqlite3; close it")]
    Busy {
        /// Which file.
        file: PathBuf,
    },
    /// A read or write failed.
    #[error("{file:?} cannot be read or written ({reason}); look at the disk and the system's log")]
    Io {
        /// Which file.
        file: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// The disk did not confirm a write, so the state of the file is unknown.
    #[error(
        "the disk did not confirm a write to {file:?} ({reason}); look at the disk, then open the directory again"
    )]
    Unconfirmed {
        /// Which file.
        file: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// What is there is not what was written.
    #[error(
        "{file:?} is damaged ({found}); `fairlane data export` saves what can be read of it, \
         `fairlane data import` makes a new directory of that"
    )]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// What was found.
        found: String,
    },
    /// A value that the file cannot hold.
    #[error(
        "a value of this command cannot be stored ({reason}); nothing of the command was carried out, and the same \
         command will be refused again"
    )]
    Unwritable {
        /// The error of the conversion.
        reason: String,
    },
    /// Some other program's file.
    #[error("{file:?} is not a file of Fairlane; use another directory")]
    Foreign {
        /// Which file.
        file: PathBuf,
    },
    /// Written by a newer version.
    #[error(
        "{file:?} was written by a newer Fairlane (its tables have version {found}, this one knows {known}); use that one"
    )]
    Newer {
        /// Which file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// The newest this program knows.
        known: u32,
    },
}

impl DiskError {
    /// What an error of a write means. An error that is not SQLite's own is a value that SQLite has no
    /// type for: the file is as sound as before.
    pub(super) fn of_write(error: rusqlite::Error, file: &Path) -> Self {
        match error.sqlite_error() {
            Some(_) => Self::of(error, file),
            None => Self::Unwritable { reason: error.to_string() },
        }
    }

    /// What an error of SQLite means for a person.
    pub(super) fn of(error: rusqlite::Error, file: &Path) -> Self {
        let file = file.to_owned();
        let reason = error.to_string();
        let Some(failure) = error.sqlite_error() else {
            return Self::Damaged { file, found: reason };
        };
        match (failure.code, failure.extended_code) {
            (_, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => Self::Unconfirmed { file, reason },
            (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE) => Self::Full { file },
            (ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen, _) => {
                Self::ReadOnly { file, reason }
            }
            (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => Self::Busy { file },
            (ErrorCode::SystemIoFailure, _) => Self::Io { file, reason },
            (ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt, _) => {
                Self::Damaged { file, found: reason }
            }
            _ => Self::Damaged { file, found: reason },
        }
    }

    /// What it means for a caller that opens the directory: a disk that is full, fails or is locked may be none of that
    /// in a moment, so that waiting may help.
    pub(crate) fn at_opening(self) -> EngineError {
        match self {
            Self::Full { .. } | Self::Busy { .. } | Self::Io { .. } => {
                EngineError::Unavailable { engine: "the data directory", reason: self.to_string() }
            }
            _ => self.into(),
        }
    }

    pub(super) fn damaged(damage: &Damage, file: &Path) -> Self {
        Self::Damaged { file: file.to_owned(), found: damage.to_string() }
    }
}

impl From<DiskError> for EngineError {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::Unconfirmed { .. } | DiskError::Damaged { .. } => Self::broken(error.to_string()),
            _ => Self::refused(error.to_string()),
        }
    }
}
