//! `set_board`: makes a board, or changes how many events it remembers.

use fairlane_core::limits::{BOARD_EVENTS_LIMIT, BOARD_HORIZON_MS_MAX};
use fairlane_core::ranking::*;
use fairlane_engine::EngineError;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    board_is_made_once,
    board_keeps_its_rule,
    number_of_events_can_be_changed,
    arguments_out_of_range_are_invalid,
];

async fn board_is_made_once(boards: Subject) {
    assert_eq!(boards.set_board(BoardSettings::default()).await, BoardSet::Set { is_new: true });
    boards.count("e1", "one").await;
    assert_eq!(boards.set_board(BoardSettings::default()).await, BoardSet::Set { is_new: false });
    assert_eq!(boards.top().await, scores([("one", 1)]));
}

async fn board_keeps_its_rule(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    let settings = BoardSettings::default();
    let other = BoardSettings { rule: BoardRule::Sum, ..settings.clone() };
    assert_eq!(boards.set_board(other).await, BoardSet::Different { settings });
}

async fn number_of_events_can_be_changed(boards: Subject) {
    boards.set_board(BoardSettings { events_max: 1, ..BoardSettings::default() }).await;
    boards.count("e1", "one").await;
    assert_eq!(boards.count("e2", "one").await, Outcome::TooManyEvents);
    assert_eq!(boards.cancel_at("e3", boards.now_ms()).await, Outcome::TooManyEvents);
    assert_eq!(boards.board_totals().await.refused, 2);
    boards.set_board(BoardSettings { events_max: 2, ..BoardSettings::default() }).await;
    assert_eq!(boards.count("e2", "one").await, Outcome::Applied);
}

async fn arguments_out_of_range_are_invalid(boards: Subject) {
    let default = BoardSettings::default;
    let windows = BoardWindows { hour: true, ..BoardWindows::default() };
    for settings in [
        BoardSettings { decimals: 4, ..default() },
        BoardSettings { horizon_ms: BOARD_HORIZON_MS_MAX + 1, ..default() },
        BoardSettings { horizon_ms: 59_999, ..default() },
        BoardSettings { events_max: 0, ..default() },
        BoardSettings { events_max: BOARD_EVENTS_LIMIT + 1, ..default() },
        BoardSettings { rule: BoardRule::Latest, windows, ..default() },
    ] {
        let refused = boards.engine.call(SetBoard { board: board_name("popular"), settings }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
