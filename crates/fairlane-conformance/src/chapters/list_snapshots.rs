//! `list_snapshots`: lists the newest snapshots of a group's congestion and changes nothing.

use fairlane_core::limits::STATS_RETENTION_MS_MAX;
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    snapshots_are_listed_oldest_first_up_to_the_limit,
    an_unknown_group_has_no_snapshots,
    a_number_of_snapshots_out_of_range_is_invalid,
];

async fn snapshots_are_listed_oldest_first_up_to_the_limit(queue: Subject) {
    queue.classic(1).await;
    queue.add(jobs("g", 30)).await;
    for _ in 0..5 {
        queue.admit(2).await;
        queue.advance_ms(1000);
    }
    let all = queue.snapshots("g", 100).await;
    assert_eq!(all.len(), 5);
    assert!(all.is_sorted_by_key(|snapshot| snapshot.at));
    assert_eq!(queue.snapshots("g", 2).await, all[3..], "the newest two, the older of them first");
    assert_eq!(queue.snapshots("never seen", 2).await, []);
}

async fn an_unknown_group_has_no_snapshots(queue: Subject) {
    assert_eq!(queue.snapshots("g", 10).await, []);
    queue.add([job("g", "1")]).await;
    assert_eq!(queue.snapshots("g", 10).await, [], "a group that was never congested");
}

async fn a_number_of_snapshots_out_of_range_is_invalid(queue: Subject) {
    let most = (STATS_RETENTION_MS_MAX / 1000) as usize;
    for limit in [0, most + 1] {
        let refused = queue.engine.call(ListSnapshots { group: group_id("g"), limit }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(queue.snapshots("g", most).await, []);
}
