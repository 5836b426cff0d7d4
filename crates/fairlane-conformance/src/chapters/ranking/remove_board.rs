//! `remove_board`: removes a board with its windows and seasons.

use fairlane_core::ranking::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![removed_board_is_gone_at_once, board_with_its_name_begins_anew];

async fn remove(boards: &Subject) -> bool {
    let command = RemoveBoard { board: board_name("popular") };
    boards.engine.call(command).await.expect("an answer").was_there
}

async fn removed_board_is_gone_at_once(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.count("e1", "one").await;
    boards.rebuild(RebuildStep::Begin).await;
    assert!(remove(&boards).await);
    assert!(!remove(&boards).await);
    assert_eq!(boards.find_board().await, None);
    assert_eq!(boards.sweep_boards().await, BoardsSwept { boards: 0, removed: 0, next_in_us: None });
}

async fn board_with_its_name_begins_anew(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.count("e1", "one").await;
    boards.close_season(1, false).await;
    remove(&boards).await;
    boards.board_by(BoardRule::Count).await;
    assert_eq!(boards.count("e1", "two").await, Outcome::Applied);
    assert_eq!(boards.top().await, scores([("two", 1)]));
    assert_eq!(boards.find_board().await.expect("it exists").seasons, []);
}
