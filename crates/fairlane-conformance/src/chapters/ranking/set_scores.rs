//! `set_scores`: sets the values of members.

use fairlane_core::ranking::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    highest_version_counts_in_any_order,
    best_value_counts,
    smallest_value_is_best_on_an_ascending_board,
    decimal_places_are_kept,
    events_are_refused,
];

async fn highest_version_counts_in_any_order(boards: Subject) {
    boards.board_by(BoardRule::Latest).await;
    assert_eq!(boards.set_score("one", 2, 50).await, Outcome::Applied);
    assert_eq!(boards.set_score("one", 1, 90).await, Outcome::Repeated);
    assert_eq!(boards.set_score("one", 2, 60).await, Outcome::Repeated);
    assert_eq!(boards.set_score("one", 3, 40).await, Outcome::Applied);
    assert_eq!(boards.top().await, scores([("one", 40)]));
}

async fn best_value_counts(boards: Subject) {
    boards.board_by(BoardRule::Maximum).await;
    boards.set_score("one", 0, 50).await;
    boards.advance_ms(1000);
    assert_eq!(boards.set_score("one", 0, 40).await, Outcome::Repeated);
    assert_eq!(boards.set_score("one", 0, 50).await, Outcome::Repeated, "it was reached before");
    boards.set_score("two", 0, 50).await;
    assert_eq!(boards.top().await, scores([("one", 50), ("two", 50)]));
    assert_eq!(boards.set_score("two", 0, 51).await, Outcome::Applied);
    assert_eq!(boards.top().await, scores([("two", 51), ("one", 50)]));
}

async fn smallest_value_is_best_on_an_ascending_board(boards: Subject) {
    let (rule, order) = (BoardRule::Maximum, BoardOrder::Ascending);
    boards.set_board(BoardSettings { rule, order, ..BoardSettings::default() }).await;
    boards.set_score("one", 0, 50).await;
    boards.advance_ms(1000);
    boards.set_score("two", 0, 60).await;
    assert_eq!(boards.set_score("two", 0, 50).await, Outcome::Applied);
    assert_eq!(boards.set_score("one", 0, 51).await, Outcome::Repeated);
    assert_eq!(boards.top().await, scores([("one", 50), ("two", 50)]));
}

async fn decimal_places_are_kept(boards: Subject) {
    let (rule, order) = (BoardRule::Latest, BoardOrder::Ascending);
    boards.set_board(BoardSettings { rule, order, decimals: 3, ..BoardSettings::default() }).await;
    for (member, value) in [("slow", 1_234_567_891), ("fast", 30_500), ("faster", 30_499), ("back", -1)] {
        boards.set_score(member, 1, value).await;
    }
    let expected = [("back", -1), ("faster", 30_499), ("fast", 30_500), ("slow", 1_234_567_891)];
    assert_eq!(boards.top().await, scores(expected));
}

async fn events_are_refused(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    let score = NewScore { member: member_id("one"), value: 1, version: 1, at_ms: boards.now_ms() };
    let command = SetScores { board: board_name("popular"), scores: vec![score], ranks: false };
    assert_eq!(boards.engine.call(command).await.expect("an answer"), EventsRecorded::WrongRule);
}
