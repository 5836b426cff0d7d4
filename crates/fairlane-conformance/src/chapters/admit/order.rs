//! The order of groups: age, base priority and progress.

use fairlane_core::Level;
use fairlane_core::queue::*;

use crate::subject::*;

/// Group `a` with 16 of 20 jobs done and one more just admitted; group `b` with nothing done, just
/// entered.
async fn much_and_little_done(queue: &Subject, alpha: i64) {
    queue.set_queue(Settings { alpha, ..classic(10_000) }).await;
    queue.add(jobs("a", 20)).await;
    queue.admit(16).await;
    let leased = queue.lease(16).await;
    queue.succeed(&leased).await;
    let view = queue.group("a").await;
    assert_eq!((view.total, view.done), (20, 16));
    assert_eq!(queue.admit_ready(1).await, ["a/17"]);
    queue.add(jobs("b", 20)).await;
}

pub(super) async fn the_oldest_group_goes_first_and_being_served_moves_it_back(queue: Subject) {
    queue.classic(10_000).await;
    for group in ["c", "b", "a"] {
        queue.add(jobs(group, 2)).await;
        queue.advance_ms(10);
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        order.extend(queue.admit_ready(1).await);
        queue.advance_ms(10);
    }
    assert_eq!(order, ["c/1", "b/1", "a/1", "c/2", "b/2", "a/2"]);
}

/// Erratum Q33.
pub(super) async fn two_groups_take_turns_by_score(queue: Subject) {
    queue.classic(10_000).await;
    queue.add(jobs("customer-A", 3)).await;
    queue.add(jobs("customer-B", 3)).await;
    let served = names(&queue.serve_classic(6).await);
    let expected =
        ["customer-A/1", "customer-B/1", "customer-A/2", "customer-B/2", "customer-A/3", "customer-B/3"];
    assert_eq!(served, expected, "not three of one and then three of the other");
}

/// Erratum Q8.
pub(super) async fn groups_of_one_moment_take_turns(queue: Subject) {
    queue.classic(10_000).await;
    let groups: Vec<String> = (0..20).map(|number| format!("group {number:02}")).collect();
    for group in groups.iter().rev() {
        queue.add(jobs(group, 4)).await;
    }
    let passed = queue.admit_ready(40).await;
    for group in &groups {
        let count = passed.iter().filter(|name| name.starts_with(group.as_str())).count();
        assert_eq!(count, 2, "{group}");
    }
}

/// Erratum Q1.
pub(super) async fn a_further_enqueue_does_not_renew_a_stamp(queue: Subject) {
    queue.set_queue(Settings { alpha: 0, ..classic(10_000) }).await;
    queue.add(jobs("busy", 8)).await;
    queue.add(jobs("quiet", 100)).await;
    let mut served = Vec::new();
    for round in 0..40 {
        queue.advance_ms(1);
        queue.add([job("busy", &format!("more {round}"))]).await;
        served.extend(queue.serve_classic(1).await);
    }
    assert_eq!((count_of("busy", &served), count_of("quiet", &served)), (20, 20));
}

pub(super) async fn a_base_priority_goes_first(queue: Subject) {
    queue.classic(10_000).await;
    queue.set_group("premium", base_priority(1_000_000)).await;
    queue.add(jobs("ordinary", 3)).await;
    queue.advance_ms(5000);
    queue.add(jobs("premium", 3)).await;
    let expected = ["premium/1", "premium/2", "premium/3", "ordinary/1"];
    assert_eq!(queue.admit_ready(4).await, expected, "although it came later");
}

pub(super) async fn a_negative_base_priority_goes_last(queue: Subject) {
    queue.classic(10_000).await;
    queue.set_group("low", base_priority(-1_000_000)).await;
    queue.add(jobs("low", 2)).await;
    queue.advance_ms(5000);
    queue.add(jobs("ordinary", 2)).await;
    assert_eq!(queue.admit_ready(4).await, ["ordinary/1", "ordinary/2", "low/1", "low/2"]);
}

pub(super) async fn a_base_priority_is_worth_its_time_and_no_more(queue: Subject) {
    queue.set_queue(Settings { alpha: 0, ..classic(10_000) }).await;
    queue.set_group("premium", base_priority(2000)).await;
    queue.add(jobs("ordinary", 3)).await;
    queue.advance_ms(1999);
    queue.add(jobs("premium", 3)).await;
    assert_eq!(queue.admit_ready(1).await, ["premium/1"], "two seconds of age are more than one wait");
    queue.advance_ms(2);
    assert_eq!(queue.admit_ready(1).await, ["premium/2"], "stamped when it was served, a moment ago");
    assert_eq!(queue.admit_ready(2).await, ["ordinary/1", "premium/3"], "and then the other is older");
}

pub(super) async fn with_positive_alpha_the_nearly_finished_go_first(queue: Subject) {
    much_and_little_done(&queue, 10_000).await;
    assert_eq!(queue.admit_ready(4).await, ["a/18", "a/19", "a/20", "b/1"]);
}

pub(super) async fn with_negative_alpha_the_much_served_step_back(queue: Subject) {
    much_and_little_done(&queue, -10_000).await;
    let passed = queue.admit_ready(20).await;
    assert!(passed.iter().all(|name| name.starts_with("b/")), "{passed:?}");
    assert_eq!(queue.admit_ready(1).await, ["a/18"], "and is not forgotten");
}

pub(super) async fn with_no_alpha_progress_counts_for_nothing(queue: Subject) {
    much_and_little_done(&queue, 0).await;
    assert_eq!(queue.admit_ready(4).await, ["a/18", "b/1", "a/19", "b/2"]);
}

/// Erratum Q3.
pub(super) async fn a_group_that_went_idle_starts_its_run_anew(queue: Subject) {
    queue.set_queue(Settings { alpha: 1_000_000, ..classic(10_000) }).await;
    queue.add(jobs("returning", 50)).await;
    queue.admit(50).await;
    let leased = queue.lease(50).await;
    queue.succeed(&leased).await;
    let view = queue.group("returning").await;
    assert_eq!((view.total, view.done), (0, 0));
    queue.add(jobs("steady", 3)).await;
    let second = (0..3).map(|number| job("returning", &format!("second {number}")));
    queue.add(second).await;
    let passed = queue.admit_ready(3).await;
    assert_eq!(passed, ["steady/1", "returning/second 0", "steady/2"], "its past gives it nothing");
    let view = queue.group("returning").await;
    assert_eq!((view.total, view.done), (3, 0));
}

pub(super) async fn levels_are_strict(queue: Subject) {
    queue.classic(10_000).await;
    for level in [Level::Low, Level::Normal, Level::High] {
        queue.add((0..3).map(|number| job_at(level, "g", &format!("{level} {number}")))).await;
        queue.advance_ms(1000);
    }
    queue.admit(9).await;
    let levels: Vec<Level> = queue.lease(9).await.iter().map(|job| job.level).collect();
    assert!(levels.is_sorted() && levels.len() == 9, "{levels:?}");
}

pub(super) async fn types_take_turns(queue: Subject) {
    queue.classic(10_000).await;
    for name in ["x", "y", "z"] {
        queue.add((0..4).map(|number| job_of(name, "g", &format!("{name}{number}")))).await;
    }
    let first = queue.admit_ready(4).await;
    let second = queue.admit_ready(2).await;
    assert_eq!(first, ["g/x0", "g/y0", "g/z0", "g/x1"]);
    assert_eq!(second, ["g/y1", "g/z1"], "the next call goes on where this one ended");
}

/// Erratum Q7. Erratum Q35.
pub(super) async fn jobs_of_a_lane_are_admitted_in_the_order_they_came(queue: Subject) {
    queue.classic(10_000).await;
    queue.add(jobs("g", 30)).await;
    let expected: Vec<String> = (1..=30).map(|number| number.to_string()).collect();
    queue.admit(11).await;
    queue.admit(19).await;
    let mut served = ids(&queue.lease(7).await);
    served.extend(ids(&queue.lease(100).await));
    assert_eq!(served, expected);
}

pub(super) async fn what_was_enqueued_is_what_is_taken(queue: Subject) {
    queue.classic(10_000).await;
    queue.add([NewJob { payload: bytes("payload"), ..job("customer-A", "job-001") }]).await;
    let served = queue.serve_classic(1).await;
    assert_eq!(names(&served), ["customer-A/job-001"]);
    assert_eq!((&*served[0].payload, served[0].attempt), (&b"payload"[..], 1));
}
