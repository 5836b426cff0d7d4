//! `promote`: due jobs return to their lanes, and then fair order and gates apply again.

use fairlane_core::limits::PROMOTE_JOBS_MAX;
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    due_jobs_return_in_the_order_they_are_due,
    nothing_returns_before_its_time,
    a_promotion_moves_at_most_what_it_is_asked_to,
    promoted_jobs_go_before_their_backlog,
    promoted_jobs_pass_the_gate_again,
    promoted_jobs_wait_for_their_turn,
    counts_do_not_change_by_promotion,
    a_promotion_wakes_a_waiter,
    a_number_out_of_range_is_invalid,
];

async fn due_jobs_return_in_the_order_they_are_due(queue: Subject) {
    queue.add([delayed(30, "g", "c"), delayed(10, "g", "a"), delayed(20, "g", "b")]).await;
    queue.advance_ms(30);
    assert_eq!(queue.promote(10).await, Promoted { moved: 3, wake_in_us: None });
    assert_eq!(queue.state("g", "a").await, JobState::Pending);
    assert_eq!(ids(&queue.lease(10).await), ["a", "b", "c"]);
}

async fn nothing_returns_before_its_time(queue: Subject) {
    assert_eq!(queue.promote(10).await, Promoted { moved: 0, wake_in_us: None });
    queue.add([delayed(1000, "g", "1")]).await;
    queue.advance_ms(999);
    assert_eq!(queue.promote(10).await, Promoted { moved: 0, wake_in_us: Some(1000) });
    assert_eq!(queue.state("g", "1").await, JobState::Waiting);
    queue.advance_ms(1);
    assert_eq!(queue.promote(10).await, Promoted { moved: 1, wake_in_us: None });
}

async fn a_promotion_moves_at_most_what_it_is_asked_to(queue: Subject) {
    let new = (0..10).map(|number| delayed(10 + number, "g", &number.to_string()));
    queue.add(new).await;
    queue.advance_ms(100);
    assert_eq!(queue.promote(4).await, Promoted { moved: 4, wake_in_us: Some(0) }, "more are due");
    assert_eq!(queue.promote(4).await, Promoted { moved: 4, wake_in_us: Some(0) }, "more are due");
    assert_eq!(queue.promote(4).await, Promoted { moved: 2, wake_in_us: None });
}

/// Erratum Q35.
async fn promoted_jobs_go_before_their_backlog(queue: Subject) {
    queue.add([delayed(10, "g", "early"), job("g", "1"), job("g", "2")]).await;
    queue.advance_ms(10);
    queue.promote(10).await;
    let lane = &queue.group("g").await.lanes[0];
    assert_eq!((lane.returned, lane.backlog), (1, 2));
    assert_eq!(ids(&queue.lease(10).await), ["early", "1", "2"]);
}

/// Erratum Q19.
async fn promoted_jobs_pass_the_gate_again(queue: Subject) {
    queue.set_queue(Settings { rate: Some(per_second(5, 1)), ..Settings::default() }).await;
    let new = (0..20).map(|number| delayed(10, "g", &number.to_string()));
    queue.add(new).await;
    queue.advance_ms(10);
    assert_eq!(queue.promote(100).await.moved, 20);
    let starts = queue.starts(200, 10).await;
    assert!(most_in_a_second(&starts) <= 6, "{} started in one second", most_in_a_second(&starts));
    assert_eq!(starts.len(), 1 + 9, "the limit is used, not passed");
}

/// Erratum Q19.
async fn promoted_jobs_wait_for_their_turn(queue: Subject) {
    let new = (0..40).map(|number| delayed(10, "promoted", &number.to_string()));
    queue.add(new).await;
    queue.add(jobs("ordinary", 40)).await;
    queue.advance_ms(10);
    queue.promote(100).await;
    let mut served = Vec::new();
    for _ in 0..40 {
        served.push(queue.lease_one().await);
    }
    assert_eq!((count_of("promoted", &served), count_of("ordinary", &served)), (20, 20));
}

/// Erratum Q23. Erratum Q24. Erratum Q25.
async fn counts_do_not_change_by_promotion(queue: Subject) {
    queue.add([delayed(10, "a", "1"), delayed(10, "a", "2"), delayed(20, "b", "1"), job("b", "2")]).await;
    assert_eq!((queue.group("a").await.backlog, queue.group("b").await.backlog), (2, 2));
    assert_eq!((queue.queue_view().await.backlog, queue.queue_view().await.waiting), (4, 3));
    queue.advance_ms(10);
    queue.promote(10).await;
    assert_eq!((queue.group("a").await.backlog, queue.group("b").await.backlog), (2, 2));
    assert_eq!((queue.queue_view().await.backlog, queue.queue_view().await.waiting), (4, 1));
    for leased in queue.lease(10).await {
        queue.settle(&leased, retry(5)).await;
        queue.settle(&leased, retry(5)).await;
    }
    assert_eq!((queue.group("a").await.backlog, queue.group("b").await.backlog), (2, 2));
    assert_eq!((queue.queue_view().await.backlog, queue.queue_view().await.waiting), (4, 4));
}

async fn a_promotion_wakes_a_waiter(queue: Subject) {
    queue.add([delayed(10, "g", "1")]).await;
    queue.drain_wakes().await;
    queue.advance_ms(10);
    queue.promote(10).await;
    assert!(queue.is_woken().await);
}

async fn a_number_out_of_range_is_invalid(queue: Subject) {
    for jobs_max in [0, PROMOTE_JOBS_MAX + 1] {
        let refused = queue.engine.call(Promote { jobs_max }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))));
    }
}
