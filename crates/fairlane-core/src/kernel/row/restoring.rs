//! Reads the rows of a store into a machine, and leaves damaged rows out where they are mended.

use super::{Damage, Row, RowSource};
use crate::kernel::{RestoreMode, Restored};

/// The rows of a store while a machine is made of them.
pub(crate) struct Restoring<'a, S> {
    pub source: &'a mut S,
    mending: Mending,
    /// Whether the store has had no rows so far.
    pub is_new: bool,
}

impl<'a, S: RowSource> Restoring<'a, S> {
    /// Begins to read. `left_out` is what a damaged row is in the line about it, such as "a holder of
    /// a lock".
    pub fn new(source: &'a mut S, mode: RestoreMode, left_out: &'static str) -> Self {
        Self { source, mending: Mending { mode, left_out, mended: Vec::new() }, is_new: true }
    }

    /// Reads all rows of a table without which nothing else makes sense: damage ends the reading.
    pub fn read_intact<R: Row>(&mut self, mut add: impl FnMut(R)) -> Result<(), S::Error> {
        self.source.read(|row: Result<R, Damage>| {
            self.is_new = false;
            row.map(&mut add)
        })
    }

    /// Reads all rows of a table. A row that is damaged, or that `add` rejects, is left out where
    /// rows are mended.
    pub fn read<R: Row>(&mut self, mut add: impl FnMut(R) -> Result<(), Damage>) -> Result<(), S::Error> {
        self.source.read(|row: Result<R, Damage>| {
            self.is_new = false;
            self.mending.accept(row.and_then(&mut add))
        })
    }

    /// Leaves out what could not be made of several rows, where rows are mended.
    pub fn accept(&mut self, added: Result<(), Damage>) -> Result<(), Damage> {
        self.mending.accept(added)
    }

    /// The machine, or `None` for a store that had no rows.
    pub fn finish<M>(self, machine: M) -> Option<Restored<M>> {
        (!self.is_new).then_some(Restored { machine, mended: self.mending.mended })
    }
}

struct Mending {
    mode: RestoreMode,
    left_out: &'static str,
    mended: Vec<String>,
}

impl Mending {
    fn accept(&mut self, added: Result<(), Damage>) -> Result<(), Damage> {
        match added {
            Err(damage) if self.mode == RestoreMode::Mend => {
                self.mended.push(format!("{} was left out: {damage}", self.left_out));
                Ok(())
            }
            added => added,
        }
    }
}
