//! `set_board`: makes a board, or changes how many events it remembers.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::BOARDS_MAX;
use crate::names::BoardName;
use crate::ranking::state::Board;
use crate::ranking::{BoardSettings, Machine};

/// Makes a board. A board that exists keeps its scores; only `events_max` can be changed, because the
/// scores follow from the other settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetBoard {
    /// The name of the board.
    pub board: BoardName,
    /// Its settings.
    pub settings: BoardSettings,
}

/// The reply to [`SetBoard`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoardSet {
    /// The board exists with these settings.
    Set {
        /// Whether it was made.
        is_new: bool,
    },
    /// The board exists with other settings.
    Different {
        /// Its settings.
        settings: BoardSettings,
    },
    /// There are too many boards.
    TooManyBoards,
}

impl Operation for SetBoard {
    type Machine = Machine;
    type Reply = BoardSet;

    const STEM: &'static str = "set_board";

    fn validate(&self) -> Result<(), Invalid> {
        self.settings.validate()
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Operate)
    }

    fn adds_data(&self) -> bool {
        true
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> BoardSet {
        machine.set_board(self)
    }
}

impl Machine {
    fn set_board(&mut self, command: SetBoard) -> BoardSet {
        let SetBoard { board: name, settings } = command;
        let is_full = self.boards.len() >= BOARDS_MAX;
        let is_new = match self.boards.get_mut(&name) {
            Some(board) if board.settings.allows(&settings) => {
                board.settings = settings;
                false
            }
            Some(board) => return BoardSet::Different { settings: board.settings.clone() },
            None if is_full => return BoardSet::TooManyBoards,
            None => {
                let board = Board::new(&name, settings, &mut self.journal, self.hash_seed);
                self.boards.insert(name.clone(), board);
                self.is_used = true;
                true
            }
        };
        self.store(&name);
        BoardSet::Set { is_new }
    }
}
