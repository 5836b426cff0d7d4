//! `discard`: a dead job is removed before its retention ends, and its id is free again.

use fairlane_core::kernel::Invalid;
use fairlane_core::limits::PICK_JOBS_MAX;
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_discarded_job_is_gone_and_its_id_is_free,
    a_worker_of_the_earlier_job_is_too_late,
    only_dead_jobs_are_removed,
    discarding_again_says_that_it_is_gone,
    its_bulk_action_has_counted_it,
    an_id_enqueued_anew_is_not_removed_with_the_old_bulk_action,
    the_other_dead_jobs_stay,
    a_discarded_job_cannot_be_requeued,
    answers_come_in_the_order_of_the_jobs,
    a_batch_out_of_range_is_invalid,
];

async fn a_discarded_job_is_gone_and_its_id_is_free(queue: Subject) {
    let traced = Some(trace("4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
    queue.add_dead(NewJob { payload: bytes("old"), trace: traced, ..job("g", "1") }).await;
    assert_eq!(queue.discard("g", &["1"]).await, [Disposal::Discarded]);
    assert_eq!((queue.find_job("g", "1").await, queue.queue_view().await.failed), (None, 0));
    queue.add([NewJob { payload: bytes("new"), ..job("g", "1") }]).await;
    let leased = queue.lease_one().await;
    assert_eq!((&*leased.payload, leased.attempt, leased.trace), (&b"new"[..], 1, None));
}

/// Erratum Q15.
async fn a_worker_of_the_earlier_job_is_too_late(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let first = queue.lease_one().await;
    queue.settle(&first, failed()).await;
    queue.discard("g", &["1"]).await;
    assert_eq!(queue.settle(&first, succeeded()).await, Verdict::Gone);
    queue.add([job("g", "1")]).await;
    let second = queue.lease_one().await;
    assert!(second.fence > first.fence);
    assert_eq!(queue.settle(&first, succeeded()).await, Verdict::Stale);
    assert_eq!(queue.extend(&first, LEASE_MS).await, Extension::Lost);
    assert_eq!(queue.state("g", "1").await, JobState::Processing);
}

async fn only_dead_jobs_are_removed(queue: Subject) {
    queue.add([job("g", "running"), job("g", "done"), delayed(50, "g", "waiting")]).await;
    let leased = queue.lease(2).await;
    queue.succeed(&leased[1..]).await;
    queue.add([job("g", "pending"), job("g", "cancelled")]).await;
    queue.cancel("g", &["cancelled"]).await;
    let all = ["running", "done", "waiting", "pending", "cancelled"];
    assert_eq!(queue.discard("g", &all).await, [Disposal::NotDead; 5]);
    for id in all {
        assert!(queue.find_job("g", id).await.is_some(), "{id} is still there");
    }
}

/// A client that lost the reply repeats the command.
async fn discarding_again_says_that_it_is_gone(queue: Subject) {
    queue.add_dead(job("g", "1")).await;
    assert_eq!(queue.discard("g", &["1"]).await, [Disposal::Discarded]);
    assert_eq!(queue.discard("g", &["1"]).await, [Disposal::Unknown]);
    assert_eq!(queue.discard("never seen", &["1"]).await, [Disposal::Unknown]);
    assert_eq!(queue.discard("g", &[]).await, []);
}

async fn its_bulk_action_has_counted_it(queue: Subject) {
    queue.open("g", "b").await;
    queue.add_dead(in_bulk("b", job("g", "1"))).await;
    queue.discard("g", &["1"]).await;
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.total, view.failed), (1, 1));
    assert_eq!(queue.seal("g", "b").await.state, BulkState::Aggregating);
}

async fn an_id_enqueued_anew_is_not_removed_with_the_old_bulk_action(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 1000, ..Settings::default() }).await;
    queue.open_within("g", "b", None, Some(0)).await;
    queue.add_dead(in_bulk("b", job("g", "1"))).await;
    queue.discard("g", &["1"]).await;
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    queue.succeed(&[leased]).await;
    queue.advance_ms(1000);
    queue.sweep(10).await;
    assert_eq!(queue.find_bulk("g", "b").await, None);
    assert_eq!(queue.state("g", "1").await, JobState::Completed);
}

async fn the_other_dead_jobs_stay(queue: Subject) {
    for id in ["1", "2", "3"] {
        queue.add_dead(job("g", id)).await;
    }
    queue.discard("g", &["2"]).await;
    assert_eq!(queue.queue_view().await.failed, 2);
    assert_eq!(queue.state("g", "1").await, JobState::Failed);
    assert_eq!(queue.requeue("g", &["1", "3"]).await, [Requeued::Requeued; 2]);
}

async fn a_discarded_job_cannot_be_requeued(queue: Subject) {
    queue.add_dead(job("g", "1")).await;
    queue.discard("g", &["1"]).await;
    assert_eq!(queue.requeue("g", &["1"]).await, [Requeued::Unknown]);
    assert_eq!(queue.lease(10).await, []);
}

async fn answers_come_in_the_order_of_the_jobs(queue: Subject) {
    queue.add_dead(job("g", "dead")).await;
    queue.add([job("g", "pending")]).await;
    let answers = queue.discard("g", &["none", "pending", "dead"]).await;
    assert_eq!(answers, [Disposal::Unknown, Disposal::NotDead, Disposal::Discarded]);
}

async fn a_batch_out_of_range_is_invalid(queue: Subject) {
    queue.add_dead(job("g", "1")).await;
    let mut many: Vec<JobRef> =
        (2..=PICK_JOBS_MAX + 1).map(|number| job_ref("g", &number.to_string())).collect();
    many.push(job_ref("g", "1"));
    let refused = queue.engine.call(Discard { jobs: many.clone() }).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooMany { .. }))));
    let twice = Discard { jobs: refs("g", &["1", "1"]) };
    let refused = queue.engine.call(twice).await;
    assert_eq!(refused, Err(job_named_twice("g", "1")));
    assert_eq!(queue.state("g", "1").await, JobState::Failed);
    let most = Discard { jobs: many.split_off(1) };
    assert_eq!(queue.engine.call(most).await.expect("500 are taken").jobs.len(), PICK_JOBS_MAX);
    assert_eq!(queue.find_job("g", "1").await, None);
}
