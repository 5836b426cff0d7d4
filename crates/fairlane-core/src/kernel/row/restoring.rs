//! Reads the rows of a store into a machine. In [`RestoreMode::Mend`] it skips damaged rows.

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
    /// Begins to read. `left_out` names a skipped row in the list of repairs, such as "a holder of
    /// a lock".
    pub fn new(source: &'a mut S, mode: RestoreMode, left_out: &'static str) -> Self {
        Self { source, mending: Mending { mode, left_out, mended: Vec::new() }, is_new: true }
    }

    /// Reads all rows of a table that is required in every mode: any damage is an error.
    pub fn read_intact<R: Row>(&mut self, mut add: impl FnMut(R)) -> Result<(), S::Error> {
        self.source.read(|row: Result<R, Damage>| {
            self.is_new = false;
            row.map(&mut add)
        })
    }

    /// Reads all rows of a table. A row that is damaged, or that `add` rejects, is an error in
    /// [`RestoreMode::Strict`] and is skipped in [`RestoreMode::Mend`].
    pub fn read<R: Row>(&mut self, mut add: impl FnMut(R) -> Result<(), Damage>) -> Result<(), S::Error> {
        self.source.read(|row: Result<R, Damage>| {
            self.is_new = false;
            self.mending.accept(row.and_then(&mut add))
        })
    }

    /// Handles the result of combining several rows as [`read`](Self::read) handles that of one.
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
