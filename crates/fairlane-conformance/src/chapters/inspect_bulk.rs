//! `inspect_bulk`: shows one bulk action and changes nothing.

use fairlane_core::queue::*;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![an_unknown_bulk_action_is_none, a_bulk_action_shows_its_counts_and_state,];

async fn an_unknown_bulk_action_is_none(queue: Subject) {
    assert_eq!(queue.find_bulk("g", "b").await, None);
    queue.open("g", "b").await;
    assert_eq!(queue.find_bulk("g", "c").await, None);
    assert_eq!(queue.find_bulk("h", "b").await, None);
}

async fn a_bulk_action_shows_its_counts_and_state(queue: Subject) {
    queue.open_with_jobs("g", "b", 5).await;
    queue.advance_ms(1);
    let leased = queue.lease(2).await;
    queue.succeed(&leased[..1]).await;
    queue.settle(&leased[1], failed()).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.cancel("g", &["b5"]).await;
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.total, view.succeeded, view.failed, view.cancelled), (5, 1, 1, 1));
    assert_eq!((view.state, view.mode, view.sealed), (BulkState::Running, BulkMode::Hold, false));
    assert_eq!((view.created_at, view.started_at), (START, Some(START.plus_ms(1))));
    assert!(view.on_hold >= 2, "{view:?}");
}
