//! The record of congestion.

use fairlane_core::congestion::{Congestion, CongestionLevel};
use fairlane_core::queue::*;

use crate::subject::*;

pub(super) async fn a_state_after_two_refusals(queue: Subject) {
    queue.classic(10).await;
    queue.add(jobs("g", 12)).await;
    queue.admit(100).await;
    let view = queue.congestion("g").await;
    assert_eq!((view.waiting, view.speed, view.backoff_ms), (2, 10, 1000));
    assert_eq!((view.level, view.throttles, view.ended), (CongestionLevel::None, 0, 0));
    assert_eq!(view.estimated_completion_ms(), Some(1000));
}

pub(super) async fn a_summary_over_two_groups(queue: Subject) {
    queue.classic(2).await;
    queue.add(jobs("b", 2)).await;
    queue.add(jobs("a", 2)).await;
    queue.admit(100).await;
    let lines = queue.groups(None, 10).await;
    let summary: Vec<(String, u64, u64)> =
        lines.iter().map(|line| (line.group.to_string(), line.waiting, line.backoff_ms)).collect();
    assert_eq!(summary, [("a".into(), 1, 2000), ("b".into(), 1, 2000)]);
    let totals = queue.queue_view().await;
    assert_eq!((totals.active_groups, totals.waiting), (2, 2));
}

pub(super) async fn a_history_has_at_most_one_snapshot_a_second(queue: Subject) {
    queue.classic(1).await;
    queue.add(jobs("g", 30)).await;
    for _ in 0..25 {
        queue.admit(1).await;
        queue.advance_ms(100);
    }
    let history = queue.snapshots("g", 100).await;
    let times: Vec<u64> = history.iter().map(|snapshot| snapshot.at.since(START) / 1000).collect();
    assert_eq!(times, [100, 1100, 2100], "one in each second, at its first refusal");
    let first = history[0];
    assert_eq!((first.waiting, first.speed, first.backoff_ms), (1, 1, 2000));
}

pub(super) async fn a_history_is_bounded_by_its_retention(queue: Subject) {
    let kept = Congestion { stats_retention_ms: 3000, ..Congestion::default() };
    queue.set_queue(Settings { congestion: kept, ..classic(1) }).await;
    queue.add(jobs("g", 60)).await;
    for _ in 0..8 {
        queue.admit(2).await;
        queue.advance_ms(1000);
    }
    let history = queue.snapshots("g", 100).await;
    assert_eq!(history.len(), 3);
    assert_eq!(history[2].at, START.plus_ms(7000), "the newest are kept");
}

/// The first refused job waits one window, which saves nothing; each further window saves one
/// useless attempt.
pub(super) async fn saved_tries_are_counted(queue: Subject) {
    queue.classic(1).await;
    queue.add(jobs("g", 4)).await;
    queue.admit(10).await;
    assert_eq!(queue.queue_view().await.saved_spins, 1 + 2 + 3);
}

/// Erratum Q28.
pub(super) async fn a_group_that_went_idle_leaves_no_congestion(queue: Subject) {
    queue.classic(1).await;
    queue.add(jobs("g", 2)).await;
    queue.admit(10).await;
    assert_eq!((queue.snapshots("g", 10).await.len(), queue.groups(None, 10).await.len()), (1, 1));
    queue.advance_ms(2000);
    queue.promote(10).await;
    queue.admit(10).await;
    let leased = queue.lease(10).await;
    queue.succeed(&leased).await;
    let view = queue.congestion("g").await;
    assert_eq!((view.waiting, view.backoff_ms, view.throttles, view.ended), (0, 0, 0, 0));
    assert_eq!((queue.snapshots("g", 10).await, queue.groups(None, 10).await), (vec![], vec![]));
    assert_eq!(queue.queue_view().await.active_groups, 0);
}
