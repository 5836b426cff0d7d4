//! A data directory as the persistence of a queue, and its behaviour while it cannot be written.
//!
//! Invariant: with [`Durability::Commit`], the machines are never ahead of the disk when a reply is
//! sent; after a failed write it is reloaded from disk. With [`Durability::Interval`], it may be
//! ahead by one second; after a failed write, no change is accepted until that write has succeeded.

use std::time::{Duration, Instant};

use fairlane_core::{Changes, Command, Machines};

use super::{Disk, DiskError};
use crate::embedded::Durability;
use crate::embedded::persistence::{NotPersisted, Persistence};
use crate::engine::EngineError;
use crate::observe::TARGET;

/// Longest time that a reply is ahead of the disk with [`Durability::Interval`].
const INTERVAL: Duration = Duration::from_secs(1);
/// Time without requests after which idle work runs.
const IDLE: Duration = Duration::from_millis(500);
/// Time between two attempts to reserve space again.
const RESERVE_EVERY: Duration = Duration::from_secs(1);
/// A write that succeeded longer ago is no evidence that the next one will.
const WRITTEN_LATELY: Duration = Duration::from_secs(5);

/// The state of the disk.
enum Health {
    Ok,
    /// The disk was full: the reserved space is in use, for everything but new jobs.
    LowSpace {
        since: Instant,
        error: DiskError,
    },
    /// The last write failed; a write has to succeed before any other change.
    Failing(DiskError),
    /// The engine cannot use the disk any more.
    Failed(EngineError),
}

/// A data directory and its state.
pub(in crate::embedded) struct DiskPersistence {
    disk: Disk,
    durability: Durability,
    health: Health,
    /// Changes that could not be written, with [`Durability::Interval`].
    unwritten: Option<Changes>,
    /// When the changes have to be on disk.
    due: Option<Instant>,
    /// The error of a failed attempt in this turn.
    refused: Option<EngineError>,
    needs_tidying: bool,
    /// When a write last succeeded.
    written: Option<Instant>,
}

impl Persistence for DiskPersistence {
    fn check_writes(&mut self) -> Result<(), EngineError> {
        let refused = match &self.health {
            Health::Failed(error) => return Err(error.clone()),
            Health::Failing(_) => self.try_again(),
            Health::Ok if self.written.is_none_or(|at| at.elapsed() >= WRITTEN_LATELY) => self.probe(),
            Health::Ok | Health::LowSpace { .. } => None,
        };
        if let Some(error) = refused {
            return Err(error);
        }
        match (self.keep_reserve(), &self.health) {
            (false, Health::LowSpace { error, .. }) => Err(error.clone().into()),
            _ => Ok(()),
        }
    }

    fn refusal(&mut self, command: &Command) -> Option<EngineError> {
        if self.refused.is_some() {
            return self.refused.clone();
        }
        let refused = match &self.health {
            Health::Ok => None,
            Health::Failed(error) => Some(error.clone()),
            Health::Failing(_) => self.try_again(),
            Health::LowSpace { .. } => None,
        };
        self.refused = refused.clone();
        refused.or_else(|| self.refuse_new_jobs(command))
    }

    fn persist(&mut self, machines: &mut Machines) -> Result<(), NotPersisted> {
        self.refused = None;
        match self.durability {
            Durability::Interval => {
                let due = *self.due.get_or_insert_with(|| Instant::now() + INTERVAL);
                if due <= Instant::now() {
                    self.flush(machines);
                }
                Ok(())
            }
            Durability::Commit | Durability::Memory => self.commit(machines),
        }
    }

    fn may_ask_again(&self) -> bool {
        self.durability != Durability::Interval
    }

    fn lost(&self) -> Option<&EngineError> {
        match &self.health {
            Health::Failed(error) => Some(error),
            _ => None,
        }
    }

    fn idle_timeout(&self) -> Option<Duration> {
        let due = self.due.map(|due| due.saturating_duration_since(Instant::now()));
        due.or(self.needs_tidying.then_some(IDLE))
    }

    fn run_idle_work(&mut self, machines: &mut Machines) {
        if self.due.is_some() {
            return self.flush(machines);
        }
        // A failed cleanup loses nothing and is repeated the next time the engine is idle.
        self.needs_tidying = self.disk.tidy().unwrap_or(false);
        if !self.keep_reserve() {
            self.needs_tidying = true;
        }
    }

    fn close(&mut self, machines: &mut Machines) {
        if !matches!(self.health, Health::Failed(_)) {
            // No caller is left to receive the error.
            let _ = self.write(machines);
        }
    }

    fn announce(&self, address: &str) -> Result<(), EngineError> {
        Ok(self.disk.announce(address)?)
    }
}

impl DiskPersistence {
    /// Persists changes on disk.
    ///
    /// If no space could be reserved, the remaining space is used for draining, and new
    /// jobs are refused.
    pub fn new(disk: Disk, durability: Durability) -> Self {
        let health = match disk.is_short() {
            true => Health::LowSpace { since: Instant::now(), error: disk.full() },
            false => Health::Ok,
        };
        Self {
            // Idle work reserves the missing space.
            needs_tidying: disk.is_short(),
            disk,
            durability,
            health,
            unwritten: None,
            due: None,
            refused: None,
            written: None,
        }
    }

    /// Attempts a write to find out whether writing works.
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

    /// Tries to reserve the space again if it is time to; returns true if the disk is no
    /// longer short of space.
    fn keep_reserve(&mut self) -> bool {
        let Health::LowSpace { since, .. } = &mut self.health else { return true };
        if since.elapsed() < RESERVE_EVERY {
            return false;
        }
        *since = Instant::now();
        if self.disk.keep_reserve() {
            self.health = Health::Ok;
            return true;
        }
        false
    }

    /// Retries the unwritten changes, or a probe; returns the error if that fails.
    fn try_again(&mut self) -> Option<EngineError> {
        let tried = match &self.unwritten {
            Some(changes) => self.disk.write(changes),
            None => self.disk.probe(),
        };
        match tried {
            Ok(()) => {
                self.unwritten = None;
                let full = matches!(&self.health, Health::Failing(DiskError::Full { .. }));
                let before = std::mem::replace(&mut self.health, Health::Ok);
                if let (true, Health::Failing(error)) = (full, before) {
                    self.health = Health::LowSpace { since: Instant::now(), error };
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
        if !command.adds_data() || self.keep_reserve() {
            return None;
        }
        let Health::LowSpace { error, .. } = &self.health else { return None };
        Some(error.clone().into())
    }

    fn commit(&mut self, machines: &mut Machines) -> Result<(), NotPersisted> {
        let Err(error) = self.write(machines) else { return Ok(()) };
        self.reload(machines);
        Err(match error {
            DiskError::Unwritable { .. } => NotPersisted::Value(error.into()),
            _ => NotPersisted::Store(error.into()),
        })
    }

    /// Reloads the machines from disk.
    fn reload(&mut self, machines: &mut Machines) {
        match self.disk.load(&mut |_| {}) {
            Ok(Some(restored)) => *machines = restored,
            Ok(None) => self.health = Health::Failed(nothing_left()),
            Err(error) => self.health = Health::Failed(error.into()),
        }
    }

    fn flush(&mut self, machines: &mut Machines) {
        self.due = None;
        if self.unwritten.is_none() {
            // The callers of these changes got their replies long ago; the next
            // callers get the error.
            if let Err(error @ DiskError::Unwritable { .. }) = self.write(machines) {
                tracing::error!(target: TARGET, %error, "the changes of the last second are undone");
                self.reload(machines);
            }
        }
    }

    fn write(&mut self, machines: &mut Machines) -> Result<(), DiskError> {
        let changes = self.unwritten.take().unwrap_or_else(|| machines.take_changes());
        if changes.is_empty() {
            return Ok(());
        }
        self.needs_tidying = true;
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

    /// The state of the disk after a write failed with this error.
    fn health_after(&mut self, error: &DiskError) -> Health {
        match error {
            DiskError::Full { .. }
                if self.durability != Durability::Interval && self.disk.release_reserve() =>
            {
                Health::LowSpace { since: Instant::now(), error: error.clone() }
            }
            DiskError::Full { .. } => {
                self.disk.release_reserve();
                Health::Failing(error.clone())
            }
            DiskError::Unconfirmed { .. } | DiskError::Damaged { .. } => Health::Failed(error.clone().into()),
            _ => Health::Failing(error.clone()),
        }
    }
}

fn nothing_left() -> EngineError {
    EngineError::broken("the rows of the queue are missing from its directory; restore it from a backup")
}
