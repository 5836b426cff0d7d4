//! `inspect_congestion`: shows one group's congestion and changes nothing.

use fairlane_core::congestion::CongestionLevel;
use fairlane_core::queue::*;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    an_unknown_group_has_no_congestion,
    a_crowded_group_shows_its_predicted_wait_in_share,
    a_group_without_refusals_is_not_congested,
];

async fn an_unknown_group_has_no_congestion(queue: Subject) {
    assert_eq!(queue.find_congestion("g").await, None);
    queue.add([job("g", "1")]).await;
    assert_eq!(queue.find_congestion("h").await, None);
}

async fn a_crowded_group_shows_its_predicted_wait_in_share(queue: Subject) {
    queue.set_group("g", group_rate(per_second(2, 1))).await;
    queue.add(jobs("g", 41)).await;
    assert_eq!(queue.lease(10).await.len(), 1);
    let view = queue.congestion("g").await;
    assert_eq!((view.waiting, view.speed, view.backoff_ms), (40, 2, 21_000));
    assert_eq!((view.level, view.level.as_str()), (CongestionLevel::High, "HIGH"));
    assert_eq!(view.estimated_completion_ms(), Some(20_000));
    let history = queue.snapshots("g", 10).await;
    assert_eq!(history, [Snapshot { at: START, waiting: 40, speed: 2, backoff_ms: 21_000 }]);
    for _ in 0..25 {
        queue.advance_ms(100);
        queue.lease(10).await;
    }
    let times: Vec<u64> =
        queue.snapshots("g", 10).await.iter().map(|one| one.at.since(START) / 1_000_000).collect();
    assert_eq!(times, [0, 1, 2], "one a second at most");
    assert!(queue.congestion("g").await.backoff_ms < 21_000, "and it falls as the queue drains");
}

async fn a_group_without_refusals_is_not_congested(queue: Subject) {
    queue.add(jobs("g", 40)).await;
    queue.lease(10).await;
    let view = queue.congestion("g").await;
    assert_eq!((view.waiting, view.backoff_ms, view.level), (30, 0, CongestionLevel::None));
    assert_eq!(queue.snapshots("g", 10).await, []);
}
