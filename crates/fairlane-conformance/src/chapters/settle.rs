//! `settle`: every attempt ends once; the fence decides whether this settlement ends it.

use fairlane_core::Fence;
use fairlane_core::kernel::Invalid;
use fairlane_core::limits::{
    MAX_RETRY_COUNT, MAX_THROTTLE_COUNT, NOTE_BYTES_MAX, RETRY_AFTER_MS_MAX, SETTLE_JOBS_MAX,
};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_success_is_completed_with_its_result,
    a_failure_is_dead_with_its_reason,
    every_outcome_has_its_state,
    a_second_settlement_counts_once,
    the_last_settled_fence_is_applied_even_if_leased_anew,
    a_late_settlement_is_stale,
    a_wrong_fence_is_stale_and_changes_nothing,
    a_never_leased_job_cannot_be_settled,
    an_unknown_job_is_gone_and_not_made,
    a_purged_job_is_gone_and_not_made,
    verdicts_come_in_the_order_of_the_settlements,
    a_note_is_opaque,
    a_retry_waits_then_goes_before_its_own_lane_only,
    retries_that_are_used_up_end_dead,
    a_throttled_job_waits_and_pays_no_attempt,
    throttles_beyond_the_cap_cost_attempts,
    a_refusal_cuts_the_rate_once_a_flight,
    a_cut_heals,
    retry_after_closes_the_type,
    one_retry_after_closes_a_type_for_a_minute_at_most,
    a_released_job_is_next_again_and_pays_nothing,
    a_released_job_gives_its_turn_back_but_not_its_slot,
    settling_frees_a_seat_and_wakes_a_waiter,
    finished_jobs_are_kept_by_number,
    finished_jobs_are_kept_by_time,
    an_id_is_free_again_after_retention,
    a_job_given_up_is_cancelled_whether_or_not_that_was_requested,
    a_job_given_up_is_an_answer_of_its_downstream,
    jobs_given_up_count_as_cancelled_with_their_bulk_action,
    an_unwanted_job_is_cancelled_instead_of_waiting,
    an_unwanted_job_out_of_retries_is_dead,
    jobs_of_a_bulk_action_are_counted_with_it,
    every_end_is_added_to_the_totals_once,
    throttles_are_added_up_and_never_rounded,
    the_same_job_twice_is_invalid,
    a_settlement_out_of_range_is_invalid,
];

/// Erratum Q17.
async fn a_success_is_completed_with_its_result(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    queue.advance_ms(5);
    assert_eq!(queue.settle(&leased, succeeded()).await, Verdict::Applied);
    let view = queue.job("g", "1").await;
    assert_eq!((view.state, view.until), (JobState::Completed, None));
    assert_eq!((&*view.note, view.settled_at), (&b"done"[..], Some(START.plus_ms(5))));
    let totals = queue.queue_view().await;
    assert_eq!((totals.completed, totals.failed, totals.in_flight, totals.backlog), (1, 0, 0, 0));
}

/// Erratum Q17.
async fn a_failure_is_dead_with_its_reason(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    assert_eq!(queue.settle(&leased, failed()).await, Verdict::Applied);
    let view = queue.job("g", "1").await;
    assert_eq!((view.state, &*view.note, view.attempts), (JobState::Failed, &b"broken"[..], 1));
    let totals = queue.queue_view().await;
    assert_eq!((totals.completed, totals.failed, totals.in_flight, totals.backlog), (0, 1, 0, 0));
    assert_eq!(queue.lease(10).await, []);
}

/// Erratum Q14.
async fn every_outcome_has_its_state(queue: Subject) {
    queue.add(jobs("g", 6)).await;
    let leased = queue.lease(6).await;
    let outcomes = [succeeded(), failed(), cancelled(), retry(100), throttled(100, 0), Outcome::Released];
    let states = [
        JobState::Completed,
        JobState::Failed,
        JobState::Cancelled,
        JobState::Waiting,
        JobState::Waiting,
        JobState::Pending,
    ];
    for ((job, outcome), state) in leased.iter().zip(outcomes).zip(states) {
        assert_eq!(queue.settle(job, outcome).await, Verdict::Applied);
        assert_eq!(queue.state("g", &job.job.id.to_string()).await, state);
    }
    let totals = queue.queue_view().await;
    let counts = (totals.completed, totals.failed, totals.waiting, totals.backlog, totals.in_flight);
    assert_eq!(counts, (2, 1, 2, 3, 0), "cancelled jobs are kept with the completed ones");
}

/// Erratum Q15.
async fn a_second_settlement_counts_once(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(2).await;
    for _ in 0..3 {
        assert_eq!(queue.settle(&leased[0], succeeded()).await, Verdict::Applied);
    }
    assert_eq!(queue.settle(&leased[0], failed()).await, Verdict::Applied, "the first settlement counts");
    let totals = queue.queue_view().await;
    assert_eq!((totals.completed, totals.failed, totals.in_flight), (1, 0, 1));
    assert_eq!((queue.group("g").await.in_flight, queue.type_view("t").await.in_flight), (1, 1));
}

async fn the_last_settled_fence_is_applied_even_if_leased_anew(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let first = queue.lease_one().await;
    assert_eq!(queue.settle(&first, retry(0)).await, Verdict::Applied);
    let second = queue.lease_one().await;
    assert_eq!(queue.settle(&first, retry(0)).await, Verdict::Applied, "repeated, as after a lost reply");
    assert_eq!(queue.state("g", "1").await, JobState::Processing, "the second lease goes on");
    queue.succeed(&[second]).await;
    assert_eq!(queue.settle(&first, retry(0)).await, Verdict::Stale, "and is the last settled now");
}

/// Erratum Q15.
async fn a_late_settlement_is_stale(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add([job("g", "1")]).await;
    let slow = queue.lease_one().await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    assert_eq!(queue.reclaim(10).await.recovered, 1);
    assert_eq!(queue.settle(&slow, succeeded()).await, Verdict::Stale, "before anyone has it again");
    let second = queue.lease_one().await;
    assert_eq!(queue.settle(&slow, succeeded()).await, Verdict::Stale, "and after");
    assert_eq!(queue.queue_view().await.completed, 0);
    queue.succeed(&[second]).await;
    assert_eq!(queue.settle(&slow, failed()).await, Verdict::Stale);
    let totals = queue.queue_view().await;
    assert_eq!((totals.completed, totals.failed, totals.in_flight), (1, 0, 0));
}

/// Erratum Q15.
async fn a_wrong_fence_is_stale_and_changes_nothing(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    let before = queue.job("g", "1").await;
    for fence in [Fence(1), Fence(leased.fence.0 - 1), Fence(leased.fence.0 + 1)] {
        let wrong = LeasedJob { fence, ..leased.clone() };
        assert_eq!(queue.settle(&wrong, failed()).await, Verdict::Stale);
    }
    assert_eq!(queue.job("g", "1").await, before);
}

async fn a_never_leased_job_cannot_be_settled(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let settlement = Settlement { job: job_ref("g", "1"), fence: Fence(START.0), outcome: succeeded() };
    assert_eq!(queue.settle_all(vec![settlement]).await, [Verdict::Stale]);
    assert_eq!(queue.state("g", "1").await, JobState::Pending);
}

/// Erratum Q13.
async fn an_unknown_job_is_gone_and_not_made(queue: Subject) {
    let settlement = Settlement { job: job_ref("g", "1"), fence: Fence(5), outcome: succeeded() };
    assert_eq!(queue.settle_all(vec![settlement]).await, [Verdict::Gone]);
    assert_eq!(queue.find_job("g", "1").await, None);
    assert_eq!(queue.queue_view().await.completed, 0);
}

/// Erratum Q13.
async fn a_purged_job_is_gone_and_not_made(queue: Subject) {
    queue.set_queue(Settings { completed_kept_max: 0, ..Settings::default() }).await;
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    assert_eq!(queue.settle(&leased, succeeded()).await, Verdict::Applied);
    assert_eq!(queue.find_job("g", "1").await, None);
    assert_eq!(queue.settle(&leased, succeeded()).await, Verdict::Gone);
    assert_eq!(queue.extend(&leased, LEASE_MS).await, Extension::Lost);
    assert_eq!(queue.find_job("g", "1").await, None);
}

async fn verdicts_come_in_the_order_of_the_settlements(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease(2).await;
    let settlement = |id: &str, fence| Settlement { job: job_ref("g", id), fence, outcome: succeeded() };
    let verdicts = queue
        .settle_all(vec![
            settlement("none", Fence(1)),
            settlement("2", leased[1].fence),
            settlement("3", Fence(1)),
            settlement("1", leased[0].fence),
        ])
        .await;
    assert_eq!(verdicts, [Verdict::Gone, Verdict::Applied, Verdict::Stale, Verdict::Applied]);
    assert_eq!(queue.settle_all(vec![]).await, []);
}

async fn a_note_is_opaque(queue: Subject) {
    let every_byte: Vec<u8> = (0..=255).chain([b':', b':', 0]).collect();
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[0], Outcome::Succeeded { result: every_byte.clone().into() }).await;
    queue.settle(&leased[1], Outcome::Retry { delay_ms: 0, reason: every_byte.clone().into() }).await;
    assert_eq!(&*queue.job("g", "1").await.note, every_byte);
    assert_eq!(&*queue.job("g", "2").await.note, every_byte);
    let again = queue.lease_one().await;
    assert_eq!(&*queue.job("g", "2").await.note, every_byte, "kept while it runs again");
    queue.settle(&again, Outcome::Failed { reason: vec![7; NOTE_BYTES_MAX].into() }).await;
    assert_eq!(queue.job("g", "2").await.note.len(), NOTE_BYTES_MAX);
}

/// Erratum Q35.
async fn a_retry_waits_then_goes_before_its_own_lane_only(queue: Subject) {
    queue.add(jobs("a", 3)).await;
    queue.add(jobs("b", 3)).await;
    let first = queue.lease_one().await;
    assert_eq!(names(std::slice::from_ref(&first)), ["a/1"]);
    queue.settle(&first, retry(100)).await;
    assert_eq!(names(&[queue.lease_one().await]), ["b/1"]);
    queue.advance_ms(99);
    assert_eq!(names(&[queue.lease_one().await]), ["a/2"], "it waits for its time");
    queue.advance_ms(1);
    assert_eq!(names(&[queue.lease_one().await]), ["b/2"], "its group waits for its turn");
    let again = queue.lease_one().await;
    assert_eq!((names(std::slice::from_ref(&again)), again.attempt), (vec!["a/1".to_owned()], 2));
    assert_eq!(names(&queue.lease(10).await), ["b/3", "a/3"]);
}

/// Erratum Q17.
async fn retries_that_are_used_up_end_dead(queue: Subject) {
    queue.add([job("g", "1")]).await;
    for attempt in 1..=MAX_RETRY_COUNT + 1 {
        assert_eq!(
            queue.state("g", "1").await,
            if attempt == 1 { JobState::Pending } else { JobState::Waiting }
        );
        let leased = queue.lease_one().await;
        assert_eq!(leased.attempt, attempt);
        assert_eq!(queue.settle(&leased, retry(0)).await, Verdict::Applied);
    }
    let view = queue.job("g", "1").await;
    assert_eq!(
        (view.state, &*view.note, view.attempts),
        (JobState::Failed, &b"again"[..], MAX_RETRY_COUNT + 1)
    );
    assert_eq!((queue.queue_view().await.failed, queue.queue_view().await.backlog), (1, 0));
}

/// Erratum Q14.
async fn a_throttled_job_waits_and_pays_no_attempt(queue: Subject) {
    queue.add([job("g", "1")]).await;
    for throttles in 1..=10 {
        let leased = queue.lease_one().await;
        assert_eq!(leased.attempt, 1);
        assert_eq!(queue.settle(&leased, throttled(20_000, 0)).await, Verdict::Applied);
        let view = queue.job("g", "1").await;
        assert_eq!((view.state, view.throttles, view.attempts), (JobState::Waiting, throttles, 0));
        assert_eq!(view.until, Some(queue.now().plus_ms(20_000)));
        queue.advance_ms(20_000);
    }
}

/// Erratum Q30.
async fn throttles_beyond_the_cap_cost_attempts(queue: Subject) {
    queue.set_queue(Settings { max_throttle_count: 2, max_retry_count: 1, ..Settings::default() }).await;
    queue.add([job("g", "1")]).await;
    for attempt in [1, 1, 1, 2] {
        let leased = queue.lease_one().await;
        assert_eq!(leased.attempt, attempt);
        queue.settle(&leased, throttled(20_000, 0)).await;
        queue.advance_ms(20_000);
    }
    let view = queue.job("g", "1").await;
    assert_eq!((view.state, &*view.note), (JobState::Failed, &b"throttled too often"[..]));
    assert_eq!(MAX_THROTTLE_COUNT, 100, "and the default has a cap, too");
}

/// Erratum Q30.
async fn a_refusal_cuts_the_rate_once_a_flight(queue: Subject) {
    queue.set_type("t", type_rate(per_second(100, 100))).await;
    queue.add(jobs("g", 200)).await;
    let leased = queue.lease(100).await;
    queue.succeed(&leased[..80]).await;
    assert_eq!(queue.type_view("t").await.rate_milli, Some(100_000));
    queue.settle(&leased[80], throttled(1000, 0)).await;
    let cut = queue.type_view("t").await.rate_milli;
    assert!((Some(85_000)..Some(85_100)).contains(&cut), "{cut:?}");
    for job in &leased[81..] {
        queue.settle(job, throttled(1000, 0)).await;
    }
    assert_eq!(queue.type_view("t").await.rate_milli, cut, "the others left before the cut");
    assert_eq!(queue.type_view("t").await.settings.rate, Some(per_second(100, 100)), "what is set stays");
    queue.advance_ms(100);
    let next = queue.lease(1).await;
    queue.settle(&next[0], throttled(1000, 0)).await;
    assert!(queue.type_view("t").await.rate_milli < cut, "one that left after it cuts again");
}

/// Erratum Q30.
async fn a_cut_heals(queue: Subject) {
    queue.set_type("t", type_rate(per_second(100, 10))).await;
    queue.add(jobs("g", 10)).await;
    let leased = queue.lease(10).await;
    queue.succeed(&leased[..9]).await;
    queue.settle(&leased[9], throttled(1000, 0)).await;
    let mut last = queue.type_view("t").await.rate_milli;
    assert!((Some(8550)..Some(8600)).contains(&last), "0.95 of the nine that it took, not {last:?}");
    for _ in 0..20 {
        queue.advance_ms(1000);
        let now = queue.type_view("t").await.rate_milli;
        assert!(now >= last);
        last = now;
    }
    assert_eq!(last, Some(100_000));
}

/// Erratum Q30.
async fn retry_after_closes_the_type(queue: Subject) {
    queue.add([job("g", "1"), job("g", "2"), job_of("other", "g", "3")]).await;
    let leased = queue.lease_one().await;
    queue.settle(&leased, throttled(0, 5000)).await;
    assert_eq!(queue.type_view("t").await.closed_until, Some(START.plus_ms(5000)));
    let (jobs, wake_at) = queue.lease_and_wake(&["t", "other"], 10).await;
    assert_eq!((ids(&jobs), wake_at), (vec!["3".to_owned()], Some(START.plus_ms(5000))));
    queue.advance_ms(4999);
    assert_eq!(queue.lease(10).await, []);
    queue.advance_ms(1);
    assert_eq!(queue.lease(1).await.len(), 1);
    assert_eq!(queue.type_view("t").await.closed_until, None);
}

async fn one_retry_after_closes_a_type_for_a_minute_at_most(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease_one().await;
    let refused = Settlement {
        job: leased.job.clone(),
        fence: leased.fence,
        outcome: throttled(0, RETRY_AFTER_MS_MAX + 1),
    };
    let answer = queue.engine.call(Settle { settlements: vec![refused] }).await;
    assert!(matches!(answer, Err(EngineError::Invalid(_))), "{answer:?}");
    queue.settle(&leased, throttled(0, RETRY_AFTER_MS_MAX)).await;
    assert_eq!(queue.type_view("t").await.closed_until, Some(START.plus_ms(60_000)));
    queue.advance_ms(60_000);
    assert_eq!(queue.lease(1).await.len(), 1);
}

async fn a_released_job_is_next_again_and_pays_nothing(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease(2).await;
    queue.settle(&leased[1], Outcome::Released).await;
    queue.settle(&leased[0], Outcome::Released).await;
    let view = queue.job("g", "1").await;
    assert_eq!((view.state, view.attempts, view.until), (JobState::Pending, 0, None));
    let again = queue.lease(3).await;
    assert_eq!(ids(&again), ["1", "2", "3"]);
    assert!(again.iter().all(|job| job.attempt == 1));
}

async fn a_released_job_gives_its_turn_back_but_not_its_slot(queue: Subject) {
    queue.set_queue(Settings { rate: Some(per_second(10, 3)), ..Settings::default() }).await;
    queue.add(jobs("a", 10)).await;
    queue.add(jobs("b", 10)).await;
    let first = queue.lease_one().await;
    queue.settle(&first, Outcome::Released).await;
    assert_eq!(names(&[queue.lease_one().await]), ["b/1"], "the order was renewed");
    assert_eq!(names(&[queue.lease_one().await]), ["a/1"], "but the turn came back");
    assert_eq!(queue.lease(1).await, [], "three slots were used");
}

async fn settling_frees_a_seat_and_wakes_a_waiter(queue: Subject) {
    queue.set_group("g", group_seats(1)).await;
    queue.add(jobs("g", 3)).await;
    let first = queue.lease_one().await;
    queue.drain_wakes().await;
    assert_eq!(queue.lease(1).await, []);
    assert_eq!(queue.group("g").await.lanes[0].standing, LaneStanding::SeatParked);
    queue.succeed(&[first]).await;
    assert_eq!(queue.group("g").await.lanes[0].standing, LaneStanding::Active);
    assert!(queue.is_woken().await);
    assert_eq!(ids(&queue.lease(10).await), ["2"]);
}

async fn finished_jobs_are_kept_by_number(queue: Subject) {
    queue.set_queue(Settings { completed_kept_max: 3, failed_kept_max: 2, ..Settings::default() }).await;
    queue.add(jobs("g", 10)).await;
    let leased = queue.lease(10).await;
    queue.succeed(&leased[..5]).await;
    for job in &leased[5..] {
        queue.advance_ms(1);
        queue.settle(job, failed()).await;
    }
    let totals = queue.queue_view().await;
    assert_eq!((totals.completed, totals.failed), (3, 2));
    for (id, kept) in [("2", false), ("3", true), ("5", true), ("8", false), ("9", true), ("10", true)] {
        assert_eq!(queue.find_job("g", id).await.is_some(), kept, "job {id}");
    }
}

async fn finished_jobs_are_kept_by_time(queue: Subject) {
    let settings =
        Settings { completed_retention_ms: 1000, failed_retention_ms: 5000, ..Settings::default() };
    queue.set_queue(settings).await;
    queue.add(jobs("g", 4)).await;
    let leased = queue.lease(4).await;
    queue.succeed(&leased[..1]).await;
    queue.settle(&leased[1], failed()).await;
    queue.advance_ms(1000);
    queue.succeed(&leased[2..3]).await;
    assert_eq!(queue.find_job("g", "1").await, None);
    assert_eq!(queue.state("g", "2").await, JobState::Failed);
    queue.advance_ms(4000);
    queue.succeed(&leased[3..]).await;
    assert_eq!(queue.find_job("g", "2").await, None);
    let totals = queue.queue_view().await;
    assert_eq!((totals.completed, totals.failed), (1, 0));
}

async fn an_id_is_free_again_after_retention(queue: Subject) {
    queue.set_queue(Settings { completed_kept_max: 0, ..Settings::default() }).await;
    queue.add([job("g", "1")]).await;
    let first = queue.lease_one().await;
    queue.succeed(std::slice::from_ref(&first)).await;
    queue.add([job("g", "1")]).await;
    let second = queue.lease_one().await;
    assert!(second.fence > first.fence);
    assert_eq!(second.attempt, 1);
    assert_eq!(
        queue.settle(&first, succeeded()).await,
        Verdict::Stale,
        "the earlier job's worker is too late"
    );
    assert_eq!(queue.state("g", "1").await, JobState::Processing);
}

async fn the_same_job_twice_is_invalid(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    let settlement = |outcome| Settlement { job: leased.job.clone(), fence: leased.fence, outcome };
    let both = Settle { settlements: vec![settlement(succeeded()), settlement(failed())] };
    let refused = queue.engine.call(both).await;
    assert_eq!(refused, Err(job_named_twice("g", "1")));
    assert_eq!(queue.state("g", "1").await, JobState::Processing);
}

async fn a_settlement_out_of_range_is_invalid(queue: Subject) {
    let large = Outcome::Succeeded { result: vec![0; NOTE_BYTES_MAX + 1].into() };
    for outcome in [large, retry(u64::MAX), throttled(0, u64::MAX)] {
        let settlement = Settlement { job: job_ref("g", "1"), fence: Fence(1), outcome };
        let refused = queue.engine.call(Settle { settlements: vec![settlement] }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))));
    }
    let one = |number: usize| Settlement {
        job: job_ref("g", &number.to_string()),
        fence: Fence(1),
        outcome: Outcome::Released,
    };
    let settlements = (0..=SETTLE_JOBS_MAX).map(one).collect();
    let refused = queue.engine.call(Settle { settlements }).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooMany { .. }))));
}

async fn a_job_given_up_is_cancelled_whether_or_not_that_was_requested(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(2).await;
    assert_eq!(queue.cancel("g", &["2"]).await, [Cancellation::Requested]);
    queue.advance_ms(5);
    for job in &leased {
        for outcome in [cancelled(), cancelled(), succeeded()] {
            assert_eq!(queue.settle(job, outcome).await, Verdict::Applied, "the first settlement counts");
        }
        let view = queue.job("g", &job.job.id.to_string()).await;
        assert_eq!((view.state, view.attempts), (JobState::Cancelled, 1));
        assert_eq!((&*view.note, view.until), (&b"unwanted"[..], None));
        assert_eq!((view.settled_at, view.fence), (Some(START.plus_ms(5)), Some(job.fence)));
    }
    let totals = queue.queue_view().await;
    assert_eq!((totals.in_flight, totals.backlog, totals.completed, totals.failed), (0, 0, 2, 0));
    assert_eq!(queue.lease(10).await, []);
    assert_eq!(queue.requeue("g", &["1"]).await, [Requeued::NotDead]);
}

async fn a_job_given_up_is_an_answer_of_its_downstream(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease(3).await;
    for (job, outcome) in leased.iter().zip([cancelled(), failed(), Outcome::Released]) {
        queue.settle(job, outcome).await;
    }
    assert_eq!(queue.type_view("t").await.answers, 2);
}

async fn jobs_given_up_count_as_cancelled_with_their_bulk_action(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.seal("g", "b").await;
    let leased = queue.lease(3).await;
    queue.succeed(&leased[..1]).await;
    for _ in 0..2 {
        queue.settle(&leased[1], cancelled()).await;
        queue.settle(&leased[2], Outcome::Cancelled { reason: bytes("") }).await;
        assert_eq!(queue.end_counts("g", "b").await, [1, 0, 2]);
    }
    assert_eq!(queue.bulk_state("g", "b").await, BulkState::Aggregating);
    assert_eq!(queue.state("g", "b3").await, JobState::Cancelled);
}

async fn an_unwanted_job_is_cancelled_instead_of_waiting(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease(3).await;
    queue.cancel("g", &["1", "2", "3"]).await;
    queue.advance_ms(5);
    let outcomes = [retry(100), throttled(100, 0), Outcome::Released];
    for (job, outcome) in leased.iter().zip(outcomes) {
        assert_eq!(queue.settle(job, outcome.clone()).await, Verdict::Applied);
        assert_eq!(queue.settle(job, outcome).await, Verdict::Applied);
        let view = queue.job("g", &job.job.id.to_string()).await;
        assert_eq!((view.state, view.until), (JobState::Cancelled, None));
        assert_eq!((view.settled_at, view.fence), (Some(START.plus_ms(5)), Some(job.fence)));
    }
    let totals = queue.queue_view().await;
    assert_eq!((totals.waiting, totals.backlog, totals.completed, totals.failed), (0, 0, 3, 0));
}

/// Erratum Q17.
async fn an_unwanted_job_out_of_retries_is_dead(queue: Subject) {
    queue.set_queue(Settings { max_retry_count: 0, ..Settings::default() }).await;
    queue.open_with_jobs("g", "b", 1).await;
    let leased = queue.lease_one().await;
    queue.cancel_bulk("g", "b").await;
    queue.settle(&leased, retry(0)).await;
    assert_eq!(queue.state("g", "b1").await, JobState::Failed);
    assert_eq!(queue.end_counts("g", "b").await, [0, 1, 0]);
}

/// Erratum Q15. Erratum Q17.
async fn jobs_of_a_bulk_action_are_counted_with_it(queue: Subject) {
    queue.open_with_jobs("g", "b", 3).await;
    queue.add([job("g", "own")]).await;
    let leased = queue.lease(4).await;
    let settlements = leased.iter().map(|job| Settlement {
        job: job.job.clone(),
        fence: job.fence,
        outcome: if job.job.id.to_string() == "b2" { failed() } else { succeeded() },
    });
    let settlements: Vec<Settlement> = settlements.collect();
    for _ in 0..2 {
        assert_eq!(queue.settle_all(settlements.clone()).await, [Verdict::Applied; 4]);
        assert_eq!(queue.end_counts("g", "b").await, [2, 1, 0]);
    }
    let totals = queue.queue_view().await;
    assert_eq!((totals.completed, totals.failed), (1, 1), "completed jobs of a bulk action are kept with it");
}

async fn every_end_is_added_to_the_totals_once(queue: Subject) {
    queue.set_queue(Settings { max_retry_count: 0, ..Settings::default() }).await;
    queue.open_with_jobs("g", "b", 2).await;
    queue.add(jobs("g", 6)).await;
    queue.add([job("h", "7")]).await;
    let mut leased = queue.lease(9).await;
    leased.sort_by_key(|job| job.job.id.to_string());
    let silent = || Outcome::Succeeded { result: bytes("") };
    let outcomes = [
        [succeeded(), cancelled(), silent()],
        [retry(0), throttled(0, 0), Outcome::Released],
        [succeeded(), silent(), failed()],
    ];
    let jobs = leased.into_iter().zip(outcomes.concat());
    let settlements = jobs.map(|(LeasedJob { job, fence, .. }, outcome)| Settlement { job, fence, outcome });
    let settlements: Vec<Settlement> = settlements.collect();
    for _ in 0..2 {
        assert_eq!(queue.settle_all(settlements.clone()).await, [Verdict::Applied; 9]);
        assert_eq!(queue.ended_totals().await, (4, 2));
    }
    assert_eq!(queue.requeue("g", &["4"]).await, [Requeued::Requeued]);
    assert_eq!(queue.ended_totals().await, (4, 2), "an end that was taken back stays counted");
    queue.advance_ms(60_000);
    let leased = queue.lease(9).await;
    assert_eq!(leased.len(), 3);
    queue.succeed(&leased).await;
    assert_eq!(queue.ended_totals().await, (7, 2), "the next end of a requeued job is one more");

    queue.set_queue(Settings { completed_kept_max: 0, failed_kept_max: 0, ..Settings::default() }).await;
    while queue.sweep(100).await.removed > 0 {}
    assert_eq!(queue.queue_view().await.completed, 0);
    assert_eq!(queue.ended_totals().await, (7, 2), "removed jobs stay counted");
}

/// Erratum Q31.
async fn throttles_are_added_up_and_never_rounded(queue: Subject) {
    queue.add(jobs("g", 401)).await;
    let leased = queue.lease(400).await;
    queue.settle(&leased[0], throttled(0, 0)).await;
    queue.succeed(&leased[1..]).await;
    let view = queue.congestion("g").await;
    assert_eq!((view.throttles, view.ended, view.throttles_per_job()), (0, 399, 0.0));
    queue.advance_ms(60_000);
    let again = queue.lease_one().await;
    queue.succeed(&[again]).await;
    let view = queue.congestion("g").await;
    assert_eq!((view.throttles, view.ended), (1, 400), "one that waited is counted when it ends");
    assert_eq!(view.throttles_per_job(), 0.0025, "a mean with two decimals would show 0");
}
