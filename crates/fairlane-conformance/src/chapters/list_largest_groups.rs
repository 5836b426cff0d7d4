//! `list_largest_groups`: lists the groups with unfinished jobs, the largest backlogs first, page by
//! page, and changes nothing.

use fairlane_core::limits::LIST_GROUPS_MAX;
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    groups_come_by_the_magnitude_of_their_backlog,
    pages_have_every_group_once,
    a_group_that_was_drained_falls,
    a_backlog_around_a_power_of_two_keeps_its_place,
    delayed_and_held_jobs_count,
    a_position_need_not_be_a_listed_group,
    a_page_out_of_range_is_invalid,
];

fn names(page: &LargestGroups) -> Vec<String> {
    page.groups.iter().map(|line| line.group.to_string()).collect()
}

async fn groups_come_by_the_magnitude_of_their_backlog(queue: Subject) {
    assert_eq!(queue.largest(None, 10).await, LargestGroups { groups: vec![], next: None });
    for (group, count) in [("two", 2), ("forty", 40), ("hundred", 100), ("one", 1), ("c:%", 9), ("ten", 10)] {
        queue.add(jobs(group, count)).await;
    }
    queue.set_group("idle", weight(2)).await;
    let page = queue.largest(None, 20).await;
    assert_eq!(names(&page), ["hundred", "forty", "ten", "c:%", "one", "two"]);
    assert_eq!(page.next, None);
    let line = &page.groups[0];
    assert_eq!((line.backlog, line.in_flight, line.total), (100, 0, 100));
    assert_eq!(page.groups, {
        let mut lines = queue.groups(None, 10).await;
        lines.sort_by_key(|line| page.groups.iter().position(|other| other.group == line.group));
        lines
    });
}

async fn pages_have_every_group_once(queue: Subject) {
    for number in 0..23 {
        queue.add(jobs(&format!("g{number:02}"), [1, 8, 16, 9][number % 4])).await;
    }
    let all = names(&queue.largest(None, 100).await);
    assert_eq!(all.len(), 23);
    for limit in [1, 2, 3, 7, 17, 23] {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = queue.largest(after, limit).await;
            assert!(page.groups.len() <= limit, "{limit}");
            listed.extend(names(&page));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(listed, all, "{limit}");
    }
}

async fn a_group_that_was_drained_falls(queue: Subject) {
    queue.add(jobs("large", 64)).await;
    queue.add(jobs("small", 20)).await;
    queue.set_group("small", GroupPatch { paused: Some(true), ..GroupPatch::default() }).await;
    assert_eq!(names(&queue.largest(None, 2).await), ["large", "small"]);
    let leased = queue.lease(63).await;
    assert_eq!(leased.len(), 63);
    assert_eq!(names(&queue.largest(None, 2).await), ["small", "large"]);
    assert_eq!(queue.largest(None, 2).await.groups[1].in_flight, 63);
    queue.succeed(&leased).await;
    let last = queue.lease(2).await;
    queue.succeed(&last).await;
    assert_eq!(names(&queue.largest(None, 2).await), ["small"], "a group without jobs is not listed");
}

async fn a_backlog_around_a_power_of_two_keeps_its_place(queue: Subject) {
    queue.add(jobs("a", 16)).await;
    queue.add(jobs("b", 8)).await;
    queue.set_group("b", GroupPatch { paused: Some(true), ..GroupPatch::default() }).await;
    for round in 0..3 {
        let leased = queue.lease(8).await;
        assert_eq!(leased.len(), 8);
        let page = queue.largest(None, 2).await;
        assert_eq!((names(&page), page.groups[0].backlog), (vec!["a".into(), "b".into()], 8), "{round}");
        queue.succeed(&leased).await;
        queue.add((0..8).map(|number| job("a", &format!("{round}-{number}")))).await;
        assert_eq!(names(&queue.largest(None, 2).await), ["a", "b"], "{round}");
    }
    queue.lease(9).await;
    assert_eq!(names(&queue.largest(None, 2).await), ["b", "a"], "less than half is left");
}

async fn delayed_and_held_jobs_count(queue: Subject) {
    queue.add(jobs("ready", 9)).await;
    queue.add((0..20).map(|number| NewJob { delay_ms: 60_000, ..job("later", &number.to_string()) })).await;
    queue.open("held", "b").await;
    queue.add((0..40).map(|number| in_bulk("b", job("held", &number.to_string())))).await;
    assert_eq!(names(&queue.largest(None, 3).await), ["held", "later", "ready"]);
    let page = queue.largest(None, 3).await;
    assert_eq!((page.groups[1].backlog, page.groups[1].waiting), (20, 20));
}

async fn a_position_need_not_be_a_listed_group(queue: Subject) {
    for group in ["a", "c"] {
        queue.add(jobs(group, 9)).await;
        queue.add(jobs(&format!("{group}-small"), 1)).await;
    }
    let after = |magnitude, group: &str| Some(LargestCursor { magnitude, group: group_id(group) });
    assert_eq!(names(&queue.largest(after(4, "b"), 1).await), ["a"]);
    assert_eq!(names(&queue.largest(after(64, "z"), 2).await), ["c", "a"]);
    assert_eq!(names(&queue.largest(after(1, "z"), 3).await), ["a-small"], "the rest comes by name");
    assert_eq!(names(&queue.largest(after(0, "b"), 10).await), ["c-small"]);
}

async fn a_page_out_of_range_is_invalid(queue: Subject) {
    for limit in [0, LIST_GROUPS_MAX + 1] {
        let refused = queue.engine.call(ListLargestGroups { after: None, limit }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
    let after = Some(LargestCursor { magnitude: 65, group: group_id("g") });
    let refused = queue.engine.call(ListLargestGroups { after, limit: 1 }).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
}
