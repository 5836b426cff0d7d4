//! `hold_bulk`: a bulk action's jobs are set aside when their turn comes; running ones go on.

use fairlane_core::limits::{SWEEP_JOBS_MAX, VISIT_SKIPS_MAX};
use fairlane_core::queue::*;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    held_jobs_do_not_run_and_others_do,
    running_jobs_go_on_and_count,
    a_job_set_aside_is_unfinished_work,
    skips_charge_neither_share_nor_rate,
    a_lease_sets_a_bounded_number_aside_and_leaves_the_rest_to_sweep,
    a_lane_that_is_cleared_comes_back_with_its_first_runnable_job,
    a_lane_that_is_cleared_stays_so_when_its_limits_change,
    what_comes_back_to_a_held_one_is_set_aside,
    a_released_job_of_a_held_one_is_set_aside,
    a_held_one_takes_more_jobs_until_it_is_sealed,
    a_held_one_completes_when_all_its_jobs_were_running,
    a_held_one_can_fail_and_drops_what_was_set_aside,
    holding_again_changes_nothing,
    holding_one_that_has_ended_changes_nothing,
    an_unknown_one_is_nothing,
    a_job_cancelled_while_set_aside_leaves_nothing_behind,
];

async fn held_jobs_do_not_run_and_others_do(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.add([job("g", "own"), job("h", "1")]).await;
    let view = queue.hold("g", "b").await.expect("it is there");
    assert_eq!((view.mode, view.state, view.on_hold), (BulkMode::Hold, BulkState::Created, 0));
    let mut leased = names(&queue.lease(10).await);
    leased.sort();
    assert_eq!(leased, ["g/own", "h/1"]);
    assert_eq!(queue.bulk("g", "b").await.on_hold, 3);
    queue.advance_ms(3_600_000);
    assert_eq!(queue.lease(10).await, []);
    assert_eq!(queue.sweep(10).await, NOTHING_SWEPT, "what is held stays held");
}

async fn running_jobs_go_on_and_count(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    let leased = queue.lease(2).await;
    queue.hold("g", "b").await;
    assert!(matches!(queue.extend(&leased[0], LEASE_MS).await, Extension::Until(_)));
    queue.succeed(&leased[..1]).await;
    queue.settle(&leased[1], failed()).await;
    assert_eq!(queue.end_counts("g", "b").await, [1, 1, 0]);
}

async fn a_job_set_aside_is_unfinished_work(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    assert_eq!(queue.state("g", "b1").await, JobState::Pending);
    let (group, totals) = (queue.group("g").await, queue.queue_view().await);
    assert_eq!((group.backlog, group.in_flight, totals.backlog, totals.active_groups), (3, 0, 3, 1));
    assert_eq!(group.lanes, [], "it stands in no lane");
    let receipts = queue.enqueue(jobs_in("b", "g", 1)).await;
    assert_eq!(receipts, [JobReceipt::Exists { bulk: Some(bulk_id("b")) }]);
    queue.set_queue(Settings { group_backlog_max: 3, ..Settings::default() }).await;
    assert_eq!(queue.enqueue([job("g", "more")]).await, [refused(Refusal::GroupFull)]);
}

async fn skips_charge_neither_share_nor_rate(queue: Subject) {
    queue.set_queue(Settings { rate: Some(per_second(1, 3)), ..Settings::default() }).await;
    queue.open_with_jobs("held", "b", 40).await;
    queue.add(jobs("held", 40)).await;
    queue.add(jobs("plain", 40)).await;
    queue.hold("held", "b").await;
    assert_eq!(queue.lease(3).await.len(), 3, "three slots were left after 40 skips");
    queue.set_queue(Settings::default()).await;
    let mut served = Vec::new();
    for _ in 0..37 {
        served.push(queue.lease_one().await);
    }
    let held = count_of("held", &served);
    assert!((17..=21).contains(&held), "40 skips cost its turns: {held} of 37");
}

/// Erratum Q12.
async fn a_lease_sets_a_bounded_number_aside_and_leaves_the_rest_to_sweep(queue: Subject) {
    let count = 2 * VISIT_SKIPS_MAX + 1;
    queue.open_with_jobs("g", "b", count).await;
    queue.add([job("g", "behind")]).await;
    queue.hold("g", "b").await;
    for _ in 0..2 {
        assert_eq!(queue.lease_and_wake(&["t"], 5).await, (vec![], None), "no wake time is given");
        assert_eq!(queue.bulk("g", "b").await.on_hold, VISIT_SKIPS_MAX as u64);
    }
    for (jobs_max, more) in [(VISIT_SKIPS_MAX, true), (10, false)] {
        assert_eq!(queue.sweep(jobs_max).await, Swept { more, ..NOTHING_SWEPT });
    }
    assert_eq!(queue.bulk("g", "b").await.on_hold, count as u64);
    let (leased, wake_at) = queue.lease_and_wake(&["t"], 5).await;
    assert_eq!((ids(&leased), wake_at), (vec!["behind".to_owned()], None));
}

async fn a_lane_that_is_cleared_comes_back_with_its_first_runnable_job(queue: Subject) {
    queue.open_with_jobs("g", "b", VISIT_SKIPS_MAX + 5).await;
    queue.hold("g", "b").await;
    assert_eq!(queue.lease(5).await, []);
    queue.resume("g", "b").await;
    assert_eq!(queue.lease(5).await, [], "a sweep brings it back");
    let swept = queue.sweep(SWEEP_JOBS_MAX).await;
    assert_eq!(swept, Swept { resumed: VISIT_SKIPS_MAX, ..NOTHING_SWEPT });
    assert_eq!(queue.group("g").await.lanes[0].standing, LaneStanding::Active);
    assert_eq!(ids(&queue.lease(2).await), ["b1", "b2"]);
    queue.hold("g", "b").await;
    assert_eq!(queue.lease(5).await, []);
    assert_eq!(queue.sweep(SWEEP_JOBS_MAX).await, NOTHING_SWEPT);
    assert_eq!(queue.group("g").await.lanes, [], "a lane without jobs is idle");
    queue.add([job("g", "own")]).await;
    assert_eq!(ids(&queue.lease(5).await), ["own"]);
}

async fn a_lane_that_is_cleared_stays_so_when_its_limits_change(queue: Subject) {
    queue.open_with_jobs("g", "b", VISIT_SKIPS_MAX + 5).await;
    queue.add([job("g", "behind")]).await;
    queue.hold("g", "b").await;
    queue.lease(5).await;
    queue.set_group("g", group_paused(true)).await;
    queue.set_group("g", weight(3)).await;
    assert_eq!(queue.group("g").await.lanes[0].standing, LaneStanding::Clearing(START));
    queue.sweep(SWEEP_JOBS_MAX).await;
    assert_eq!(queue.lease(5).await, [], "it is paused");
    queue.set_group("g", group_paused(false)).await;
    assert_eq!(ids(&queue.lease(5).await), ["behind"]);
}

async fn what_comes_back_to_a_held_one_is_set_aside(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.open_with_jobs("g", "b", 3).await;
    let leased = queue.lease(3).await;
    queue.hold("g", "b").await;
    queue.settle(&leased[0], retry(100)).await;
    queue.settle(&leased[1], throttled(100, 0)).await;
    assert_eq!(queue.state("g", "b1").await, JobState::Waiting);
    queue.advance_reclaiming_ms(LEASE_MS).await;
    assert_eq!(queue.reclaim(10).await.recovered, 1);
    assert_eq!(queue.lease(10).await, []);
    assert_eq!(queue.bulk("g", "b").await.on_hold, 3);
    queue.resume("g", "b").await;
    queue.sweep(10).await;
    let again = queue.lease(10).await;
    assert_eq!(again.iter().map(|job| job.attempt).collect::<Vec<_>>(), [2, 1, 1]);
}

async fn a_released_job_of_a_held_one_is_set_aside(queue: Subject) {
    queue.open_with_jobs("g", "b", 1).await;
    let leased = queue.lease_one().await;
    queue.hold("g", "b").await;
    queue.settle(&leased, Outcome::Released).await;
    assert_eq!(queue.lease(10).await, []);
    assert_eq!(queue.bulk("g", "b").await.on_hold, 1);
}

async fn a_held_one_takes_more_jobs_until_it_is_sealed(queue: Subject) {
    queue.open("g", "b").await;
    queue.hold("g", "b").await;
    queue.add(jobs_in("b", "g", 2)).await;
    let view = queue.seal("g", "b").await;
    assert_eq!((view.total, view.mode, view.state), (2, BulkMode::Hold, BulkState::Created));
    let receipts = queue.enqueue([in_bulk("b", job("g", "late"))]).await;
    assert_eq!(receipts, [refused(Refusal::BulkSealed)]);
    assert_eq!(queue.lease(10).await, []);
}

async fn a_held_one_completes_when_all_its_jobs_were_running(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    queue.seal("g", "b").await;
    let leased = queue.lease(2).await;
    queue.hold("g", "b").await;
    queue.succeed(&leased).await;
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating);
    assert_eq!(queue.lease_bulks(10).await.len(), 1);
}

async fn a_held_one_can_fail_and_drops_what_was_set_aside(queue: Subject) {
    queue.open_within("g", "b", Some(1000), None).await;
    queue.add(jobs_in("b", "g", 3)).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.advance_ms(1000);
    let swept = queue.sweep(10).await;
    assert_eq!((swept.overdue, swept.dropped), (1, 3));
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, view.cancelled, view.on_hold), (BulkState::Failed, 3, 0));
    assert_eq!(queue.queue_view().await.backlog, 0);
}

/// A client that lost the reply holds it again.
async fn holding_again_changes_nothing(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    let before = queue.bulk("g", "b").await;
    assert_eq!(queue.hold("g", "b").await, Some(before.clone()));
    assert_eq!(queue.bulk("g", "b").await, before);
}

async fn holding_one_that_has_ended_changes_nothing(queue: Subject) {
    for id in ["aggregating", "completed", "cancelled"] {
        queue.open("g", id).await;
    }
    queue.seal("g", "completed").await;
    let taken = queue.lease_bulk().await;
    queue.settle_bulk(&taken).await;
    queue.seal("g", "aggregating").await;
    queue.cancel_bulk("g", "cancelled").await;
    for (id, mode) in
        [("aggregating", BulkMode::Run), ("completed", BulkMode::Run), ("cancelled", BulkMode::Drop)]
    {
        let before = queue.bulk("g", id).await;
        assert_eq!(queue.hold("g", id).await, Some(before.clone()));
        assert_eq!((before.mode, queue.bulk("g", id).await), (mode, before));
    }
}

async fn an_unknown_one_is_nothing(queue: Subject) {
    assert_eq!(queue.hold("g", "b").await, None);
    queue.open("g", "other").await;
    assert_eq!(queue.hold("g", "b").await, None);
    assert_eq!(queue.find_bulk("g", "b").await, None);
}

async fn a_job_cancelled_while_set_aside_leaves_nothing_behind(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 1000, ..Settings::default() }).await;
    queue.open_with_jobs("g", "b", 2).await;
    queue.seal("g", "b").await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    assert_eq!(queue.cancel("g", &["b1", "b2"]).await, [Cancellation::Cancelled; 2]);
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating, "its last job has ended");
    let taken = queue.lease_bulk().await;
    queue.settle_bulk(&taken).await;
    queue.sweep(10).await;
    assert_eq!(queue.lease(10).await, []);
    assert_eq!(queue.bulk("g", "b").await.on_hold, 0);
    queue.advance_ms(1000);
    queue.sweep(10).await;
    assert_eq!(queue.find_bulk("g", "b").await, None);
    for id in ["b1", "b2"] {
        assert_eq!(queue.find_job("g", id).await, None, "its jobs go with it");
    }
    queue.add([job("g", "b1")]).await;
    assert_eq!(ids(&queue.lease(10).await), ["b1"]);
}
