//! `seal_bulk`: a bulk action is complete exactly once: when it is sealed and every job has ended.

use fairlane_core::limits::INTEGER_MAX;
use fairlane_core::queue::*;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    an_open_bulk_action_is_never_complete,
    a_sealed_one_is_complete_when_its_last_job_has_ended,
    it_is_complete_exactly_once,
    the_only_job_settled_completes_it,
    every_kind_of_end_counts_once,
    no_jobs_complete_at_once,
    sealing_after_the_last_job_completes_at_once,
    a_wrong_number_leaves_it_open,
    the_right_number_seals_it,
    sealing_again_says_the_same,
    an_unknown_one_is_reported_and_not_created,
    sealing_one_that_has_ended_does_not_revive_it,
    its_states_come_in_the_order_of_the_road,
];

/// Erratum Q16.
async fn an_open_bulk_action_is_never_complete(queue: Subject) {
    queue.open("g", "b").await;
    for round in 0..3 {
        queue.add([in_bulk("b", job("g", &round.to_string()))]).await;
        let leased = queue.lease_one().await;
        queue.succeed(&[leased]).await;
        let view = queue.bulk("g", "b").await;
        assert_eq!((view.succeeded, view.total), (round + 1, round + 1));
        assert_eq!(view.state, BulkState::Running, "the producer may add more");
        assert_eq!((queue.lease_bulks(10).await, queue.queue_view().await.aggregating), (vec![], 0));
    }
}

/// Erratum Q16.
async fn a_sealed_one_is_complete_when_its_last_job_has_ended(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.seal("g", "b").await;
    let leased = queue.lease(3).await;
    queue.succeed(&leased[..2]).await;
    assert_eq!((queue.bulk_state("g", "b").await, queue.lease_bulks(10).await), (BulkState::Running, vec![]));
    queue.succeed(&leased[2..]).await;
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating);
    assert_eq!(queue.queue_view().await.aggregating, 1);
    assert_eq!(queue.lease_bulk().await.view.bulk, bulk_ref("g", "b"));
}

/// Erratum Q15. Erratum Q16.
async fn it_is_complete_exactly_once(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    let leased = queue.lease(2).await;
    queue.succeed(&leased[..1]).await;
    queue.seal("g", "b").await;
    for _ in 0..3 {
        queue.settle(&leased[0], succeeded()).await;
    }
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Running, "one job settled thrice is one job");
    queue.succeed(&leased[1..]).await;
    let taken = queue.lease_bulk().await;
    for job in &leased {
        queue.settle(job, succeeded()).await;
    }
    queue.seal("g", "b").await;
    assert_eq!(queue.lease_bulks(10).await, []);
    assert_eq!(queue.settle_bulk(&taken).await, Verdict::Applied);
    let ended = queue.bulk("g", "b").await;
    queue.seal("g", "b").await;
    queue.settle(&leased[1], failed()).await;
    queue.advance_ms(LEASE_MS);
    assert_eq!((queue.lease_bulks(10).await, queue.bulk("g", "b").await), (vec![], ended));
}

async fn the_only_job_settled_completes_it(queue: Subject) {
    queue.open_with_jobs("customer-A", "b", 1).await;
    queue.seal("customer-A", "b").await;
    let leased = queue.lease_one().await;
    assert_eq!(queue.bulk_state("customer-A", "b").await, BulkState::Running);
    queue.succeed(&[leased]).await;
    assert_eq!(queue.bulk_state("customer-A", "b").await, BulkState::Aggregating);
}

/// Erratum Q15. Erratum Q17.
async fn every_kind_of_end_counts_once(queue: Subject) {
    queue.set_queue(Settings { max_retry_count: 0, max_loss_count: 0, ..Settings::default() }).await;
    queue.end_reclaim_grace().await;
    queue.open_with_jobs("g", "b", 5).await;
    queue.seal("g", "b").await;
    assert_eq!(queue.cancel("g", &["b5"]).await, [Cancellation::Cancelled]);
    let lost = queue.lease_one().await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    assert_eq!(queue.reclaim(10).await.dead, 1);
    assert_eq!(queue.end_counts("g", "b").await, [0, 1, 1]);
    let leased = queue.lease(10).await;
    for (job, outcome) in leased.iter().zip([succeeded(), failed(), retry(0)]) {
        assert_eq!(queue.bulk_state("g", "b").await, BulkState::Running);
        queue.settle(job, outcome.clone()).await;
        queue.settle(job, outcome).await;
    }
    queue.settle(&lost, succeeded()).await;
    queue.cancel("g", &["b1", "b5"]).await;
    assert_eq!(queue.end_counts("g", "b").await, [1, 3, 1]);
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating);
}

/// Erratum Q16.
async fn no_jobs_complete_at_once(queue: Subject) {
    queue.open("g", "b").await;
    queue.advance_ms(3);
    let view = queue.seal("g", "b").await;
    assert_eq!((view.state, view.sealed, view.total), (BulkState::Aggregating, true, 0));
    assert_eq!((view.started_at, view.finished_at), (None, None));
    let taken = queue.lease_bulk().await;
    assert_eq!(queue.settle_bulk(&taken).await, Verdict::Applied);
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Completed);
}

/// Erratum Q16.
async fn sealing_after_the_last_job_completes_at_once(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    let leased = queue.lease(2).await;
    queue.succeed(&leased).await;
    assert_eq!(queue.seal("g", "b").await.state, BulkState::Aggregating);
}

async fn a_wrong_number_leaves_it_open(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    for wrong in [0, 1, 3, INTEGER_MAX - 1] {
        assert_eq!(queue.seal_expecting("g", "b", Some(wrong)).await, BulkSealed::Mismatch { total: 2 });
    }
    assert!(!queue.bulk("g", "b").await.sealed);
    queue.add([in_bulk("b", job("g", "third"))]).await;
    let sealed = queue.seal_expecting("g", "b", Some(3)).await;
    assert!(matches!(sealed, BulkSealed::Sealed(view) if view.sealed && view.total == 3));
}

async fn the_right_number_seals_it(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    let leased = queue.lease(2).await;
    queue.succeed(&leased[..1]).await;
    assert!(matches!(queue.seal_expecting("g", "b", Some(2)).await, BulkSealed::Sealed(_)), "ended or not");
    queue.open("g", "none").await;
    assert!(matches!(queue.seal_expecting("g", "none", Some(0)).await, BulkSealed::Sealed(_)));
}

/// A producer that lost the reply seals again.
async fn sealing_again_says_the_same(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    let first = queue.seal_expecting("g", "b", Some(2)).await;
    assert_eq!(queue.seal_expecting("g", "b", Some(2)).await, first);
    assert_eq!(queue.seal_expecting("g", "b", None).await, first);
    assert_eq!(
        queue.seal_expecting("g", "b", Some(9)).await,
        first,
        "it is sealed, whatever is expected now"
    );
}

async fn an_unknown_one_is_reported_and_not_created(queue: Subject) {
    assert_eq!(queue.seal_expecting("g", "b", None).await, BulkSealed::Unknown);
    queue.open("g", "other").await;
    assert_eq!(queue.seal_expecting("g", "b", Some(0)).await, BulkSealed::Unknown);
    assert_eq!(queue.seal_expecting("h", "other", Some(0)).await, BulkSealed::Unknown);
    assert_eq!(queue.find_bulk("g", "b").await, None);
}

async fn sealing_one_that_has_ended_does_not_revive_it(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    queue.cancel_bulk("g", "b").await;
    queue.sweep(10).await;
    let taken = queue.lease_bulk().await;
    let view = queue.seal("g", "b").await;
    assert_eq!((view.state, view.cancelled), (BulkState::Cancelled, 2));
    assert_eq!(queue.lease_bulks(10).await, [], "it was handed out, sealed or not");
    assert_eq!(queue.settle_bulk(&taken).await, Verdict::Applied);
}

/// Erratum Q14.
async fn its_states_come_in_the_order_of_the_road(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    let mut words = vec![queue.bulk_state("g", "b").await.as_str()];
    queue.advance_ms(4);
    let leased = queue.lease(2).await;
    words.push(queue.bulk_state("g", "b").await.as_str());
    assert_eq!(queue.bulk("g", "b").await.started_at, Some(START.plus_ms(4)));
    queue.seal("g", "b").await;
    words.push(queue.bulk_state("g", "b").await.as_str());
    queue.succeed(&leased).await;
    words.push(queue.bulk_state("g", "b").await.as_str());
    let taken = queue.lease_bulk().await;
    queue.settle_bulk(&taken).await;
    words.push(queue.bulk_state("g", "b").await.as_str());
    assert_eq!(words, ["CREATED", "RUNNING", "RUNNING", "AGGREGATING", "COMPLETED"]);
    assert_eq!(queue.bulk("g", "b").await.started_at, Some(START.plus_ms(4)), "the first lease stays");
}
