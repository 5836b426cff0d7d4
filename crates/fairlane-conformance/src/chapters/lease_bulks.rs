//! `lease_bulks`: complete bulk actions are leased for aggregation like jobs; a worker that repeats
//! its request gets the same leases again.

use fairlane_core::limits::{LEASE_BULKS_MAX, LEASE_MS_MAX, LEASE_MS_MIN};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    nothing_complete_gives_nothing,
    a_leased_one_shows_what_became_of_its_jobs,
    the_longest_complete_goes_first,
    no_more_are_leased_than_requested,
    a_leased_one_is_not_leased_to_another_worker,
    two_aggregators_never_lease_the_same_one,
    a_repeated_request_gets_the_same_leases_with_a_new_deadline,
    leases_already_held_count_towards_the_requested_number,
    settled_released_and_cancelled_ones_are_no_longer_leased,
    one_whose_lease_has_expired_is_no_longer_leased,
    names_of_aggregators_are_distinguished,
    one_not_settled_in_time_is_leased_again_under_a_newer_fence,
    the_reply_says_when_the_next_can_be_leased,
    fences_only_grow_among_jobs_and_bulk_actions,
    a_cancelled_one_is_leased_when_its_last_job_has_ended,
    a_failed_one_is_leased_when_its_last_job_has_ended,
    an_ended_one_is_leased_in_turn_and_again_until_it_is_settled,
    an_aggregation_heals_when_the_clock_steps_back,
    a_request_out_of_range_is_invalid,
];

async fn complete(queue: &Subject, group: &str, id: &str) {
    queue.open(group, id).await;
    queue.seal(group, id).await;
}

async fn nothing_complete_gives_nothing(queue: Subject) {
    assert_eq!(queue.lease_bulks_for(10, LEASE_MS).await, LeasedBulks { bulks: vec![], wake_in_us: None });
    queue.open_with_jobs("g", "b", 1).await;
    queue.seal("g", "b").await;
    assert_eq!(queue.lease_bulks_for(10, LEASE_MS).await, LeasedBulks { bulks: vec![], wake_in_us: None });
}

/// Erratum Q17.
async fn a_leased_one_shows_what_became_of_its_jobs(queue: Subject) {
    queue.open_with_jobs("g", "b", 4).await;
    queue.seal("g", "b").await;
    queue.cancel("g", &["b4"]).await;
    let leased = queue.lease(10).await;
    queue.succeed(&leased[..2]).await;
    queue.settle(&leased[2], failed()).await;
    let view = queue.lease_bulk().await.view;
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
        queue.lease_bulks(10).await.iter().map(|leased| leased.view.bulk.id.to_string()).collect();
    assert_eq!(order, ["3", "1", "2"]);
}

async fn no_more_are_leased_than_requested(queue: Subject) {
    for number in 0..LEASE_BULKS_MAX + 5 {
        complete(&queue, "g", &number.to_string()).await;
    }
    assert_eq!(queue.lease_bulks(3).await.len(), 3);
    assert_eq!(queue.lease_bulks(LEASE_BULKS_MAX).await.len(), LEASE_BULKS_MAX);
    assert_eq!(queue.lease_bulks(LEASE_BULKS_MAX).await.len(), 2);
    assert_eq!(queue.queue_view().await.aggregating, LEASE_BULKS_MAX as u64 + 5);
}

async fn a_leased_one_is_not_leased_to_another_worker(queue: Subject) {
    complete(&queue, "g", "b").await;
    let first = queue.lease_bulk().await;
    queue.advance_ms(LEASE_MS - 1);
    assert_eq!(queue.lease_bulks(10).await, []);
    assert_eq!(queue.settle_bulk(&first).await, Verdict::Applied);
    queue.advance_ms(LEASE_MS);
    assert_eq!(queue.lease_bulks(10).await, []);
}

async fn two_aggregators_never_lease_the_same_one(queue: Subject) {
    for number in 0..40 {
        complete(&queue, "g", &number.to_string()).await;
    }
    let mut aggregators = Vec::new();
    for _ in 0..2 {
        let queue = queue.clone();
        aggregators.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            for _ in 0..10 {
                mine.extend(queue.lease_bulks(3).await);
            }
            mine
        }));
    }
    let mut seen = std::collections::BTreeSet::new();
    for aggregator in aggregators {
        for leased in aggregator.await.expect("no aggregator panics") {
            assert!(seen.insert(leased.view.bulk.clone()), "{:?} was leased twice", leased.view.bulk);
        }
    }
    assert_eq!(seen.len(), 40);
}

/// A lost reply has no effect, and a long aggregation stays leased.
async fn a_repeated_request_gets_the_same_leases_with_a_new_deadline(queue: Subject) {
    complete(&queue, "g", "b").await;
    let first = queue.lease_bulks_as("a", 1, LEASE_MS).await;
    assert_eq!(first.bulks.len(), 1);
    for _ in 0..5 {
        queue.advance_ms(LEASE_MS - 1);
        let again = queue.lease_bulks_as("a", 1, LEASE_MS).await;
        assert_eq!(again.bulks, first.bulks, "the same fence");
        assert_eq!(again.wake_in_us, Some(LEASE_MS * 1000));
        assert_eq!(queue.lease_bulks(10).await, [], "no other worker gets it");
    }
    let shorter = queue.lease_bulks_as("a", 1, LEASE_MS_MIN).await;
    assert_eq!(shorter.wake_in_us, Some(LEASE_MS_MIN * 1000));
    assert_eq!(queue.settle_bulk(&first.bulks[0]).await, Verdict::Applied);
    assert_eq!(queue.lease_bulks_as("a", 1, LEASE_MS).await, LeasedBulks { bulks: vec![], wake_in_us: None });
}

async fn leases_already_held_count_towards_the_requested_number(queue: Subject) {
    let ids = |leased: LeasedBulks| -> Vec<String> {
        leased.bulks.iter().map(|leased| leased.view.bulk.id.to_string()).collect()
    };
    for id in ["1", "2", "3", "4"] {
        complete(&queue, "g", id).await;
    }
    assert_eq!(ids(queue.lease_bulks_as("a", 2, LEASE_MS).await), ["1", "2"]);
    assert_eq!(ids(queue.lease_bulks_as("a", 1, LEASE_MS).await), ["1"], "no more than requested");
    assert_eq!(ids(queue.lease_bulks_as("a", 3, LEASE_MS).await), ["1", "2", "3"]);
    assert_eq!(ids(queue.lease_bulks_as("b", 3, LEASE_MS).await), ["4"]);
    assert_eq!(ids(queue.lease_bulks_as("a", 10, LEASE_MS).await), ["1", "2", "3"]);
}

async fn settled_released_and_cancelled_ones_are_no_longer_leased(queue: Subject) {
    for id in ["settled", "released", "cancelled", "kept"] {
        complete(&queue, "g", id).await;
    }
    let leased = queue.lease_bulks_as("a", 10, LEASE_MS).await.bulks;
    queue.settle_bulk(&leased[0]).await;
    queue.release_bulk(&leased[1]).await;
    queue.cancel_bulk("g", "cancelled").await;
    assert_eq!(queue.lease_bulks_as("a", 1, LEASE_MS).await.bulks, leased[3..]);
    let others = queue.lease_bulks_as("b", 10, LEASE_MS).await.bulks;
    let ids: Vec<String> = others.iter().map(|leased| leased.view.bulk.id.to_string()).collect();
    assert_eq!(ids, ["released", "cancelled"]);
    assert_eq!(queue.lease_bulks_as("a", 10, LEASE_MS).await.bulks, leased[3..]);
    assert_eq!(queue.lease_bulks_as("b", 10, LEASE_MS).await.bulks, others);
}

async fn one_whose_lease_has_expired_is_no_longer_leased(queue: Subject) {
    complete(&queue, "g", "old").await;
    let first = queue.lease_bulks_as("a", 1, LEASE_MS).await.bulks;
    queue.advance_ms(1);
    complete(&queue, "g", "new").await;
    queue.advance_ms(LEASE_MS - 1);
    let next = queue.lease_bulks_as("a", 1, LEASE_MS).await.bulks;
    assert_eq!(next[0].view.bulk.id, bulk_id("new"), "it has waited longer");
    let again = queue.lease_bulks_as("b", 1, LEASE_MS).await.bulks;
    assert!(again[0].view.bulk.id == bulk_id("old") && again[0].fence > first[0].fence);
    assert_eq!(queue.settle_bulk(&first[0]).await, Verdict::Stale);
    assert_eq!(queue.lease_bulks_as("a", 10, LEASE_MS).await.bulks, next);
}

async fn names_of_aggregators_are_distinguished(queue: Subject) {
    let names = ["a", "a:", "a:0", "a%", "ab", "a;", "a 0000000000000001"];
    for number in 0..names.len() {
        complete(&queue, "g", &number.to_string()).await;
    }
    let mut leased = Vec::new();
    for name in names {
        leased.push(queue.lease_bulks_as(name, 1, LEASE_MS).await.bulks);
    }
    for (name, mine) in names.into_iter().zip(leased) {
        assert_eq!((mine.len(), queue.lease_bulks_as(name, 10, LEASE_MS).await.bulks), (1, mine), "{name}");
    }
}

/// The same aggregator may lease it again.
async fn one_not_settled_in_time_is_leased_again_under_a_newer_fence(queue: Subject) {
    complete(&queue, "g", "b").await;
    let first = queue.lease_bulk().await;
    queue.advance_ms(LEASE_MS);
    let second = queue.lease_bulk().await;
    assert!(second.fence > first.fence);
    assert_eq!(second.view, first.view);
    assert_eq!(queue.settle_bulk(&first).await, Verdict::Stale);
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating);
    assert_eq!(queue.settle_bulk(&second).await, Verdict::Applied);
}

async fn the_reply_says_when_the_next_can_be_leased(queue: Subject) {
    complete(&queue, "g", "1").await;
    complete(&queue, "g", "2").await;
    let first = queue.lease_bulks_for(1, 5000).await;
    assert_eq!((first.bulks.len(), first.wake_in_us), (1, Some(0)), "there is one more now");
    assert_eq!(queue.lease_bulks_for(1, 9000).await.wake_in_us, Some(5_000_000));
    let none = queue.lease_bulks_for(1, 9000).await;
    assert_eq!((none.bulks.len(), none.wake_in_us), (0, Some(5_000_000)));
}

async fn fences_only_grow_among_jobs_and_bulk_actions(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    complete(&queue, "g", "1").await;
    complete(&queue, "g", "2").await;
    let mut fences = vec![queue.lease_one().await.fence];
    fences.extend(queue.lease_bulks(10).await.iter().map(|leased| leased.fence));
    fences.push(queue.lease_one().await.fence);
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

async fn a_cancelled_one_is_leased_when_its_last_job_has_ended(queue: Subject) {
    queue.open("g", "b").await;
    queue.add(jobs_in("b", "g", 4)).await;
    let running = queue.lease(2).await;
    queue.cancel_bulk("g", "b").await;
    queue.sweep(10).await;
    queue.succeed(&running[..1]).await;
    assert_eq!(queue.lease_bulks_for(10, LEASE_MS).await, LeasedBulks { bulks: vec![], wake_in_us: None });
    queue.advance_ms(1000);
    queue.settle(&running[1], cancelled()).await;
    let view = queue.lease_bulk().await.view;
    assert_eq!((view.state, view.cause, view.finished_at), (BulkState::Cancelled, None, Some(START)));
    assert_eq!((view.total, view.succeeded, view.cancelled), (4, 1, 3), "sealed or not");
}

async fn a_failed_one_is_leased_when_its_last_job_has_ended(queue: Subject) {
    queue.open_within("g", "failures", None, Some(0)).await;
    queue.add(jobs_in("failures", "g", 2)).await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[0], failed()).await;
    assert_eq!(queue.lease_bulks(10).await, [], "one is running");
    queue.settle(&leased[1], retry(0)).await;
    let view = queue.lease_bulk().await.view;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Failures)));
    assert_eq!((view.failed, view.cancelled), (1, 1));
    queue.open_within("g", "late", Some(500), None).await;
    queue.add(jobs_in("late", "g", 2)).await;
    queue.advance_ms(500);
    assert_eq!(queue.sweep(10).await.dropped, 2);
    let view = queue.lease_bulk().await.view;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Deadline)));
    assert_eq!((view.total, view.cancelled), (2, 2));
}

async fn an_ended_one_is_leased_in_turn_and_again_until_it_is_settled(queue: Subject) {
    queue.open("g", "cancelled").await;
    complete(&queue, "g", "first").await;
    queue.advance_ms(1);
    queue.cancel_bulk("g", "cancelled").await;
    queue.advance_ms(1);
    complete(&queue, "g", "last").await;
    assert_eq!(queue.queue_view().await.aggregating, 3);
    let leased = queue.lease_bulks(10).await;
    let order: Vec<String> = leased.iter().map(|leased| leased.view.bulk.id.to_string()).collect();
    assert_eq!(order, ["first", "cancelled", "last"]);
    queue.settle_bulk(&leased[0]).await;
    queue.settle_bulk(&leased[2]).await;
    queue.advance_ms(LEASE_MS - 1);
    assert_eq!(queue.lease_bulks(10).await, [], "it is leased");
    queue.advance_ms(1);
    let again = queue.lease_bulk().await;
    assert!(again.fence > leased[1].fence && again.view == leased[1].view);
    assert_eq!(queue.settle_bulk(&leased[1]).await, Verdict::Stale);
    assert_eq!(queue.settle_bulk(&again).await, Verdict::Applied);
    queue.advance_ms(LEASE_MS);
    assert_eq!((queue.lease_bulks(10).await, queue.queue_view().await.aggregating), (vec![], 0));
}

/// Erratum Q26.
async fn an_aggregation_heals_when_the_clock_steps_back(queue: Subject) {
    complete(&queue, "g", "leased").await;
    queue.lease_bulk().await;
    complete(&queue, "g", "new").await;
    queue.step_back_ms(24 * 3600 * 1000);
    queue.lease_bulks(10).await;
    queue.advance_ms(LEASE_MS_MAX);
    let leased = queue.lease_bulks(10).await;
    assert_eq!(leased.len(), 2, "a lease later, not a day later");
}

async fn a_request_out_of_range_is_invalid(queue: Subject) {
    complete(&queue, "g", "b").await;
    for (bulks_max, lease_ms) in
        [(0, LEASE_MS), (LEASE_BULKS_MAX + 1, LEASE_MS), (1, LEASE_MS_MIN - 1), (1, LEASE_MS_MAX + 1)]
    {
        let command = LeaseBulks { worker: worker_id("a"), bulks_max, lease_ms };
        let refused = queue.engine.call(command).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))));
    }
    assert_eq!(queue.lease_bulks_for(LEASE_BULKS_MAX, LEASE_MS_MAX).await.bulks.len(), 1);
}
