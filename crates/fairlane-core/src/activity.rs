//! The activity log: the latest changes by operators, each with its actor.
//!
//! - `activity/entry.rs`: one change. `activity/rows.rs`: what a store keeps.
//! - `activity/ops/`: the operations.
//!
//! The log is separate from the capabilities whose changes it records: the caller records a change
//! after it was made. The caller gives each entry an id, so that a record that is repeated, or that
//! grows during a long request, stays one entry. Invariant: there are at most [`ACTIVITY_MAX`]
//! entries, each of bounded size, and their times increase strictly. Left out on purpose: changes
//! by producers and workers, which are events.

mod entry;
mod ops;
mod rows;

pub use entry::{ActivityEntry, ActivitySubject, SubjectKind};
pub use ops::*;

use std::collections::{BTreeMap, BTreeSet};

use crate::hashing::HashSeed;
use crate::kernel::{self, Context, Dump, DumpValue, Operation};
use crate::limits::ACTIVITY_MAX;
use crate::names::ActivityId;
use crate::numbers::Micros;

/// The activity log of one partition.
#[derive(Debug, Default)]
pub struct Machine {
    now: Micros,
    /// The entries by their time.
    entries: BTreeMap<Micros, ActivityEntry>,
    /// The times of the entries by their ids.
    times: BTreeMap<ActivityId, Micros>,
    /// The times of entries that a store has to write or to remove; `None` before recording is
    /// enabled.
    touched: Option<BTreeSet<Micros>>,
}

impl Machine {
    /// Applies one operation, which must have passed [`Operation::validate`].
    pub fn call<O: Operation<Machine = Self>>(&mut self, operation: O, now: Micros) -> O::Reply {
        self.now = now;
        operation.apply(self, &mut Context { now })
    }

    fn touch(&mut self, at: Micros) {
        if let Some(touched) = &mut self.touched {
            touched.insert(at);
        }
    }

    /// Adds an entry, and removes the oldest one if there are too many.
    fn add(&mut self, entry: ActivityEntry) {
        let at = entry.at;
        self.touch(at);
        self.times.insert(entry.id.clone(), at);
        self.entries.insert(at, entry);
        if self.entries.len() > ACTIVITY_MAX
            && let Some((at, oldest)) = self.entries.pop_first()
        {
            self.times.remove(&oldest.id);
            self.touch(at);
        }
    }
}

impl kernel::Machine for Machine {
    type Command = Command;
    type Reply = Reply;

    fn new(_: HashSeed, now: Micros) -> Self {
        Self { now, ..Self::default() }
    }

    fn apply(&mut self, command: Command, now: Micros) -> Reply {
        self.now = now;
        command.apply(self, &mut Context { now })
    }

    fn last_time(&self) -> Micros {
        self.now
    }

    fn check(&self) -> Result<(), String> {
        let is_listed =
            |(id, at): (&ActivityId, &Micros)| self.entries.get(at).is_some_and(|one| one.id == *id);
        if self.entries.len() > ACTIVITY_MAX {
            return Err(format!("the activity log has {} entries", self.entries.len()));
        }
        if self.entries.len() != self.times.len() || !self.times.iter().all(is_listed) {
            return Err("the ids of the activity log are not those of its entries".to_owned());
        }
        Ok(())
    }

    fn dump(&self, _: Micros, dump: &mut Dump) {
        let order = self.entries.values().map(|entry| (entry.at.0, entry.id.escaped().to_owned()));
        dump.0.insert("activity".into(), DumpValue::Sorted(order.collect()));
        for entry in self.entries.values() {
            dump.add_field("activity-entries".into(), entry.id.escaped(), entry.text());
        }
        dump.remove_empty();
    }
}
