//! `take_completed`: complete bulk actions are leased for aggregation like jobs, and given again to whoever has them.

use fairlane_core::limits::{LEASE_MS_MAX, LEASE_MS_MIN, TAKE_BULKS_MAX};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    nothing_complete_gives_nothing,
    a_taken_one_says_what_became_of_its_jobs,
    the_longest_complete_goes_first,
    no_more_are_given_than_asked_for,
    one_in_hand_is_not_given_to_another,
    two_aggregators_never_have_the_same_one,
    whoever_asks_again_is_given_what_they_have_in_hand_for_a_new_time,
    what_is_in_hand_counts_among_what_is_asked_for,
    what_was_finished_given_back_or_called_off_is_in_nobodys_hand,
    what_has_outlived_its_lease_is_in_nobodys_hand,
    names_of_aggregators_are_told_apart,
    one_that_is_not_finished_in_time_is_given_again_under_a_younger_fence,
    the_answer_says_when_the_next_can_be_taken,
    fences_only_grow_among_jobs_and_bulk_actions,
    one_that_was_cancelled_is_given_when_its_last_job_has_ended,
    one_that_failed_is_given_when_its_last_job_has_ended,
    one_that_had_ended_comes_in_turn_and_again_until_it_is_finished,
    an_aggregation_heals_when_the_clock_steps_back,
    an_order_out_of_range_is_invalid,
];

async fn complete(queue: &Subject, group: &str, id: &str) {
    queue.open(group, id).await;
    queue.seal(group, id).await;
}

async fn nothing_complete_gives_nothing(queue: Subject) {
    assert_eq!(queue.take_for(10, LEASE_MS).await, CompletedTaken { bulks: vec![], wake_in_us: None });
    queue.open_with_jobs("g", "b", 1).await;
    queue.seal("g", "b").await;
    assert_eq!(queue.take_for(10, LEASE_MS).await, CompletedTaken { bulks: vec![], wake_in_us: None });
}

/// Erratum Q17.
async fn a_taken_one_says_what_became_of_its_jobs(queue: Subject) {
    queue.open_with_jobs("g", "b", 4).await;
    queue.seal("g", "b").await;
    queue.cancel("g", &["b4"]).await;
    let leased = queue.lease(10).await;
    queue.succeed(&leased[..2]).await;
    queue.settle(&leased[2], failed()).await;
    let view = queue.take_one().await.view;
    assert_eq!((view.total, view.succeeded, view.failed, view.cancelled), (4, 2, 1, 1));
    assert_eq!((view.state, view.bulk), (BulkState::Aggregating, bulk_ref("g", "b")));
    for id in ["b1", "b2", "b3", "b4"] {
        assert!(queue.find_job("g", id).await.is_some(), "its jobs are there to be read: {id}");
    }
}

async fn the_longest_complete_goes_first(queue: Subject) {
    for (group, id) in [("h", "1"), ("g", "2"), ("g", "3")] {
        queue.open(group, id).await;
    }
    for (group, id) in [("g", "3"), ("h", "1"), ("g", "2")] {
        queue.advance_ms(1);
        queue.seal(group, id).await;
    }
    let order: Vec<String> =
        queue.take(10).await.iter().map(|taken| taken.view.bulk.id.to_string()).collect();
    assert_eq!(order, ["3", "1", "2"]);
}

async fn no_more_are_given_than_asked_for(queue: Subject) {
    for number in 0..TAKE_BULKS_MAX + 5 {
        complete(&queue, "g", &number.to_string()).await;
    }
    assert_eq!(queue.take(3).await.len(), 3);
    assert_eq!(queue.take(TAKE_BULKS_MAX).await.len(), TAKE_BULKS_MAX);
    assert_eq!(queue.take(TAKE_BULKS_MAX).await.len(), 2);
    assert_eq!(queue.whole().await.aggregating, TAKE_BULKS_MAX as u64 + 5);
}

async fn one_in_hand_is_not_given_to_another(queue: Subject) {
    complete(&queue, "g", "b").await;
    let first = queue.take_one().await;
    queue.advance_ms(LEASE_MS - 1);
    assert_eq!(queue.take(10).await, []);
    assert_eq!(queue.finish(&first).await, Verdict::Applied);
    queue.advance_ms(LEASE_MS);
    assert_eq!(queue.take(10).await, []);
}

async fn two_aggregators_never_have_the_same_one(queue: Subject) {
    for number in 0..40 {
        complete(&queue, "g", &number.to_string()).await;
    }
    let mut aggregators = Vec::new();
    for _ in 0..2 {
        let queue = queue.clone();
        aggregators.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            for _ in 0..10 {
                mine.extend(queue.take(3).await);
            }
            mine
        }));
    }
    let mut seen = std::collections::BTreeSet::new();
    for aggregator in aggregators {
        for taken in aggregator.await.expect("no aggregator panics") {
            assert!(seen.insert(taken.view.bulk.clone()), "{:?} was taken twice", taken.view.bulk);
        }
    }
    assert_eq!(seen.len(), 40);
}

/// A lost reply costs nothing, and a long aggregation stays in hand.
async fn whoever_asks_again_is_given_what_they_have_in_hand_for_a_new_time(queue: Subject) {
    complete(&queue, "g", "b").await;
    let first = queue.take_as("a", 1, LEASE_MS).await;
    assert_eq!(first.bulks.len(), 1);
    for _ in 0..5 {
        queue.advance_ms(LEASE_MS - 1);
        let again = queue.take_as("a", 1, LEASE_MS).await;
        assert_eq!(again.bulks, first.bulks, "the same fence");
        assert_eq!(again.wake_in_us, Some(LEASE_MS * 1000));
        assert_eq!(queue.take(10).await, [], "it is nobody else's");
    }
    let shorter = queue.take_as("a", 1, LEASE_MS_MIN).await;
    assert_eq!(shorter.wake_in_us, Some(LEASE_MS_MIN * 1000));
    assert_eq!(queue.finish(&first.bulks[0]).await, Verdict::Applied);
    assert_eq!(queue.take_as("a", 1, LEASE_MS).await, CompletedTaken { bulks: vec![], wake_in_us: None });
}

async fn what_is_in_hand_counts_among_what_is_asked_for(queue: Subject) {
    let ids = |taken: CompletedTaken| -> Vec<String> {
        taken.bulks.iter().map(|taken| taken.view.bulk.id.to_string()).collect()
    };
    for id in ["1", "2", "3", "4"] {
        complete(&queue, "g", id).await;
    }
    assert_eq!(ids(queue.take_as("a", 2, LEASE_MS).await), ["1", "2"]);
    assert_eq!(ids(queue.take_as("a", 1, LEASE_MS).await), ["1"], "no more than asked for");
    assert_eq!(ids(queue.take_as("a", 3, LEASE_MS).await), ["1", "2", "3"]);
    assert_eq!(ids(queue.take_as("b", 3, LEASE_MS).await), ["4"]);
    assert_eq!(ids(queue.take_as("a", 10, LEASE_MS).await), ["1", "2", "3"]);
}

async fn what_was_finished_given_back_or_called_off_is_in_nobodys_hand(queue: Subject) {
    for id in ["finished", "given back", "called off", "kept"] {
        complete(&queue, "g", id).await;
    }
    let taken = queue.take_as("a", 10, LEASE_MS).await.bulks;
    queue.finish(&taken[0]).await;
    queue.release(&taken[1]).await;
    queue.cancel_bulk("g", "called off").await;
    assert_eq!(queue.take_as("a", 1, LEASE_MS).await.bulks, taken[3..]);
    let others = queue.take_as("b", 10, LEASE_MS).await.bulks;
    let ids: Vec<String> = others.iter().map(|taken| taken.view.bulk.id.to_string()).collect();
    assert_eq!(ids, ["given back", "called off"]);
    assert_eq!(queue.take_as("a", 10, LEASE_MS).await.bulks, taken[3..]);
    assert_eq!(queue.take_as("b", 10, LEASE_MS).await.bulks, others);
}

async fn what_has_outlived_its_lease_is_in_nobodys_hand(queue: Subject) {
    complete(&queue, "g", "old").await;
    let first = queue.take_as("a", 1, LEASE_MS).await.bulks;
    queue.advance_ms(1);
    complete(&queue, "g", "new").await;
    queue.advance_ms(LEASE_MS - 1);
    let next = queue.take_as("a", 1, LEASE_MS).await.bulks;
    assert_eq!(next[0].view.bulk.id, bulk_id("new"), "it has waited longer");
    let again = queue.take_as("b", 1, LEASE_MS).await.bulks;
    assert!(again[0].view.bulk.id == bulk_id("old") && again[0].fence > first[0].fence);
    assert_eq!(queue.finish(&first[0]).await, Verdict::Stale);
    assert_eq!(queue.take_as("a", 10, LEASE_MS).await.bulks, next);
}

async fn names_of_aggregators_are_told_apart(queue: Subject) {
    let names = ["a", "a:", "a:0", "a%", "ab", "a;", "a 0000000000000001"];
    for number in 0..names.len() {
        complete(&queue, "g", &number.to_string()).await;
    }
    let mut taken = Vec::new();
    for name in names {
        taken.push(queue.take_as(name, 1, LEASE_MS).await.bulks);
    }
    for (name, mine) in names.into_iter().zip(taken) {
        assert_eq!((mine.len(), queue.take_as(name, 10, LEASE_MS).await.bulks), (1, mine), "{name}");
    }
}

/// It may be the same aggregator.
async fn one_that_is_not_finished_in_time_is_given_again_under_a_younger_fence(queue: Subject) {
    complete(&queue, "g", "b").await;
    let first = queue.take_one().await;
    queue.advance_ms(LEASE_MS);
    let second = queue.take_one().await;
    assert!(second.fence > first.fence);
    assert_eq!(second.view, first.view);
    assert_eq!(queue.finish(&first).await, Verdict::Stale);
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating);
    assert_eq!(queue.finish(&second).await, Verdict::Applied);
}

async fn the_answer_says_when_the_next_can_be_taken(queue: Subject) {
    complete(&queue, "g", "1").await;
    complete(&queue, "g", "2").await;
    let first = queue.take_for(1, 5000).await;
    assert_eq!((first.bulks.len(), first.wake_in_us), (1, Some(0)), "there is one more now");
    assert_eq!(queue.take_for(1, 9000).await.wake_in_us, Some(5_000_000));
    let none = queue.take_for(1, 9000).await;
    assert_eq!((none.bulks.len(), none.wake_in_us), (0, Some(5_000_000)));
}

async fn fences_only_grow_among_jobs_and_bulk_actions(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    complete(&queue, "g", "1").await;
    complete(&queue, "g", "2").await;
    let mut fences = vec![queue.lease_one().await.fence];
    fences.extend(queue.take(10).await.iter().map(|taken| taken.fence));
    fences.push(queue.lease_one().await.fence);
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

async fn one_that_was_cancelled_is_given_when_its_last_job_has_ended(queue: Subject) {
    queue.open("g", "b").await;
    queue.add(jobs_in("b", "g", 4)).await;
    let running = queue.lease(2).await;
    queue.cancel_bulk("g", "b").await;
    queue.sweep(10).await;
    queue.succeed(&running[..1]).await;
    assert_eq!(queue.take_for(10, LEASE_MS).await, CompletedTaken { bulks: vec![], wake_in_us: None });
    queue.advance_ms(1000);
    queue.settle(&running[1], cancelled()).await;
    let view = queue.take_one().await.view;
    assert_eq!((view.state, view.cause, view.finished_at), (BulkState::Cancelled, None, Some(START)));
    assert_eq!((view.total, view.succeeded, view.cancelled), (4, 1, 3), "sealed or not");
}

async fn one_that_failed_is_given_when_its_last_job_has_ended(queue: Subject) {
    queue.open_within("g", "failures", None, Some(0)).await;
    queue.add(jobs_in("failures", "g", 2)).await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[0], failed()).await;
    assert_eq!(queue.take(10).await, [], "one is running");
    queue.settle(&leased[1], retry(0)).await;
    let view = queue.take_one().await.view;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Failures)));
    assert_eq!((view.failed, view.cancelled), (1, 1));
    queue.open_within("g", "late", Some(500), None).await;
    queue.add(jobs_in("late", "g", 2)).await;
    queue.advance_ms(500);
    assert_eq!(queue.sweep(10).await.dropped, 2);
    let view = queue.take_one().await.view;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Deadline)));
    assert_eq!((view.total, view.cancelled), (2, 2));
}

async fn one_that_had_ended_comes_in_turn_and_again_until_it_is_finished(queue: Subject) {
    queue.open("g", "cancelled").await;
    complete(&queue, "g", "first").await;
    queue.advance_ms(1);
    queue.cancel_bulk("g", "cancelled").await;
    queue.advance_ms(1);
    complete(&queue, "g", "last").await;
    assert_eq!(queue.whole().await.aggregating, 3);
    let taken = queue.take(10).await;
    let order: Vec<String> = taken.iter().map(|taken| taken.view.bulk.id.to_string()).collect();
    assert_eq!(order, ["first", "cancelled", "last"]);
    queue.finish(&taken[0]).await;
    queue.finish(&taken[2]).await;
    queue.advance_ms(LEASE_MS - 1);
    assert_eq!(queue.take(10).await, [], "it is in hand");
    queue.advance_ms(1);
    let again = queue.take_one().await;
    assert!(again.fence > taken[1].fence && again.view == taken[1].view);
    assert_eq!(queue.finish(&taken[1]).await, Verdict::Stale);
    assert_eq!(queue.finish(&again).await, Verdict::Applied);
    queue.advance_ms(LEASE_MS);
    assert_eq!((queue.take(10).await, queue.whole().await.aggregating), (vec![], 0));
}

/// Erratum Q26.
async fn an_aggregation_heals_when_the_clock_steps_back(queue: Subject) {
    complete(&queue, "g", "in hand").await;
    queue.take_one().await;
    complete(&queue, "g", "new").await;
    queue.step_back_ms(24 * 3600 * 1000);
    queue.take(10).await;
    queue.advance_ms(LEASE_MS_MAX);
    let taken = queue.take(10).await;
    assert_eq!(taken.len(), 2, "a lease later, not a day later");
}

async fn an_order_out_of_range_is_invalid(queue: Subject) {
    complete(&queue, "g", "b").await;
    for (bulks_max, lease_ms) in
        [(0, LEASE_MS), (TAKE_BULKS_MAX + 1, LEASE_MS), (1, LEASE_MS_MIN - 1), (1, LEASE_MS_MAX + 1)]
    {
        let command = TakeCompleted { worker: worker_id("a"), bulks_max, lease_ms };
        let refused = queue.engine.take_completed(command).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))));
    }
    assert_eq!(queue.take_for(TAKE_BULKS_MAX, LEASE_MS_MAX).await.bulks.len(), 1);
}
