//! `finish_bulk`: an aggregation ends once, or is given back; the fence decides whether this is that end.

use fairlane_core::Fence;
use fairlane_core::limits::{INTEGER_MAX, LEASE_MS_MAX, NOTE_BYTES_MAX, TAKE_BULKS_MAX};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_finished_one_is_completed_with_its_summary,
    a_failed_aggregation_fails_it,
    finishing_again_is_applied_without_effect,
    one_that_had_ended_gets_its_summary_and_stays_as_it_ended,
    one_that_had_ended_and_is_finished_is_never_given_again,
    an_older_fence_is_stale,
    a_wrong_fence_is_stale_and_changes_nothing,
    one_that_was_never_taken_cannot_be_finished,
    an_overdue_aggregation_can_be_finished_until_it_is_taken_again,
    an_unknown_one_is_gone_and_not_made,
    a_removed_one_is_gone_and_not_made,
    one_that_is_given_back_can_be_taken_at_once_and_stands_behind_the_others,
    one_given_back_with_a_delay_is_taken_after_it_and_not_before,
    many_given_back_with_a_delay_stand_before_nobody,
    a_delay_out_of_range_is_invalid,
    giving_back_again_is_applied_without_effect,
    one_that_is_given_back_can_be_finished_until_it_is_taken_again,
    only_what_is_in_hand_can_be_given_back,
    a_summary_is_opaque,
    a_summary_out_of_range_is_invalid,
];

async fn taken(queue: &Subject) -> TakenBulk {
    queue.open("g", "b").await;
    queue.seal("g", "b").await;
    queue.take_one().await
}

async fn a_finished_one_is_completed_with_its_summary(queue: Subject) {
    let taken = taken(&queue).await;
    queue.advance_ms(5);
    assert_eq!(queue.finish_with(&taken, "all well", false).await, Verdict::Applied);
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, &*view.summary, view.cause), (BulkState::Completed, &b"all well"[..], None));
    assert_eq!((view.finished_at, queue.whole().await.aggregating), (Some(START.plus_ms(5)), 0));
}

async fn a_failed_aggregation_fails_it(queue: Subject) {
    let taken = taken(&queue).await;
    assert_eq!(queue.finish_with(&taken, "no disk", true).await, Verdict::Applied);
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Aggregation)));
    assert_eq!((&*view.summary, view.finished_at), (&b"no disk"[..], Some(START)));
    assert_eq!(queue.take(10).await, []);
}

/// A lost reply: the aggregator says it again. Erratum Q15.
async fn finishing_again_is_applied_without_effect(queue: Subject) {
    let taken = taken(&queue).await;
    queue.finish_with(&taken, "first", false).await;
    let before = queue.bulk("g", "b").await;
    queue.advance_ms(10);
    assert_eq!(queue.finish_with(&taken, "first", false).await, Verdict::Applied);
    assert_eq!(
        queue.finish_with(&taken, "second", true).await,
        Verdict::Applied,
        "what was said first counts"
    );
    assert_eq!(queue.bulk("g", "b").await, before);
}

async fn one_that_had_ended_gets_its_summary_and_stays_as_it_ended(queue: Subject) {
    queue.open("g", "cancelled").await;
    queue.cancel_bulk("g", "cancelled").await;
    queue.open_within("g", "failed", None, Some(0)).await;
    queue.add_dead(in_bulk("failed", job("g", "dead"))).await;
    for taken in queue.take(10).await {
        let before = taken.view.clone();
        queue.advance_ms(5);
        assert_eq!(queue.finish_with(&taken, "how it ended", true).await, Verdict::Applied);
        assert_eq!(queue.finish_with(&taken, "how it ended", true).await, Verdict::Applied);
        assert_eq!(queue.finish_with(&taken, "otherwise", false).await, Verdict::Applied, "the first counts");
        let after = queue.bulk("g", &before.bulk.id.to_string()).await;
        assert_eq!(after, BulkView { summary: bytes("how it ended"), ..before });
        for fence in [0, taken.fence.0 - 1, taken.fence.0 + 1] {
            let wrong = TakenBulk { fence: Fence(fence), ..taken.clone() };
            assert_eq!(queue.finish(&wrong).await, Verdict::Stale);
        }
    }
    let view = queue.bulk("g", "failed").await;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Failures)));
    assert_eq!(queue.bulk_state("g", "cancelled").await, BulkState::Cancelled);
    assert_eq!(queue.whole().await.aggregating, 0);
}

/// Whatever touches its counts, its jobs or its seal afterwards.
async fn one_that_had_ended_and_is_finished_is_never_given_again(queue: Subject) {
    queue.open_within("g", "b", None, Some(0)).await;
    queue.add(jobs_in("b", "g", 3)).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.cancel("g", &["b1", "b2"]).await;
    queue.resume("g", "b").await;
    queue.sweep(10).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, failed()).await;
    let taken = queue.take_one().await;
    assert_eq!((taken.view.state, queue.ends("g", "b").await), (BulkState::Failed, [0, 1, 2]));
    assert_eq!(queue.finish(&taken).await, Verdict::Applied);
    let after = queue.bulk("g", "b").await;
    assert_eq!(queue.requeue("g", &["b3"]).await, [Requeued::Requeued]);
    queue.serve_all(10).await;
    queue.cancel_bulk("g", "b").await;
    queue.resume("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(queue.bulk("g", "b").await, after);
    assert_eq!(queue.seal("g", "b").await, BulkView { sealed: true, ..after });
    queue.advance_ms(LEASE_MS);
    assert_eq!((queue.take(10).await, queue.whole().await.aggregating), (vec![], 0));
}

/// Erratum Q15.
async fn an_older_fence_is_stale(queue: Subject) {
    let slow = taken(&queue).await;
    queue.advance_ms(LEASE_MS);
    let second = queue.take_one().await;
    assert_eq!(queue.finish_with(&slow, "late", false).await, Verdict::Stale);
    queue.finish_with(&second, "in time", false).await;
    assert_eq!(queue.finish_with(&slow, "late", true).await, Verdict::Stale);
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, &*view.summary), (BulkState::Completed, &b"in time"[..]));
}

async fn a_wrong_fence_is_stale_and_changes_nothing(queue: Subject) {
    let taken = taken(&queue).await;
    let before = queue.bulk("g", "b").await;
    for fence in [0, 1, taken.fence.0 - 1, taken.fence.0 + 1, INTEGER_MAX - 1] {
        let wrong = TakenBulk { fence: Fence(fence), ..taken.clone() };
        assert_eq!(queue.finish(&wrong).await, Verdict::Stale);
    }
    assert_eq!(queue.bulk("g", "b").await, before);
}

async fn one_that_was_never_taken_cannot_be_finished(queue: Subject) {
    queue.open_with_jobs("g", "running", 1).await;
    queue.open("g", "complete").await;
    queue.seal("g", "complete").await;
    queue.open_within("g", "failed", None, Some(0)).await;
    queue.cancel("g", &["running1"]).await;
    queue.add_dead(in_bulk("failed", job("g", "dead"))).await;
    for id in ["running", "complete", "failed"] {
        let before = queue.bulk("g", id).await;
        for fence in [Fence(0), Fence(START.0)] {
            let guess = TakenBulk { view: before.clone(), fence };
            assert_eq!(queue.finish(&guess).await, Verdict::Stale, "{id} under {fence}");
        }
        assert_eq!(queue.bulk("g", id).await, before);
    }
}

async fn an_overdue_aggregation_can_be_finished_until_it_is_taken_again(queue: Subject) {
    let taken = taken(&queue).await;
    queue.advance_ms(LEASE_MS + 5000);
    assert_eq!(queue.finish(&taken).await, Verdict::Applied);
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Completed);
}

/// Erratum Q13.
async fn an_unknown_one_is_gone_and_not_made(queue: Subject) {
    let command = FinishBulk {
        bulk: bulk_ref("g", "b"),
        fence: Fence(5),
        summary: bytes(""),
        outcome: Aggregation::Done,
    };
    let finished = queue.engine.finish_bulk(command).await.expect("finish_bulk is answered");
    assert_eq!(finished, BulkFinished(Verdict::Gone));
    assert_eq!(queue.find_bulk("g", "b").await, None);
}

/// Erratum Q13.
async fn a_removed_one_is_gone_and_not_made(queue: Subject) {
    queue.set_whole(Settings { bulk_retention_ms: 0, ..Settings::default() }).await;
    let taken = taken(&queue).await;
    queue.finish(&taken).await;
    queue.sweep(10).await;
    assert_eq!(queue.finish(&taken).await, Verdict::Gone);
    assert_eq!(queue.find_bulk("g", "b").await, None);
}

/// An aggregator that cannot aggregate it must not keep it from one that can.
async fn one_that_is_given_back_can_be_taken_at_once_and_stands_behind_the_others(queue: Subject) {
    let unknown = taken(&queue).await;
    queue.advance_ms(5);
    for id in ["second", "third"] {
        queue.open("g", id).await;
        queue.seal("g", id).await;
    }
    queue.advance_ms(5);
    assert_eq!(queue.release(&unknown).await, Verdict::Applied);
    assert_eq!(queue.whole().await.aggregating, 3);
    let again = queue.take(10).await;
    let order: Vec<String> = again.iter().map(|taken| taken.view.bulk.id.to_string()).collect();
    assert_eq!(order, ["second", "third", "b"]);
    assert!(again[2].fence > unknown.fence && again[2].view == unknown.view);
    assert_eq!(queue.release(&unknown).await, Verdict::Stale, "it is somebody else's");
    assert_eq!(queue.take(10).await, []);
    assert_eq!(queue.finish(&again[2]).await, Verdict::Applied);
}

async fn one_given_back_with_a_delay_is_taken_after_it_and_not_before(queue: Subject) {
    let first = taken(&queue).await;
    assert_eq!(queue.release_for(&first, 2000).await, Verdict::Applied);
    queue.advance_ms(500);
    assert_eq!(queue.release_for(&first, 60_000).await, Verdict::Applied, "it was given back before");
    queue.advance_ms(1499);
    let none = queue.take_for(10, LEASE_MS).await;
    assert_eq!((none.bulks, none.wake_in_us), (vec![], Some(1000)));
    queue.advance_ms(1);
    assert!(queue.take_one().await.fence > first.fence);
}

/// An aggregation that no worker can do must not delay those of others.
async fn many_given_back_with_a_delay_stand_before_nobody(queue: Subject) {
    for number in 0..3 * TAKE_BULKS_MAX {
        let id = number.to_string();
        queue.open("stuck", &id).await;
        queue.seal("stuck", &id).await;
    }
    for _ in 0..3 {
        for taken in queue.take(TAKE_BULKS_MAX).await {
            assert_eq!(queue.release_for(&taken, 1000).await, Verdict::Applied);
        }
    }
    queue.open("other", "b").await;
    queue.seal("other", "b").await;
    let next = queue.take(TAKE_BULKS_MAX).await;
    assert_eq!((next.len(), next[0].view.bulk.clone()), (1, bulk_ref("other", "b")));
    assert_eq!(queue.whole().await.aggregating, 3 * TAKE_BULKS_MAX as u64 + 1);
}

async fn a_delay_out_of_range_is_invalid(queue: Subject) {
    let taken = taken(&queue).await;
    let with = |delay_ms| finish_command(&taken, Aggregation::Released { delay_ms });
    let refused = queue.engine.finish_bulk(with(LEASE_MS_MAX + 1)).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    assert_eq!(queue.engine.finish_bulk(with(LEASE_MS_MAX)).await, Ok(BulkFinished(Verdict::Applied)));
}

/// A lost reply.
async fn giving_back_again_is_applied_without_effect(queue: Subject) {
    let unknown = queue_of_two(&queue).await;
    assert_eq!(queue.release(&unknown).await, Verdict::Applied);
    queue.advance_ms(5);
    queue.open("g", "later").await;
    queue.seal("g", "later").await;
    queue.advance_ms(5);
    assert_eq!(queue.release(&unknown).await, Verdict::Applied);
    let order: Vec<String> =
        queue.take(10).await.iter().map(|taken| taken.view.bulk.id.to_string()).collect();
    assert_eq!(order, ["other", "b", "later"], "it has kept its place");
}

async fn queue_of_two(queue: &Subject) -> TakenBulk {
    let first = taken(queue).await;
    queue.open("g", "other").await;
    queue.seal("g", "other").await;
    queue.advance_ms(5);
    first
}

async fn one_that_is_given_back_can_be_finished_until_it_is_taken_again(queue: Subject) {
    let first = taken(&queue).await;
    queue.release(&first).await;
    assert_eq!(queue.finish_with(&first, "after all", false).await, Verdict::Applied);
    assert_eq!(queue.release(&first).await, Verdict::Applied, "what was finished stays finished");
    assert_eq!((queue.take(10).await, queue.whole().await.aggregating), (vec![], 0));
    assert_eq!(&*queue.bulk("g", "b").await.summary, b"after all");
}

async fn only_what_is_in_hand_can_be_given_back(queue: Subject) {
    queue.open("g", "b").await;
    queue.seal("g", "b").await;
    let view = queue.bulk("g", "b").await;
    for fence in [Fence(0), Fence(START.0)] {
        let guess = TakenBulk { view: view.clone(), fence };
        assert_eq!(queue.release(&guess).await, Verdict::Stale);
    }
    let held = queue.take_one().await;
    queue.cancel_bulk("g", "b").await;
    assert_eq!(queue.release(&held).await, Verdict::Stale, "it was handed out anew");
    assert_eq!(queue.take(10).await.len(), 1);
}

async fn a_summary_is_opaque(queue: Subject) {
    let taken = taken(&queue).await;
    let every_byte: Vec<u8> = (0..=255).chain([b':', b':', 0]).collect();
    let command = FinishBulk {
        bulk: taken.view.bulk.clone(),
        fence: taken.fence,
        summary: every_byte.clone().into(),
        outcome: Aggregation::Done,
    };
    queue.engine.finish_bulk(command).await.expect("finish_bulk is answered");
    assert_eq!(&*queue.bulk("g", "b").await.summary, every_byte);
}

async fn a_summary_out_of_range_is_invalid(queue: Subject) {
    let taken = taken(&queue).await;
    let with = |bytes: usize| FinishBulk {
        bulk: taken.view.bulk.clone(),
        fence: taken.fence,
        summary: vec![7; bytes].into(),
        outcome: Aggregation::Done,
    };
    let refused = queue.engine.finish_bulk(with(NOTE_BYTES_MAX + 1)).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooLarge { .. }))));
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating);
    let taken = queue.engine.finish_bulk(with(NOTE_BYTES_MAX)).await.expect("64 KiB are taken");
    assert_eq!(taken, BulkFinished(Verdict::Applied));
    assert_eq!(queue.bulk("g", "b").await.summary.len(), NOTE_BYTES_MAX);
}
