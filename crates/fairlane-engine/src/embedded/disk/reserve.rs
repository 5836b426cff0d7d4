//! How much room there is, and space kept back, so that a full disk can still be drained: jobs are leased and settled out of it, while
//! new ones are refused.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::engine::Space;

const FILE: &str = "reserve";
const STEP_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
    /// It was given up, or there was too little space for it.
    is_short: bool,
}

impl Reserve {
    /// Keeps back what can be kept.
    pub fn make(folder: &Path, bytes: u64) -> Self {
        let mut reserve = Self { path: folder.join(FILE), bytes, is_short: false };
        reserve.keep();
        reserve
    }

    /// Whether it is missing because space is.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// False if it was gone already.
    pub fn release(&mut self) -> bool {
        let is_released = self.is_kept() && std::fs::remove_file(&self.path).is_ok();
        self.is_short |= is_released;
        is_released
    }

    /// True if all of it is kept back now. What fits in part is given back at once.
    pub fn keep(&mut self) -> bool {
        if self.is_kept() {
            return true;
        }
        let kept = self.check_space().and_then(|()| self.fill());
        if kept.is_err() {
            // Nothing else can be done about a file that cannot be removed.
            let _ = std::fs::remove_file(&self.path);
        }
        let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded];
        self.is_short = kept.as_ref().is_err_and(|error| full.contains(&error.kind()));
        kept.is_ok()
    }

    /// Fails without writing anything where it cannot fit.
    fn check_space(&self) -> std::io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let disk = rustix::fs::statvfs(folder)?;
        match disk.f_bavail * disk.f_frsize < self.bytes {
            true => Err(ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    fn is_kept(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|file| file.len() >= self.bytes)
    }

    /// Zeros are written one by one: a file that is only said to be long takes no space.
    fn fill(&self) -> std::io::Result<()> {
        let mut file = File::create(&self.path)?;
        let zeros = vec![0; STEP_BYTES];
        let mut left = self.bytes;
        while left > 0 {
            let step = left.min(STEP_BYTES as u64);
            file.write_all(&zeros[..step as usize])?;
            left -= step;
        }
        file.sync_all()
    }
}

/// What the files of a directory take, and what they could: that, and what the disk has left for this user.
pub fn space(folder: &Path) -> std::io::Result<Space> {
    let mut used_bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        // A file of SQLite's may be gone again.
        used_bytes += entry?.metadata().map_or(0, |file| file.len());
    }
    let disk = rustix::fs::statvfs(folder)?;
    Ok(Space { used_bytes, limit_bytes: used_bytes + disk.f_bavail * disk.f_frsize })
}
