//! `requeue_dead`: a dead job gets all its attempts again; its bulk action keeps counting it as
//! failed.

use fairlane_core::kernel::Invalid;
use fairlane_core::limits::{MAX_RETRY_COUNT, PICK_JOBS_MAX};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_dead_job_runs_again_before_its_lane,
    it_has_all_its_attempts_again,
    it_keeps_its_payload_and_its_last_reason,
    counts_follow_it,
    only_dead_jobs_are_taken,
    an_unknown_job_is_reported_and_not_created,
    requeuing_again_changes_nothing,
    a_full_group_or_queue_keeps_the_job_dead,
    it_leaves_its_bulk_action,
    a_job_of_a_failed_bulk_action_runs_again,
    it_outlives_its_bulk_action,
    a_late_word_about_its_death_changes_nothing,
    it_wakes_a_waiter,
    answers_come_in_the_order_of_the_jobs,
    a_batch_out_of_range_is_invalid,
];

async fn a_dead_job_runs_again_before_its_lane(queue: Subject) {
    queue.add_dead(job("g", "dead 1")).await;
    queue.add_dead(job("g", "dead 2")).await;
    queue.add(jobs("g", 2)).await;
    assert_eq!(queue.requeue("g", &["dead 1", "dead 2"]).await, [Requeued::Requeued; 2]);
    assert_eq!(queue.state("g", "dead 1").await, JobState::Pending);
    assert_eq!(ids(&queue.serve_all(1).await), ["dead 1", "dead 2", "1", "2"]);
}

async fn it_has_all_its_attempts_again(queue: Subject) {
    queue.set_queue(Settings { max_throttle_count: 0, ..Settings::default() }).await;
    queue.add_dead(job("g", "1")).await;
    queue.requeue("g", &["1"]).await;
    let view = queue.job("g", "1").await;
    assert_eq!((view.attempts, view.throttles, view.losses), (0, 0, 0));
    for attempt in 1..=MAX_RETRY_COUNT + 1 {
        assert_ne!(queue.state("g", "1").await, JobState::Failed);
        let leased = queue.lease_one().await;
        assert_eq!(leased.attempt, attempt);
        queue.settle(&leased, retry(0)).await;
    }
    assert_eq!(queue.state("g", "1").await, JobState::Failed, "and can die again");
    assert_eq!(queue.queue_view().await.failed, 1);
}

async fn it_keeps_its_payload_and_its_last_reason(queue: Subject) {
    queue.add_dead(NewJob { payload: bytes("kept"), cost: cost(7), ..job("g", "1") }).await;
    queue.requeue("g", &["1"]).await;
    assert_eq!(&*queue.job("g", "1").await.note, b"broken");
    let leased = queue.lease_one().await;
    assert_eq!((&*leased.payload, leased.cost, leased.created_at), (&b"kept"[..], cost(7), START));
}

async fn counts_follow_it(queue: Subject) {
    queue.add_dead(job("g", "1")).await;
    let totals = queue.queue_view().await;
    assert_eq!((totals.failed, totals.backlog, totals.active_groups), (1, 0, 0));
    queue.requeue("g", &["1"]).await;
    let (totals, group) = (queue.queue_view().await, queue.group("g").await);
    assert_eq!((totals.failed, totals.backlog, totals.active_groups), (0, 1, 1));
    assert_eq!((group.backlog, group.total, group.done), (1, 1, 0));
    let leased = queue.lease_one().await;
    queue.succeed(&[leased]).await;
    let totals = queue.queue_view().await;
    assert_eq!((totals.failed, totals.completed, totals.active_groups), (0, 1, 0));
}

async fn only_dead_jobs_are_taken(queue: Subject) {
    queue.add([job("g", "running"), job("g", "done"), delayed(50, "g", "waiting")]).await;
    let leased = queue.lease(2).await;
    queue.succeed(&leased[1..]).await;
    queue.add([job("g", "pending"), job("g", "cancelled")]).await;
    queue.cancel("g", &["cancelled"]).await;
    let before = queue.queue_view().await;
    let all = ["running", "done", "waiting", "pending", "cancelled"];
    assert_eq!(queue.requeue("g", &all).await, [Requeued::NotDead; 5]);
    assert_eq!(queue.queue_view().await, before);
    assert_eq!(queue.state("g", "cancelled").await, JobState::Cancelled);
}

/// Erratum Q13.
async fn an_unknown_job_is_reported_and_not_created(queue: Subject) {
    assert_eq!(queue.requeue("g", &["1"]).await, [Requeued::Unknown]);
    assert_eq!(queue.requeue("g", &[]).await, []);
    assert_eq!(queue.find_job("g", "1").await, None);
}

/// A client that lost the reply repeats the command.
async fn requeuing_again_changes_nothing(queue: Subject) {
    queue.add_dead(job("g", "1")).await;
    assert_eq!(queue.requeue("g", &["1"]).await, [Requeued::Requeued]);
    assert_eq!(queue.requeue("g", &["1"]).await, [Requeued::NotDead]);
    assert_eq!((queue.queue_view().await.backlog, queue.lease(10).await.len()), (1, 1));
}

async fn a_full_group_or_queue_keeps_the_job_dead(queue: Subject) {
    queue.add_dead(job("g", "dead")).await;
    queue.add([job("g", "1")]).await;
    for full in [
        Settings { group_backlog_max: 1, ..Settings::default() },
        Settings { queue_backlog_max: 1, ..Settings::default() },
    ] {
        queue.set_queue(full).await;
        assert_eq!(queue.requeue("g", &["dead"]).await, [Requeued::Full]);
        assert_eq!((queue.state("g", "dead").await, queue.queue_view().await.failed), (JobState::Failed, 1));
    }
    queue.lease_one().await;
    assert_eq!(queue.requeue("g", &["dead"]).await, [Requeued::Requeued]);
}

/// Erratum Q15.
async fn it_leaves_its_bulk_action(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    queue.seal("g", "b").await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[0], failed()).await;
    assert_eq!(queue.requeue("g", &["b1"]).await, [Requeued::Requeued]);
    assert_eq!(queue.job("g", "b1").await.bulk, None);
    assert_eq!(queue.end_counts("g", "b").await, [0, 1, 0], "its failure was counted, once and for all");
    let again = queue.lease_one().await;
    assert_eq!(again.bulk, None);
    queue.succeed(&[again]).await;
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.succeeded, view.failed, view.total, view.state), (0, 1, 2, BulkState::Running));
    queue.succeed(&leased[1..]).await;
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating);
}

async fn a_job_of_a_failed_bulk_action_runs_again(queue: Subject) {
    queue.open_within("g", "b", None, Some(0)).await;
    queue.add_dead(in_bulk("b", job("g", "1"))).await;
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Failed);
    queue.requeue("g", &["1"]).await;
    let leased = queue.lease_one().await;
    assert!(matches!(queue.extend(&leased, LEASE_MS).await, Extension::Until(_)));
}

async fn it_outlives_its_bulk_action(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 1000, ..Settings::default() }).await;
    queue.open_within("g", "b", None, Some(0)).await;
    queue.add_dead(in_bulk("b", job("g", "1"))).await;
    queue.requeue("g", &["1"]).await;
    queue.advance_ms(1000);
    assert_eq!(queue.sweep(10).await.removed, 0);
    assert_eq!(queue.find_bulk("g", "b").await, None);
    assert_eq!(ids(&queue.lease(10).await), ["1"]);
}

async fn a_late_word_about_its_death_changes_nothing(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let first = queue.lease_one().await;
    queue.settle(&first, failed()).await;
    queue.requeue("g", &["1"]).await;
    assert_eq!(queue.settle(&first, failed()).await, Verdict::Applied, "repeated, as after a lost reply");
    assert_eq!(queue.state("g", "1").await, JobState::Pending);
    let second = queue.lease_one().await;
    assert_eq!(queue.settle(&first, failed()).await, Verdict::Applied);
    assert_eq!(queue.state("g", "1").await, JobState::Processing);
    queue.succeed(&[second]).await;
}

async fn it_wakes_a_waiter(queue: Subject) {
    queue.add_dead(job("g", "1")).await;
    queue.drain_wakes().await;
    queue.requeue("g", &["1"]).await;
    assert!(queue.is_woken().await);
}

async fn answers_come_in_the_order_of_the_jobs(queue: Subject) {
    queue.add_dead(job("g", "dead")).await;
    queue.add([job("g", "pending")]).await;
    let answers = queue.requeue("g", &["none", "pending", "dead"]).await;
    assert_eq!(answers, [Requeued::Unknown, Requeued::NotDead, Requeued::Requeued]);
}

async fn a_batch_out_of_range_is_invalid(queue: Subject) {
    let many = (0..=PICK_JOBS_MAX).map(|number| job_ref("g", &number.to_string())).collect();
    let refused = queue.engine.call(RequeueDead { jobs: many }).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooMany { .. }))));
    let twice = RequeueDead { jobs: refs("g", &["1", "1"]) };
    let refused = queue.engine.call(twice).await;
    assert_eq!(refused, Err(job_named_twice("g", "1")));
    let most = (0..PICK_JOBS_MAX).map(|number| job_ref("g", &number.to_string())).collect();
    let answers = queue.engine.call(RequeueDead { jobs: most }).await.expect("500 are taken");
    assert_eq!(answers.jobs, [Requeued::Unknown; PICK_JOBS_MAX]);
}
