//! `list_groups`: lists the groups with unfinished jobs, page by page, and changes nothing.

use fairlane_core::limits::LIST_GROUPS_MAX;
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    active_groups_come_page_by_page_by_name,
    a_listed_group_shows_its_settings,
    a_page_out_of_range_is_invalid,
];

async fn active_groups_come_page_by_page_by_name(queue: Subject) {
    assert_eq!(queue.groups(None, 10).await, []);
    for group in ["d", "b", "c:%", "a"] {
        queue.add(jobs(group, 2)).await;
    }
    queue.set_group("idle", weight(2)).await;
    queue.open("open", "b").await;
    let names = |lines: &[GroupLine]| lines.iter().map(|line| line.group.to_string()).collect::<Vec<_>>();
    let first = queue.groups(None, 3).await;
    assert_eq!(names(&first), ["a", "b", "c:%"]);
    assert_eq!(names(&queue.groups(Some("c:%"), 3).await), ["d"], "groups without jobs are not listed");
    assert_eq!(queue.groups(Some("d"), 3).await, []);
    assert_eq!(names(&queue.groups(Some("bb"), 1).await), ["c:%"], "`after` need not be a listed group");
    let line = &first[0];
    assert_eq!((line.backlog, line.in_flight, line.waiting, line.total, line.done), (2, 0, 0, 2, 0));
    assert_eq!(line.settings, GroupSettings::default());
    let leased = queue.lease(8).await;
    queue.succeed(&leased).await;
    assert_eq!(queue.groups(None, 10).await, []);
}

async fn a_listed_group_shows_its_settings(queue: Subject) {
    queue.add(jobs("g", 1)).await;
    let patch = GroupPatch { paused: Some(true), ..group_rate(per_second(2, 1)) };
    let settings = queue.set_group("g", GroupPatch { concurrency: Some(Some(4)), ..patch }).await;
    let line = &queue.groups(None, 1).await[0];
    assert!(line.settings.paused && line.settings.rate.is_some());
    assert_eq!(line.settings, settings);
}

async fn a_page_out_of_range_is_invalid(queue: Subject) {
    for limit in [0, LIST_GROUPS_MAX + 1] {
        let refused = queue.engine.call(ListGroups { after: None, limit }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(queue.groups(None, LIST_GROUPS_MAX).await, []);
}
