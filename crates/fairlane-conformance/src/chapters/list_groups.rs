//! `list_groups`: lists the groups with unfinished jobs, page by page, and changes nothing.

use fairlane_core::limits::{GROUP_IDLE_MS, LIST_GROUPS_MAX};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    active_groups_come_page_by_page_by_name,
    a_listed_group_shows_its_settings,
    groups_with_settings_are_listed_on_request,
    a_group_with_settings_is_listed_once,
    a_group_with_settings_is_not_forgotten,
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

async fn groups_with_settings_are_listed_on_request(queue: Subject) {
    assert_eq!(queue.all_groups(None, 10).await, [""; 0]);
    for group in ["e", "b", "c:%"] {
        queue.set_group(group, weight(3)).await;
    }
    queue.set_group("plain", weight(1)).await;
    queue.open("open", "b").await;
    queue.add_dead(job("dead", "1")).await;
    queue.add([job("d", "1")]).await;
    assert_eq!(queue.all_groups(None, 10).await, ["b", "c:%", "d", "e"]);
    assert_eq!(queue.all_groups(None, 3).await, ["b", "c:%", "d"]);
    assert_eq!(queue.all_groups(Some("d"), 3).await, ["e"]);
    assert_eq!(queue.all_groups(Some("bb"), 1).await, ["c:%"], "`after` need not be a listed group");
    let command = ListGroups { after: Some(group_id("d")), limit: 1, all: true };
    let line = queue.engine.call(command).await.expect("list_groups is answered").remove(0);
    assert_eq!((line.backlog, line.in_flight, line.waiting, line.total, line.done), (0, 0, 0, 0, 0));
    assert_eq!((line.settings.weight.get(), line.backoff_ms), (3, 0));

    queue.set_group("b", GroupPatch { paused: Some(true), ..weight(1) }).await;
    queue.set_group("e", weight(1)).await;
    assert_eq!(queue.all_groups(None, 10).await, ["b", "c:%", "d"], "other settings than the weight remain");
    queue.set_group("b", GroupPatch { paused: Some(false), ..GroupPatch::default() }).await;
    assert_eq!(queue.all_groups(None, 10).await, ["c:%", "d"], "default settings are none");
}

async fn a_group_with_settings_is_listed_once(queue: Subject) {
    for group in ["a", "b", "c"] {
        queue.set_group(group, weight(2)).await;
    }
    queue.add([job("b", "1"), job("bb", "1"), job("d", "1")]).await;
    for limit in 1..7 {
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = queue.all_groups(after.as_deref(), limit).await;
            after = page.last().cloned();
            let is_last = page.len() < limit;
            found.extend(page);
            if is_last {
                break;
            }
        }
        assert_eq!(found, ["a", "b", "bb", "c", "d"], "in pages of {limit}");
    }
    let leased = queue.lease(3).await;
    queue.succeed(&leased).await;
    assert_eq!(queue.all_groups(None, 10).await, ["a", "b", "c"]);
}

async fn a_group_with_settings_is_not_forgotten(queue: Subject) {
    for group in ["kept", "reset"] {
        queue.set_group(group, weight(2)).await;
    }
    queue.set_group("reset", weight(1)).await;
    for _ in 0..3 {
        queue.advance_ms(GROUP_IDLE_MS + 1);
        queue.sweep(10).await;
    }
    assert_eq!(queue.all_groups(None, 10).await, ["kept"]);
    assert_eq!(queue.find_group("reset").await, None);
}

async fn a_page_out_of_range_is_invalid(queue: Subject) {
    for limit in [0, LIST_GROUPS_MAX + 1] {
        for all in [false, true] {
            let refused = queue.engine.call(ListGroups { after: None, limit, all }).await;
            assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
        }
    }
    assert_eq!(queue.groups(None, LIST_GROUPS_MAX).await, []);
}
