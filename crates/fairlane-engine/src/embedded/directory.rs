//! Opens a data directory as an embedded engine.

use std::fmt;
use std::path::Path;

use fairlane_core::queue::Settings;
use fairlane_core::{Machines, Micros};

use super::disk::{self, Disk, DiskError, DiskPersistence, Loading};
use super::{Durability, EmbeddedEngine, OwnClock, new_machines, stopped};
use crate::clock::Clock;
use crate::engine::{EngineError, Space};

/// Space reserved in a data directory, so that jobs can be drained when the disk is full.
const RESERVE_BYTES: u64 = 16 * 1024 * 1024;

/// Options for opening a data directory.
pub struct DirectoryOptions {
    /// When a change is written to disk.
    pub durability: Durability,
    /// The settings of a new queue; an existing queue keeps its own.
    pub settings: Settings,
    /// The source of time.
    pub clock: Clock,
    /// Whether writes wait for the disk; only tests turn it off.
    pub synced: bool,
    /// Bytes of disk space to reserve, so that jobs can still be leased and settled when
    /// the disk is full.
    pub reserve_bytes: u64,
    /// Called with the progress of loading, every 100,000 jobs.
    pub on_loading: Box<dyn FnMut(Loading) + Send>,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            settings: Settings::default(),
            clock: Clock::default(),
            synced: true,
            reserve_bytes: RESERVE_BYTES,
            on_loading: Box::new(|_| {}),
        }
    }
}

impl fmt::Debug for DirectoryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryOptions").field("durability", &self.durability).finish_non_exhaustive()
    }
}

impl EmbeddedEngine {
    /// Opens the queue in a directory, which is created if it does not exist. Loads the complete
    /// state, which takes time for a large queue.
    pub fn open(folder: &Path, mut options: DirectoryOptions) -> Result<Self, EngineError> {
        if options.durability == Durability::Memory {
            return Self::new(options.settings, options.clock);
        }
        let sync = match options.durability {
            _ if !options.synced => disk::Sync::Never,
            Durability::Interval => disk::Sync::Soon,
            Durability::Commit | Durability::Memory => disk::Sync::Each,
        };
        let opened = Disk::open(folder, sync, options.reserve_bytes);
        let mut disk = opened.map_err(DiskError::at_opening)?;
        let machines = match disk.load(&mut options.on_loading).map_err(DiskError::at_opening)? {
            Some(mut machines) => {
                machines.reopen();
                machines
            }
            None => first_machines(&mut disk, options.settings, options.clock.now())
                .map_err(DiskError::at_opening)?,
        };
        let clock = OwnClock::new(options.clock, machines.last_time());
        let persistence = Box::new(DiskPersistence::new(disk, options.durability));
        Self::start(machines, persistence, clock, Some(folder.to_owned()))
    }

    /// How full the disk of the data directory is; `None` without one.
    pub(super) async fn directory_space(&self) -> Result<Option<Space>, EngineError> {
        let Some(folder) = self.folder.clone() else { return Ok(None) };
        let space = tokio::task::spawn_blocking(move || disk::space(&folder)).await;
        let space = space.map_err(|_| stopped())?;
        space.map(Some).map_err(|error| {
            EngineError::refused(format!("the free space of the data directory cannot be read: {error}; check its path and its permissions"))
        })
    }
}

/// A new queue. It is written at once, so that the next process that opens the directory
/// finds these settings.
fn first_machines(disk: &mut Disk, settings: Settings, now: Micros) -> Result<Machines, DiskError> {
    let mut machines = new_machines(settings, now);
    machines.record();
    disk.write(&machines.take_changes())?;
    Ok(machines)
}
