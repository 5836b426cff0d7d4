//! `list_bulks`: lists a group's bulk actions, page by page, and changes nothing.

use fairlane_core::limits::{INTEGER_MAX, LIST_GROUPS_MAX};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    bulk_actions_come_page_by_page_in_the_order_they_were_opened,
    unfinished_bulk_actions_come_page_by_page_without_those_that_have_ended,
    an_unknown_group_has_no_bulk_actions,
    a_page_out_of_range_is_invalid,
];

async fn bulk_actions_come_page_by_page_in_the_order_they_were_opened(queue: Subject) {
    for id in ["z", "m:%", "a", "k", "b"] {
        queue.open("g", id).await;
        queue.open("h", id).await;
    }
    let (mut seen, mut after, mut pages) = (Vec::new(), 0, 0);
    loop {
        let BulkPage { bulks, next } = queue.bulks("g", after, 2, false).await;
        assert!(bulks.len() <= 2 && bulks.iter().all(|view| view.bulk.group == group_id("g")));
        seen.extend(bulks.iter().map(|view| view.bulk.id.to_string()));
        pages += 1;
        let Some(next) = next else { break };
        after = next;
    }
    assert_eq!((seen, pages), (["z", "m:%", "a", "k", "b"].map(String::from).to_vec(), 3));
}

async fn unfinished_bulk_actions_come_page_by_page_without_those_that_have_ended(queue: Subject) {
    for id in ["completed", "running", "cancelled", "failed", "aggregating", "new", "last"] {
        queue.open("g", id).await;
    }
    queue.add([in_bulk("running", job("g", "1"))]).await;
    queue.lease_one().await;
    queue.seal("g", "completed").await;
    let leased = queue.lease_bulk().await;
    queue.settle_bulk(&leased).await;
    queue.cancel_bulk("g", "cancelled").await;
    queue.seal("g", "failed").await;
    for leased in queue.lease_bulks(10).await {
        queue.settle_bulk_with(&leased, "", true).await;
    }
    queue.seal("g", "aggregating").await;
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let BulkPage { bulks, next } = queue.bulks("g", after, 3, true).await;
        assert!(bulks.len() <= 3 && bulks.iter().all(|view| !view.state.is_final()), "{bulks:?}");
        seen.extend(bulks.iter().map(|view| view.bulk.id.to_string()));
        let Some(next) = next else { break };
        after = next;
    }
    assert_eq!(seen, ["running", "aggregating", "new", "last"]);
}

async fn an_unknown_group_has_no_bulk_actions(queue: Subject) {
    queue.open("g", "b").await;
    for unfinished in [false, true] {
        assert_eq!(queue.bulks("h", 0, 10, unfinished).await, BulkPage { bulks: vec![], next: None });
    }
    assert_eq!(queue.find_group("h").await, None, "listing creates no group");
}

async fn a_page_out_of_range_is_invalid(queue: Subject) {
    let page = |after, limit, unfinished| ListBulks { group: group_id("g"), after, limit, unfinished };
    let wrong = [page(0, 0, true), page(0, LIST_GROUPS_MAX + 1, false), page(INTEGER_MAX, 1, false)];
    for command in wrong {
        let refused = queue.engine.call(command).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(queue.bulks("g", 0, LIST_GROUPS_MAX, false).await, BulkPage { bulks: vec![], next: None });
}
