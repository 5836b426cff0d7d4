//! `cancel_events`: takes events back, each once.

use fairlane_core::limits::BOARD_HORIZON_MS;
use fairlane_core::ranking::*;

use crate::chapters::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    cancelled_event_does_not_count,
    cancellation_may_precede_its_event,
    cancellation_is_applied_once,
    cancellation_beyond_the_horizon_is_refused,
    member_without_events_stays_with_zero,
];

/// Erratum R2.
async fn cancelled_event_does_not_count(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.count("e1", "one").await;
    boards.count("e2", "one").await;
    assert_eq!(boards.uncount("e1").await, Outcome::Applied);
    assert_eq!(boards.count("e1", "one").await, Outcome::Repeated, "a replay does not bring it back");
    assert_eq!(boards.top().await, scores([("one", 1)]));
}

async fn cancellation_may_precede_its_event(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    assert_eq!(boards.uncount("e1").await, Outcome::Pending);
    assert_eq!(boards.uncount("e1").await, Outcome::Repeated);
    assert_eq!(boards.top().await, []);
    assert_eq!(boards.count("e1", "one").await, Outcome::Applied);
    assert_eq!(boards.count("e1", "one").await, Outcome::Repeated);
    assert_eq!(boards.top().await, scores([("one", 0)]));
}

async fn cancellation_is_applied_once(boards: Subject) {
    boards.board_by(BoardRule::Sum).await;
    boards.record(vec![NewEvent { delta: 7, ..boards.event("e1", "one") }, boards.event("e2", "one")]).await;
    assert_eq!(boards.uncount("e1").await, Outcome::Applied);
    assert_eq!(boards.uncount("e1").await, Outcome::Repeated);
    assert_eq!(boards.top().await, scores([("one", 1)]));
    assert_eq!(
        boards.board_totals().await,
        BoardTotals { recorded: 2, cancelled: 1, repeated: 1, ..BoardTotals::default() }
    );
}

async fn cancellation_beyond_the_horizon_is_refused(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    let at_ms = boards.now_ms() - BOARD_HORIZON_MS - 1;
    assert_eq!(boards.cancel_at("e1", at_ms).await, Outcome::TooOld);
    assert_eq!(boards.board_totals().await.too_old, 1);
}

async fn member_without_events_stays_with_zero(boards: Subject) {
    boards.board_by(BoardRule::Count).await;
    boards.count("e1", "one").await;
    boards.uncount("e1").await;
    assert_eq!(boards.top().await, scores([("one", 0)]));
}
