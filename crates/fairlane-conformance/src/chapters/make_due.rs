//! `make_due`: waiting jobs become due now.

use fairlane_core::limits::MAKE_DUE_JOBS_MAX;
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    waiting_jobs_of_a_group_become_due_now,
    waiting_jobs_of_all_groups_become_due_now,
    every_reason_to_wait_is_overruled,
    jobs_made_due_pass_the_gate_again,
    nothing_that_waits_is_nothing_to_do,
    making_due_again_changes_nothing,
    page_by_page_every_job_is_reached_once,
    a_page_examines_a_bounded_number_of_jobs,
    jobs_that_are_due_already_end_the_search,
    counts_do_not_change,
    it_wakes_a_waiter,
    in_classic_the_jobs_are_promoted_and_admitted_again,
    a_request_out_of_range_is_invalid,
];

async fn waiting_jobs_of_a_group_become_due_now(queue: Subject) {
    queue.add([delayed(5000, "g", "1"), delayed(900_000, "g", "2"), delayed(5000, "h", "1")]).await;
    queue.advance_ms(10);
    assert_eq!(queue.make_due(Some("g"), 0, 100).await, MadeDue { moved: 2, next: None });
    let view = queue.job("g", "2").await;
    assert_eq!((view.state, view.until), (JobState::Waiting, Some(START.plus_ms(10))));
    assert_eq!(queue.job("h", "1").await.until, Some(START.plus_ms(5000)));
    assert_eq!(names(&queue.lease(10).await), ["g/1", "g/2"]);
}

async fn waiting_jobs_of_all_groups_become_due_now(queue: Subject) {
    queue.add([delayed(5000, "g", "1"), delayed(900_000, "h", "1"), delayed(7000, "i", "1")]).await;
    assert_eq!(queue.make_due(None, 0, 100).await, MadeDue { moved: 3, next: None });
    assert_eq!(queue.lease(10).await.len(), 3);
}

async fn every_reason_to_wait_is_overruled(queue: Subject) {
    queue.add([job("g", "retried"), job("g", "throttled"), delayed(60_000, "g", "delayed")]).await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[0], retry(60_000)).await;
    queue.settle(&leased[1], throttled(60_000, 0)).await;
    assert_eq!(queue.make_due(Some("g"), 0, 100).await.moved, 3);
    for (id, attempts, throttles) in [("retried", 1, 0), ("throttled", 0, 1), ("delayed", 0, 0)] {
        let view = queue.job("g", id).await;
        assert_eq!((view.until, view.attempts, view.throttles), (Some(START), attempts, throttles), "{id}");
    }
    assert_eq!(queue.promote(10).await.moved, 3);
}

/// Erratum Q19.
async fn jobs_made_due_pass_the_gate_again(queue: Subject) {
    queue.set_group("g", group_rate(per_second(1, 2))).await;
    queue.add((0..10).map(|number| delayed(60_000, "g", &number.to_string()))).await;
    assert_eq!(queue.make_due(Some("g"), 0, 100).await.moved, 10);
    assert_eq!(queue.lease(10).await.len(), 2);
}

async fn nothing_that_waits_is_nothing_to_do(queue: Subject) {
    assert_eq!(queue.make_due(None, 0, 100).await, MadeDue { moved: 0, next: None });
    queue.add([job("g", "1"), delayed(5000, "h", "1")]).await;
    assert_eq!(queue.make_due(Some("g"), 0, 100).await, MadeDue { moved: 0, next: None });
    assert_eq!(queue.make_due(Some("never seen"), 0, 100).await, MadeDue { moved: 0, next: None });
    assert_eq!(queue.make_due(None, 50, 100).await, MadeDue { moved: 0, next: None }, "beyond the end");
}

/// A client that lost the reply repeats the command.
async fn making_due_again_changes_nothing(queue: Subject) {
    queue.add([delayed(5000, "g", "1")]).await;
    assert_eq!(queue.make_due(Some("g"), 0, 100).await.moved, 1);
    queue.advance_ms(3);
    assert_eq!(queue.make_due(Some("g"), 0, 100).await, MadeDue { moved: 0, next: None });
    assert_eq!(queue.job("g", "1").await.until, Some(START));
}

async fn page_by_page_every_job_is_reached_once(queue: Subject) {
    for number in 0..30 {
        let group = ["g", "h", "i"][number as usize % 3];
        queue.add([delayed(1000 + number * 37 % 500, group, &number.to_string())]).await;
    }
    let (mut moved, mut cursor, mut pages) = (0, Some(0), 0);
    while let Some(from) = cursor {
        let made = queue.make_due(Some("h"), from, 4).await;
        (moved, cursor, pages) = (moved + made.moved, made.next, pages + 1);
        assert!(pages < 20, "it ends");
    }
    assert_eq!(moved, 10);
    let leased = queue.lease(100).await;
    assert_eq!((leased.len(), count_of("h", &leased)), (10, 10));
}

async fn a_page_examines_a_bounded_number_of_jobs(queue: Subject) {
    queue.add((0..6).map(|number| delayed(1000 + number, "far", &number.to_string()))).await;
    queue.add((0..3).map(|number| delayed(100 + number, "near", &number.to_string()))).await;
    let first = queue.make_due(Some("near"), 0, 6).await;
    assert_eq!(first, MadeDue { moved: 0, next: Some(6) }, "the later ones were examined");
    let second = queue.make_due(Some("near"), 6, 3).await;
    assert_eq!(second.moved, 3);
    assert_eq!(queue.make_due(Some("far"), 0, 2).await, MadeDue { moved: 2, next: Some(0) });
}

async fn jobs_that_are_due_already_end_the_search(queue: Subject) {
    queue.add((0..5).map(|number| delayed(10 + number, "g", &number.to_string()))).await;
    queue.add([delayed(5000, "g", "later")]).await;
    queue.advance_ms(20);
    assert_eq!(queue.make_due(Some("g"), 0, 3).await, MadeDue { moved: 1, next: None });
    assert_eq!(queue.job("g", "0").await.until, Some(START.plus_ms(10)), "its time stays");
}

/// Erratum Q24.
async fn counts_do_not_change(queue: Subject) {
    queue.add([delayed(5000, "g", "1"), delayed(6000, "g", "2")]).await;
    let before = (queue.queue_view().await, queue.group("g").await);
    assert_eq!(queue.make_due(Some("g"), 0, 100).await.moved, 2);
    assert_eq!((queue.queue_view().await, queue.group("g").await), before);
    assert_eq!(queue.promote(10).await.moved, 2);
    assert_eq!((queue.queue_view().await.waiting, queue.group("g").await.waiting), (0, 0));
}

async fn it_wakes_a_waiter(queue: Subject) {
    queue.add([delayed(5000, "g", "1")]).await;
    queue.drain_wakes().await;
    queue.make_due(Some("g"), 0, 100).await;
    assert!(queue.is_woken().await);
}

/// Erratum Q19.
async fn in_classic_the_jobs_are_promoted_and_admitted_again(queue: Subject) {
    queue.classic(2).await;
    queue.add(jobs("g", 6)).await;
    assert_eq!(refusals(&queue.admit(10).await).len(), 4);
    assert_eq!(queue.make_due(Some("g"), 0, 100).await.moved, 4);
    assert_eq!(queue.congestion("g").await.waiting, 4, "due is not yet promoted");
    assert_eq!(queue.promote(10).await.moved, 4);
    assert_eq!(queue.congestion("g").await.waiting, 0);
    assert_eq!(queue.lease(10).await.len(), 2, "only what was admitted runs");
    assert_eq!(ready(&queue.admit(10).await), [""; 0], "the window is still used up");
}

async fn a_request_out_of_range_is_invalid(queue: Subject) {
    queue.add([delayed(5000, "g", "1")]).await;
    let with = |jobs_max, cursor| MakeDue { group: None, cursor, jobs_max };
    let wrong =
        [with(0, 0), with(MAKE_DUE_JOBS_MAX + 1, 0), with(1, u64::from(u32::MAX) + 1), with(1, u64::MAX)];
    for command in wrong {
        assert!(matches!(queue.engine.call(command).await, Err(EngineError::Invalid(_))));
    }
    assert_eq!(queue.job("g", "1").await.until, Some(START.plus_ms(5000)));
    assert_eq!(queue.make_due(None, 0, MAKE_DUE_JOBS_MAX).await.moved, 1);
}
