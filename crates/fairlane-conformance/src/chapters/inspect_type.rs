//! `inspect_type`: shows one type and changes nothing.

use fairlane_core::Level;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] =
    cases![an_unknown_type_is_none, a_type_shows_its_order, a_type_shows_its_ready_jobs,];

async fn an_unknown_type_is_none(queue: Subject) {
    assert_eq!(queue.find_type("t").await, None);
    queue.add([job("g", "1")]).await;
    assert_eq!(queue.find_type("u").await, None);
    assert_eq!(queue.queue_view().await.types, [type_id("t")], "inspecting creates no type");
}

async fn a_type_shows_its_order(queue: Subject) {
    queue.add([job("a", "1"), job("b", "1"), job_at(Level::Low, "a", "2")]).await;
    queue.lease_one().await;
    let view = queue.type_view("t").await;
    assert_eq!((view.in_flight, view.active_lanes), (1, [0, 1, 1]));
    assert_eq!((view.rate_milli, view.closed_until), (None, None));
    queue.set_type("t", type_rate(per_second(7, 1))).await;
    assert_eq!(queue.type_view("t").await.rate_milli, Some(7000));
}

async fn a_type_shows_its_ready_jobs(queue: Subject) {
    queue.classic(10).await;
    queue.add(jobs("g", 3)).await;
    assert_eq!(queue.type_view("t").await.ready, 0);
    queue.admit(2).await;
    let view = queue.type_view("t").await;
    assert_eq!((view.ready, view.active_lanes), (2, [0, 1, 0]));
    assert_eq!(queue.queue_view().await.active_lanes, [0, 1, 0]);
}
