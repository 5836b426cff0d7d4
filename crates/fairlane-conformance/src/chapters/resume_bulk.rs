//! `resume_bulk`: a held bulk action's jobs run again; a sweep puts back the jobs that were set
//! aside.

use fairlane_core::limits::SWEEP_JOBS_MAX;
use fairlane_core::queue::*;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    jobs_not_yet_set_aside_run_at_once,
    jobs_set_aside_come_back_in_order_before_the_rest,
    jobs_set_aside_come_back_in_bounded_steps,
    one_held_again_before_the_sweep_stays_held,
    a_job_cancelled_while_set_aside_does_not_run,
    jobs_that_come_back_wake_a_waiter,
    jobs_that_come_back_pass_the_gate_again,
    a_resumed_one_completes,
    resuming_again_changes_nothing,
    resuming_one_that_is_not_held_changes_nothing,
    resuming_one_that_has_ended_changes_nothing,
    an_unknown_one_is_nothing,
];

async fn jobs_not_yet_set_aside_run_at_once(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.hold("g", "b").await;
    let view = queue.resume("g", "b").await.expect("it is there");
    assert_eq!((view.mode, view.on_hold), (BulkMode::Run, 0));
    assert_eq!(ids(&queue.lease(10).await), ["b1", "b2", "b3"]);
    assert_eq!(queue.queue_view().await.sweeping, 0, "there is nothing to bring back");
}

async fn jobs_set_aside_come_back_in_order_before_the_rest(queue: Subject) {
    queue.open_with_jobs("g", "b", 4).await;
    queue.hold("g", "b").await;
    assert_eq!(queue.lease(10).await, []);
    queue.add([job("g", "later")]).await;
    let view = queue.resume("g", "b").await.expect("it is there");
    assert_eq!((view.on_hold, queue.queue_view().await.sweeping), (4, 1));
    assert_eq!(queue.sweep(10).await, Swept { resumed: 4, ..NOTHING_SWEPT });
    assert_eq!((queue.bulk("g", "b").await.on_hold, queue.queue_view().await.sweeping), (0, 0));
    assert_eq!(ids(&queue.lease(10).await), ["b1", "b2", "b3", "b4", "later"]);
}

async fn jobs_set_aside_come_back_in_bounded_steps(queue: Subject) {
    queue.open_with_jobs("g", "b", 5).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.resume("g", "b").await;
    for (resumed, more) in [(2, true), (2, true), (1, false)] {
        assert_eq!(queue.sweep(2).await, Swept { resumed, more, ..NOTHING_SWEPT });
    }
    assert_eq!(queue.sweep(SWEEP_JOBS_MAX).await, NOTHING_SWEPT);
    assert_eq!(queue.lease(10).await.len(), 5);
}

async fn one_held_again_before_the_sweep_stays_held(queue: Subject) {
    queue.open_with_jobs("g", "b", 4).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.resume("g", "b").await;
    queue.hold("g", "b").await;
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT);
    assert_eq!((queue.lease(10).await, queue.bulk("g", "b").await.on_hold), (vec![], 4));
    queue.resume("g", "b").await;
    assert_eq!(queue.sweep(10).await.resumed, 4);
    assert_eq!(ids(&queue.lease(10).await), ["b1", "b2", "b3", "b4"]);
}

async fn a_job_cancelled_while_set_aside_does_not_run(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.cancel("g", &["b2"]).await;
    assert_eq!(queue.state("g", "b2").await, JobState::Cancelled);
    queue.resume("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(ids(&queue.lease(10).await), ["b1", "b3"]);
    assert_eq!(queue.end_counts("g", "b").await, [0, 0, 1]);
}

async fn jobs_that_come_back_wake_a_waiter(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.drain_wakes().await;
    queue.resume("g", "b").await;
    queue.sweep(10).await;
    assert!(queue.is_woken().await);
}

/// Erratum Q19.
async fn jobs_that_come_back_pass_the_gate_again(queue: Subject) {
    queue.set_group("g", group_rate(per_second(10, 2))).await;
    queue.open_with_jobs("g", "b", 10).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.resume("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(queue.lease(10).await.len(), 2);
}

async fn a_resumed_one_completes(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.seal("g", "b").await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.resume("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(queue.serve_all(10).await.len(), 3);
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating);
}

/// A client that lost the reply resumes it again.
async fn resuming_again_changes_nothing(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    let first = queue.resume("g", "b").await;
    assert_eq!(queue.resume("g", "b").await, first);
    assert_eq!(queue.queue_view().await.sweeping, 1);
    queue.sweep(10).await;
    queue.resume("g", "b").await;
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT);
    assert_eq!(queue.lease(10).await.len(), 2);
}

async fn resuming_one_that_is_not_held_changes_nothing(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    let before = queue.bulk("g", "b").await;
    assert_eq!(queue.resume("g", "b").await, Some(before.clone()));
    assert_eq!((queue.bulk("g", "b").await, queue.queue_view().await.sweeping), (before, 0));
}

async fn resuming_one_that_has_ended_changes_nothing(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.cancel_bulk("g", "b").await;
    let view = queue.resume("g", "b").await.expect("it is there");
    assert_eq!((view.mode, view.state), (BulkMode::Drop, BulkState::Cancelled));
    queue.sweep(10).await;
    assert_eq!((queue.lease(10).await, queue.end_counts("g", "b").await), (vec![], [0, 0, 3]));
}

async fn an_unknown_one_is_nothing(queue: Subject) {
    assert_eq!(queue.resume("g", "b").await, None);
    assert_eq!(queue.find_bulk("g", "b").await, None);
}
