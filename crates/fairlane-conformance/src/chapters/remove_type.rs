//! `remove_type`: a type without jobs is removed, and its name can be used for a new one.

use fairlane_core::limits::{REMOVE_TYPE_LANES_MAX, TYPES_MAX};
use fairlane_core::queue::*;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    an_idle_type_goes_with_its_settings,
    an_unknown_type_is_reported,
    jobs_in_every_state_keep_their_type,
    finished_jobs_keep_the_name_of_a_removed_type,
    a_cancelled_job_that_stands_in_its_lane_keeps_its_type_until_it_leaves,
    a_removed_type_makes_room_for_another,
    lanes_that_stand_empty_in_order_leave_it_in_steps,
    a_lane_parked_when_its_type_went_is_idle_when_it_wakes,
    a_name_that_comes_back_begins_with_equal_shares,
];

async fn remove(queue: &Subject, name: &str) -> TypeRemoved {
    queue.engine.call(RemoveType { type_id: type_id(name) }).await.expect("remove_type is answered")
}

async fn has_jobs(queue: &Subject, jobs: u64) {
    assert_eq!(remove(queue, "t").await, TypeRemoved::HasJobs { jobs });
}

async fn an_idle_type_goes_with_its_settings(queue: Subject) {
    queue.set_type("t", type_seats(3)).await;
    queue.add(jobs("g", 2)).await;
    queue.serve_all(10).await;
    assert_eq!(remove(&queue, "t").await, TypeRemoved::Removed);
    assert_eq!(queue.queue_view().await.types, []);
    assert_eq!(remove(&queue, "t").await, TypeRemoved::Unknown);
    queue.add([job("g", "again")]).await;
    assert_eq!(queue.type_view("t").await.settings, TypeSettings::default());
    assert_eq!(queue.lease(10).await.len(), 1);
}

async fn an_unknown_type_is_reported(queue: Subject) {
    assert_eq!(remove(&queue, "never-seen").await, TypeRemoved::Unknown);
    assert_eq!(queue.queue_view().await.types, []);
}

async fn jobs_in_every_state_keep_their_type(queue: Subject) {
    queue.add([delayed(5000, "g", "later")]).await;
    has_jobs(&queue, 1).await;
    queue.add([job("g", "1"), job("g", "2")]).await;
    has_jobs(&queue, 3).await;
    let leased = queue.lease(2).await;
    has_jobs(&queue, 3).await;
    queue.settle(&leased[0], failed()).await;
    queue.settle(&leased[1], succeeded()).await;
    has_jobs(&queue, 2).await;
    queue.cancel("g", &["later"]).await;
    has_jobs(&queue, 1).await;
    let dead = leased[0].job.id.to_string();
    queue.requeue("g", &[&dead]).await;
    has_jobs(&queue, 1).await;
    let again = queue.lease_one().await;
    queue.settle(&again, failed()).await;
    queue.discard("g", &[&dead]).await;
    assert_eq!(remove(&queue, "t").await, TypeRemoved::Removed);
}

async fn finished_jobs_keep_the_name_of_a_removed_type(queue: Subject) {
    queue.add([job("g", "1")]).await;
    queue.serve_all(1).await;
    assert_eq!(remove(&queue, "t").await, TypeRemoved::Removed);
    let view = queue.find_job("g", "1").await.expect("it is kept");
    assert_eq!((view.type_id, view.state), (type_id("t"), JobState::Completed));
    let receipts = queue.engine.call(Enqueue { jobs: vec![job("g", "1")] }).await.expect("it is answered");
    assert_eq!(receipts.receipts, [JobReceipt::Exists { bulk: None }]);
    assert_eq!(queue.queue_view().await.types, []);
}

async fn a_cancelled_job_that_stands_in_its_lane_keeps_its_type_until_it_leaves(queue: Subject) {
    queue.add([job("g", "1")]).await;
    queue.cancel("g", &["1"]).await;
    has_jobs(&queue, 1).await;
    assert_eq!(queue.lease(1).await, []);
    assert_eq!(remove(&queue, "t").await, TypeRemoved::Removed);
}

async fn a_removed_type_makes_room_for_another(queue: Subject) {
    for number in 0..TYPES_MAX {
        queue.set_type(&format!("t{number}"), type_paused(true)).await;
    }
    let one_more = Enqueue { jobs: vec![job("g", "1")] };
    let refused = queue.engine.call(one_more.clone()).await.expect("it is answered");
    assert!(matches!(refused.receipts[0], JobReceipt::Refused { refusal: Refusal::TooManyTypes, .. }));
    assert_eq!(remove(&queue, "t7").await, TypeRemoved::Removed);
    let taken = queue.engine.call(one_more).await.expect("it is answered");
    assert_eq!(taken.receipts, [JobReceipt::Created]);
}

async fn lanes_that_stand_empty_in_order_leave_it_in_steps(queue: Subject) {
    let groups = REMOVE_TYPE_LANES_MAX + 1;
    for number in 0..groups {
        let group = format!("g{number}");
        queue.open(&group, "b").await;
        queue.add([in_bulk("b", job(&group, "1"))]).await;
        queue.cancel_bulk(&group, "b").await;
    }
    while queue.queue_view().await.sweeping > 0 {
        queue.sweep(100).await;
    }
    assert_eq!(queue.queue_view().await.active_lanes[1], groups as u64);
    assert_eq!(remove(&queue, "t").await, TypeRemoved::Again);
    assert_eq!(remove(&queue, "t").await, TypeRemoved::Removed);
    assert_eq!(queue.queue_view().await.active_lanes, [0; 3]);
    queue.add([job("g1", "2")]).await;
    assert_eq!(queue.lease_one().await.job, job_ref("g1", "2"));
}

async fn a_lane_parked_when_its_type_went_is_idle_when_it_wakes(queue: Subject) {
    queue.set_group("g", group_rate(per_second(1, 1))).await;
    queue.open("g", "b").await;
    queue.add([in_bulk("b", job("g", "1")), in_bulk("b", job("g", "2"))]).await;
    let leased = queue.lease(2).await;
    assert_eq!((leased.len(), queue.queue_view().await.parked_lanes), (1, 1));
    queue.cancel_bulk("g", "b").await;
    queue.succeed(&leased).await;
    while queue.queue_view().await.sweeping > 0 {
        queue.sweep(100).await;
    }
    assert_eq!(remove(&queue, "t").await, TypeRemoved::Removed);
    queue.advance_ms(5000);
    assert_eq!(queue.lease(1).await, []);
    let totals = queue.queue_view().await;
    assert_eq!((totals.parked_lanes, totals.active_lanes, totals.types), (0, [0; 3], vec![]));
    queue.add([job("g", "3")]).await;
    assert_eq!(ids(&queue.lease(1).await), ["3"]);
}

/// The virtual time of a lane under the removed type does not count for the new one.
async fn a_name_that_comes_back_begins_with_equal_shares(queue: Subject) {
    queue.add(jobs("a", 300)).await;
    queue.add(jobs("b", 1)).await;
    queue.serve_all(50).await;
    assert_eq!(remove(&queue, "t").await, TypeRemoved::Removed);
    let new = |group: &'static str| (0..40).map(move |number| job(group, &format!("new-{number}")));
    queue.add(new("a")).await;
    queue.add(new("b")).await;
    let leased = queue.lease(40).await;
    let of_a = leased.iter().filter(|leased| leased.job.group == group_id("a")).count();
    assert!((16..=24).contains(&of_a), "{of_a} of 40");
}
