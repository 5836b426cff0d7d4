//! `close_season`: ends the current season and begins the next one.

use fairlane_core::limits::BOARD_SEASONS_KEPT;
use fairlane_core::ranking::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    season_is_closed_once,
    closed_season_does_not_change,
    season_is_announced_once,
    season_that_has_not_begun_is_refused,
    old_seasons_are_forgotten,
];

fn closed(reply: &SeasonClosed) -> (Vec<(String, i64)>, bool) {
    match reply {
        SeasonClosed::Closed { entries, announced, .. } => {
            (entries.iter().map(|entry| (entry.member.to_string(), entry.score)).collect(), *announced)
        }
        other => panic!("not closed: {other:?}"),
    }
}

async fn season_is_closed_once(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.count("e1", "one").await;
    let first = boards.close_season(1, false).await;
    assert_eq!(closed(&first), (scores([("one", 1)]), false));
    boards.advance_ms(1000);
    boards.count("e2", "two").await;
    assert_eq!(boards.close_season(1, false).await, first, "the second call closes nothing");
    assert_eq!(boards.top().await, scores([("two", 1)]));
    assert_eq!(boards.standing(Standing::Season { number: 1 }).await, scores([("one", 1)]));
}

async fn closed_season_does_not_change(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.count("e1", "one").await;
    let (before, at_ms) = (boards.event("e2", "one"), boards.now_ms());
    boards.advance_ms(1000);
    boards.close_season(1, false).await;
    assert_eq!(boards.record(vec![before]).await, [Outcome::Late]);
    assert_eq!(boards.cancel_at("e1", at_ms).await, Outcome::Late);
    assert_eq!(boards.top().await, []);
    assert_eq!(boards.standing(Standing::Season { number: 1 }).await, scores([("one", 1)]));
}

async fn season_is_announced_once(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    assert!(!closed(&boards.close_season(1, true).await).1);
    assert!(!closed(&boards.close_season(1, true).await).1, "the call that closes it announces nothing");
    assert!(closed(&boards.close_season(1, false).await).1);
}

async fn season_that_has_not_begun_is_refused(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    assert_eq!(boards.close_season(2, false).await, SeasonClosed::NotBegun { season: 1 });
}

async fn old_seasons_are_forgotten(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    for season in 1..=BOARD_SEASONS_KEPT + 1 {
        boards.count(&format!("e{season}"), "one").await;
        boards.close_season(season, false).await;
        boards.advance_ms(1);
    }
    assert_eq!(boards.close_season(1, false).await, SeasonClosed::Forgotten);
    assert_eq!(boards.standing(Standing::Season { number: 1 }).await, []);
    assert_eq!(closed(&boards.close_season(2, false).await).0, scores([("one", 1)]));
}
