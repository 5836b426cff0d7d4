//! `admit`: the `classic` discipline. The score determines which job is next, and the window of
//! this second how many pass. Refused jobs wait, and no job is popped without room in the ready
//! list.

mod backoff;
mod order;
mod records;

use fairlane_core::limits::{ADMIT_JOBS_MAX, LEASE_SKIPS_MAX, SWEEP_JOBS_MAX, VISIT_SKIPS_MAX};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;
use backoff::*;
use order::*;
use records::*;

/// The claims.
pub const CASES: &[Case] = cases![
    only_what_was_admitted_runs,
    in_share_there_is_nothing_to_admit,
    an_answer_tells_where_each_job_went_and_why,
    each_group_may_pass_an_even_part_of_the_queue_limit,
    every_group_may_pass_one_but_the_queue_limit_holds,
    a_new_second_is_a_new_window,
    no_second_lets_more_pass_than_the_queue_limit,
    a_full_ready_list_loses_no_job_and_charges_nothing,
    a_ready_list_never_grows_beyond_its_size,
    a_full_ready_list_holds_up_its_own_type_only,
    an_admission_decides_on_at_most_what_it_is_asked_to,
    promoted_jobs_are_admitted_again,
    a_backlog_drains_at_the_limit_and_loses_nothing,
    a_paused_group_is_not_admitted,
    a_paused_type_is_not_admitted,
    a_group_paused_after_admission_does_not_run,
    seats_are_checked_again_when_work_starts,
    a_type_paused_after_admission_keeps_its_ready_jobs,
    rates_of_type_and_queue_hold_when_work_starts,
    a_job_cancelled_after_admission_does_not_run,
    a_bulk_action_held_after_admission_does_not_run,
    jobs_of_a_dropped_bulk_action_are_not_admitted,
    stepping_over_is_bounded,
    a_bulk_action_is_dispatched_when_its_first_job_is_admitted,
    an_admission_wakes_a_waiter,
    a_number_out_of_range_is_invalid,
    the_oldest_group_goes_first_and_being_served_moves_it_back,
    two_groups_take_turns_by_score,
    groups_of_one_moment_take_turns,
    a_further_enqueue_does_not_renew_a_stamp,
    a_base_priority_goes_first,
    a_negative_base_priority_goes_last,
    a_base_priority_is_worth_its_time_and_no_more,
    with_positive_alpha_the_nearly_finished_go_first,
    with_negative_alpha_the_much_served_step_back,
    with_no_alpha_progress_counts_for_nothing,
    a_group_that_went_idle_starts_its_run_anew,
    levels_are_strict,
    types_take_turns,
    jobs_of_a_lane_are_admitted_in_the_order_they_came,
    what_was_enqueued_is_what_is_taken,
    the_first_refused_job_waits_one_window,
    the_eleventh_refused_job_waits_two,
    two_active_groups_halve_the_speed,
    promoting_two_of_three_leaves_one,
    the_count_follows_promotions_and_refusals,
    the_backoff_falls_as_the_queue_drains,
    a_backoff_is_bounded_and_the_bounded_do_not_return_together,
    switched_off_every_refusal_waits_the_same,
    switching_off_leaves_those_that_wait_as_they_are,
    many_new_groups_change_only_what_comes_after,
    a_throttled_job_comes_back_through_congestion_control,
    a_retried_job_does_not,
    a_recovered_job_comes_back_through_congestion_control,
    a_released_job_is_admitted_again,
    a_job_that_waits_is_counted_once,
    a_state_after_two_refusals,
    a_summary_over_two_groups,
    a_history_has_at_most_one_snapshot_a_second,
    a_history_is_bounded_by_its_retention,
    saved_tries_are_counted,
    a_group_that_went_idle_leaves_no_congestion,
];

async fn only_what_was_admitted_runs(queue: Subject) {
    queue.classic(100).await;
    queue.add(jobs("g", 3)).await;
    assert_eq!(queue.lease_and_wake(&["t"], 10).await, (vec![], None));
    assert_eq!(queue.admit_ready(2).await, ["g/1", "g/2"]);
    assert_eq!(queue.state("g", "1").await, JobState::Ready);
    assert_eq!(queue.state("g", "3").await, JobState::Pending);
    assert_eq!(queue.state("g", "1").await.as_str(), "ready");
    let (group, totals) = (queue.group("g").await, queue.queue_view().await);
    assert_eq!((group.backlog, totals.backlog, queue.type_view("t").await.ready), (3, 3, 2));
    assert_eq!(ids(&queue.lease(10).await), ["1", "2"]);
    assert_eq!((queue.queue_view().await.backlog, queue.type_view("t").await.ready), (1, 0));
}

async fn in_share_there_is_nothing_to_admit(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let admitted = queue.admit(10).await;
    assert_eq!((admitted.admissions.len(), admitted.full, admitted.more), (0, false, false));
    assert_eq!(queue.lease(10).await.len(), 3);
}

/// Erratum Q14.
async fn an_answer_tells_where_each_job_went_and_why(queue: Subject) {
    queue.classic(3).await;
    queue.add(jobs("g", 5)).await;
    let admitted = queue.admit(10).await;
    assert_eq!(ready(&admitted), ["g/1", "g/2", "g/3"]);
    let order: Vec<String> = admitted.admissions.iter().map(|one| one.job.id.to_string()).collect();
    assert_eq!(order, ["1", "2", "3", "4", "5"]);
    assert_eq!((admitted.window, admitted.group_limit), ((3, 3), 3));
    assert_eq!((admitted.full, admitted.more), (false, false));
    let refused: Vec<(u64, u64)> =
        refusals(&admitted).iter().map(|backoff| (backoff.backoff_ms, backoff.waiting)).collect();
    assert_eq!(refused, [(1000, 1), (1000, 2)]);
    let view = queue.job("g", "4").await;
    assert_eq!((view.state, view.until), (JobState::Waiting, Some(START.plus_ms(1000))));
}

/// Erratum Q27.
async fn each_group_may_pass_an_even_part_of_the_queue_limit(queue: Subject) {
    queue.classic(10).await;
    for group in ["a", "b", "c"] {
        queue.add(jobs(group, 8)).await;
    }
    let admitted = queue.admit(100).await;
    assert_eq!((admitted.group_limit, admitted.window), (3, (9, 10)));
    let passed = ready(&admitted);
    for group in ["a/", "b/", "c/"] {
        assert_eq!(passed.iter().filter(|name| name.starts_with(group)).count(), 3);
    }
    assert_eq!(refusals(&admitted).len(), 15);
}

async fn every_group_may_pass_one_but_the_queue_limit_holds(queue: Subject) {
    queue.classic(2).await;
    for group in ["a", "b", "c", "d", "e"] {
        queue.add(jobs(group, 2)).await;
    }
    let admitted = queue.admit(100).await;
    assert_eq!((admitted.group_limit, admitted.window), (1, (2, 2)));
    assert_eq!(ready(&admitted), ["a/1", "b/1"], "one of each, and no more than two of all");
    assert_eq!(refusals(&admitted).len(), 8);
}

async fn a_new_second_is_a_new_window(queue: Subject) {
    queue.classic(2).await;
    queue.add(jobs("g", 10)).await;
    queue.advance_ms(500);
    assert_eq!(queue.admit_ready(3).await, ["g/1", "g/2"]);
    queue.advance_ms(499);
    assert_eq!(queue.admit_ready(1).await, [""; 0]);
    queue.advance_ms(1);
    assert_eq!(queue.admit(1).await.window, (1, 2));
}

/// Erratum Q20.
async fn no_second_lets_more_pass_than_the_queue_limit(queue: Subject) {
    queue.classic(7).await;
    for group in ["a", "b", "c"] {
        queue.add(jobs(group, 40)).await;
    }
    for _ in 0..4 {
        let mut passed = 0;
        for _ in 0..10 {
            passed += queue.admit_ready(4).await.len();
            queue.promote(100).await;
            queue.advance_ms(100);
        }
        assert!(passed <= 7, "{passed} passed in one second");
        assert!(passed >= 6, "two for each of three, not {passed}");
    }
}

/// Erratum Q18.
async fn a_full_ready_list_loses_no_job_and_charges_nothing(queue: Subject) {
    queue.set_queue(Settings { ready_queue_max_size: 3, ..classic(5) }).await;
    queue.add(jobs("g", 5)).await;
    let admitted = queue.admit(10).await;
    assert_eq!(ready(&admitted), ["g/1", "g/2", "g/3"]);
    assert_eq!(
        (admitted.full, admitted.window),
        (true, (3, 5)),
        "no slot was used for a job without room in the ready list"
    );
    assert_eq!((refusals(&admitted).len(), queue.queue_view().await.waiting), (0, 0));
    assert_eq!(queue.state("g", "4").await, JobState::Pending);
    for _ in 0..3 {
        let again = queue.admit(10).await;
        assert_eq!((again.admissions.len(), again.full, again.window), (0, true, (3, 5)));
    }
    assert_eq!(ids(&queue.lease(2).await), ["1", "2"]);
    assert_eq!(queue.admit_ready(10).await, ["g/4", "g/5"], "the slots that were left are there");
    assert_eq!(ids(&queue.lease(10).await), ["3", "4", "5"]);
}

/// Erratum Q20.
async fn a_ready_list_never_grows_beyond_its_size(queue: Subject) {
    queue.set_queue(Settings { ready_queue_max_size: 4, ..classic(1000) }).await;
    for group in ["a", "b", "c"] {
        queue.add(jobs(group, 50)).await;
    }
    let mut seen = 0;
    while seen < 150 {
        queue.admit(100).await;
        let ready = queue.type_view("t").await.ready;
        assert!(ready <= 4, "{ready} are ready");
        let leased = queue.lease(3).await;
        seen += leased.len();
        queue.succeed(&leased).await;
    }
    assert_eq!(queue.queue_view().await.completed, 150);
}

async fn a_full_ready_list_holds_up_its_own_type_only(queue: Subject) {
    queue.set_queue(Settings { ready_queue_max_size: 2, ..classic(100) }).await;
    queue.add((0..6).map(|number| job_of("crowded", "g", &format!("c{number}")))).await;
    queue.add([job_of("free", "g", "f1")]).await;
    let admitted = queue.admit(10).await;
    assert_eq!((ready(&admitted).len(), admitted.full), (3, true));
    assert_eq!(ids(&queue.lease_of(&["free"], 10).await), ["f1"]);
}

async fn an_admission_decides_on_at_most_what_it_is_asked_to(queue: Subject) {
    queue.classic(3).await;
    queue.add(jobs("g", 8)).await;
    for (decided, more) in [(4, true), (4, true), (0, false)] {
        let admitted = queue.admit(4).await;
        assert_eq!((admitted.admissions.len(), admitted.more), (decided, more));
    }
}

/// Erratum Q19.
async fn promoted_jobs_are_admitted_again(queue: Subject) {
    queue.classic(2).await;
    queue.add(jobs("g", 6)).await;
    assert_eq!(refusals(&queue.admit(10).await).len(), 4);
    queue.lease(10).await;
    queue.advance_ms(3000);
    assert_eq!(queue.promote(10).await.moved, 4);
    assert_eq!(queue.state("g", "3").await, JobState::Pending);
    assert_eq!(queue.lease(10).await, [], "promotion alone makes nothing ready");
    let admitted = queue.admit(10).await;
    assert_eq!(ready(&admitted), ["g/3", "g/4"]);
    assert_eq!(refusals(&admitted).len(), 2, "the window holds for them, too");
}

/// Erratum Q18. Erratum Q19. Erratum Q22.
async fn a_backlog_drains_at_the_limit_and_loses_nothing(queue: Subject) {
    queue.set_queue(Settings { ready_queue_max_size: 5, ..classic(10) }).await;
    queue.add(jobs("a", 60)).await;
    queue.add(jobs("b", 20)).await;
    let mut seen = std::collections::BTreeSet::new();
    let mut seconds = 0;
    while seen.len() < 80 {
        let mut started = 0;
        for _ in 0..10 {
            queue.promote(100).await;
            queue.admit(100).await;
            for leased in queue.lease(100).await {
                assert!(seen.insert(leased.job.clone()), "{:?} ran twice", leased.job);
                started += 1;
                queue.succeed(&[leased]).await;
            }
            queue.advance_ms(100);
        }
        assert!(started <= 10, "{started} started in one second");
        seconds += 1;
        assert!(seconds <= 24, "{} of 80 after {seconds} seconds", seen.len());
    }
    let totals = queue.queue_view().await;
    assert_eq!((totals.completed, totals.backlog, totals.waiting), (80, 0, 0));
}

async fn a_paused_group_is_not_admitted(queue: Subject) {
    queue.classic(100).await;
    queue.add(jobs("a", 2)).await;
    queue.add(jobs("b", 2)).await;
    queue.set_group("a", group_paused(true)).await;
    assert_eq!(queue.admit_ready(10).await, ["b/1", "b/2"]);
    assert_eq!(queue.group("a").await.lanes[0].standing, LaneStanding::Paused);
    queue.set_group("a", group_paused(false)).await;
    assert_eq!(queue.admit_ready(10).await, ["a/1", "a/2"]);
}

async fn a_paused_type_is_not_admitted(queue: Subject) {
    queue.classic(100).await;
    queue.add([job("g", "1"), job_of("other", "g", "2")]).await;
    queue.set_type("t", type_paused(true)).await;
    assert_eq!(queue.admit_ready(10).await, ["g/2"]);
    queue.set_type("t", type_paused(false)).await;
    assert_eq!(queue.admit_ready(10).await, ["g/1"]);
}

async fn a_group_paused_after_admission_does_not_run(queue: Subject) {
    queue.classic(100).await;
    queue.add(jobs("a", 2)).await;
    queue.add(jobs("b", 1)).await;
    queue.admit(10).await;
    queue.set_group("a", group_paused(true)).await;
    assert_eq!(names(&queue.lease(10).await), ["b/1"]);
    assert_eq!(queue.state("a", "1").await, JobState::Pending, "back in its lane");
    assert_eq!((queue.group("a").await.backlog, queue.type_view("t").await.ready), (2, 0));
    queue.set_group("a", group_paused(false)).await;
    queue.admit(10).await;
    assert_eq!(names(&queue.lease(10).await), ["a/1", "a/2"]);
}

async fn seats_are_checked_again_when_work_starts(queue: Subject) {
    queue.classic(100).await;
    queue.add(jobs("g", 4)).await;
    queue.admit(10).await;
    queue.set_group("g", group_seats(2)).await;
    let leased = queue.lease(10).await;
    assert_eq!((leased.len(), queue.group("g").await.in_flight), (2, 2));
    queue.admit(10).await;
    assert_eq!(queue.lease(10).await, []);
    queue.succeed(&leased[..1]).await;
    queue.admit(10).await;
    assert_eq!(ids(&queue.lease(10).await), ["3"], "in order, a seat for each");
}

async fn a_type_paused_after_admission_keeps_its_ready_jobs(queue: Subject) {
    queue.classic(100).await;
    queue.add(jobs("g", 2)).await;
    queue.admit(10).await;
    queue.set_type("t", type_paused(true)).await;
    assert_eq!((queue.lease(10).await, queue.type_view("t").await.ready), (vec![], 2));
    queue.set_type("t", type_paused(false)).await;
    assert_eq!(ids(&queue.lease(10).await), ["1", "2"]);
}

async fn rates_of_type_and_queue_hold_when_work_starts(queue: Subject) {
    queue.set_queue(Settings { rate: Some(per_second(10, 3)), ..classic(100) }).await;
    queue.set_type("t", type_rate(per_second(10, 2))).await;
    queue.add(jobs("g", 6)).await;
    queue.add([job_of("other", "g", "o1"), job_of("other", "g", "o2")]).await;
    queue.admit(100).await;
    let leased = queue.lease_of(&["t", "other"], 10).await;
    assert_eq!(leased.len(), 3, "the queue lets three pass");
    assert!(leased.iter().filter(|job| job.type_id == type_id("t")).count() <= 2);
    let (none, wake_at) = queue.lease_and_wake(&["t", "other"], 1).await;
    assert_eq!((none, wake_at), (vec![], Some(START.plus_ms(100))));
}

async fn a_job_cancelled_after_admission_does_not_run(queue: Subject) {
    queue.classic(100).await;
    queue.add(jobs("g", 3)).await;
    queue.admit(10).await;
    assert_eq!(queue.cancel("g", &["2"]).await, [Cancellation::Cancelled]);
    assert_eq!((queue.state("g", "2").await, queue.queue_view().await.backlog), (JobState::Cancelled, 2));
    assert_eq!(ids(&queue.lease(10).await), ["1", "3"]);
    assert_eq!(queue.queue_view().await.completed, 1);
}

async fn a_bulk_action_held_after_admission_does_not_run(queue: Subject) {
    queue.classic(100).await;
    queue.open_with_jobs("g", "b", 2).await;
    queue.add([job("g", "own")]).await;
    queue.admit(10).await;
    queue.hold("g", "b").await;
    assert_eq!(ids(&queue.lease(10).await), ["own"]);
    assert_eq!(queue.bulk("g", "b").await.on_hold, 2);
    queue.resume("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(queue.lease(10).await, [], "what comes back is admitted again");
    assert_eq!(queue.admit_ready(10).await, ["g/b1", "g/b2"]);
    assert_eq!(queue.lease(10).await.len(), 2);
}

async fn jobs_of_a_dropped_bulk_action_are_not_admitted(queue: Subject) {
    queue.classic(5).await;
    queue.open_with_jobs("g", "b", 4).await;
    queue.add(jobs("g", 2)).await;
    queue.admit(1).await;
    queue.cancel_bulk("g", "b").await;
    let admitted = queue.admit(10).await;
    assert_eq!((ready(&admitted), admitted.window), (vec!["g/1".into(), "g/2".into()], (3, 5)));
    assert_eq!(ids(&queue.lease(10).await), ["1", "2"], "nor do those run that were admitted before");
    assert_eq!(queue.end_counts("g", "b").await, [0, 0, 4]);
}

/// Erratum Q12.
async fn stepping_over_is_bounded(queue: Subject) {
    queue.classic(1000).await;
    queue.open_with_jobs("g", "b", VISIT_SKIPS_MAX + 10).await;
    queue.add([job("g", "behind"), job("h", "1")]).await;
    queue.hold("g", "b").await;
    assert_eq!(queue.admit_ready(500).await, ["h/1"], "the others are admitted in the same step");
    assert_eq!(queue.bulk("g", "b").await.on_hold, VISIT_SKIPS_MAX as u64);
    queue.sweep(SWEEP_JOBS_MAX).await;
    assert_eq!(queue.admit_ready(500).await, ["g/behind"]);
    queue.lease(2).await;
    queue.open_with_jobs("g", "c", LEASE_SKIPS_MAX + 10).await;
    queue.add([job("g", "last")]).await;
    queue.admit(500).await;
    queue.cancel_bulk("g", "c").await;
    let (leased, wake_at) = queue.lease_and_wake(&["t"], 5).await;
    assert_eq!((leased, wake_at), (vec![], Some(START)), "there may be more at once");
    assert_eq!(ids(&queue.lease(5).await), ["last"]);
}

/// Erratum Q14.
async fn a_bulk_action_is_dispatched_when_its_first_job_is_admitted(queue: Subject) {
    queue.classic(1).await;
    queue.add([job("g", "first")]).await;
    queue.open_with_jobs("g", "b", 2).await;
    queue.admit(2).await;
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Created, "refused is not admitted");
    queue.advance_ms(1000);
    queue.admit(1).await;
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, view.state.as_str()), (BulkState::Dispatched, "DISPATCHED"));
    assert_eq!(view.started_at, None);
    queue.lease(10).await;
    let view = queue.bulk("g", "b").await;
    assert_eq!((view.state, view.started_at), (BulkState::Running, Some(START.plus_ms(1000))));
}

async fn an_admission_wakes_a_waiter(queue: Subject) {
    queue.classic(100).await;
    queue.add([job("g", "1")]).await;
    queue.drain_wakes().await;
    queue.admit(10).await;
    assert!(queue.is_woken().await);
}

async fn a_number_out_of_range_is_invalid(queue: Subject) {
    queue.classic(1000).await;
    queue.add(jobs("g", ADMIT_JOBS_MAX + 1)).await;
    for jobs_max in [0, ADMIT_JOBS_MAX + 1] {
        let refused = queue.engine.call(Admit { jobs_max }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))));
    }
    assert_eq!(queue.type_view("t").await.ready, 0);
    let most = queue.admit(ADMIT_JOBS_MAX).await;
    assert_eq!((most.admissions.len(), most.more), (ADMIT_JOBS_MAX, true));
}
