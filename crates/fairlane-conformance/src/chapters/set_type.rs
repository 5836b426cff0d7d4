//! `set_type`: rate, concurrency, pause and retries of a type.

use fairlane_core::limits::{ATTEMPTS_MAX, CONCURRENCY_MAX, RETRY_AFTER_MS_MAX, TYPES_MAX};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_patch_leaves_the_rest_as_it_is,
    a_type_rate_holds_over_all_groups,
    a_rate_holds_for_the_backlog_at_once,
    equal_values_change_nothing,
    seats_hold_over_all_groups,
    a_paused_type_rests_and_loses_nothing,
    a_resumed_type_wakes_a_waiter,
    a_new_rate_forgets_the_cut,
    another_change_keeps_the_cut,
    any_change_opens_a_type_that_a_retry_after_has_closed,
    an_empty_change_leaves_a_closed_type_closed,
    a_type_beyond_the_limit_is_refused,
    a_type_has_retries_of_its_own,
    a_type_without_its_own_retry_limit_uses_that_of_the_queue,
    changed_retries_hold_for_jobs_that_have_failed_before,
    a_concurrency_out_of_range_is_invalid,
    retries_out_of_range_are_invalid,
];

async fn a_patch_leaves_the_rest_as_it_is(queue: Subject) {
    queue.set_type("t", type_rate(per_second(3, 2))).await;
    queue.set_type("t", type_seats(4)).await;
    queue.set_type("t", type_paused(true)).await;
    let settings = queue.set_type("t", type_retries(Some(0))).await;
    let expected = TypeSettings {
        rate: Some(per_second(3, 2)),
        concurrency: Some(4),
        paused: true,
        max_retry_count: Some(0),
    };
    assert_eq!(settings, expected);
    assert_eq!(queue.set_type("t", TypePatch::default()).await, expected);
    assert_eq!(queue.type_view("t").await.settings, expected);
    let lifted = TypePatch {
        rate: Some(None),
        concurrency: Some(None),
        paused: Some(false),
        max_retry_count: Some(None),
    };
    assert_eq!(queue.set_type("t", lifted).await, TypeSettings::default());
}

async fn a_type_rate_holds_over_all_groups(queue: Subject) {
    queue.set_type("t", type_rate(per_second(10, 2))).await;
    for group in ["a", "b", "c"] {
        queue.add(jobs(group, 30)).await;
    }
    let starts = queue.starts(300, 10).await;
    assert!(most_in_a_second(&starts) <= 12);
    assert_eq!(starts.len(), 2 + 29);
}

async fn a_rate_holds_for_the_backlog_at_once(queue: Subject) {
    queue.add(jobs("g", 100)).await;
    assert_eq!(queue.lease(10).await.len(), 10);
    queue.drain_wakes().await;
    queue.set_type("t", type_rate(per_second(10, 3))).await;
    assert!(queue.is_woken().await);
    assert_eq!(queue.lease(50).await.len(), 3);
    queue.set_type("t", TypePatch { rate: Some(None), ..TypePatch::default() }).await;
    assert_eq!(queue.lease(50).await.len(), 50);
}

async fn equal_values_change_nothing(queue: Subject) {
    queue.set_type("t", type_rate(per_second(1, 5))).await;
    queue.add(jobs("g", 20)).await;
    assert_eq!(queue.lease(10).await.len(), 5);
    queue.set_type("t", type_rate(per_second(1, 5))).await;
    assert_eq!(queue.lease(10).await, []);
}

async fn seats_hold_over_all_groups(queue: Subject) {
    queue.set_type("t", type_seats(3)).await;
    queue.add(jobs("a", 10)).await;
    queue.add(jobs("b", 10)).await;
    queue.add([job_of("other", "a", "free")]).await;
    let leased = queue.lease_of(&["t", "other"], 10).await;
    assert_eq!(leased.len(), 4, "three of the one type, all of the other");
    queue.drain_wakes().await;
    let of_type: Vec<LeasedJob> = leased.into_iter().filter(|job| job.type_id == type_id("t")).collect();
    queue.succeed(&of_type[..1]).await;
    assert!(queue.is_woken().await);
    assert_eq!(queue.lease(10).await.len(), 1);
    queue.set_type("t", type_seats(5)).await;
    assert_eq!(queue.lease(10).await.len(), 2);
}

async fn a_paused_type_rests_and_loses_nothing(queue: Subject) {
    queue.set_type("t", type_paused(true)).await;
    queue.add([job("g", "1"), job("g", "2"), job_of("other", "g", "3")]).await;
    assert_eq!(ids(&queue.lease_of(&["t", "other"], 10).await), ["3"]);
    queue.advance_ms(3_600_000);
    assert_eq!(
        queue.lease_and_wake(&["t"], 10).await,
        (vec![], None),
        "no wake time is given: resuming wakes"
    );
    queue.set_type("t", type_paused(false)).await;
    assert_eq!(ids(&queue.lease(10).await), ["1", "2"]);
}

async fn a_resumed_type_wakes_a_waiter(queue: Subject) {
    queue.set_type("t", type_paused(true)).await;
    queue.add([job("g", "1")]).await;
    queue.drain_wakes().await;
    queue.set_type("t", type_paused(false)).await;
    assert!(queue.is_woken().await);
}

/// Erratum Q30.
async fn a_new_rate_forgets_the_cut(queue: Subject) {
    queue.set_type("t", type_rate(per_second(100, 10))).await;
    queue.add(jobs("g", 10)).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, throttled(1000, 60_000)).await;
    assert!(queue.type_view("t").await.rate_milli < Some(100_000));
    queue.set_type("t", type_rate(per_second(50, 10))).await;
    let view = queue.type_view("t").await;
    assert_eq!((view.rate_milli, view.closed_until), (Some(50_000), None));
    assert_eq!(queue.lease(1).await.len(), 1);
}

/// Erratum Q30.
async fn another_change_keeps_the_cut(queue: Subject) {
    queue.set_type("t", type_rate(per_second(100, 10))).await;
    queue.add(jobs("g", 10)).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, throttled(1000, 5000)).await;
    let before = queue.type_view("t").await;
    queue.set_type("t", type_seats(7)).await;
    queue.set_type("t", type_retries(Some(9))).await;
    queue.set_type("t", type_rate(per_second(100, 10))).await;
    let after = queue.type_view("t").await;
    assert_eq!((after.rate_milli, after.closed_until), (before.rate_milli, None));
}

async fn any_change_opens_a_type_that_a_retry_after_has_closed(queue: Subject) {
    let rate = per_second(100, 10);
    for change in [type_rate(rate), type_paused(false), type_seats(7)] {
        queue.set_type("t", type_rate(rate)).await;
        queue.add([job("g", "1"), job("g", "2")]).await;
        let leased = queue.lease(2).await;
        queue.settle(&leased[0], throttled(0, RETRY_AFTER_MS_MAX)).await;
        queue.settle(&leased[1], Outcome::Released).await;
        queue.advance_ms(1000);
        assert_eq!(queue.lease(1).await, []);
        queue.drain_wakes().await;
        queue.set_type("t", change).await;
        assert!(queue.is_woken().await);
        assert_eq!(queue.type_view("t").await.closed_until, None);
        while let [leased, ..] = &queue.lease(1).await[..] {
            queue.settle(leased, succeeded()).await;
            queue.advance_ms(100);
        }
        assert_eq!(queue.group("g").await.backlog, 0);
        queue.advance_ms(2 * 24 * 3600 * 1000);
        queue.sweep(100).await;
    }
}

/// A producer creates a type with an empty change, which must not open a type that its downstream
/// has closed.
async fn an_empty_change_leaves_a_closed_type_closed(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, throttled(0, 5000)).await;
    queue.set_type("t", TypePatch::default()).await;
    assert_eq!(queue.type_view("t").await.closed_until, Some(START.plus_ms(5000)));
}

async fn a_type_beyond_the_limit_is_refused(queue: Subject) {
    for number in 0..TYPES_MAX {
        queue.set_type(&format!("t{number}"), type_paused(true)).await;
    }
    let command = SetType { type_id: type_id("one more"), patch: TypePatch::default() };
    let answer = queue.engine.call(command).await.expect("set_type is answered");
    assert_eq!(answer, TypeSet::TooManyTypes);
    assert_eq!(queue.queue_view().await.types.len(), TYPES_MAX);
    queue.set_type("t0", type_paused(false)).await;
}

/// Settles the next job of a type to be retried at once, and returns its state afterwards.
async fn retried(queue: &Subject, type_name: &str) -> JobState {
    let leased = queue.lease_of(&[type_name], 1).await;
    assert_eq!(leased.len(), 1, "{type_name}");
    assert_eq!(queue.settle(&leased[0], retry(0)).await, Verdict::Applied);
    queue.state("g", type_name).await
}

async fn a_type_has_retries_of_its_own(queue: Subject) {
    queue.set_queue(Settings { max_retry_count: 1, ..Settings::default() }).await;
    queue.add([job_of("none", "g", "none"), job_of("two", "g", "two"), job_of("t", "g", "t")]).await;
    queue.set_type("none", type_retries(Some(0))).await;
    queue.set_type("two", type_retries(Some(2))).await;
    assert_eq!(retried(&queue, "none").await, JobState::Failed);
    for state in [JobState::Waiting, JobState::Waiting, JobState::Failed] {
        assert_eq!(retried(&queue, "two").await, state);
    }
    for state in [JobState::Waiting, JobState::Failed] {
        assert_eq!(retried(&queue, "t").await, state, "other types use the limit of the queue");
    }
}

async fn a_type_without_its_own_retry_limit_uses_that_of_the_queue(queue: Subject) {
    queue.set_queue(Settings { max_retry_count: 0, ..Settings::default() }).await;
    queue.set_type("t", type_retries(Some(ATTEMPTS_MAX))).await;
    queue.add([job("g", "t")]).await;
    assert_eq!(retried(&queue, "t").await, JobState::Waiting);
    let settings = queue.set_type("t", type_retries(None)).await;
    assert_eq!(settings, TypeSettings::default());
    assert_eq!(retried(&queue, "t").await, JobState::Failed);
}

async fn changed_retries_hold_for_jobs_that_have_failed_before(queue: Subject) {
    queue.add([job("g", "t")]).await;
    assert_eq!(retried(&queue, "t").await, JobState::Waiting);
    assert_eq!(retried(&queue, "t").await, JobState::Waiting);
    queue.set_type("t", type_retries(Some(1))).await;
    assert_eq!(retried(&queue, "t").await, JobState::Failed);
    assert_eq!(queue.job("g", "t").await.attempts, 3);
}

async fn retries_out_of_range_are_invalid(queue: Subject) {
    for retries in [ATTEMPTS_MAX + 1, u32::MAX] {
        let command = SetType { type_id: type_id("t"), patch: type_retries(Some(retries)) };
        assert!(matches!(queue.engine.call(command).await, Err(EngineError::Invalid(_))));
    }
    let settings = queue.set_type("t", type_retries(Some(ATTEMPTS_MAX))).await;
    assert_eq!(settings.max_retry_count, Some(ATTEMPTS_MAX));
}

async fn a_concurrency_out_of_range_is_invalid(queue: Subject) {
    for seats in [0, CONCURRENCY_MAX + 1] {
        let command = SetType { type_id: type_id("t"), patch: type_seats(seats) };
        assert!(matches!(queue.engine.call(command).await, Err(EngineError::Invalid(_))));
    }
}
