//! Payloads bound a lease: it ends when they have enough bytes, as if it had reached `jobs_max`.

use std::sync::Arc;

use fairlane_core::limits::{LEASE_BYTES_MAX, PAYLOAD_BYTES_MAX, QUANTUM};
use fairlane_core::queue::*;

use crate::subject::*;

/// Number of jobs with the longest payload that fill one lease.
const ENOUGH: usize = LEASE_BYTES_MAX / PAYLOAD_BYTES_MAX;

fn payload(bytes: usize) -> Arc<[u8]> {
    Arc::from(vec![b'x'; bytes])
}

/// Jobs `1` to `count` with the longest payload.
fn large(group: &str, count: usize) -> Vec<NewJob> {
    let payload = payload(PAYLOAD_BYTES_MAX);
    jobs(group, count).into_iter().map(|job| NewJob { payload: payload.clone(), ..job }).collect()
}

fn numbers(range: std::ops::RangeInclusive<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

/// A small job comes first, so that the lease ends in the middle of a turn.
pub(super) async fn a_lease_ends_when_its_payloads_have_enough_bytes(queue: Subject) {
    queue.add([job("g", "small")]).await;
    queue.add(large("g", 2 * ENOUGH + 2)).await;
    let first = queue.lease(100).await;
    assert_eq!(ids(&first)[..2], ["small", "1"]);
    assert_eq!(ids(&first[1..]), numbers(1..=ENOUGH));
    assert_eq!(ids(&queue.lease(100).await), numbers(ENOUGH + 1..=2 * ENOUGH), "none is lost or passed over");
    assert_eq!(queue.lease(100).await.len(), 2);
    let totals = queue.queue_view().await;
    assert_eq!((totals.backlog, totals.in_flight as usize), (0, 2 * ENOUGH + 3));
}

/// Jobs with small payloads come first; after them, more jobs are read at a time than a turn has.
pub(super) async fn a_lease_of_one_group_ends_at_its_bytes_and_goes_on_in_order(queue: Subject) {
    let (small, each) = (3 * QUANTUM as usize, PAYLOAD_BYTES_MAX / 4);
    let enough = LEASE_BYTES_MAX / each;
    let sized = |(at, job)| NewJob { payload: payload(if at < small { 1 } else { each }), ..job };
    queue.add(jobs("g", small + 2 * enough).into_iter().enumerate().map(sized)).await;
    let first = queue.lease(500).await;
    assert_eq!(ids(&first), numbers(1..=small + enough));
    queue.add([job("newcomer", "1")]).await;
    let second = queue.lease(500).await;
    assert_eq!(count_of("newcomer", &second), 1);
    let rest = |leased: &LeasedJob| leased.job.group == first[0].job.group;
    let rest: Vec<LeasedJob> = second.into_iter().filter(rest).collect();
    assert_eq!(ids(&rest), numbers(small + enough + 1..=small + 2 * enough));
}

/// One byte less in each payload lets one more job in, whatever its other fields.
pub(super) async fn only_payloads_count_and_the_last_may_go_beyond(queue: Subject) {
    queue.open("g", "b").await;
    let trace = Some(trace("4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
    for (short, expected) in [(0, ENOUGH), (1, ENOUGH + 1)] {
        let payload = payload(PAYLOAD_BYTES_MAX - short);
        for number in 0..=ENOUGH {
            let new = NewJob { payload: payload.clone(), ..job("g", &format!("{short} {number}")) };
            let new = match number % 5 {
                0 => new,
                1 => NewJob { trace: trace.clone(), ..new },
                2 => NewJob { cost: cost(2), ..new },
                3 => in_bulk("b", new),
                _ => in_bulk("b", NewJob { trace: trace.clone(), ..new }),
            };
            queue.add([new]).await;
        }
        let leased = queue.lease(100).await;
        assert_eq!(leased.len(), expected, "{short} bytes short");
        queue.succeed(&leased).await;
        let rest = queue.lease(100).await;
        assert_eq!(rest.len(), ENOUGH + 1 - expected);
        queue.succeed(&rest).await;
    }
}

pub(super) async fn jobs_that_came_back_count_their_bytes_too(queue: Subject) {
    queue.add([job("g", "small")]).await;
    queue.add(large("g", ENOUGH + 2)).await;
    let mut first = queue.lease(100).await;
    first.extend(queue.lease(100).await);
    for leased in &first {
        queue.settle(leased, retry(0)).await;
        queue.advance_ms(1);
    }
    queue.promote(100).await;
    let again = queue.lease(100).await;
    assert_eq!(again.len(), ENOUGH + 1);
    assert_eq!(ids(&again), ids(&first[..=ENOUGH]));
    assert_eq!(ids(&queue.lease(100).await), ids(&first[ENOUGH + 1..]));
}

pub(super) async fn a_lease_with_enough_bytes_wakes_another_for_the_rest(queue: Subject) {
    queue.add(large("g", ENOUGH + 2)).await;
    queue.drain_wakes().await;
    let (first, wake_at) = queue.lease_and_wake(&["t"], 100).await;
    assert_eq!((first.len(), wake_at), (ENOUGH, None));
    assert!(queue.is_woken().await);
    assert_eq!(queue.lease(100).await.len(), 2);
    assert!(queue.is_silent().await, "nothing is left");
}

pub(super) async fn a_lease_with_enough_bytes_leaves_the_time_of_what_waits_to_another(queue: Subject) {
    queue.add(large("g", ENOUGH)).await;
    queue.add([delayed(1000, "g", "later")]).await;
    queue.drain_wakes().await;
    let (first, wake_at) = queue.lease_and_wake(&["t"], 100).await;
    assert_eq!((first.len(), wake_at), (ENOUGH, None));
    assert!(queue.is_woken().await);
    assert_eq!(queue.lease_and_wake(&["t"], 100).await, (vec![], Some(START.plus_ms(1000))));
}

pub(super) async fn a_repeated_request_gives_the_same_large_jobs(queue: Subject) {
    queue.add(large("g", ENOUGH + 2)).await;
    let first = queue.leased(request("w", 1, 100)).await.0;
    assert_eq!(first.len(), ENOUGH);
    assert_eq!(queue.leased(request("w", 1, 100)).await.0, first);
    assert_eq!(queue.queue_view().await.in_flight as usize, ENOUGH);
}

pub(super) async fn bytes_are_counted_over_groups_and_types(queue: Subject) {
    for group in ["a", "b", "c"] {
        let new = large(group, 4).into_iter().map(|job| NewJob { type_id: type_id(group), ..job });
        queue.add(new).await;
    }
    let first = queue.lease_of(&["a", "b", "c"], 100).await;
    assert_eq!(["a", "b", "c"].map(|group| count_of(group, &first)), [4, 4, 0]);
    assert_eq!(count_of("c", &queue.lease_of(&["a", "b", "c"], 100).await), 4);
}

pub(super) async fn admitted_jobs_count_their_bytes_too(queue: Subject) {
    queue.classic(100).await;
    queue.add(large("g", ENOUGH + 2)).await;
    queue.admit(100).await;
    queue.drain_wakes().await;
    let (first, wake_at) = queue.lease_and_wake(&["t"], 100).await;
    assert_eq!((ids(&first), wake_at), (numbers(1..=ENOUGH), None));
    assert!(queue.is_woken().await);
    assert_eq!(ids(&queue.lease(100).await), numbers(ENOUGH + 1..=ENOUGH + 2));
}
