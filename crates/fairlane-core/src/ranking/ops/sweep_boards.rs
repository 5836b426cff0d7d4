//! `sweep_boards`: removes expired windows and forgets events beyond the horizon.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::one_to;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{BOARD_STEP_EVENTS_MAX, SWEEP_BOARDS_MAX};
use crate::numbers::Micros;
use crate::ranking::Machine;
use crate::ranking::journal::Journal;
use crate::ranking::state::Generation;
use crate::ranking::window::Slot;

/// Removes windows past their retention and forgets events beyond the horizon, a bounded number at
/// a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepBoards {
    /// Most boards to bring up to date.
    pub boards_max: usize,
}

/// The reply to [`SweepBoards`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardsSwept {
    /// Boards that were brought up to date.
    pub boards: usize,
    /// Events that were forgotten and windows that were removed.
    pub removed: usize,
    /// The time until the next board is due, in microseconds; `None` if no board is due later.
    pub next_in_us: Option<u64>,
}

impl Operation for SweepBoards {
    type Machine = Machine;
    type Reply = BoardsSwept;

    const STEM: &'static str = "sweep_boards";

    fn validate(&self) -> Result<(), Invalid> {
        one_to("the boards of a sweep", self.boards_max, SWEEP_BOARDS_MAX)
    }

    fn access(&self) -> Access<'_> {
        Access::no_group(Permission::Work)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.boards_max + BOARD_STEP_EVENTS_MAX)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> BoardsSwept {
        machine.sweep_boards(self.boards_max, context.now)
    }
}

impl Machine {
    fn sweep_boards(&mut self, most: usize, now: Micros) -> BoardsSwept {
        let (mut swept, mut removed) = (0, 0);
        while swept < most
            && removed < BOARD_STEP_EVENTS_MAX
            && let Some((deadline, name)) = self.deadlines.first().cloned()
            && deadline <= now
        {
            let board = self.boards.get_mut(&name).expect("a deadline names a board");
            let staged = board.staged.as_mut().map(|staged| &mut staged.generation);
            for generation in std::iter::once(&mut board.live).chain(staged) {
                removed += generation.remove_due(&mut self.journal, now, BOARD_STEP_EVENTS_MAX - removed);
            }
            self.store(&name);
            swept += 1;
        }
        let next_in_us = self.deadlines.first().map(|(deadline, _)| deadline.since(now));
        BoardsSwept { boards: swept, removed, next_in_us }
    }
}

impl Generation {
    /// Removes up to `most` windows and events that are due; returns how many.
    fn remove_due(&mut self, journal: &mut Journal, now: Micros, most: usize) -> usize {
        let mut removed = 0;
        while removed < most
            && let Some((at, slot)) = self.due.first().copied()
            && at <= now
        {
            let is_gone = match slot {
                Slot::Ids(arrived_s) => {
                    let forgotten = self.forget(journal, arrived_s, most - removed);
                    removed += forgotten;
                    !self.ids.contains_key(&arrived_s)
                }
                window => {
                    self.windows.remove(&window).into_iter().for_each(|set| journal.discard_set(set));
                    removed += 1;
                    true
                }
            };
            if is_gone {
                self.due.remove(&(at, slot));
            }
        }
        removed
    }

    /// Forgets up to `most` events that arrived in an hour.
    fn forget(&mut self, journal: &mut Journal, arrived_s: u64, most: usize) -> usize {
        let Some(ids) = self.ids.get_mut(&arrived_s) else { return 0 };
        let count = ids.len().min(most);
        for id in ids.drain(..count) {
            if let Some(event) = self.events.remove(&id) {
                journal.forget_event(event.row);
            }
        }
        if ids.is_empty() {
            self.ids.remove(&arrived_s);
        }
        count
    }
}
