//! `set_group`: weight, rate, concurrency and pause of a group, effective on its backlog at once.

use fairlane_core::limits::CONCURRENCY_MAX;
use fairlane_core::queue::*;
use fairlane_core::{Rate, Weight};
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_group_owns_its_settings,
    a_patch_leaves_the_rest_as_it_is,
    settings_made_before_the_first_job_hold,
    a_weight_counts_for_the_backlog_at_once,
    a_rate_holds_for_the_backlog_at_once,
    a_lifted_rate_frees_the_backlog_at_once,
    equal_values_change_nothing,
    whole_jobs_carry_over_to_a_new_rate,
    seats_hold_over_all_types_and_levels,
    more_seats_free_the_backlog_at_once,
    a_paused_group_rests_and_loses_nothing,
    pausing_leaves_running_jobs_alone,
    a_resumed_group_wakes_a_waiter,
    a_pause_gathers_no_claims,
    a_concurrency_out_of_range_is_invalid,
];

/// Erratum Q4.
async fn a_group_owns_its_settings(queue: Subject) {
    queue.set_group("g", weight(7)).await;
    queue.add(jobs("g", 3)).await;
    queue.add([job_at(fairlane_core::Level::High, "g", "high")]).await;
    queue.lease(2).await;
    assert_eq!(queue.group("g").await.settings.weight.get(), 7, "no enqueue or lease changes it");
    let settings = queue.set_group("g", weight(2)).await;
    assert_eq!(settings.weight.get(), 2);
    assert_eq!(queue.group("g").await.settings, settings);
}

async fn a_patch_leaves_the_rest_as_it_is(queue: Subject) {
    queue.set_group("g", weight(5)).await;
    queue.set_group("g", group_rate(per_second(3, 2))).await;
    queue.set_group("g", group_seats(4)).await;
    let settings = queue.set_group("g", group_paused(true)).await;
    let expected = GroupSettings {
        weight: Weight::new(5).expect("5 is a weight"),
        rate: Some(per_second(3, 2)),
        concurrency: Some(4),
        paused: true,
    };
    assert_eq!(settings, expected);
    assert_eq!(queue.set_group("g", GroupPatch::default()).await, expected);
    let lifted = GroupPatch { rate: Some(None), concurrency: Some(None), ..GroupPatch::default() };
    let settings = queue.set_group("g", lifted).await;
    assert_eq!((settings.rate, settings.concurrency, settings.paused), (None, None, true));
}

async fn settings_made_before_the_first_job_hold(queue: Subject) {
    queue.set_group("g", group_seats(2)).await;
    assert_eq!(queue.group("g").await.backlog, 0);
    queue.add(jobs("g", 5)).await;
    assert_eq!(queue.lease(10).await.len(), 2);
}

/// Erratum Q4.
async fn a_weight_counts_for_the_backlog_at_once(queue: Subject) {
    queue.add(jobs("a", 500)).await;
    queue.add(jobs("b", 500)).await;
    let before = queue.lease(80).await;
    assert_eq!(count_of("a", &before), 40);
    queue.set_group("a", weight(4)).await;
    let after = queue.lease(400).await;
    let heavy = count_of("a", &after);
    assert!((310..=330).contains(&heavy), "weight 4 beside weight 1 got {heavy} of 400");
}

async fn a_rate_holds_for_the_backlog_at_once(queue: Subject) {
    queue.add(jobs("g", 100)).await;
    assert_eq!(queue.lease(10).await.len(), 10);
    queue.set_group("g", group_rate(per_second(10, 3))).await;
    assert_eq!(queue.lease(50).await.len(), 3, "a new bucket is full");
    let starts = queue.starts(200, 10).await;
    assert!(most_in_a_second(&starts) <= 13);
    assert!((18..=23).contains(&starts.len()), "two seconds gave {}", starts.len());
}

async fn a_lifted_rate_frees_the_backlog_at_once(queue: Subject) {
    let rate = Rate::new(1, 3_600_000, Some(1)).expect("one an hour is a rate");
    queue.set_group("g", group_rate(rate)).await;
    queue.add(jobs("g", 10)).await;
    assert_eq!(queue.lease(10).await.len(), 1);
    assert_eq!(queue.whole().await.parked_lanes, 1);
    queue.drain_wakes().await;
    queue.set_group("g", GroupPatch { rate: Some(None), ..GroupPatch::default() }).await;
    assert!(queue.is_woken().await);
    assert_eq!(queue.lease(10).await.len(), 9);
    assert_eq!(queue.whole().await.parked_lanes, 0);
}

async fn equal_values_change_nothing(queue: Subject) {
    queue.set_group("g", group_rate(per_second(1, 5))).await;
    queue.add(jobs("g", 20)).await;
    assert_eq!(queue.lease(10).await.len(), 5);
    for _ in 0..5 {
        queue.set_group("g", group_rate(per_second(1, 5))).await;
        assert_eq!(queue.lease(10).await, [], "setting it again fills no bucket");
    }
    let standing = queue.group("g").await.lanes[0].standing;
    assert!(matches!(standing, LaneStanding::RateParked(_)), "{standing:?}");
}

async fn whole_jobs_carry_over_to_a_new_rate(queue: Subject) {
    queue.set_group("g", group_rate(per_second(1, 5))).await;
    queue.add(jobs("g", 40)).await;
    assert_eq!(queue.lease(3).await.len(), 3);
    queue.set_group("g", group_rate(per_second(2, 20))).await;
    assert_eq!(queue.lease(40).await.len(), 2, "two slots were left, and two carry over");
    queue.set_group("g", group_rate(per_second(100, 20))).await;
    queue.advance_ms(100);
    assert_eq!(queue.lease(40).await.len(), 10, "then the new rate counts");
}

async fn seats_hold_over_all_types_and_levels(queue: Subject) {
    queue.set_group("g", group_seats(4)).await;
    for (number, level) in fairlane_core::Level::ALL.into_iter().cycle().take(12).enumerate() {
        let id = number.to_string();
        queue.add([NewJob { level, ..job_of(["a", "b"][number % 2], "g", &id) }]).await;
    }
    let leased = queue.lease_of(&["a", "b"], 3).await;
    assert_eq!(leased.len(), 3);
    assert_eq!(queue.lease_of(&["b"], 9).await.len(), 1);
    assert_eq!(queue.lease_of(&["a", "b"], 9).await, []);
    queue.succeed(&leased[..2]).await;
    assert_eq!(queue.lease_of(&["a", "b"], 9).await.len(), 2);
}

async fn more_seats_free_the_backlog_at_once(queue: Subject) {
    queue.set_group("g", group_seats(1)).await;
    queue.add(jobs("g", 10)).await;
    assert_eq!(queue.lease(10).await.len(), 1);
    queue.drain_wakes().await;
    queue.set_group("g", group_seats(4)).await;
    assert!(queue.is_woken().await);
    assert_eq!(queue.lease(10).await.len(), 3);
    queue.set_group("g", group_seats(2)).await;
    assert_eq!(queue.lease(10).await, [], "fewer seats take none away, and give none");
}

async fn a_paused_group_rests_and_loses_nothing(queue: Subject) {
    queue.add(jobs("a", 3)).await;
    queue.add(jobs("b", 3)).await;
    queue.set_group("a", group_paused(true)).await;
    assert_eq!(names(&queue.lease(10).await), ["b/1", "b/2", "b/3"]);
    assert_eq!(queue.group("a").await.lanes[0].standing, LaneStanding::Paused);
    queue.add([job("a", "4")]).await;
    queue.advance_ms(24 * 3600 * 1000);
    assert_eq!(queue.lease(10).await, []);
    queue.set_group("a", group_paused(false)).await;
    assert_eq!(names(&queue.lease(10).await), ["a/1", "a/2", "a/3", "a/4"]);
}

async fn pausing_leaves_running_jobs_alone(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease(2).await;
    queue.set_group("g", group_paused(true)).await;
    assert!(matches!(queue.extend(&leased[0], LEASE_MS).await, Extension::Until(_)));
    queue.succeed(&leased[..1]).await;
    assert_eq!(queue.settle(&leased[1], retry(0)).await, Verdict::Applied);
    assert_eq!(queue.lease(10).await, [], "what comes back rests, too");
    queue.set_group("g", group_paused(false)).await;
    assert_eq!(ids(&queue.lease(10).await), ["2", "3"]);
}

async fn a_resumed_group_wakes_a_waiter(queue: Subject) {
    queue.set_group("g", group_paused(true)).await;
    queue.add([job("g", "1")]).await;
    queue.lease(1).await;
    queue.drain_wakes().await;
    queue.set_group("g", group_paused(false)).await;
    assert!(queue.is_woken().await);
}

async fn a_pause_gathers_no_claims(queue: Subject) {
    queue.add(jobs("resting", 400)).await;
    queue.add(jobs("working", 800)).await;
    queue.set_group("resting", group_paused(true)).await;
    for _ in 0..4 {
        queue.lease(100).await;
    }
    queue.set_group("resting", group_paused(false)).await;
    let served = queue.lease(200).await;
    let resting = count_of("resting", &served);
    assert!((95..=116).contains(&resting), "after a pause it got {resting} of 200");
}

async fn a_concurrency_out_of_range_is_invalid(queue: Subject) {
    for seats in [0, CONCURRENCY_MAX + 1] {
        let command = SetGroup { group: group_id("g"), patch: group_seats(seats) };
        assert!(matches!(queue.engine.set_group(command).await, Err(EngineError::Invalid(_))));
    }
}
