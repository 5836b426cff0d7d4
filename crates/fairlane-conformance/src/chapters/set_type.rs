//! `set_type`: rate, concurrency and pause of a type.

use fairlane_core::limits::{CONCURRENCY_MAX, TYPES_MAX};
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
    a_type_too_many_is_said_so,
    a_concurrency_out_of_range_is_invalid,
];

async fn a_patch_leaves_the_rest_as_it_is(queue: Subject) {
    queue.set_type("t", type_rate(per_second(3, 2))).await;
    queue.set_type("t", type_seats(4)).await;
    let settings = queue.set_type("t", type_paused(true)).await;
    let expected = TypeSettings { rate: Some(per_second(3, 2)), concurrency: Some(4), paused: true };
    assert_eq!(settings, expected);
    assert_eq!(queue.set_type("t", TypePatch::default()).await, expected);
    assert_eq!(queue.type_view("t").await.settings, expected);
    let lifted = TypePatch { rate: Some(None), concurrency: Some(None), paused: Some(false) };
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
    assert_eq!(queue.lease_and_wake(&["t"], 10).await, (vec![], None), "no time is told: resuming wakes");
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
    queue.set_type("t", type_rate(per_second(100, 10))).await;
    let after = queue.type_view("t").await;
    assert_eq!((after.rate_milli, after.closed_until), (before.rate_milli, before.closed_until));
}

async fn a_type_too_many_is_said_so(queue: Subject) {
    for number in 0..TYPES_MAX {
        queue.set_type(&format!("t{number}"), type_paused(true)).await;
    }
    let command = SetType { type_id: type_id("one more"), patch: TypePatch::default() };
    let answer = queue.engine.set_type(command).await.expect("set_type is answered");
    assert_eq!(answer, TypeSet::TooManyTypes);
    assert_eq!(queue.whole().await.types.len(), TYPES_MAX);
    queue.set_type("t0", type_paused(false)).await;
}

async fn a_concurrency_out_of_range_is_invalid(queue: Subject) {
    for seats in [0, CONCURRENCY_MAX + 1] {
        let command = SetType { type_id: type_id("t"), patch: type_seats(seats) };
        assert!(matches!(queue.engine.set_type(command).await, Err(EngineError::Invalid(_))));
    }
}
