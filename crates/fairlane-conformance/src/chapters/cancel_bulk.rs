//! `cancel_bulk`: takes effect at once, and none of its jobs starts any more.

use fairlane_core::limits::{SWEEP_JOBS_MAX, VISIT_SKIPS_MAX};
use fairlane_core::queue::*;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    it_has_ended_at_once,
    jobs_in_their_lanes_never_run,
    waiting_jobs_never_run,
    jobs_set_aside_never_run,
    running_jobs_learn_of_it_when_they_extend,
    a_running_job_that_succeeds_or_fails_counts_as_it_ended,
    no_attempt_that_ends_otherwise_is_tried_again,
    a_lost_lease_is_not_recovered,
    a_lease_drops_a_bounded_number_and_leaves_the_rest_to_sweep,
    its_delayed_jobs_end_at_once_and_it_is_aggregated,
    its_delayed_jobs_end_in_bounded_steps,
    delayed_jobs_that_left_are_not_dropped_twice,
    dropping_charges_neither_share_nor_rate,
    a_dropped_job_leaves_the_backlog_and_is_kept_with_the_bulk_action,
    a_group_whose_jobs_were_all_dropped_is_idle,
    it_takes_no_more_jobs,
    it_is_aggregated_as_cancelled_when_the_sweeper_has_dropped_the_last,
    one_without_jobs_is_aggregated_at_once,
    an_aggregation_under_way_is_called_off_and_begins_anew,
    another_bulk_action_of_the_group_goes_on,
    cancelling_again_changes_nothing,
    cancelling_one_that_has_ended_changes_nothing,
    an_unknown_one_is_nothing,
];

async fn it_has_ended_at_once(queue: Subject) {
    queue.open_with_jobs("g", "b", 300).await;
    queue.advance_ms(5);
    let view = queue.cancel_bulk("g", "b").await.expect("it is there");
    assert_eq!((view.state, view.mode), (BulkState::Cancelled, BulkMode::Drop));
    assert_eq!((view.finished_at, view.total, view.cancelled), (Some(START.plus_ms(5)), 300, 0));
    assert_eq!(queue.state("g", "b300").await, JobState::Cancelled, "its view shows the cancellation");
    assert_eq!(queue.queue_view().await.sweeping, 1, "the rest is the sweeper's");
}

async fn jobs_in_their_lanes_never_run(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.add([job("g", "own")]).await;
    queue.cancel_bulk("g", "b").await;
    assert_eq!(ids(&queue.lease(10).await), ["own"], "in the same lease that drops the others");
    assert_eq!(queue.end_counts("g", "b").await, [0, 0, 3]);
    let view = queue.job("g", "b1").await;
    assert_eq!((view.state, view.settled_at, view.attempts), (JobState::Cancelled, Some(START), 0));
}

async fn waiting_jobs_never_run(queue: Subject) {
    queue.open("g", "b").await;
    queue.add([in_bulk("b", delayed(100, "g", "late")), in_bulk("b", job("g", "retried"))]).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, retry(100)).await;
    queue.cancel_bulk("g", "b").await;
    queue.advance_ms(100);
    queue.promote(10).await;
    assert_eq!(queue.lease(10).await, []);
    assert_eq!((queue.end_counts("g", "b").await, queue.queue_view().await.backlog), ([0, 0, 2], 0));
}

async fn jobs_set_aside_never_run(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.cancel_bulk("g", "b").await;
    assert_eq!(queue.sweep(10).await, Swept { dropped: 3, ..NOTHING_SWEPT });
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.cancelled, view.on_hold, queue.lease(10).await), (3, 0, vec![]));
}

async fn running_jobs_learn_of_it_when_they_extend(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    let leased = queue.lease(2).await;
    assert!(matches!(queue.extend(&leased[0], LEASE_MS).await, Extension::Until(_)));
    queue.cancel_bulk("g", "b").await;
    let until = START.plus_ms(5000);
    assert_eq!(queue.extend(&leased[0], 5000).await, Extension::Cancelled(until));
    assert_eq!(queue.job("g", "b1").await.until, Some(until), "it has time to stop in order");
    assert_eq!(queue.state("g", "b2").await, JobState::Processing);
}

/// Erratum Q17.
async fn a_running_job_that_succeeds_or_fails_counts_as_it_ended(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    let leased = queue.lease(2).await;
    queue.cancel_bulk("g", "b").await;
    queue.succeed(&leased[..1]).await;
    queue.settle(&leased[1], failed()).await;
    assert_eq!(queue.end_counts("g", "b").await, [1, 1, 0]);
    assert_eq!(queue.state("g", "b1").await, JobState::Completed);
    assert_eq!(queue.state("g", "b2").await, JobState::Failed);
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Cancelled);
}

async fn no_attempt_that_ends_otherwise_is_tried_again(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    let leased = queue.lease(3).await;
    queue.cancel_bulk("g", "b").await;
    for (job, outcome) in leased.iter().zip([retry(0), throttled(0, 0), Outcome::Released]) {
        assert_eq!(queue.settle(job, outcome.clone()).await, Verdict::Applied);
        assert_eq!(queue.settle(job, outcome).await, Verdict::Applied, "also when repeated");
        assert_eq!(queue.state("g", &job.job.id.to_string()).await, JobState::Cancelled);
    }
    assert_eq!((queue.end_counts("g", "b").await, queue.queue_view().await.backlog), ([0, 0, 3], 0));
    assert_eq!(queue.lease(10).await, []);
}

async fn a_lost_lease_is_not_recovered(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.open_with_jobs("g", "b", 2).await;
    queue.lease(2).await;
    queue.cancel_bulk("g", "b").await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    let reclaimed = queue.reclaim(10).await;
    assert_eq!((reclaimed.recovered, reclaimed.dead, reclaimed.cancelled), (0, 0, 2));
    assert_eq!((queue.end_counts("g", "b").await, queue.queue_view().await.in_flight), ([0, 0, 2], 0));
}

/// Erratum Q12.
async fn a_lease_drops_a_bounded_number_and_leaves_the_rest_to_sweep(queue: Subject) {
    queue.open_with_jobs("g", "b", 2 * VISIT_SKIPS_MAX).await;
    queue.add([job("g", "behind")]).await;
    queue.cancel_bulk("g", "b").await;
    for _ in 0..2 {
        assert_eq!(queue.lease_and_wake(&["t"], 5).await, (vec![], None), "no wake time is given");
        assert_eq!(
            queue.end_counts("g", "b").await,
            [0, 0, VISIT_SKIPS_MAX as u64],
            "the lane is not visited again"
        );
    }
    let standing = queue.group("g").await.lanes[0].standing;
    assert_eq!(standing, LaneStanding::Clearing(START));
    queue.drain_wakes().await;
    let swept = queue.sweep(SWEEP_JOBS_MAX).await;
    assert_eq!(swept, Swept { dropped: VISIT_SKIPS_MAX, ..NOTHING_SWEPT });
    assert!(queue.is_woken().await);
    assert_eq!(ids(&queue.lease(5).await), ["behind"]);
}

async fn its_delayed_jobs_end_at_once_and_it_is_aggregated(queue: Subject) {
    queue.open("g", "b").await;
    let hours = [1, 3, 2].map(|hour| in_bulk("b", delayed(hour * 3_600_000, "g", &hour.to_string())));
    queue.add(hours).await;
    queue.add([delayed(3_600_000, "g", "own")]).await;
    queue.seal("g", "b").await;
    queue.cancel_bulk("g", "b").await;
    assert_eq!(queue.sweep(10).await, Swept { dropped: 3, ..NOTHING_SWEPT });
    let (taken, totals) = (queue.lease_bulk().await, queue.queue_view().await);
    assert_eq!((taken.view.cancelled, totals.sweeping, totals.waiting, totals.backlog), (3, 0, 1, 1));
    assert_eq!(queue.state("g", "2").await, JobState::Cancelled);
    queue.advance_ms(4 * 3_600_000);
    assert_eq!(ids(&queue.lease(10).await), ["own"]);
}

async fn its_delayed_jobs_end_in_bounded_steps(queue: Subject) {
    queue.open("g", "b").await;
    let later = |number: usize| in_bulk("b", delayed(3_600_000, "g", &number.to_string()));
    queue.add((0..5).map(later)).await;
    queue.cancel_bulk("g", "b").await;
    for (dropped, more) in [(2, true), (2, true), (1, false)] {
        assert_eq!(queue.sweep(2).await, Swept { dropped, more, ..NOTHING_SWEPT });
    }
}

/// A waiting job of a bulk action is listed only while it waits, whatever made it wait or ended the
/// wait.
async fn delayed_jobs_that_left_are_not_dropped_twice(queue: Subject) {
    queue.open("g", "b").await;
    queue.add([1000, 2000, 3000].map(|ms| in_bulk("b", delayed(ms, "g", &ms.to_string())))).await;
    queue.add([in_bulk("b", job("g", "again"))]).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, retry(60_000)).await;
    queue.cancel("g", &["2000"]).await;
    queue.advance_ms(1000);
    assert_eq!(ids(&queue.lease(1).await), ["1000"]);
    assert_eq!(queue.queue_view().await.waiting, 2);
    queue.cancel_bulk("g", "b").await;
    assert_eq!(queue.sweep(10).await.dropped, 2);
    assert_eq!((queue.end_counts("g", "b").await, queue.queue_view().await.waiting), ([0, 0, 3], 0));
}

async fn dropping_charges_neither_share_nor_rate(queue: Subject) {
    queue.set_group("g", group_rate(per_second(1, 2))).await;
    queue.open_with_jobs("g", "b", 30).await;
    queue.add(jobs("g", 5)).await;
    queue.cancel_bulk("g", "b").await;
    assert_eq!(ids(&queue.lease(10).await), ["1", "2"]);
}

async fn a_dropped_job_leaves_the_backlog_and_is_kept_with_the_bulk_action(queue: Subject) {
    queue.set_queue(Settings { completed_kept_max: 0, ..Settings::default() }).await;
    queue.open_with_jobs("g", "b", 3).await;
    queue.cancel_bulk("g", "b").await;
    assert_eq!(queue.queue_view().await.backlog, 3);
    assert_eq!(queue.sweep(10).await.dropped, 3);
    let totals = queue.queue_view().await;
    assert_eq!((totals.backlog, totals.completed, totals.sweeping), (0, 0, 0));
    let receipts = queue.enqueue([in_bulk("b", job("g", "b1"))]).await;
    assert_eq!(receipts, [JobReceipt::Exists { bulk: Some(bulk_id("b")) }]);
}

async fn a_group_whose_jobs_were_all_dropped_is_idle(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.cancel_bulk("g", "b").await;
    queue.sweep(10).await;
    let (group, totals) = (queue.group("g").await, queue.queue_view().await);
    assert_eq!((group.backlog, group.total, group.done, totals.active_groups), (0, 0, 0, 0));
    assert_eq!(queue.lease_and_wake(&["t"], 10).await, (vec![], None));
    assert_eq!(queue.queue_view().await.active_lanes, [0, 0, 0]);
}

async fn it_takes_no_more_jobs(queue: Subject) {
    queue.open("g", "b").await;
    queue.cancel_bulk("g", "b").await;
    let receipts = queue.enqueue(jobs_in("b", "g", 2)).await;
    assert_eq!(receipts, [const { refused(Refusal::BulkSealed) }; 2]);
    assert_eq!((queue.find_job("g", "b1").await, queue.bulk("g", "b").await.total), (None, 0));
}

async fn it_is_aggregated_as_cancelled_when_the_sweeper_has_dropped_the_last(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.seal("g", "b").await;
    queue.cancel_bulk("g", "b").await;
    queue.sweep(2).await;
    assert_eq!((queue.lease_bulks(10).await, queue.queue_view().await.aggregating), (vec![], 0));
    queue.advance_ms(5);
    queue.sweep(2).await;
    let taken = queue.lease_bulk().await;
    assert_eq!((taken.view.state, taken.view.mode), (BulkState::Cancelled, BulkMode::Drop));
    assert_eq!((taken.view.cancelled, taken.view.finished_at), (3, Some(START)));
    assert_eq!(queue.settle_bulk(&taken).await, Verdict::Applied);
}

async fn one_without_jobs_is_aggregated_at_once(queue: Subject) {
    queue.open("g", "b").await;
    let view = queue.cancel_bulk("g", "b").await.expect("it is there");
    assert_eq!(queue.lease_bulk().await.view, view);
    queue.cancel_bulk("g", "b").await;
    assert_eq!(queue.lease_bulks(10).await, [], "cancelling again leases it to no other worker");
}

/// The aggregator has seen the bulk action as complete, and would report that.
async fn an_aggregation_under_way_is_called_off_and_begins_anew(queue: Subject) {
    queue.open("g", "b").await;
    queue.seal("g", "b").await;
    let taken = queue.lease_bulk().await;
    let view = queue.cancel_bulk("g", "b").await.expect("it is there");
    assert_eq!((view.state, queue.queue_view().await.aggregating), (BulkState::Cancelled, 1));
    assert_eq!(queue.settle_bulk(&taken).await, Verdict::Stale, "before it is given again");
    let anew = queue.lease_bulk().await;
    assert!(anew.fence > taken.fence);
    assert_eq!(anew.view, view);
    assert_eq!(queue.settle_bulk(&taken).await, Verdict::Stale, "and after");
    assert_eq!(queue.settle_bulk_with(&anew, "called off", false).await, Verdict::Applied);
    assert_eq!(queue.settle_bulk(&taken).await, Verdict::Stale);
    assert_eq!(queue.bulk("g", "b").await, BulkView { summary: bytes("called off"), ..view });
    queue.advance_ms(LEASE_MS);
    assert_eq!(queue.lease_bulks(10).await, []);
}

async fn another_bulk_action_of_the_group_goes_on(queue: Subject) {
    queue.open("g", "x").await;
    queue.open("g", "y").await;
    for number in 0..5 {
        queue.add([in_bulk("x", job("g", &format!("x{number}")))]).await;
        queue.add([in_bulk("y", job("g", &format!("y{number}")))]).await;
    }
    queue.seal("g", "y").await;
    queue.cancel_bulk("g", "x").await;
    assert_eq!(ids(&queue.serve_all(10).await), ["y0", "y1", "y2", "y3", "y4"]);
    assert_eq!(queue.bulk_state("g", "y").await, BulkState::Aggregating);
    assert_eq!(queue.end_counts("g", "x").await, [0, 0, 5]);
}

/// A client that lost the reply cancels again.
async fn cancelling_again_changes_nothing(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    let first = queue.cancel_bulk("g", "b").await;
    queue.advance_ms(10);
    assert_eq!(queue.cancel_bulk("g", "b").await, first);
    assert_eq!(queue.sweep(10).await.dropped, 2);
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT);
}

async fn cancelling_one_that_has_ended_changes_nothing(queue: Subject) {
    queue.open("g", "completed").await;
    queue.seal("g", "completed").await;
    let taken = queue.lease_bulk().await;
    queue.settle_bulk(&taken).await;
    queue.open_within("g", "failed", None, Some(0)).await;
    queue.add(jobs_in("failed", "g", 1)).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, failed()).await;
    for (id, state) in [("completed", BulkState::Completed), ("failed", BulkState::Failed)] {
        let before = queue.bulk("g", id).await;
        assert_eq!(queue.cancel_bulk("g", id).await, Some(before.clone()));
        assert_eq!((before.state, queue.bulk("g", id).await), (state, before));
    }
}

async fn an_unknown_one_is_nothing(queue: Subject) {
    assert_eq!(queue.cancel_bulk("g", "b").await, None);
    assert_eq!(queue.find_bulk("g", "b").await, None);
}
