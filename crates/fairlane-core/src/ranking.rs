//! Ranking boards: members in the order of their scores, with windows of time.
//!
//! - `ranking/settings.rs`: rule, order and windows of a board. `ranking/window.rs`: windows of time.
//! - `ranking/score.rs`: scores and their order. `ranking/state.rs`: one board.
//! - `ranking/apply.rs`: how events, cancellations and values change scores.
//! - `ranking/journal.rs`: rows that have changed, and data that is removed in steps.
//! - `ranking/view.rs`: what callers send and read. `ranking/rows.rs`: the rows in a store.
//!   `ranking/ops/`: the operations.
//!
//! An event has an id, which a board remembers for its horizon. Invariants: within the horizon, a
//! board equals a recount of its events, however often and in whatever order events and
//! cancellations arrive; an event beyond the horizon is refused and counted; a sealed window and a
//! closed season do not change. Left out on purpose: the sums of a source, and jobs that announce a
//! closed season, which belong to the library.

mod apply;
mod dump;
mod invariants;
mod journal;
mod ops;
mod rows;
mod score;
mod settings;
mod state;
mod view;
mod window;

pub use ops::*;
pub use settings::{BoardOrder, BoardRule, BoardSettings, BoardWindows};
pub use state::BoardTotals;
pub use view::{
    BoardView, Cancellation, NewEvent, NewScore, Outcome, RankEntry, RankPage, RebuildView, SeasonView,
    Standing, WindowView,
};
pub use window::WindowKind;

use std::collections::{BTreeMap, BTreeSet};

use crate::hashing::HashSeed;
use crate::kernel::{self, Context, Dump, Operation};
use crate::names::BoardName;
use crate::numbers::Micros;
use journal::Journal;
use state::Board;

/// The state of all boards of one partition.
#[derive(Debug)]
pub struct Machine {
    now: Micros,
    hash_seed: HashSeed,
    boards: BTreeMap<BoardName, Board>,
    /// The next time at which each board has windows or events to remove.
    deadlines: BTreeSet<(Micros, BoardName)>,
    /// Whether there ever was a board.
    is_used: bool,
    journal: Journal,
}

impl Machine {
    fn empty(hash_seed: HashSeed) -> Self {
        Self {
            now: Micros::default(),
            hash_seed,
            boards: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            is_used: false,
            journal: Journal::new(),
        }
    }

    /// Applies one operation, which must have passed [`Operation::validate`].
    pub fn call<O: Operation<Machine = Self>>(&mut self, operation: O, now: Micros) -> O::Reply {
        self.now = now;
        operation.apply(self, &mut Context { now })
    }

    /// Marks a board as changed and updates its entry in the deadlines.
    fn store(&mut self, name: &BoardName) {
        self.journal.touch_board(name);
        let (next, before) = match self.boards.get_mut(name) {
            Some(board) => {
                let next = board.next_due();
                (next, std::mem::replace(&mut board.deadline, next))
            }
            None => return,
        };
        if next == before {
            return;
        }
        if let Some(deadline) = before {
            self.deadlines.remove(&(deadline, name.clone()));
        }
        self.deadlines.extend(next.map(|deadline| (deadline, name.clone())));
    }
}

impl kernel::Machine for Machine {
    type Command = Command;
    type Reply = Reply;

    fn new(hash_seed: HashSeed, now: Micros) -> Self {
        Self { now, ..Self::empty(hash_seed) }
    }

    fn apply(&mut self, command: Command, now: Micros) -> Reply {
        self.now = now;
        let is_read_only = command.is_read_only();
        let reply = command.apply(self, &mut Context { now });
        if !is_read_only {
            self.journal.drop_some();
        }
        reply
    }

    fn last_time(&self) -> Micros {
        self.now
    }

    fn check(&self) -> Result<(), String> {
        self.check()
    }

    fn dump(&self, _: Micros, dump: &mut Dump) {
        self.dump_boards(dump);
    }
}
