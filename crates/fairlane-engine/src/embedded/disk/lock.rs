//! One process owns a directory: it holds the lock of a file there, which says who it is.
//!
//! The lock is the operating system's and ends with the process, however that ends; a file that was left
//! behind means nothing.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::DiskError;

const FILE: &str = "owner";
/// More than an owner ever has to say.
const SAID_BYTES: usize = 256;

/// Who owns a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The number of its process.
    pub pid: String,
    /// Where it can be talked to, if it serves.
    pub address: Option<String>,
}

/// The owner of a directory that is in use; `None` if the directory has no owner.
pub fn owner_of(folder: &Path) -> Option<Owner> {
    let mut file = File::open(folder.join(FILE)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {}
        Ok(()) | Err(TryLockError::Error(_)) => return None,
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(owner_named(&text))
}

/// The address that the last owner announced. Reading it keeps no process from locking the directory, as a look at
/// the lock would for a moment.
pub(crate) fn address_in(folder: &Path) -> Option<String> {
    owner_named(&std::fs::read_to_string(folder.join(FILE)).ok()?).address
}

fn owner_named(text: &str) -> Owner {
    let named = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    Owner { pid: named("pid ").unwrap_or_else(|| "unknown".into()), address: named("address ") }
}

/// Creates the directory if it does not exist, readable by this user only, because payloads are private.
pub(super) fn make_folder(folder: &Path) -> Result<(), DiskError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let is_new = !folder.exists();
    builder.create(folder).map_err(|error| unusable(folder, &error))?;
    if is_new {
        sync_parents(folder);
    }
    Ok(())
}

/// Lets a new directory survive a failure of the machine: its name stands in its parent, which may be new as well.
fn sync_parents(folder: &Path) {
    let Ok(folder) = folder.canonicalize() else { return };
    for parent in folder.ancestors().skip(1) {
        // A parent that may not be opened was not made here, nor was any above it.
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        if synced.is_err() {
            return;
        }
    }
}

/// Makes the file if it is not there, for this user alone, in a directory that is open to others too. What SQLite puts
/// beside it has the same mode.
pub(super) fn make_private(file: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // It is mostly there already; if it cannot be made, SQLite says why.
    let _ = options.open(file);
}

fn unusable(folder: &Path, error: &std::io::Error) -> DiskError {
    DiskError::Folder { folder: folder.to_owned(), reason: error.to_string() }
}

/// The lock, held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    folder: PathBuf,
}

impl Lock {
    pub fn take(folder: &Path) -> Result<Self, DiskError> {
        let failed = |error| unusable(folder, &error);
        let path = folder.join(FILE);
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The lock is held all the same; the name is only for the error message.
                let _ = file.read_to_string(&mut text);
                let (folder, pid) = (folder.to_owned(), owner_named(&text).pid);
                return Err(match pid == std::process::id().to_string() {
                    true => DiskError::OpenHere { folder },
                    false => DiskError::Taken { folder, pid },
                });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(folder, &error)),
        }
        let lock = Self { file, folder: folder.to_owned() };
        lock.say(&format!("pid {}\n", std::process::id()))?;
        Ok(lock)
    }

    pub fn announce(&self, address: &str) -> Result<(), DiskError> {
        self.say(&format!("pid {}\naddress {address}\n", std::process::id()))
    }

    /// In one piece and always of one length, so that a concurrent reader finds the old text or the new.
    fn say(&self, text: &str) -> Result<(), DiskError> {
        let mut file = &self.file;
        let said = file.seek(SeekFrom::Start(0));
        match said.and_then(|_| file.write_all(format!("{text:\n<SAID_BYTES$}").as_bytes())) {
            // On a full disk the directory is locked all the same; only the name of its owner is missing.
            Err(error) if error.kind() != std::io::ErrorKind::StorageFull => {
                Err(unusable(&self.folder, &error))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Lock {
    /// A child process that is just being started has this file open too, until it becomes its program;
    /// closing ours would leave the lock with it.
    fn drop(&mut self) {
        // What cannot be unlocked is unlocked when the file is closed.
        let _ = self.file.unlock();
    }
}
