//! The state machine of a capability, as engines use it.

use super::dump::Dump;
use super::hashing::HashSeed;
use super::numbers::Micros;
use super::row::{ChangeSet, RowSource};
use super::signal::Signal;
use crate::names::TypeId;

/// The state machine of one capability. Its operations are the only way to change it.
pub trait Machine: Stored + Send + 'static {
    /// The capability's commands.
    type Command;
    /// The replies to them.
    type Reply;

    /// An empty machine. The seed keys the hash maps of names and does not affect any reply. It
    /// must be secret if clients choose the names.
    fn new(hash_seed: HashSeed, now: Micros) -> Self;

    /// Applies one validated command.
    fn apply(&mut self, command: Self::Command, now: Micros) -> Self::Reply;

    /// Releases leases that ended with the process that had the store open before.
    fn reopen(&mut self) {}

    /// The time of the last command.
    fn last_time(&self) -> Micros;

    /// Recounts everything; an error describes the first mismatch.
    fn check(&self) -> Result<(), String>;

    /// Adds the state to a dump, under the keys that it has in Redis, normalised as of `now`.
    fn dump(&self, now: Micros, dump: &mut Dump);

    /// Takes the signals of the commands since the last call. A signal that no waiter receives is
    /// lost, so a waiter registers before it waits.
    fn take_signals(&mut self) -> Vec<Signal> {
        Vec::new()
    }

    /// The types that have a wake-up token.
    fn types_with_tokens(&self) -> impl Iterator<Item = &TypeId> {
        std::iter::empty()
    }

    /// Takes one wake-up token of a type; returns whether there was one.
    fn take_token(&mut self, _: &TypeId) -> bool {
        false
    }
}

/// A machine as the rows of a store.
pub trait Stored: Sized {
    /// The rows that a store has to remove and to write.
    type Changes: ChangeSet;

    /// Begins to record the rows that commands change.
    fn record(&mut self);

    /// The rows that differ from those returned before; none unless [`Stored::record`] was called.
    fn take_changes(&mut self) -> Self::Changes;

    /// The machine made of the rows in a store, or `None` for a store without any.
    fn restore<S: RowSource>(
        source: &mut S,
        hash_seed: HashSeed,
        mode: RestoreMode,
    ) -> Result<Option<Restored<Self>>, S::Error>;
}

/// How rows that contradict each other are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreMode {
    /// Contradictory rows are an error ([`Damage`](crate::kernel::row::Damage)).
    Strict,
    /// Rows are known to be missing; the remaining rows are made consistent.
    Mend,
}

/// A machine made of rows.
#[derive(Debug)]
pub struct Restored<M> {
    /// The machine, which records changes from now on. If it was mended, all its rows count as
    /// changed.
    pub machine: M,
    /// The repairs that were made, one line each.
    pub mended: Vec<String>,
}
