//! Lanes whose jobs must not run leave the lease to other lanes.

use fairlane_core::Level;
use fairlane_core::limits::{LEASE_PARKS_MAX, LEASE_SKIPS_MAX, QUANTUM, SWEEP_JOBS_MAX, VISIT_SKIPS_MAX};
use fairlane_core::queue::NewJob;

use crate::subject::*;

/// One customer holds, resumes and cancels; each lease in between serves the other customer.
pub(super) async fn every_lease_serves_others_beside_held_and_cancelled_jobs(queue: Subject) {
    let count = 8 * VISIT_SKIPS_MAX;
    queue.open_with_jobs("large", "b", count).await;
    queue.add(jobs("steady", 700)).await;
    for round in 0..20 {
        match round % 4 {
            0 if round == 16 => drop(queue.cancel_bulk("large", "b").await),
            0 => drop(queue.hold("large", "b").await),
            2 => drop(queue.resume("large", "b").await),
            _ => {}
        }
        // A lease with room for several turns of each customer.
        let leased = queue.lease(4 * QUANTUM as usize).await;
        assert!(count_of("steady", &leased) > 0, "round {round} gave {:?}", names(&leased));
        queue.succeed(&leased).await;
        queue.sweep(SWEEP_JOBS_MAX / 4).await;
    }
    while queue.sweep(SWEEP_JOBS_MAX).await.more {}
    let view = queue.bulk("large", "b").await;
    assert_eq!((view.succeeded + view.cancelled, view.on_hold), (count as u64, 0));
}

/// The heads of one group's lanes have more blocked jobs than one lease skips.
pub(super) async fn blocked_lanes_of_one_group_leave_the_lease_to_others(queue: Subject) {
    queue.open("large", "b").await;
    let of_each = LEASE_SKIPS_MAX / 3;
    for (number, type_name) in ["t", "u"].into_iter().enumerate() {
        for level in Level::ALL {
            let id = |index: usize| format!("{number}-{level}-{index}");
            let new = |index| NewJob { level, ..job_of(type_name, "large", &id(index)) };
            queue.add((0..of_each).map(|index| in_bulk("b", new(index)))).await;
        }
    }
    queue.hold("large", "b").await;
    queue.add([job_at(Level::Low, "steady", "1")]).await;
    assert_eq!(names(&queue.lease_of(&["t", "u"], 10).await), ["steady/1"]);
    assert_eq!(queue.bulk("large", "b").await.on_hold, LEASE_SKIPS_MAX as u64, "stepping over is bounded");
    assert_eq!(queue.queue_view().await.active_lanes, [0, 0, 0]);
    while queue.sweep(SWEEP_JOBS_MAX).await.more {}
    assert_eq!(queue.bulk("large", "b").await.on_hold, 6 * of_each as u64);
}

pub(super) async fn more_blocked_lanes_than_a_lease_sets_aside_wake_the_next(queue: Subject) {
    for number in 0..LEASE_PARKS_MAX + 1 {
        let group = format!("g{number}");
        queue.open_with_jobs(&group, "b", VISIT_SKIPS_MAX + 1).await;
        queue.hold(&group, "b").await;
    }
    queue.add(jobs("steady", 1)).await;
    queue.drain_wakes().await;
    assert_eq!(queue.lease(1).await, []);
    assert!(queue.is_woken().await, "the next lease goes on at once");
    assert_eq!(names(&queue.lease(1).await), ["steady/1"]);
}
