//! Persistence of a turn's changes: none in memory, rows in a data directory (`disk/persistence.rs`).

use std::time::Duration;

use fairlane_core::{Command, Machines};

use crate::engine::EngineError;

/// Why the changes of a turn were not persisted. The machines are in the state before the turn.
pub(super) enum NotPersisted {
    /// A command of the turn contained a value that cannot be stored; the other commands can
    /// be applied again.
    Value(EngineError),
    /// The store accepts no changes.
    Store(EngineError),
}

impl NotPersisted {
    /// The error for the caller.
    pub fn error(&self) -> &EngineError {
        let (Self::Value(error) | Self::Store(error)) = self;
        error
    }
}

/// Where changes are persisted. The methods as they stand are those of a queue in memory.
pub(super) trait Persistence: Send {
    /// Whether changes are accepted now, new jobs included.
    fn check_writes(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Why a command that may change the state cannot be applied now.
    fn refusal(&mut self, _: &Command) -> Option<EngineError> {
        None
    }

    /// Ends a turn. After an error the machines are in the state before the turn.
    fn persist(&mut self, _: &mut Machines) -> Result<(), NotPersisted> {
        Ok(())
    }

    /// Whether [`Persistence::persist`] may require the commands of a turn to be applied again.
    fn may_ask_again(&self) -> bool {
        false
    }

    /// Why the engine has to be reopened, if that is the case.
    fn lost(&self) -> Option<&EngineError> {
        None
    }

    /// How long to wait for requests before [`Persistence::run_idle_work`]; `None` for no limit.
    fn idle_timeout(&self) -> Option<Duration> {
        None
    }

    /// Performs the work that is due while there are no requests.
    fn run_idle_work(&mut self, _: &mut Machines) {}

    /// Writes the remaining changes.
    fn close(&mut self, _: &mut Machines) {}

    /// Records beside the state where its owner can be reached.
    fn announce(&self, _: &str) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Changes are persisted nowhere.
pub(super) struct InMemory;

impl Persistence for InMemory {}
