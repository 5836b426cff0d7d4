//! `list_boards`: boards in the order of their names, page by page.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::LIST_BOARDS_MAX;
use crate::names::BoardName;
use crate::numbers::within;
use crate::ranking::{BoardView, Machine};

/// Lists boards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListBoards {
    /// Only boards behind this one.
    pub after: Option<BoardName>,
    /// Most boards on the page.
    pub boards_max: usize,
}

/// The reply to [`ListBoards`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardsListed {
    /// The boards.
    pub boards: Vec<BoardView>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<BoardName>,
}

impl Operation for ListBoards {
    type Machine = Machine;
    type Reply = BoardsListed;

    const STEM: &'static str = "list_boards";

    fn validate(&self) -> Result<(), Invalid> {
        within("the boards of a page", self.boards_max as u64, 1, LIST_BOARDS_MAX as u64)?;
        Ok(())
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.boards_max)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> BoardsListed {
        let from = self.after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = machine.boards.range((from, Bound::Unbounded));
        let page = behind.by_ref().take(self.boards_max);
        let boards: Vec<_> = page.map(|(name, board)| board.view(name)).collect();
        let next = behind.next().and(boards.last()).map(|board| board.board.clone());
        BoardsListed { boards, next }
    }
}
