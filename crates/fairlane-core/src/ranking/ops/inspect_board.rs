//! `inspect_board`: the state of one board with its windows and seasons.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, OperationWeight, Permission};
use crate::limits::{BOARD_DAYS_KEPT, BOARD_HOURS_KEPT, BOARD_WEEKS_KEPT};
use crate::names::BoardName;
use crate::ranking::{BoardView, Machine, SeasonView, WindowView};

/// Shows a board.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectBoard {
    /// The name of the board.
    pub board: BoardName,
}

/// A board with its windows and seasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardDetail {
    /// The board.
    pub board: BoardView,
    /// Its windows, the shortest kind first, in the order of time.
    pub windows: Vec<WindowView>,
    /// Its closed seasons.
    pub seasons: Vec<SeasonView>,
}

/// The reply: the board, or `None` if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardInspected(pub Option<BoardDetail>);

impl Operation for InspectBoard {
    type Machine = Machine;
    type Reply = BoardInspected;

    const STEM: &'static str = "inspect_board";
    const READ_ONLY: bool = true;

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs((BOARD_HOURS_KEPT + BOARD_DAYS_KEPT + BOARD_WEEKS_KEPT) as usize)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> BoardInspected {
        BoardInspected(machine.boards.get(&self.board).map(|board| BoardDetail {
            board: board.view(&self.board),
            windows: board.window_views(context.now),
            seasons: board.season_views(),
        }))
    }
}
