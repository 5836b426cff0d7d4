//! `explain`: one reason, named before all others, and when the job may start.

use fairlane_core::limits::{LIST_JOBS_MAX, VISIT_SKIPS_MAX, WORKER_SILENCE_MS};
use fairlane_core::queue::*;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    an_unknown_job_has_no_explanation,
    a_job_whose_turn_has_not_come_says_how_many_are_ahead,
    a_group_at_its_rate_is_named_with_its_rate_and_an_estimate,
    the_sentence_of_a_long_lane_is_the_one_of_the_manual,
    a_position_is_found_among_jobs_enqueued_together,
    a_job_that_came_back_is_among_the_first,
    a_type_at_its_rate_is_named,
    a_type_cut_after_refusals_is_named_with_the_rate_in_effect,
    of_several_used_up_rates_the_last_to_open_is_named,
    the_queue_at_its_rate_is_named,
    a_downstream_that_asked_for_silence_is_named_until_it_opens,
    a_group_out_of_seats_is_named,
    a_type_out_of_seats_is_named,
    a_paused_group_or_type_is_named_before_limits,
    a_type_without_lease_requests_is_named,
    a_running_job_names_its_worker_and_lease,
    a_running_job_that_is_cancelled_says_so,
    a_delayed_job_says_when_it_is_due,
    a_retry_says_its_number_and_the_reason_of_the_last,
    a_throttled_or_lost_job_says_so,
    a_held_bulk_action_is_named,
    a_resumed_bulk_action_puts_its_jobs_back,
    a_job_behind_a_lane_being_cleared_says_so,
    a_dropped_bulk_action_is_named_with_its_cause,
    what_has_ended_says_how,
    what_has_ended_says_how_after_its_type_was_removed,
    classic_names_the_window_the_ready_list_and_the_worker,
    explaining_changes_nothing,
];

async fn explain(queue: &Subject, group: &str, id: &str) -> Explanation {
    let command = Explain { job: job_ref(group, id) };
    let explained = queue.engine.call(command).await.expect("explain is answered");
    *explained.0.expect("the job is there")
}

/// Asserts the reason and the sentence of an explanation.
async fn says(queue: &Subject, id: &str, reason: Reason, sentence: &str) {
    let explanation = explain(queue, "g", id).await;
    assert_eq!((explanation.reason(), explanation.sentence().as_str()), (reason, sentence));
    let facts = explanation.facts();
    assert!(facts.iter().all(|(label, text)| !label.is_empty() && !text.is_empty()), "{facts:?}");
}

/// A worker requests jobs of type `t` and gets none.
async fn request_a_lease(queue: &Subject) {
    queue.set_type("t", type_paused(true)).await;
    assert_eq!(queue.lease(1).await, []);
    queue.set_type("t", type_paused(false)).await;
}

async fn an_unknown_job_has_no_explanation(queue: Subject) {
    queue.add([job("g", "1")]).await;
    for (group, id) in [("g", "2"), ("h", "1")] {
        let command = Explain { job: job_ref(group, id) };
        assert_eq!(queue.engine.call(command).await.expect("explain is answered"), Explained(None));
    }
}

async fn a_job_whose_turn_has_not_come_says_how_many_are_ahead(queue: Subject) {
    for number in 1..=20 {
        queue.add([job("g", &number.to_string())]).await;
        queue.advance_ms(1);
    }
    queue.add([job("h", "1"), job("i", "1")]).await;
    request_a_lease(&queue).await;
    let explanation = explain(&queue, "g", "13").await;
    assert_eq!(
        (explanation.position, explanation.ahead(), explanation.sharing_lanes()),
        (Some(12), Some(12), 3)
    );
    says(&queue, "13", Reason::Turn, "its turn has not come; 12 jobs ahead; 2 other lanes share type t")
        .await;
    let first = "its turn has not come; it is the next of its lane; 2 other lanes share type t";
    says(&queue, "1", Reason::Turn, first).await;
}

async fn a_group_at_its_rate_is_named_with_its_rate_and_an_estimate(queue: Subject) {
    queue.set_group("g", group_rate(per_second(2, 1))).await;
    for number in 1..=6 {
        queue.add([job("g", &number.to_string())]).await;
        queue.advance_ms(1);
    }
    assert_eq!(queue.lease(1).await.len(), 1);
    let sentence = "g is at its limit of 2/s; 4 jobs ahead; starts in about 2 s (an estimate)";
    says(&queue, "6", Reason::GroupRate, sentence).await;
    let next = "g is at its limit of 2/s; it is the next of its lane; starts in about 500 ms (an estimate)";
    says(&queue, "2", Reason::GroupRate, next).await;
    queue.advance_ms(3000);
    assert_eq!(explain(&queue, "g", "6").await.reason(), Reason::Turn, "the rate allows one again");
}

async fn the_sentence_of_a_long_lane_is_the_one_of_the_manual(queue: Subject) {
    queue.set_group("customer-A", group_rate(per_second(100, 1))).await;
    let mut waiting = jobs("customer-A", 4400);
    for step in waiting.chunks_mut(LIST_JOBS_MAX / 10) {
        queue.add(step.to_vec()).await;
        queue.advance_ms(1);
    }
    assert_eq!(queue.lease(1).await.len(), 1);
    let explanation = explain(&queue, "customer-A", "4212").await;
    assert_eq!(
        explanation.sentence(),
        "customer-A is at its limit of 100/s; 4,210 jobs ahead; starts in about 42 s (an estimate)"
    );
    assert_eq!(explanation.starts_in_us(), Some(42_100_000));
}

async fn a_position_is_found_among_jobs_enqueued_together(queue: Subject) {
    queue.add(jobs("g", 150)).await;
    queue.advance_ms(1);
    queue.add((0..150).map(|number| job("g", &format!("later{number}")))).await;
    assert_eq!(explain(&queue, "g", "150").await.position, Some(149));
    assert_eq!(explain(&queue, "g", "later149").await.position, Some(299));
}

async fn a_job_that_came_back_is_among_the_first(queue: Subject) {
    queue.add(jobs("g", 10)).await;
    let leased = queue.lease(3).await;
    for job in &leased[1..] {
        queue.settle(job, retry(0)).await;
    }
    queue.promote(10).await;
    let explanation = explain(&queue, "g", "3").await;
    assert_eq!((explanation.position, explanation.ahead()), (None, Some(1)));
    let sentence = "its turn has not come; it is among the 2 jobs of its lane that go first; \
                    starts in about 500 ms (an estimate)";
    assert_eq!(explanation.sentence(), sentence);
    assert_eq!(explain(&queue, "g", "4").await.ahead(), Some(2), "those come before the backlog");
}

async fn a_type_at_its_rate_is_named(queue: Subject) {
    queue.set_type("t", type_rate(per_second(10, 1))).await;
    queue.add(jobs("g", 5)).await;
    queue.add(jobs("h", 5)).await;
    queue.lease(1).await;
    let sentence = "type t is at its limit of 10/s; 3 jobs ahead; starts in about 600 ms (an estimate)";
    says(&queue, "5", Reason::TypeRate, sentence).await;
}

async fn a_type_cut_after_refusals_is_named_with_the_rate_in_effect(queue: Subject) {
    queue.set_type("t", type_rate(per_second(100, 3))).await;
    queue.add(jobs("g", 9)).await;
    let leased = queue.lease(3).await;
    queue.settle(&leased[0], throttled(60_000, 0)).await;
    queue.lease(3).await;
    let explanation = explain(&queue, "g", "9").await;
    assert_eq!(explanation.reason(), Reason::TypeRate);
    let start = "type t is slowed to 0.1/s after refusals; ";
    assert!(explanation.sentence().starts_with(start), "{}", explanation.sentence());
}

async fn of_several_used_up_rates_the_last_to_open_is_named(queue: Subject) {
    queue.set_type("t", type_rate(per_second(10, 1))).await;
    queue.set_group("g", group_rate(per_second(2, 1))).await;
    queue.add(jobs("g", 5)).await;
    queue.lease(1).await;
    assert_eq!(explain(&queue, "g", "5").await.reason(), Reason::GroupRate);
    queue.set_group("g", group_rate(per_second(50, 1))).await;
    queue.advance_ms(50);
    assert_eq!(explain(&queue, "g", "5").await.reason(), Reason::TypeRate);
}

async fn the_queue_at_its_rate_is_named(queue: Subject) {
    queue.set_queue(Settings { rate: Some(per_second(4, 1)), ..Settings::default() }).await;
    queue.add(jobs("g", 5)).await;
    queue.lease(1).await;
    let sentence = "the queue is at its limit of 4/s; 3 jobs ahead; starts in about 750 ms (an estimate)";
    says(&queue, "5", Reason::QueueRate, sentence).await;
}

async fn a_downstream_that_asked_for_silence_is_named_until_it_opens(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease(1).await;
    queue.settle(&leased[0], throttled(30_000, 12_000)).await;
    queue.advance_ms(2000);
    let explanation = explain(&queue, "g", "3").await;
    assert_eq!(explanation.reason(), Reason::DownstreamClosed);
    let start = "the downstream of type t asked for silence (Retry-After) for another 10 s, unless \
                 `fairlane type set t --resume` opens it before; 1 job ahead; ";
    assert!(explanation.sentence().starts_with(start), "{}", explanation.sentence());
    assert!(explanation.starts_in_us() >= Some(10_000_000));
    queue.advance_ms(10_000);
    assert_ne!(explain(&queue, "g", "3").await.reason(), Reason::DownstreamClosed);
}

async fn a_group_out_of_seats_is_named(queue: Subject) {
    queue.set_group("g", group_seats(2)).await;
    queue.add(jobs("g", 5)).await;
    let leased = queue.lease(5).await;
    says(&queue, "4", Reason::GroupSeats, "g has all its 2 seats in use; 1 job ahead").await;
    queue.succeed(&leased[..1]).await;
    assert_eq!(explain(&queue, "g", "4").await.reason(), Reason::Turn);
}

async fn a_type_out_of_seats_is_named(queue: Subject) {
    queue.set_type("t", type_seats(2)).await;
    queue.add(jobs("g", 5)).await;
    queue.lease(5).await;
    says(&queue, "3", Reason::TypeSeats, "type t has all its 2 seats in use; it is the next of its lane")
        .await;
}

async fn a_paused_group_or_type_is_named_before_limits(queue: Subject) {
    queue.set_group("g", GroupPatch { paused: Some(true), ..group_rate(per_second(1, 1)) }).await;
    queue.add(jobs("g", 2)).await;
    queue.lease(1).await;
    says(&queue, "2", Reason::GroupPaused, "g is paused; 1 job ahead").await;
    queue.set_group("g", group_paused(false)).await;
    queue.set_type("t", type_paused(true)).await;
    says(&queue, "2", Reason::TypePaused, "type t is paused; 1 job ahead").await;
}

async fn a_type_without_lease_requests_is_named(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let never = "no worker has ever asked for jobs of type t; it is the next of its lane";
    says(&queue, "1", Reason::NoWorker, never).await;
    queue.lease(1).await;
    assert_eq!(explain(&queue, "g", "2").await.reason(), Reason::Turn);
    queue.advance_ms(WORKER_SILENCE_MS + 60_000);
    let sentence = "no worker has asked for jobs of type t for 2 min (1 job is running); \
                    it is the next of its lane";
    says(&queue, "2", Reason::NoWorker, sentence).await;
}

async fn a_running_job_names_its_worker_and_lease(queue: Subject) {
    queue.add([job("g", "1")]).await;
    queue.lease(1).await;
    queue.advance_ms(12_000);
    let sentence = "worker worker has been running it for 12 s (attempt 1); its lease ends in 18 s";
    says(&queue, "1", Reason::Running, sentence).await;
    queue.advance_ms(20_000);
    let late = "worker worker has been running it for 32 s (attempt 1); \
                its lease has run out and will be taken back";
    says(&queue, "1", Reason::Running, late).await;
}

async fn a_running_job_that_is_cancelled_says_so(queue: Subject) {
    queue.open_with_jobs("g", "b", 1).await;
    queue.add([job("g", "1")]).await;
    queue.lease(2).await;
    queue.cancel("g", &["1"]).await;
    assert_eq!(explain(&queue, "g", "1").await.reason(), Reason::Unwanted);
    assert!(explain(&queue, "g", "1").await.sentence().contains("its cancellation was requested"));
    assert_eq!(explain(&queue, "g", "b1").await.reason(), Reason::Running);
    queue.cancel_bulk("g", "b").await;
    assert_eq!(explain(&queue, "g", "b1").await.reason(), Reason::Unwanted);
}

async fn a_delayed_job_says_when_it_is_due(queue: Subject) {
    queue.add([delayed(90_000, "g", "1"), job("g", "2")]).await;
    queue.advance_ms(1000);
    says(&queue, "1", Reason::Delayed, "it is delayed and due in 89 s").await;
    assert_eq!(explain(&queue, "g", "1").await.starts_in_us(), Some(89_000_000));
    queue.advance_ms(88_000);
    queue.lease(1).await;
    queue.advance_ms(1000);
    let due = "it is due and goes back to its lane with the next lease";
    says(&queue, "1", Reason::Due, due).await;
}

async fn a_retry_says_its_number_and_the_reason_of_the_last(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, retry(5000)).await;
    says(&queue, "1", Reason::Retrying, "it is tried again in 5 s (retry 1 of 3): again").await;
    queue.set_type("t", type_retries(Some(9))).await;
    says(&queue, "1", Reason::Retrying, "it is tried again in 5 s (retry 1 of 9): again").await;
}

async fn a_throttled_or_lost_job_says_so(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[0], throttled(5000, 0)).await;
    says(&queue, "1", Reason::Throttled, "the downstream has refused it 1 time; it is tried again in 5 s")
        .await;
    queue.end_reclaim_grace().await;
    assert_eq!(queue.reclaim(1).await.recovered + explain(&queue, "g", "2").await.job.losses as usize, 1);
    let explanation = explain(&queue, "g", "2").await;
    assert_eq!((explanation.job.losses, explanation.reason()), (1, Reason::Due));
}

async fn a_held_bulk_action_is_named(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.hold("g", "b").await;
    says(&queue, "b2", Reason::BulkHeld, "its bulk action b is held; 1 job ahead").await;
    queue.lease(10).await;
    says(&queue, "b2", Reason::BulkHeld, "its bulk action b is held").await;
}

async fn a_resumed_bulk_action_puts_its_jobs_back(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.hold("g", "b").await;
    queue.lease(10).await;
    queue.resume("g", "b").await;
    let sentence = "its bulk action b was resumed, and its jobs are being put back";
    says(&queue, "b2", Reason::BulkResuming, sentence).await;
    queue.sweep(10).await;
    assert_eq!(explain(&queue, "g", "b2").await.reason(), Reason::Turn);
}

async fn a_job_behind_a_lane_being_cleared_says_so(queue: Subject) {
    queue.open_with_jobs("g", "b", VISIT_SKIPS_MAX + 5).await;
    queue.add([job("g", "own")]).await;
    queue.hold("g", "b").await;
    queue.lease(1).await;
    let sentence = "jobs before it in its lane are held or cancelled and are being taken out; 5 jobs ahead";
    says(&queue, "own", Reason::LaneClearing, sentence).await;
    says(
        &queue,
        &format!("b{}", VISIT_SKIPS_MAX + 5),
        Reason::BulkHeld,
        "its bulk action b is held; 4 jobs ahead",
    )
    .await;
}

async fn a_dropped_bulk_action_is_named_with_its_cause(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.cancel_bulk("g", "b").await;
    let cancelled = "it will not run: its bulk action b was cancelled";
    says(&queue, "b2", Reason::BulkDropped, cancelled).await;
    queue.open_within("g", "c", None, Some(0)).await;
    queue.add(jobs_in("c", "g", 2)).await;
    let leased = queue.lease(1).await;
    queue.settle(&leased[0], failed()).await;
    let failed = "it will not run: its bulk action c has failed: too many of its jobs did";
    says(&queue, "c2", Reason::BulkDropped, failed).await;
}

async fn what_has_ended_says_how(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease(2).await;
    queue.succeed(&leased[..1]).await;
    queue.settle(&leased[1], failed()).await;
    queue.cancel("g", &["3"]).await;
    queue.advance_ms(180_000);
    says(&queue, "1", Reason::Completed, "it completed 3 min ago").await;
    says(&queue, "2", Reason::Failed, "it failed for good 3 min ago after 1 attempt: broken").await;
    says(&queue, "3", Reason::Cancelled, "it was cancelled 3 min ago").await;
}

async fn what_has_ended_says_how_after_its_type_was_removed(queue: Subject) {
    queue.add(jobs("g", 1)).await;
    let leased = queue.lease(1).await;
    queue.succeed(&leased).await;
    let remove = RemoveType { type_id: type_id("t") };
    let removed = queue.engine.call(remove).await.expect("remove_type is answered");
    assert_eq!(removed, TypeRemoved::Removed);
    queue.advance_ms(180_000);
    says(&queue, "1", Reason::Completed, "it completed 3 min ago").await;
}

async fn classic_names_the_window_the_ready_list_and_the_worker(queue: Subject) {
    queue.set_queue(Settings { ready_queue_max_size: 2, ..classic(3) }).await;
    queue.add(jobs("g", 6)).await;
    queue.lease(1).await;
    assert_eq!(queue.admit_ready(10).await, ["g/1", "g/2"]);
    let admitted = "it is admitted and waits for a worker, among 2 ready jobs of type t";
    says(&queue, "2", Reason::Admitted, admitted).await;
    let full = explain(&queue, "g", "3").await;
    assert_eq!(full.reason(), Reason::ReadyFull, "{}", full.sentence());
    queue.lease(2).await;
    assert_eq!(queue.admit_ready(1).await, ["g/3"]);
    let used = explain(&queue, "g", "6").await;
    assert_eq!((used.reason(), used.rules.passed), (Reason::WindowUsed, 3));
    queue.admit(1).await;
    let away = explain(&queue, "g", "4").await;
    assert_eq!((away.reason(), away.job.state), (Reason::SentAway, JobState::Waiting));
}

async fn explaining_changes_nothing(queue: Subject) {
    queue.set_type("t", type_rate(per_second(10, 5))).await;
    queue.set_group("g", group_rate(per_second(5, 2))).await;
    queue.add(jobs("g", 10)).await;
    let leased = queue.lease(3).await;
    queue.settle(&leased[0], throttled(0, 2000)).await;
    queue.advance_ms(500);
    queue.drain_wakes().await;
    let before = (queue.queue_view().await, queue.group("g").await, queue.type_view("t").await);
    let first = explain(&queue, "g", "9").await;
    assert_eq!(explain(&queue, "g", "9").await, first);
    assert_eq!((queue.queue_view().await, queue.group("g").await, queue.type_view("t").await), before);
    assert!(queue.is_silent().await);
}
