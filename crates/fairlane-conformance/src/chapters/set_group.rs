//! `set_group`: weight, rate, concurrency and pause of a group, effective on its backlog at once.

use fairlane_core::limits::{BASE_PRIORITY_MAX, CONCURRENCY_MAX};
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
    a_base_priority_is_kept_and_shown,
    a_base_priority_counts_for_the_backlog_at_once,
    a_base_priority_means_nothing_in_share,
    a_reset_forgets_statistics_and_history_but_not_jobs,
    a_reset_of_an_unknown_group_makes_none,
    a_reset_can_come_with_a_change,
    a_concurrency_out_of_range_is_invalid,
    a_base_priority_out_of_range_is_invalid,
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
        base_priority: 0,
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
    assert_eq!(queue.queue_view().await.parked_lanes, 1);
    queue.drain_wakes().await;
    queue.set_group("g", GroupPatch { rate: Some(None), ..GroupPatch::default() }).await;
    assert!(queue.is_woken().await);
    assert_eq!(queue.lease(10).await.len(), 9);
    assert_eq!(queue.queue_view().await.parked_lanes, 0);
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
        let command = SetGroup { group: group_id("g"), patch: group_seats(seats), reset_congestion: false };
        assert!(matches!(queue.engine.call(command).await, Err(EngineError::Invalid(_))));
    }
}

/// Erratum Q4.
async fn a_base_priority_is_kept_and_shown(queue: Subject) {
    for value in [1_000_000, -1_000_000, BASE_PRIORITY_MAX as i64, -(BASE_PRIORITY_MAX as i64), 0] {
        assert_eq!(queue.set_group("g", base_priority(value)).await.base_priority, value);
        queue.set_group("g", weight(2)).await;
        queue.enqueue([job("g", "1")]).await;
        assert_eq!(queue.group("g").await.settings.base_priority, value, "nothing else changes it");
    }
}

/// Erratum Q4.
async fn a_base_priority_counts_for_the_backlog_at_once(queue: Subject) {
    queue.classic(1000).await;
    for group in ["a", "b", "c"] {
        queue.add(jobs(group, 3)).await;
        queue.advance_ms(10);
    }
    queue.set_group("c", base_priority(1_000_000)).await;
    assert_eq!(queue.admit_ready(2).await, ["c/1", "c/2"], "its jobs were there already");
    queue.set_group("c", base_priority(-1_000_000)).await;
    assert_eq!(queue.admit_ready(2).await, ["a/1", "b/1"]);
}

async fn a_base_priority_means_nothing_in_share(queue: Subject) {
    queue.set_group("premium", base_priority(1_000_000)).await;
    queue.add(jobs("ordinary", 20)).await;
    queue.add(jobs("premium", 20)).await;
    let mut served = Vec::new();
    for _ in 0..20 {
        served.push(queue.lease_one().await);
    }
    assert_eq!(count_of("premium", &served), 10);
}

/// Erratum Q28.
async fn a_reset_forgets_statistics_and_history_but_not_jobs(queue: Subject) {
    queue.classic(1).await;
    queue.add(jobs("g", 4)).await;
    queue.admit(10).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, throttled(0, 0)).await;
    queue.advance_ms(5000);
    queue.promote(1).await;
    queue.admit(1).await;
    let again = queue.lease_one().await;
    queue.succeed(&[again]).await;
    let before = queue.congestion("g").await;
    assert_eq!((before.waiting, before.backoff_ms, before.ended), (3, 5000, 1));
    assert_eq!(queue.snapshots("g", 10).await.len(), 1);
    queue.reset_congestion("g").await;
    let after = queue.congestion("g").await;
    assert_eq!((after.backoff_ms, after.throttles, after.ended), (0, 0, 0));
    assert_eq!((queue.snapshots("g", 10).await, after.waiting), (vec![], 3), "jobs that wait stay counted");
    assert_eq!((queue.queue_view().await.waiting, queue.group("g").await.backlog), (3, 3));
    assert_eq!(queue.promote(10).await.moved, 3, "and come back");
    queue.reset_congestion("g").await;
    assert_eq!(queue.congestion("g").await.waiting, 0);
}

async fn a_reset_of_an_unknown_group_makes_none(queue: Subject) {
    queue.reset_congestion("g").await;
    assert_eq!(queue.find_group("g").await, None);
}

async fn a_reset_can_come_with_a_change(queue: Subject) {
    queue.classic(1).await;
    queue.add(jobs("g", 2)).await;
    queue.admit(10).await;
    let command = SetGroup { group: group_id("g"), patch: weight(3), reset_congestion: true };
    let set = queue.engine.call(command).await.expect("set_group is answered");
    assert_eq!((set.settings.weight.get(), queue.congestion("g").await.backoff_ms), (3, 0));
}

async fn a_base_priority_out_of_range_is_invalid(queue: Subject) {
    for value in [BASE_PRIORITY_MAX as i64 + 1, -(BASE_PRIORITY_MAX as i64) - 1, i64::MAX, i64::MIN] {
        let command = SetGroup { group: group_id("g"), patch: base_priority(value), reset_congestion: false };
        assert!(matches!(queue.engine.call(command).await, Err(EngineError::Invalid(_))));
    }
    assert_eq!(queue.find_group("g").await, None);
}
