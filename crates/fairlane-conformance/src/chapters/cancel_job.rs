//! `cancel_job`: a job that has not started will not; the worker of a running one learns of it when
//! it extends its lease, and the job is not tried again.

use fairlane_core::kernel::Invalid;
use fairlane_core::limits::{PICK_JOBS_MAX, VISIT_SKIPS_MAX};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_pending_job_never_runs_and_says_so_at_once,
    a_waiting_job_never_runs,
    a_job_set_aside_never_runs,
    a_promoted_job_never_runs,
    a_running_job_is_asked_to_stop,
    a_running_job_that_succeeds_or_fails_ends_as_it_did,
    no_attempt_that_ends_otherwise_is_tried_again,
    a_lost_lease_of_a_cancelled_job_is_not_recovered,
    a_request_to_stop_ends_with_its_attempt,
    cancelling_again_changes_nothing,
    a_job_that_has_ended_stays_as_it_is,
    an_unknown_job_is_reported_and_not_created,
    a_cancelled_job_counts_once_in_its_bulk_action,
    the_last_job_cancelled_completes_a_sealed_bulk_action,
    a_cancelled_job_makes_room_in_a_full_group,
    a_group_whose_last_job_was_cancelled_is_idle,
    the_others_keep_their_order,
    stepping_over_is_bounded_and_charges_nothing,
    a_cancelled_job_is_kept_like_a_completed_one,
    cancellations_come_in_the_order_of_the_jobs,
    a_batch_out_of_range_is_invalid,
];

async fn a_pending_job_never_runs_and_says_so_at_once(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    queue.advance_ms(5);
    assert_eq!(queue.cancel("g", &["2"]).await, [Cancellation::Cancelled]);
    let view = queue.job("g", "2").await;
    assert_eq!((view.state, view.settled_at), (JobState::Cancelled, Some(START.plus_ms(5))));
    assert_eq!((view.attempts, view.fence, view.until), (0, None, None));
    assert_eq!((queue.group("g").await.backlog, queue.queue_view().await.backlog), (2, 2));
    assert_eq!(ids(&queue.lease(10).await), ["1", "3"]);
    assert_eq!(queue.state("g", "2").await, JobState::Cancelled);
}

async fn a_waiting_job_never_runs(queue: Subject) {
    queue.add([delayed(100, "g", "late"), job("g", "retried")]).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, retry(100)).await;
    assert_eq!(queue.cancel("g", &["late", "retried"]).await, [Cancellation::Cancelled; 2]);
    let totals = queue.queue_view().await;
    assert_eq!((totals.waiting, totals.backlog, totals.completed), (0, 0, 2));
    queue.advance_ms(100);
    assert_eq!(queue.promote(10).await, Promoted { moved: 0, wake_in_us: None });
    assert_eq!(queue.lease(10).await, []);
}

async fn a_job_set_aside_never_runs(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    assert_eq!(queue.cancel("g", &["b2"]).await, [Cancellation::Cancelled]);
    assert_eq!((queue.state("g", "b2").await, queue.queue_view().await.backlog), (JobState::Cancelled, 2));
    queue.resume("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(ids(&queue.lease(10).await), ["b1", "b3"]);
}

async fn a_promoted_job_never_runs(queue: Subject) {
    queue.add([delayed(10, "g", "1"), delayed(10, "g", "2")]).await;
    queue.advance_ms(10);
    queue.promote(10).await;
    assert_eq!(queue.cancel("g", &["1"]).await, [Cancellation::Cancelled]);
    assert_eq!(ids(&queue.lease(10).await), ["2"]);
}

async fn a_running_job_is_asked_to_stop(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(2).await;
    assert_eq!(queue.cancel("g", &["1"]).await, [Cancellation::Requested]);
    assert_eq!(queue.state("g", "1").await, JobState::Processing);
    let until = START.plus_ms(5000);
    assert_eq!(queue.extend(&leased[0], 5000).await, Extension::Cancelled(until));
    assert_eq!(queue.extend(&leased[1], 5000).await, Extension::Until(until));
    assert_eq!(queue.extend(&leased[0], 5000).await, Extension::Cancelled(until), "until it stops");
}

/// Erratum Q17.
async fn a_running_job_that_succeeds_or_fails_ends_as_it_did(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(2).await;
    queue.cancel("g", &["1", "2"]).await;
    queue.succeed(&leased[..1]).await;
    queue.settle(&leased[1], failed()).await;
    assert_eq!(queue.state("g", "1").await, JobState::Completed);
    assert_eq!(queue.state("g", "2").await, JobState::Failed);
}

async fn no_attempt_that_ends_otherwise_is_tried_again(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease(3).await;
    queue.cancel("g", &["1", "2", "3"]).await;
    for (job, outcome) in leased.iter().zip([retry(0), throttled(0, 0), Outcome::Released]) {
        assert_eq!(queue.settle(job, outcome).await, Verdict::Applied);
        assert_eq!(queue.state("g", &job.job.id.to_string()).await, JobState::Cancelled);
    }
    let totals = queue.queue_view().await;
    assert_eq!((totals.backlog, totals.in_flight, totals.completed), (0, 0, 3));
    assert_eq!(queue.lease(10).await, []);
}

async fn a_lost_lease_of_a_cancelled_job_is_not_recovered(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add(jobs("g", 2)).await;
    queue.lease(2).await;
    queue.cancel("g", &["1"]).await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    let reclaimed = queue.reclaim(10).await;
    assert_eq!((reclaimed.recovered, reclaimed.dead, reclaimed.cancelled), (1, 0, 1));
    assert_eq!(queue.state("g", "1").await, JobState::Cancelled);
    assert_eq!(ids(&queue.lease(10).await), ["2"]);
}

async fn a_request_to_stop_ends_with_its_attempt(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    queue.cancel("g", &["1"]).await;
    queue.settle(&leased, failed()).await;
    queue.requeue("g", &["1"]).await;
    let again = queue.lease_one().await;
    assert!(matches!(queue.extend(&again, LEASE_MS).await, Extension::Until(_)), "it is wanted again");
}

/// A client that lost the reply cancels again.
async fn cancelling_again_changes_nothing(queue: Subject) {
    queue.add([job("g", "pending"), delayed(100, "g", "waiting"), job_of("other", "g", "running")]).await;
    queue.lease_of(&["other"], 1).await;
    let all = ["pending", "waiting", "running"];
    let first = [Cancellation::Cancelled, Cancellation::Cancelled, Cancellation::Requested];
    assert_eq!(queue.cancel("g", &all).await, first);
    let before = (queue.queue_view().await, queue.group("g").await);
    let again = [Cancellation::Ended, Cancellation::Ended, Cancellation::Requested];
    assert_eq!(queue.cancel("g", &all).await, again);
    assert_eq!((queue.queue_view().await, queue.group("g").await), before);
}

async fn a_job_that_has_ended_stays_as_it_is(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(2).await;
    queue.succeed(&leased[..1]).await;
    queue.settle(&leased[1], failed()).await;
    assert_eq!(queue.cancel("g", &["1", "2"]).await, [Cancellation::Ended; 2]);
    assert_eq!(queue.state("g", "1").await, JobState::Completed);
    assert_eq!(queue.state("g", "2").await, JobState::Failed);
}

/// Erratum Q13.
async fn an_unknown_job_is_reported_and_not_created(queue: Subject) {
    assert_eq!(queue.cancel("g", &["1"]).await, [Cancellation::Unknown]);
    queue.add([job("g", "2")]).await;
    assert_eq!(queue.cancel("g", &["1"]).await, [Cancellation::Unknown]);
    assert_eq!(queue.find_job("g", "1").await, None);
    assert_eq!(queue.cancel("g", &[]).await, []);
}

/// Erratum Q15.
async fn a_cancelled_job_counts_once_in_its_bulk_action(queue: Subject) {
    queue.open_with_jobs("g", "b", 4).await;
    let running = queue.lease_one().await;
    queue.cancel("g", &["b1", "b2"]).await;
    assert_eq!(queue.end_counts("g", "b").await, [0, 0, 1], "the running one has not ended");
    queue.cancel("g", &["b2"]).await;
    queue.settle(&running, retry(0)).await;
    queue.lease(1).await;
    queue.sweep(10).await;
    assert_eq!(queue.end_counts("g", "b").await, [0, 0, 2]);
    queue.cancel_bulk("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(queue.end_counts("g", "b").await, [0, 0, 3], "the one leased last is still running");
}

/// Erratum Q16.
async fn the_last_job_cancelled_completes_a_sealed_bulk_action(queue: Subject) {
    queue.open("g", "b").await;
    queue.add([in_bulk("b", job("g", "1")), in_bulk("b", delayed(1000, "g", "2"))]).await;
    queue.seal("g", "b").await;
    queue.cancel("g", &["1"]).await;
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Created);
    queue.cancel("g", &["2"]).await;
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating);
    let taken = queue.lease_bulk().await;
    assert_eq!(queue.settle_bulk(&taken).await, Verdict::Applied);
    queue.lease(10).await;
    assert_eq!(queue.end_counts("g", "b").await, [0, 0, 2]);
}

async fn a_cancelled_job_makes_room_in_a_full_group(queue: Subject) {
    queue.set_queue(Settings { group_backlog_max: 2, ..Settings::default() }).await;
    queue.add(jobs("g", 2)).await;
    assert_eq!(queue.enqueue([job("g", "3")]).await, [refused(Refusal::GroupFull)]);
    queue.cancel("g", &["1"]).await;
    queue.add([job("g", "3")]).await;
    assert_eq!(ids(&queue.lease(10).await), ["2", "3"]);
}

async fn a_group_whose_last_job_was_cancelled_is_idle(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    assert_eq!(queue.queue_view().await.active_groups, 1);
    queue.cancel("g", &["1", "2"]).await;
    let (totals, group) = (queue.queue_view().await, queue.group("g").await);
    assert_eq!((totals.active_groups, group.total, group.done), (0, 0, 0));
    assert_eq!(queue.lease_and_wake(&["t"], 10).await, (vec![], None));
    assert_eq!(queue.queue_view().await.active_lanes, [0, 0, 0]);
}

async fn the_others_keep_their_order(queue: Subject) {
    queue.add(jobs("g", 10)).await;
    queue.cancel("g", &["1", "4", "5", "10"]).await;
    assert_eq!(ids(&queue.serve_all(2).await), ["2", "3", "6", "7", "8", "9"]);
}

/// Erratum Q12.
async fn stepping_over_is_bounded_and_charges_nothing(queue: Subject) {
    queue.set_group("g", group_rate(per_second(1, 1))).await;
    queue.add(jobs("g", VISIT_SKIPS_MAX + 2)).await;
    let cancelled: Vec<String> = (1..=VISIT_SKIPS_MAX + 1).map(|number| number.to_string()).collect();
    let cancelled: Vec<&str> = cancelled.iter().map(String::as_str).collect();
    queue.cancel("g", &cancelled).await;
    let (leased, wake_at) = queue.lease_and_wake(&["t"], 5).await;
    assert_eq!((leased, wake_at), (vec![], None), "the rest is left to sweep");
    assert_eq!(queue.sweep(10).await, Swept { dropped: 1, ..NOTHING_SWEPT });
    assert_eq!(ids(&queue.lease(5).await), [(VISIT_SKIPS_MAX + 2).to_string()]);
}

async fn a_cancelled_job_is_kept_like_a_completed_one(queue: Subject) {
    queue.set_queue(Settings { completed_retention_ms: 1000, ..Settings::default() }).await;
    queue.add([job("g", "1"), delayed(50, "g", "2")]).await;
    queue.cancel("g", &["1", "2"]).await;
    queue.lease(10).await;
    assert_eq!(queue.queue_view().await.completed, 2);
    assert_eq!(queue.enqueue([job("g", "1"), job("g", "2")]).await, [EXISTS; 2]);
    queue.advance_ms(1000);
    for _ in 0..2 {
        queue.sweep(10).await;
    }
    assert_eq!((queue.find_job("g", "1").await, queue.find_job("g", "2").await), (None, None));
    queue.add([job("g", "1")]).await;
    assert_eq!(ids(&queue.lease(10).await), ["1"]);
}

async fn cancellations_come_in_the_order_of_the_jobs(queue: Subject) {
    queue.add([job("g", "done")]).await;
    let leased = queue.lease_one().await;
    queue.succeed(&[leased]).await;
    queue.add([job("g", "running")]).await;
    queue.lease_one().await;
    queue.add([job("g", "pending"), job("h", "pending")]).await;
    let mut picked = refs("g", &["none", "running", "pending", "done"]);
    picked.push(job_ref("h", "pending"));
    let cancelled = queue.engine.call(CancelJob { jobs: picked }).await.expect("cancel_job is answered");
    let expected = [
        Cancellation::Unknown,
        Cancellation::Requested,
        Cancellation::Cancelled,
        Cancellation::Ended,
        Cancellation::Cancelled,
    ];
    assert_eq!(cancelled.cancellations, expected);
}

async fn a_batch_out_of_range_is_invalid(queue: Subject) {
    queue.add(jobs("g", PICK_JOBS_MAX + 1)).await;
    let first = |count: usize| CancelJob {
        jobs: (1..=count).map(|number| job_ref("g", &number.to_string())).collect(),
    };
    let refused = queue.engine.call(first(PICK_JOBS_MAX + 1)).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooMany { .. }))));
    let twice = CancelJob { jobs: refs("g", &["1", "2", "1"]) };
    let refused = queue.engine.call(twice).await;
    assert_eq!(refused, Err(job_named_twice("g", "1")));
    assert_eq!(queue.queue_view().await.backlog, PICK_JOBS_MAX as u64 + 1);
    let most = queue.engine.call(first(PICK_JOBS_MAX)).await.expect("500 are taken");
    assert_eq!(most.cancellations, [Cancellation::Cancelled; PICK_JOBS_MAX]);
    assert_eq!(queue.queue_view().await.backlog, 1);
}
