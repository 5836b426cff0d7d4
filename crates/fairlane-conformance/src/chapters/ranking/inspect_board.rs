//! `inspect_board`: the state of one board with its windows and seasons.

use fairlane_core::ranking::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![board_shows_windows_and_seasons, unknown_board_is_none];

async fn board_shows_windows_and_seasons(boards: Subject) {
    let windows = BoardWindows { hour: true, day: true, week: false };
    let settings = BoardSettings { windows, ..BoardSettings::default() };
    boards.set_board(settings.clone()).await;
    boards.count("e1", "one").await;
    boards.advance_ms(3 * 3_600_000);
    boards.count("e2", "two").await;
    boards.close_season(1, false).await;
    let detail = boards.find_board().await.expect("the board exists");
    assert_eq!((detail.board.settings, detail.board.season, detail.board.events), (settings, 2, 2));
    assert_eq!((detail.board.members, detail.board.since_ms), (0, boards.now_ms()));
    let windows: Vec<_> =
        detail.windows.iter().map(|window| (window.kind, window.members, window.sealed)).collect();
    let (hour, day) = (WindowKind::Hour, WindowKind::Day);
    assert_eq!(windows, [(hour, 1, true), (hour, 1, false), (day, 1, true), (day, 1, false)]);
    let [season] = &detail.seasons[..] else { panic!("{:?}", detail.seasons) };
    assert_eq!((season.number, season.members, season.closed_at), (1, 2, boards.now()));
}

async fn unknown_board_is_none(boards: Subject) {
    assert_eq!(boards.find_board().await, None);
}
