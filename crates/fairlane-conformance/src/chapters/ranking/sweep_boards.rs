//! `sweep_boards`: removes expired windows and forgets events beyond the horizon.

use fairlane_core::limits::{BOARD_AHEAD_MS, BOARD_HORIZON_MS_MIN, BOARD_HOURS_KEPT};
use fairlane_core::ranking::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    events_are_forgotten_after_the_horizon,
    windows_are_removed_after_their_time,
    sweep_removes_a_bounded_number,
];

async fn events_are_forgotten_after_the_horizon(boards: Subject) {
    boards.set_board(BoardSettings { horizon_ms: BOARD_HORIZON_MS_MIN, ..BoardSettings::default() }).await;
    let event = boards.event("e1", "one");
    boards.record(vec![event.clone()]).await;
    let hour_ends_ms = (event.at_ms / 3_600_000 + 1) * 3_600_000;
    let forgotten_ms = hour_ends_ms + BOARD_HORIZON_MS_MIN + BOARD_AHEAD_MS - boards.now_ms();
    boards.advance_ms(forgotten_ms - 1);
    let early = BoardsSwept { boards: 0, removed: 0, next_in_us: Some(1000) };
    assert_eq!(boards.sweep_boards().await, early);
    boards.advance_ms(1);
    assert_eq!(boards.sweep_boards().await, BoardsSwept { boards: 1, removed: 1, next_in_us: None });
    assert_eq!(boards.find_board().await.expect("it exists").board.events, 0);
    assert_eq!(boards.record(vec![event]).await, [Outcome::TooOld], "it is not counted again");
    assert_eq!(boards.top().await, scores([("one", 1)]));
}

/// Erratum R3.
async fn windows_are_removed_after_their_time(boards: Subject) {
    let windows = BoardWindows { hour: true, ..BoardWindows::default() };
    let horizon_ms = BOARD_HORIZON_MS_MIN;
    boards.set_board(BoardSettings { windows, horizon_ms, ..BoardSettings::default() }).await;
    boards.count("e1", "one").await;
    boards.advance_ms((BOARD_HOURS_KEPT + 1) * 3_600_000);
    assert_eq!(boards.sweep_boards().await, BoardsSwept { boards: 1, removed: 2, next_in_us: None });
    assert_eq!(boards.find_board().await.expect("it exists").windows, []);
}

async fn sweep_removes_a_bounded_number(boards: Subject) {
    boards.set_board(BoardSettings { horizon_ms: BOARD_HORIZON_MS_MIN, ..BoardSettings::default() }).await;
    for batch in 0..6 {
        let event = |number: u64| boards.event(&format!("e{batch}-{number}"), "one");
        boards.record((0..100).map(event).collect()).await;
    }
    boards.advance_ms(3 * 3_600_000);
    assert_eq!(boards.sweep_boards().await, BoardsSwept { boards: 1, removed: 500, next_in_us: Some(0) });
    assert_eq!(boards.sweep_boards().await, BoardsSwept { boards: 1, removed: 100, next_in_us: None });
}
