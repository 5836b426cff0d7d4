//! `list_boards`: boards in the order of their names, page by page.

use serde::{Deserialize, Serialize};

use crate::kernel::page::{behind, page_of};
use crate::kernel::{Access, Context, Operation, PageSize, Permission};
use crate::limits::LIST_BOARDS_MAX;
use crate::names::BoardName;
use crate::ranking::{BoardView, Machine};

/// Lists boards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListBoards {
    /// Lists only boards after this one; `None` for the first page.
    pub after: Option<BoardName>,
    /// The most boards to return.
    pub boards_max: usize,
}

/// The reply to [`ListBoards`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardsListed {
    /// The boards, ordered by name.
    pub boards: Vec<BoardView>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<BoardName>,
}

impl Operation for ListBoards {
    type Machine = Machine;
    type Reply = BoardsListed;

    const STEM: &'static str = "list_boards";
    const READ_ONLY: bool = true;

    fn page_size(&self) -> Option<PageSize> {
        Some(PageSize { what: "the boards of a page", items: self.boards_max, items_max: LIST_BOARDS_MAX })
    }

    fn access(&self) -> Access<'_> {
        Access::all_groups(Permission::Read)
    }

    fn apply(self, machine: &mut Machine, _: &mut Context) -> BoardsListed {
        let (page, next) = page_of(machine.boards.range(behind(self.after)), self.boards_max);
        BoardsListed { boards: page.into_iter().map(|(name, board)| board.view(name)).collect(), next }
    }
}
