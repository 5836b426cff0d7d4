//! `list_boards`: boards in the order of their names, page by page.

use fairlane_core::ranking::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![boards_are_listed_page_by_page];

async fn boards_are_listed_page_by_page(boards: Subject) {
    for name in ["c", "a", "b"] {
        let command = SetBoard { board: board_name(name), settings: BoardSettings::default() };
        boards.engine.call(command).await.expect("an answer");
    }
    let page = |after| ListBoards { after, boards_max: 2 };
    let first = boards.engine.call(page(None)).await.expect("an answer");
    assert_eq!(first.boards.iter().map(|board| board.board.to_string()).collect::<Vec<_>>(), ["a", "b"]);
    let second = boards.engine.call(page(first.next)).await.expect("an answer");
    assert_eq!((second.boards.len(), second.next), (1, None));
}
