//! `inspect_group`: shows one group with its lanes and changes nothing.

use fairlane_core::Level;
use fairlane_core::queue::*;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![an_unknown_group_is_none, a_group_shows_its_lanes, a_group_shows_its_run,];

async fn an_unknown_group_is_none(queue: Subject) {
    assert_eq!(queue.find_group("g").await, None);
    queue.add([job("g", "1")]).await;
    assert_eq!(queue.find_group("h").await, None);
}

async fn a_group_shows_its_lanes(queue: Subject) {
    queue.add([job_of("b", "g", "1"), job_of("a", "g", "2"), job_of("a", "g", "3")]).await;
    queue.add([NewJob { level: Level::High, ..job_of("b", "g", "4") }, delayed(100, "g", "5")]).await;
    let view = queue.group("g").await;
    assert_eq!((view.backlog, view.in_flight, view.settings), (5, 0, GroupSettings::default()));
    let lane = |level, name: &str, backlog| LaneView {
        level,
        type_id: type_id(name),
        backlog,
        returned: 0,
        standing: LaneStanding::Active,
    };
    let expected = [lane(Level::High, "b", 1), lane(Level::Normal, "a", 2), lane(Level::Normal, "b", 1)];
    assert_eq!(view.lanes, expected, "by level and type; a waiting job is in no lane");
    queue.lease_of(&["a"], 10).await;
    assert_eq!(queue.group("g").await.lanes.len(), 2, "an empty lane is not shown");
}

async fn a_group_shows_its_run(queue: Subject) {
    queue.add([job("g", "1"), job("g", "2"), delayed(1000, "g", "3")]).await;
    let leased = queue.lease(1).await;
    queue.succeed(&leased).await;
    queue.lease(1).await;
    let view = queue.group("g").await;
    assert_eq!((view.total, view.done, view.waiting), (3, 1, 1));
    assert_eq!((view.backlog, view.in_flight), (1, 1));
}
