//! `remove_board`: removes a board with its windows and seasons.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::names::BoardName;
use crate::ranking::Machine;

/// Removes a board. It is gone at once; its rows are dropped in small steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveBoard {
    /// The name of the board.
    pub board: BoardName,
}

/// The reply to [`RemoveBoard`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardRemoved {
    /// Whether there was such a board.
    pub was_there: bool,
}

impl Operation for RemoveBoard {
    type Machine = Machine;
    type Reply = BoardRemoved;

    const STEM: &'static str = "remove_board";

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> BoardRemoved {
        BoardRemoved { was_there: machine.remove_board(&self.board) }
    }
}

impl Machine {
    fn remove_board(&mut self, name: &BoardName) -> bool {
        let Some(board) = self.boards.remove(name) else { return false };
        if let Some(deadline) = board.deadline {
            self.deadlines.remove(&(deadline, name.clone()));
        }
        for season in board.seasons.into_values() {
            self.journal.discard_set(season.set);
        }
        self.journal.discard(board.live);
        if let Some(staged) = board.staged {
            self.journal.discard(staged.generation);
        }
        self.journal.touch_board(name);
        true
    }
}
