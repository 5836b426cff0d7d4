//! What becomes of a turn's changes: nothing in memory, rows on disk otherwise; and what holds while the
//! disk cannot take them.
//!
//! Invariant: with [`Durability::Commit`] the machine is never ahead of the disk when somebody is answered:
//! after a failed write it is made again from what is there. With [`Durability::Interval`] it may be ahead by
//! a second; after a failed write nothing more is taken until that one has succeeded.

use std::time::{Duration, Instant};

use fairlane_core::queue::rows::Changes;
use fairlane_core::queue::{Command, Machine};

use super::Durability;
use super::disk::{Disk, DiskError};
use crate::engine::EngineError;
use crate::observe::TARGET;

/// Longest time that an answer is ahead of the disk with [`Durability::Interval`].
const INTERVAL: Duration = Duration::from_secs(1);
/// Nobody asks for this long: time to tidy up.
const REST: Duration = Duration::from_millis(500);
/// Between two tries to keep space back again.
const RESERVE_EVERY: Duration = Duration::from_secs(1);
/// A write that succeeded so long ago says nothing about the next one.
const WRITTEN_LATELY: Duration = Duration::from_secs(5);

/// How the disk is.
enum Health {
    Well,
    /// It was full: what was kept back is in use for everything but new jobs.
    Short {
        since: Instant,
        error: DiskError,
    },
    /// The last write failed; the next one is tried before anything is changed.
    Failing(DiskError),
    /// Nothing more can be done with it.
    Lost(EngineError),
}

/// Why the changes of a turn were not kept. The machine is as if the turn had not been.
pub(super) enum Unkept {
    /// A command of the turn brought a value that cannot be stored; the others can be carried out again.
    Value(EngineError),
    /// The store takes no changes.
    Store(EngineError),
}

impl Unkept {
    /// For the caller.
    pub fn error(&self) -> &EngineError {
        let (Self::Value(error) | Self::Store(error)) = self;
        error
    }
}

/// Where changes go.
pub(super) enum Keeper {
    /// Nowhere.
    Memory,
    /// Into a directory.
    Disk(Box<DiskKeeper>),
}

/// A directory and how it is.
pub(super) struct DiskKeeper {
    disk: Disk,
    durability: Durability,
    health: Health,
    /// Changes that could not be written, with [`Durability::Interval`].
    unwritten: Option<Changes>,
    /// When what was changed must be on disk.
    due: Option<Instant>,
    /// Tried in this turn, and failed.
    refused: Option<EngineError>,
    untidy: bool,
    /// When a write last succeeded.
    written: Option<Instant>,
}

impl Keeper {
    /// Changes go to disk.
    ///
    /// Where no space could be kept back, what is left of the disk is for draining: new jobs are refused.
    pub fn disk(disk: Disk, durability: Durability) -> Self {
        let health = match disk.is_short() {
            true => Health::Short { since: Instant::now(), error: disk.full() },
            false => Health::Well,
        };
        Self::Disk(Box::new(DiskKeeper {
            // A rest makes up for space that is not kept back.
            untidy: disk.is_short(),
            disk,
            durability,
            health,
            unwritten: None,
            due: None,
            refused: None,
            written: None,
        }))
    }

    /// Whether changes are taken now, new jobs included.
    pub fn check_writes(&mut self) -> Result<(), EngineError> {
        match self {
            Self::Memory => Ok(()),
            Self::Disk(keeper) => keeper.check_writes(),
        }
    }

    /// Why a command that may change something cannot be carried out now.
    pub fn refusal(&mut self, command: &Command) -> Option<EngineError> {
        match self {
            Self::Memory => None,
            Self::Disk(keeper) => keeper.refusal(command),
        }
    }

    /// Ends a turn. After an error the machine is as if the turn had not been.
    pub fn keep(&mut self, machine: &mut Machine) -> Result<(), Unkept> {
        match self {
            Self::Memory => Ok(()),
            Self::Disk(keeper) => keeper.keep(machine),
        }
    }

    /// Whether [`Keeper::keep`] may ask for the commands of a turn again.
    pub fn may_ask_again(&self) -> bool {
        matches!(self, Self::Disk(keeper) if keeper.durability != Durability::Interval)
    }

    /// Why nothing more can be done until the engine is opened again, if that is so.
    pub fn lost(&self) -> Option<&EngineError> {
        match self {
            Self::Disk(keeper) => match &keeper.health {
                Health::Lost(error) => Some(error),
                _ => None,
            },
            Self::Memory => None,
        }
    }

    /// How long to wait for requests before [`Keeper::rest`]; none for ever.
    pub fn patience(&self) -> Option<Duration> {
        let Self::Disk(keeper) = self else { return None };
        let due = keeper.due.map(|due| due.saturating_duration_since(Instant::now()));
        due.or(keeper.untidy.then_some(REST))
    }

    /// Does what is due while nobody asks.
    pub fn rest(&mut self, machine: &mut Machine) {
        if let Self::Disk(keeper) = self {
            keeper.rest(machine);
        }
    }

    /// Writes what is not yet written.
    pub fn close(&mut self, machine: &mut Machine) {
        if let Self::Disk(keeper) = self
            && !matches!(keeper.health, Health::Lost(_))
        {
            // Nobody is left to be told.
            let _ = keeper.write(machine);
        }
    }

    /// Says in the directory where its owner can be talked to.
    pub fn announce(&self, address: &str) -> Result<(), EngineError> {
        match self {
            Self::Memory => Ok(()),
            Self::Disk(keeper) => Ok(keeper.disk.announce(address)?),
        }
    }
}

impl DiskKeeper {
    fn refusal(&mut self, command: &Command) -> Option<EngineError> {
        if self.refused.is_some() {
            return self.refused.clone();
        }
        let refused = match &self.health {
            Health::Well => None,
            Health::Lost(error) => Some(error.clone()),
            Health::Failing(_) => self.try_again(),
            Health::Short { .. } => None,
        };
        self.refused = refused.clone();
        refused.or_else(|| self.refuse_new_jobs(command))
    }

    fn check_writes(&mut self) -> Result<(), EngineError> {
        let refused = match &self.health {
            Health::Lost(error) => return Err(error.clone()),
            Health::Failing(_) => self.try_again(),
            Health::Well if self.written.is_none_or(|at| at.elapsed() >= WRITTEN_LATELY) => self.probe(),
            Health::Well | Health::Short { .. } => None,
        };
        if let Some(error) = refused {
            return Err(error);
        }
        match (self.keep_reserve(), &self.health) {
            (false, Health::Short { error, .. }) => Err(error.clone().into()),
            _ => Ok(()),
        }
    }

    /// Tries a write while nothing is written that would show whether it can be.
    fn probe(&mut self) -> Option<EngineError> {
        match self.disk.probe() {
            Ok(()) => {
                self.written = Some(Instant::now());
                None
            }
            Err(error) => {
                self.health = self.health_after(&error);
                Some(error.into())
            }
        }
    }

    /// Keeps space back again, if it is time to try; true if the disk is not short of space any more.
    fn keep_reserve(&mut self) -> bool {
        let Health::Short { since, .. } = &mut self.health else { return true };
        if since.elapsed() < RESERVE_EVERY {
            return false;
        }
        *since = Instant::now();
        if self.disk.keep_reserve() {
            self.health = Health::Well;
            return true;
        }
        false
    }

    /// Whether the disk takes changes again.
    fn try_again(&mut self) -> Option<EngineError> {
        let tried = match &self.unwritten {
            Some(changes) => self.disk.write(changes),
            None => self.disk.probe(),
        };
        match tried {
            Ok(()) => {
                self.unwritten = None;
                let full = matches!(&self.health, Health::Failing(DiskError::Full { .. }));
                let before = std::mem::replace(&mut self.health, Health::Well);
                if let (true, Health::Failing(error)) = (full, before) {
                    self.health = Health::Short { since: Instant::now(), error };
                }
                None
            }
            Err(error) => {
                self.health = Health::Failing(error.clone());
                Some(error.into())
            }
        }
    }

    fn refuse_new_jobs(&mut self, command: &Command) -> Option<EngineError> {
        if !matches!(command, Command::Enqueue(_)) || self.keep_reserve() {
            return None;
        }
        let Health::Short { error, .. } = &self.health else { return None };
        Some(error.clone().into())
    }

    fn keep(&mut self, machine: &mut Machine) -> Result<(), Unkept> {
        self.refused = None;
        match self.durability {
            Durability::Interval => {
                let due = *self.due.get_or_insert_with(|| Instant::now() + INTERVAL);
                if due <= Instant::now() {
                    self.flush(machine);
                }
                Ok(())
            }
            Durability::Commit | Durability::Memory => self.commit(machine),
        }
    }

    fn commit(&mut self, machine: &mut Machine) -> Result<(), Unkept> {
        let Err(error) = self.write(machine) else { return Ok(()) };
        self.reload(machine);
        Err(match error {
            DiskError::Unwritable { .. } => Unkept::Value(error.into()),
            _ => Unkept::Store(error.into()),
        })
    }

    /// Makes the machine again from what is on disk.
    fn reload(&mut self, machine: &mut Machine) {
        match self.disk.load(&mut |_| {}) {
            Ok(Some(restored)) => *machine = restored,
            Ok(None) => self.health = Health::Lost(nothing_left()),
            Err(error) => self.health = Health::Lost(error.into()),
        }
    }

    fn flush(&mut self, machine: &mut Machine) {
        self.due = None;
        if self.unwritten.is_none() {
            // Its callers were answered long ago; the next to come are told.
            if let Err(error @ DiskError::Unwritable { .. }) = self.write(machine) {
                tracing::error!(target: TARGET, %error, "the changes of the last second are undone");
                self.reload(machine);
            }
        }
    }

    fn write(&mut self, machine: &mut Machine) -> Result<(), DiskError> {
        let changes = self.unwritten.take().unwrap_or_else(|| machine.take_changes());
        if changes.is_empty() {
            return Ok(());
        }
        self.untidy = true;
        let Err(error) = self.disk.write(&changes) else {
            self.written = Some(Instant::now());
            return Ok(());
        };
        if let DiskError::Unwritable { .. } = error {
            return Err(error);
        }
        if self.durability == Durability::Interval {
            self.unwritten = Some(changes);
        }
        self.health = self.health_after(&error);
        Err(error)
    }

    /// How the disk is once a write has failed like this.
    fn health_after(&mut self, error: &DiskError) -> Health {
        match error {
            DiskError::Full { .. }
                if self.durability != Durability::Interval && self.disk.release_reserve() =>
            {
                Health::Short { since: Instant::now(), error: error.clone() }
            }
            DiskError::Full { .. } => {
                self.disk.release_reserve();
                Health::Failing(error.clone())
            }
            DiskError::Unconfirmed { .. } | DiskError::Damaged { .. } => Health::Lost(error.clone().into()),
            _ => Health::Failing(error.clone()),
        }
    }

    fn rest(&mut self, machine: &mut Machine) {
        if self.due.is_some() {
            return self.flush(machine);
        }
        // Tidying that fails has lost nothing; there will be another rest.
        self.untidy = self.disk.tidy().unwrap_or(false);
        if !self.keep_reserve() {
            self.untidy = true;
        }
    }
}

fn nothing_left() -> EngineError {
    EngineError::broken("the rows of the queue have gone from its directory; restore it from a copy")
}
