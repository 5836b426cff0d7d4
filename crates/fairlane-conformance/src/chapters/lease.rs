//! `lease`: at most one live lease per job, limits never exceeded, a repeated request gets the same
//! reply.

mod blocked;
mod bytes;
mod lanes;

use std::collections::{BTreeMap, BTreeSet};

use fairlane_core::limits::{LEASE_JOBS_MAX, LEASE_MS_MAX, LEASE_MS_MIN, PARK_MS_MAX, QUANTUM};
use fairlane_core::queue::*;
use fairlane_core::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;
use blocked::*;
use bytes::*;
use lanes::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_leased_job_says_so,
    a_job_is_leased_to_one_worker,
    a_payload_stays_until_the_job_is_settled,
    a_trace_stays_through_retries_losses_and_death,
    a_repeated_request_gives_the_same_jobs_and_no_new_ones,
    a_repeated_request_gives_only_what_is_still_held,
    a_repeated_empty_request_stays_empty,
    a_lower_request_is_superseded,
    each_worker_has_its_own_request_numbers,
    a_request_is_remembered_as_long_as_the_longest_lease,
    fences_only_grow_even_when_the_clock_steps_back,
    a_lease_takes_only_the_types_it_asks_for,
    unknown_types_give_nothing,
    a_request_out_of_range_is_invalid,
    two_groups_take_turns,
    a_million_of_one_do_not_delay_the_few_of_another,
    groups_of_one_moment_are_served_alike,
    a_weight_is_a_share,
    a_heavy_weight_is_no_monopoly,
    a_cost_counts_in_the_share,
    a_job_dearer_than_a_quantum_is_served,
    newcomers_do_not_starve_those_who_wait,
    levels_share_and_low_never_starves,
    types_take_turns,
    a_lane_that_empties_leaves_the_order,
    the_queue_rate_holds_in_every_second,
    a_type_rate_does_not_hold_up_other_types,
    a_group_rate_does_not_hold_up_other_groups,
    what_idle_groups_leave_is_used,
    a_batch_never_takes_more_than_the_seats,
    a_batch_never_takes_more_than_the_slots,
    a_denied_lease_says_when_to_ask_again,
    one_worker_per_type_gets_the_wake_time,
    a_slow_rate_is_checked_again_within_a_minute,
    a_lease_that_leaves_more_wakes_another,
    a_satisfied_lease_leaves_the_time_of_what_waits_to_another,
    a_bucket_heals_when_the_clock_steps_back,
    many_denied_groups_are_passed_in_bounded_steps,
    a_leased_job_names_its_bulk_action,
    a_repeated_request_names_the_bulk_action_too,
    a_lease_records_when_its_types_were_last_requested,
    jobs_that_will_not_run_delay_no_others,
    every_lease_serves_others_beside_held_and_cancelled_jobs,
    blocked_lanes_of_one_group_leave_the_lease_to_others,
    more_blocked_lanes_than_a_lease_sets_aside_wake_the_next,
    jobs_that_will_not_run_do_not_wake_in_vain,
    a_lease_ends_when_its_payloads_have_enough_bytes,
    a_lease_of_one_group_ends_at_its_bytes_and_goes_on_in_order,
    only_payloads_count_and_the_last_may_go_beyond,
    jobs_that_came_back_count_their_bytes_too,
    a_lease_with_enough_bytes_wakes_another_for_the_rest,
    a_lease_ends_when_it_has_served_enough_lanes,
    a_lease_with_enough_bytes_leaves_the_time_of_what_waits_to_another,
    a_repeated_request_gives_the_same_large_jobs,
    bytes_are_counted_over_groups_and_types,
    admitted_jobs_count_their_bytes_too,
];

/// Erratum Q14.
async fn a_leased_job_says_so(queue: Subject) {
    queue.add([job("g", "1")]).await;
    assert_eq!(queue.state("g", "1").await, JobState::Pending);
    let leased = queue.lease_one().await;
    assert_eq!((leased.attempt, leased.created_at), (1, START));
    let view = queue.job("g", "1").await;
    assert_eq!((view.state, view.until), (JobState::Processing, Some(START.plus_ms(LEASE_MS))));
    assert_eq!((view.fence, view.attempts), (Some(leased.fence), 1));
    assert_eq!(view.worker.expect("a leased job has a worker").to_string(), "worker");
    let (group, totals) = (queue.group("g").await, queue.queue_view().await);
    assert_eq!((group.backlog, group.in_flight, totals.backlog, totals.in_flight), (0, 1, 0, 1));
}

/// Erratum Q7. Erratum Q37.
async fn a_job_is_leased_to_one_worker(queue: Subject) {
    queue.add(jobs("a", 60)).await;
    queue.add(jobs("b", 60)).await;
    let mut seen = BTreeSet::new();
    let mut workers = Vec::new();
    for worker in ["w1", "w2", "w3"] {
        let queue = queue.clone();
        workers.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            for _ in 0..8 {
                mine.extend(queue.leased(queue.next_request(worker, 5)).await.0);
            }
            mine
        }));
    }
    for worker in workers {
        for leased in worker.await.expect("no worker panics") {
            assert!(seen.insert(leased.job.clone()), "{:?} was leased twice", leased.job);
        }
    }
    assert_eq!((seen.len(), queue.queue_view().await.in_flight), (120, 120));
}

/// Erratum Q37.
async fn a_payload_stays_until_the_job_is_settled(queue: Subject) {
    queue.add([NewJob { payload: bytes("kept"), ..job("g", "1") }]).await;
    let leased = queue.lease_one().await;
    assert_eq!(&*queue.job("g", "1").await.payload, b"kept");
    queue.settle(&leased, retry(10)).await;
    queue.advance_ms(10);
    let again = queue.lease_one().await;
    assert_eq!((&*again.payload, again.attempt), (&b"kept"[..], 2));
}

async fn a_trace_stays_through_retries_losses_and_death(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.open("g", "b").await;
    let trace = Some(trace("4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
    queue.add([in_bulk("b", NewJob { trace: trace.clone(), ..job("g", "1") })]).await;
    let first = queue.lease_one().await;
    queue.settle(&first, retry(10)).await;
    queue.advance_ms(10);
    queue.reclaim(1).await;
    let lost = queue.leased(request("w", 1, 1)).await.0;
    assert_eq!(queue.leased(request("w", 1, 1)).await.0, lost, "asked for again");
    queue.advance_reclaiming_ms(LEASE_MS).await;
    assert_eq!(queue.reclaim(10).await.recovered, 1);
    let last = queue.lease_one().await;
    queue.settle(&last, failed()).await;
    assert_eq!(queue.requeue("g", &["1"]).await, [Requeued::Requeued]);
    for leased in [first, lost[0].clone(), last, queue.lease_one().await] {
        assert_eq!((leased.trace, &*leased.payload), (trace.clone(), &b"{}"[..]));
    }
}

async fn a_repeated_request_gives_the_same_jobs_and_no_new_ones(queue: Subject) {
    queue.add(jobs("g", 20)).await;
    let first = queue.leased(request("w", 1, 5)).await.0;
    queue.advance_ms(10);
    let again = queue.leased(request("w", 1, 5)).await.0;
    assert_eq!(again, first);
    assert_eq!(queue.leased(request("w", 1, 20)).await.0, first, "whatever it asks for now");
    assert_eq!(queue.queue_view().await.in_flight, 5);
    assert_eq!(queue.leased(request("w", 2, 5)).await.0.len(), 5);
}

async fn a_repeated_request_gives_only_what_is_still_held(queue: Subject) {
    queue.add(jobs("g", 4)).await;
    let first = queue.leased(request("w", 7, 4)).await.0;
    queue.succeed(&first[..1]).await;
    queue.settle(&first[1], retry(0)).await;
    let other = queue.leased(request("x", 1, 1)).await.0;
    assert_eq!(ids(&other), ["2"], "the job is held by another now");
    assert_eq!(ids(&queue.leased(request("w", 7, 4)).await.0), ["3", "4"]);
}

async fn a_repeated_empty_request_stays_empty(queue: Subject) {
    assert_eq!(queue.leased(request("w", 1, 4)).await.0, []);
    queue.add(jobs("g", 4)).await;
    assert_eq!(queue.leased(request("w", 1, 4)).await.0, []);
    assert_eq!(queue.leased(request("w", 2, 4)).await.0.len(), 4);
}

async fn a_lower_request_is_superseded(queue: Subject) {
    queue.add(jobs("g", 4)).await;
    queue.leased(request("w", 9, 1)).await;
    let late = queue.engine.call(request("w", 8, 1)).await.expect("a late request is answered");
    assert_eq!(late, Leased::Superseded { newest: RequestNumber(9) });
    assert_eq!(queue.queue_view().await.in_flight, 1);
}

async fn each_worker_has_its_own_request_numbers(queue: Subject) {
    queue.add(jobs("g", 4)).await;
    let one = queue.leased(request("w:1", 5, 1)).await.0;
    let two = queue.leased(request("w%1", 1, 1)).await.0;
    assert_ne!(one[0].job, two[0].job);
    assert_eq!(queue.leased(request("w:1", 5, 1)).await.0, one);
}

async fn a_request_is_remembered_as_long_as_the_longest_lease(queue: Subject) {
    queue.add(jobs("g", 4)).await;
    queue.leased(request("w", 9, 1)).await;
    queue.advance_ms(LEASE_MS_MAX - 1);
    let late = queue.engine.call(request("w", 3, 1)).await.expect("a late request is answered");
    assert_eq!(late, Leased::Superseded { newest: RequestNumber(9) });
    queue.advance_ms(1);
    assert_eq!(queue.leased(request("w", 3, 1)).await.0.len(), 1);
}

async fn fences_only_grow_even_when_the_clock_steps_back(queue: Subject) {
    queue.add(jobs("g", 30)).await;
    let mut last = Fence(0);
    for _ in 0..5 {
        let leased = queue.lease(3).await;
        assert!(leased.iter().all(|job| job.fence == leased[0].fence), "jobs leased together share one");
        assert!(leased[0].fence > last && leased[0].fence.0 >= START.0, "and it is no smaller than the time");
        last = leased[0].fence;
        queue.step_back_ms(3_600_000);
    }
}

async fn a_lease_takes_only_the_types_it_asks_for(queue: Subject) {
    queue.add([job_of("a", "g", "1"), job_of("b", "g", "2"), job_of("c", "g", "3")]).await;
    assert_eq!(ids(&queue.lease_of(&["b"], 10).await), ["2"]);
    assert_eq!(ids(&queue.lease_of(&["b"], 10).await), [""; 0]);
    assert_eq!(queue.lease_of(&["a", "c", "a"], 10).await.len(), 2);
}

async fn unknown_types_give_nothing(queue: Subject) {
    assert_eq!(queue.lease_and_wake(&["never seen"], 5).await, (vec![], None));
    assert_eq!(queue.lease_and_wake(&[], 5).await, (vec![], None));
    assert_eq!(queue.queue_view().await.types, []);
}

async fn a_request_out_of_range_is_invalid(queue: Subject) {
    let with = |jobs_max, lease_ms| Lease { jobs_max, lease_ms, ..request("w", 1, 1) };
    let wrong = [
        with(0, LEASE_MS),
        with(LEASE_JOBS_MAX + 1, LEASE_MS),
        with(1, LEASE_MS_MIN - 1),
        with(1, LEASE_MS_MAX + 1),
    ];
    for command in wrong {
        assert!(matches!(queue.engine.call(command).await, Err(EngineError::Invalid(_))));
    }
    queue.add(jobs("g", LEASE_JOBS_MAX)).await;
    let most = queue.leased(with(LEASE_JOBS_MAX, LEASE_MS_MAX)).await.0;
    assert_eq!(most.len(), LEASE_JOBS_MAX);
}

/// Erratum Q33.
async fn two_groups_take_turns(queue: Subject) {
    queue.add(jobs("a", 100)).await;
    queue.add(jobs("b", 100)).await;
    let mut served = Vec::new();
    for _ in 0..100 {
        served.push(queue.lease_one().await);
        let (a, b) = (count_of("a", &served), count_of("b", &served));
        assert!(a.abs_diff(b) <= 1, "after {} jobs: {a} and {b}", served.len());
    }
    let batch = queue.lease(96).await;
    assert_eq!((count_of("a", &batch), count_of("b", &batch)), (48, 48));
    let turns: Vec<&[LeasedJob]> = batch.chunks(QUANTUM as usize).collect();
    for turn in &turns {
        assert!(turn.iter().all(|job| job.job.group == turn[0].job.group), "in batches a turn is a quantum");
    }
    assert!(turns.windows(2).all(|two| two[0][0].job.group != two[1][0].job.group));
}

/// Erratum Q33.
async fn a_million_of_one_do_not_delay_the_few_of_another(queue: Subject) {
    queue.add(jobs("large", 2000)).await;
    for _ in 0..10 {
        queue.lease(50).await;
    }
    queue.add(jobs("small", 20)).await;
    let next = queue.lease(40).await;
    assert_eq!(count_of("small", &next), 20, "the small one's jobs are all among the next 40");
    let behind = queue.lease(100).await;
    assert_eq!(count_of("large", &behind), 100, "and the large one goes on");
}

/// Erratum Q8.
async fn groups_of_one_moment_are_served_alike(queue: Subject) {
    let names: Vec<String> = (0..20).map(|number| format!("group {number:02}")).collect();
    for name in names.iter().rev() {
        queue.add(jobs(name, 40)).await;
    }
    let mut served: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..4 {
        for leased in queue.lease(100).await {
            *served.entry(leased.job.group.to_string()).or_default() += 1;
        }
    }
    let counts: Vec<usize> = names.iter().map(|name| served.get(name).copied().unwrap_or(0)).collect();
    assert!(counts.iter().all(|count| (16..=24).contains(count)), "{counts:?}");
}

async fn a_weight_is_a_share(queue: Subject) {
    queue.set_group("three", weight(3)).await;
    queue.add(jobs("one", 400)).await;
    queue.add(jobs("three", 400)).await;
    let served = queue.lease(400).await;
    let three = count_of("three", &served);
    assert!((290..=310).contains(&three), "weight 3 beside weight 1 got {three} of 400");
}

/// Erratum Q10.
async fn a_heavy_weight_is_no_monopoly(queue: Subject) {
    queue.set_group("heavy", weight(1000)).await;
    queue.add(jobs("heavy", 4000)).await;
    queue.add(jobs("light", 10)).await;
    let mut light = 0;
    for _ in 0..8 {
        light += count_of("light", &queue.lease(500).await);
    }
    assert!((3..=10).contains(&light), "weight 1 beside weight 1000 got {light} of 4000");
}

async fn a_cost_counts_in_the_share(queue: Subject) {
    let dear = jobs("dear", 200).into_iter().map(|job| NewJob { cost: cost(4), ..job });
    queue.add(dear).await;
    queue.add(jobs("cheap", 400)).await;
    let served = queue.lease(200).await;
    let cheap = count_of("cheap", &served);
    assert!((152..=168).contains(&cheap), "jobs of a quarter of the cost got {cheap} of 200");
}

async fn a_job_dearer_than_a_quantum_is_served(queue: Subject) {
    queue
        .add([
            NewJob { cost: cost(10_000), ..job("dear", "1") },
            NewJob { cost: cost(9), ..job("dear", "2") },
        ])
        .await;
    queue.add(jobs("cheap", 20)).await;
    let served = queue.lease(22).await;
    assert_eq!(names(&served[..1]), ["dear/1"]);
    assert_eq!(names(&served[21..]), ["dear/2"], "it pays for the first");
}

async fn newcomers_do_not_starve_those_who_wait(queue: Subject) {
    queue.add(jobs("old", 1000)).await;
    for _ in 0..3 {
        queue.lease(100).await;
    }
    for number in 0..30 {
        queue.add(jobs(&format!("new {number}"), 100)).await;
    }
    let mut before_old = 0;
    while count_of("old", &queue.lease(1).await) == 0 {
        before_old += 1;
    }
    assert!(before_old <= 200 + 30 * 2 * QUANTUM, "{before_old} jobs of newcomers went first");
    let served = queue.lease(500).await;
    let old = count_of("old", &served);
    assert!((8..=32).contains(&old), "one of 31 groups then got {old} of 500");
}

/// Erratum Q11.
async fn levels_share_and_low_never_starves(queue: Subject) {
    for level in Level::ALL {
        let new = jobs(&format!("{level}"), 500).into_iter().map(|job| NewJob { level, ..job });
        queue.add(new).await;
    }
    let served = queue.lease(420).await;
    let counts = Level::ALL.map(|level| count_at(level, &served));
    for (count, share) in counts.into_iter().zip([320_usize, 80, 20]) {
        assert!(count.abs_diff(share) <= 2 * QUANTUM as usize, "{counts:?}");
    }
}

async fn types_take_turns(queue: Subject) {
    for name in ["a", "b", "c"] {
        queue.add((0..40).map(|number| job_of(name, "g", &format!("{name}{number}")))).await;
    }
    let mut counts: BTreeMap<TypeId, usize> = BTreeMap::new();
    for _ in 0..30 {
        for leased in queue.lease_of(&["c", "a", "b"], 1).await {
            *counts.entry(leased.type_id).or_default() += 1;
        }
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [10, 10, 10]);
}

/// Erratum Q12.
async fn a_lane_that_empties_leaves_the_order(queue: Subject) {
    for number in 0..30 {
        queue.add([job(&format!("g{number}"), "1")]).await;
    }
    assert_eq!(queue.type_view("t").await.active_lanes, [0, 30, 0]);
    let leased = queue.lease(20).await;
    assert_eq!(queue.type_view("t").await.active_lanes, [0, 10, 0]);
    queue.settle(&leased[0], Outcome::Released).await;
    assert_eq!(queue.type_view("t").await.active_lanes, [0, 11, 0]);
    queue.lease(20).await;
    assert_eq!(queue.queue_view().await.active_lanes, [0, 0, 0]);
}

/// Erratum Q21.
async fn the_queue_rate_holds_in_every_second(queue: Subject) {
    queue.set_queue(Settings { rate: Some(per_second(20, 2)), ..Settings::default() }).await;
    queue.add(jobs("a", 60)).await;
    queue.add(jobs("b", 60)).await;
    let starts = queue.starts(350, 10).await;
    assert!(most_in_a_second(&starts) <= 22);
    assert_eq!(starts.len(), 2 + 69, "and all of it is used");
}

async fn a_type_rate_does_not_hold_up_other_types(queue: Subject) {
    queue.set_type("slow", type_rate(per_second(1, 1))).await;
    for number in 0..20 {
        queue
            .add([job_of("slow", "g", &format!("s{number}")), job_of("free", "g", &format!("f{number}"))])
            .await;
    }
    let leased = queue.lease_of(&["slow", "free"], 40).await;
    let slow = leased.iter().filter(|job| job.type_id == type_id("slow")).count();
    assert_eq!((slow, leased.len()), (1, 21));
}

async fn a_group_rate_does_not_hold_up_other_groups(queue: Subject) {
    queue.set_group("slow", group_rate(per_second(2, 1))).await;
    queue.add(jobs("slow", 10)).await;
    queue.add(jobs("free", 10)).await;
    let leased = queue.lease(20).await;
    assert_eq!((count_of("slow", &leased), count_of("free", &leased)), (1, 10));
    assert_eq!(queue.group("slow").await.lanes[0].standing, LaneStanding::RateParked(START.plus_ms(500)));
    queue.advance_ms(499);
    assert_eq!(queue.lease(20).await, []);
    queue.advance_ms(1);
    assert_eq!(names(&queue.lease(20).await), ["slow/2"]);
}

/// Erratum Q27.
async fn what_idle_groups_leave_is_used(queue: Subject) {
    queue.set_queue(Settings { rate: Some(per_second(10, 1)), ..Settings::default() }).await;
    for number in 0..9 {
        queue.add([job(&format!("idle {number}"), "1")]).await;
    }
    queue.starts(90, 10).await;
    queue.add(jobs("busy", 100)).await;
    let starts = queue.starts(200, 10).await;
    assert!(starts.len() >= 20, "one busy group among ten got {} of 20", starts.len());
}

/// Erratum Q20.
async fn a_batch_never_takes_more_than_the_seats(queue: Subject) {
    queue.set_group("a", group_seats(3)).await;
    queue.set_type("t", type_seats(5)).await;
    queue.add(jobs("a", 20)).await;
    queue.add(jobs("b", 20)).await;
    let leased = queue.lease(100).await;
    assert_eq!((count_of("a", &leased), count_of("b", &leased)), (3, 2));
    assert_eq!(queue.lease(100).await, []);
    queue.succeed(&leased[..1]).await;
    assert_eq!(queue.lease(100).await.len(), 1);
}

/// Erratum Q20.
async fn a_batch_never_takes_more_than_the_slots(queue: Subject) {
    queue.set_queue(Settings { rate: Some(per_second(10, 4)), ..Settings::default() }).await;
    queue.add(jobs("a", 20)).await;
    queue.add(jobs("b", 20)).await;
    assert_eq!(queue.lease(100).await.len(), 4);
    queue.advance_ms(10_000);
    assert_eq!(queue.lease(100).await.len(), 4);
}

async fn a_denied_lease_says_when_to_ask_again(queue: Subject) {
    queue.set_queue(Settings { rate: Some(per_second(10, 1)), ..Settings::default() }).await;
    queue.add(jobs("g", 5)).await;
    queue.lease(1).await;
    let (leased, wake_at) = queue.lease_and_wake(&["t"], 1).await;
    assert_eq!((leased, wake_at), (vec![], Some(START.plus_ms(100))));
    queue.advance_ms(100);
    assert_eq!(queue.lease(1).await.len(), 1);
    queue.add([delayed(20, "h", "1")]).await;
    assert_eq!(queue.lease_and_wake(&["t"], 1).await.1, Some(START.plus_ms(120)), "whichever comes first");
}

async fn one_worker_per_type_gets_the_wake_time(queue: Subject) {
    queue.add([delayed(5000, "g", "1")]).await;
    let due = Some(START.plus_ms(5000));
    assert_eq!(queue.leased(queue.next_request("first", 1)).await.1, due);
    assert_eq!(queue.leased(queue.next_request("second", 1)).await.1, None);
    assert_eq!(queue.leased(queue.next_request("first", 1)).await.1, due);
    queue.advance_ms(4000);
    queue.add([delayed(100, "g", "2")]).await;
    let sooner = Some(START.plus_ms(4100));
    assert_eq!(queue.leased(queue.next_request("second", 1)).await.1, sooner, "an earlier time is news");
    queue.advance_ms(1200);
    let late = queue.leased(queue.next_request("third", 1)).await;
    assert_eq!(late.0.len(), 1, "a worker that does not come back is replaced by the next that asks");
}

async fn a_slow_rate_is_checked_again_within_a_minute(queue: Subject) {
    let rate = Rate::new(1, 24 * 3600 * 1000, Some(1)).expect("one a day is a rate");
    queue.set_group("g", group_rate(rate)).await;
    queue.add(jobs("g", 2)).await;
    assert_eq!(queue.lease(2).await.len(), 1);
    let (leased, wake_at) = queue.lease_and_wake(&["t"], 1).await;
    assert_eq!((leased, wake_at), (vec![], Some(START.plus_ms(PARK_MS_MAX))));
    queue.advance_ms(24 * 3600 * 1000);
    assert_eq!(queue.lease(1).await.len(), 1);
}

async fn a_lease_that_leaves_more_wakes_another(queue: Subject) {
    queue.add(jobs("g", 10)).await;
    queue.drain_wakes().await;
    queue.lease(4).await;
    assert!(queue.is_woken().await);
    assert!(queue.is_silent().await);
    queue.lease(10).await;
    assert!(queue.is_silent().await, "nothing is left");
}

async fn a_satisfied_lease_leaves_the_time_of_what_waits_to_another(queue: Subject) {
    queue.add([job("g", "1"), delayed(1000, "g", "2")]).await;
    queue.drain_wakes().await;
    assert_eq!(queue.lease_and_wake(&["t"], 1).await.1, None);
    assert!(queue.is_woken().await);
    assert_eq!(queue.lease_and_wake(&["t"], 1).await, (vec![], Some(START.plus_ms(1000))));
}

/// Erratum Q26.
async fn a_bucket_heals_when_the_clock_steps_back(queue: Subject) {
    queue.set_queue(Settings { rate: Some(per_second(10, 1)), ..Settings::default() }).await;
    queue.add(jobs("g", 10)).await;
    assert_eq!(queue.lease(5).await.len(), 1);
    queue.step_back_ms(3_600_000);
    assert_eq!(queue.lease(5).await, []);
    queue.advance_ms(100);
    assert_eq!(queue.lease(5).await.len(), 1);
}

/// Erratum Q12.
async fn many_denied_groups_are_passed_in_bounded_steps(queue: Subject) {
    for number in 0..150 {
        let name = format!("full {number}");
        queue.set_group(&name, group_paused(true)).await;
        queue.add(jobs(&name, 1)).await;
    }
    queue.add(jobs("open", 1)).await;
    let (first, again_at) = queue.lease_and_wake(&["t"], 1).await;
    assert_eq!((first, again_at), (vec![], Some(START)), "a bounded step asks to be repeated at once");
    assert_eq!(queue.lease(1).await, []);
    assert_eq!(names(&queue.lease(1).await), ["open/1"]);
}

async fn a_leased_job_names_its_bulk_action(queue: Subject) {
    queue.open_with_jobs("g", "b:%", 1).await;
    queue.add([job("g", "own")]).await;
    let leased = queue.lease(10).await;
    assert_eq!(leased[0].bulk, Some(bulk_id("b:%")));
    assert_eq!(leased[1].bulk, None);
}

async fn a_repeated_request_names_the_bulk_action_too(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    let first = queue.leased(request("w", 1, 5)).await.0;
    queue.cancel_bulk("g", "b").await;
    assert_eq!(queue.leased(request("w", 1, 5)).await.0, first, "what is held is held, wanted or not");
}

async fn a_lease_records_when_its_types_were_last_requested(queue: Subject) {
    queue.add([job("g", "1"), job_of("other", "g", "2")]).await;
    assert_eq!(queue.type_view("t").await.asked_at, None);
    queue.advance_ms(500);
    queue.lease(1).await;
    assert_eq!(queue.type_view("t").await.asked_at, Some(START.plus_ms(500)));
    assert_eq!(queue.type_view("other").await.asked_at, None);
    queue.advance_ms(999);
    queue.lease(1).await;
    let asked_at = queue.type_view("t").await.asked_at.expect("a worker has asked");
    assert!(queue.now().since(asked_at) < 1_000_000, "give or take a second");
    queue.step_back_ms(3_600_000);
    queue.lease(1).await;
    assert_eq!(queue.type_view("t").await.asked_at, Some(queue.now()));
}

async fn jobs_that_will_not_run_delay_no_others(queue: Subject) {
    queue.open_with_jobs("a", "held", 5).await;
    queue.open_with_jobs("b", "dropped", 5).await;
    queue.add(jobs("c", 5)).await;
    queue.hold("a", "held").await;
    queue.cancel_bulk("b", "dropped").await;
    queue.cancel("c", &["1", "2"]).await;
    queue.add([job("a", "own"), job("b", "own")]).await;
    let mut leased = names(&queue.lease(10).await);
    leased.sort();
    assert_eq!(leased, ["a/own", "b/own", "c/3", "c/4", "c/5"]);
    assert_eq!(queue.queue_view().await.active_lanes, [0, 0, 0]);
}

async fn jobs_that_will_not_run_do_not_wake_in_vain(queue: Subject) {
    queue.open_with_jobs("g", "b", 5).await;
    queue.hold("g", "b").await;
    queue.drain_wakes().await;
    assert_eq!(queue.lease_and_wake(&["t"], 10).await, (vec![], None));
    assert!(queue.is_silent().await);
}
