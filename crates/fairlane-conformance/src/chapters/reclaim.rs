//! `reclaim`: the jobs of a dead worker come back; an outage kills no jobs.

use fairlane_core::limits::{
    LEASE_MS_MAX, MAX_LOSS_COUNT, RECLAIM_GRACE_MS, RECLAIM_JOBS_MAX, RECLAIM_STALE_MS,
};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    a_lease_that_ran_out_comes_back_and_is_due_at_once,
    a_live_lease_is_left_alone,
    a_lost_lease_costs_no_attempt,
    too_many_lost_leases_end_dead,
    nothing_is_taken_back_in_the_first_grace,
    runs_during_a_grace_do_not_restart_it,
    an_outage_brings_a_new_grace,
    a_reclaim_begins_no_batch_beyond_what_it_is_asked_to,
    a_reclaimed_job_frees_its_seats,
    recovered_jobs_pass_the_gate_again,
    a_reclaim_wakes_a_waiter,
    deadlines_heal_when_the_clock_steps_back,
    a_grace_heals_when_the_clock_steps_back,
    a_lost_lease_of_a_cancelled_job_is_cancelled,
    too_many_lost_leases_end_dead_wanted_or_not,
    a_number_out_of_range_is_invalid,
];

/// Erratum Q7. Erratum Q38.
async fn a_lease_that_ran_out_comes_back_and_is_due_at_once(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add(jobs("g", 3)).await;
    queue.lease(1).await;
    queue.advance_reclaiming_ms(LEASE_MS - 1).await;
    assert_eq!(queue.reclaim(10).await.recovered, 0);
    queue.advance_ms(1);
    assert_eq!(queue.reclaim(10).await, Reclaimed { recovered: 1, dead: 0, cancelled: 0, grace_us: None });
    let view = queue.job("g", "1").await;
    assert_eq!((view.state, view.until), (JobState::Waiting, Some(queue.now())));
    assert_eq!(ids(&queue.lease(10).await), ["1", "2", "3"]);
}

async fn a_live_lease_is_left_alone(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add(jobs("g", 2)).await;
    queue.lease(1).await;
    queue.advance_reclaiming_ms(LEASE_MS / 2).await;
    let second = queue.lease_one().await;
    queue.reclaim(10).await;
    queue.advance_reclaiming_ms(LEASE_MS / 2).await;
    assert_eq!(queue.reclaim(10).await.recovered, 1);
    queue.succeed(&[second]).await;
}

async fn a_lost_lease_costs_no_attempt(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add([job("g", "1")]).await;
    queue.lease(1).await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    queue.reclaim(10).await;
    let view = queue.job("g", "1").await;
    assert_eq!((view.attempts, view.losses), (0, 1));
    assert_eq!(queue.lease_one().await.attempt, 1);
}

/// Erratum Q17.
async fn too_many_lost_leases_end_dead(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add([job("g", "1")]).await;
    for loss in 1..=MAX_LOSS_COUNT + 1 {
        assert_eq!(queue.lease(1).await.len(), 1);
        queue.advance_reclaiming_ms(LEASE_MS).await;
        let reclaimed = queue.reclaim(10).await;
        let dead = usize::from(loss > MAX_LOSS_COUNT);
        assert_eq!((reclaimed.recovered, reclaimed.dead), (1 - dead, dead));
    }
    let view = queue.job("g", "1").await;
    assert_eq!((view.state, &*view.note), (JobState::Failed, &b"lost too many leases"[..]));
    let totals = queue.queue_view().await;
    assert_eq!((totals.failed, totals.backlog, totals.in_flight), (1, 0, 0));
    assert_eq!(queue.ended_totals().await, (0, 1));
}

async fn nothing_is_taken_back_in_the_first_grace(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    queue.advance_ms(LEASE_MS);
    let grace_us = Some(RECLAIM_GRACE_MS * 1000);
    assert_eq!(queue.reclaim(10).await, Reclaimed { recovered: 0, dead: 0, cancelled: 0, grace_us });
    assert!(matches!(queue.extend(&leased, LEASE_MS).await, Extension::Until(_)), "its worker comes back");
}

async fn runs_during_a_grace_do_not_restart_it(queue: Subject) {
    queue.add([job("g", "1")]).await;
    queue.lease(1).await;
    for second in 0..30 {
        assert_eq!(queue.reclaim(10).await.grace_us, Some((RECLAIM_GRACE_MS - second * 1000) * 1000));
        queue.advance_ms(1000);
    }
    assert_eq!(queue.reclaim(10).await, Reclaimed { recovered: 1, dead: 0, cancelled: 0, grace_us: None });
}

async fn an_outage_brings_a_new_grace(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add(jobs("g", 5)).await;
    queue.lease(5).await;
    queue.advance_ms(RECLAIM_STALE_MS);
    assert_eq!(queue.reclaim(10).await.grace_us, None, "15 seconds are no outage");
    queue.advance_ms(LEASE_MS);
    let reclaimed = queue.reclaim(10).await;
    assert_eq!(reclaimed.grace_us, Some(RECLAIM_GRACE_MS * 1000));
    assert_eq!((reclaimed.recovered, queue.queue_view().await.in_flight), (0, 5));
    queue.advance_reclaiming_ms(RECLAIM_GRACE_MS).await;
    assert_eq!(queue.reclaim(10).await.recovered, 5);
}

async fn a_reclaim_begins_no_batch_beyond_what_it_is_asked_to(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add(jobs("g", 8)).await;
    for _ in 0..4 {
        queue.lease(2).await;
    }
    queue.advance_ms(LEASE_MS / 2);
    queue.reclaim(1).await;
    queue.advance_ms(LEASE_MS / 2);
    for (asked, recovered) in [(1, 2), (3, 4), (10, 2), (10, 0)] {
        assert_eq!(
            queue.reclaim(asked).await.recovered,
            recovered,
            "jobs leased together come back together"
        );
    }
}

async fn a_reclaimed_job_frees_its_seats(queue: Subject) {
    queue.set_group("g", group_seats(1)).await;
    queue.set_type("t", type_seats(1)).await;
    queue.end_reclaim_grace().await;
    queue.add(jobs("g", 2)).await;
    queue.lease(1).await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    queue.reclaim(10).await;
    assert_eq!((queue.group("g").await.in_flight, queue.type_view("t").await.in_flight), (0, 0));
    assert_eq!(ids(&queue.lease(10).await), ["1"], "what came back goes first");
}

/// Erratum Q19.
async fn recovered_jobs_pass_the_gate_again(queue: Subject) {
    queue.set_group("g", group_rate(per_second(2, 1))).await;
    queue.end_reclaim_grace().await;
    queue.add(jobs("g", 4)).await;
    for _ in 0..4 {
        queue.lease(1).await;
        queue.advance_ms(500);
    }
    queue.reclaim(10).await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    assert_eq!(queue.reclaim(10).await.recovered, 4);
    assert_eq!(queue.lease(10).await.len(), 1);
}

async fn a_reclaim_wakes_a_waiter(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add([job("g", "1")]).await;
    queue.lease(1).await;
    queue.drain_wakes().await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    assert_eq!(queue.reclaim(10).await.recovered, 1);
    assert!(queue.is_woken().await);
}

/// Erratum Q26.
async fn deadlines_heal_when_the_clock_steps_back(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add([job("g", "1")]).await;
    queue.lease(1).await;
    queue.step_back_ms(24 * 3600 * 1000);
    queue.reclaim(10).await;
    assert_eq!(queue.job("g", "1").await.until, Some(queue.now().plus_ms(LEASE_MS_MAX)));
    queue.advance_reclaiming_ms(LEASE_MS_MAX).await;
    assert_eq!(queue.reclaim(10).await.recovered, 1, "not a day later");
}

/// Erratum Q26.
async fn a_grace_heals_when_the_clock_steps_back(queue: Subject) {
    queue.reclaim(10).await;
    queue.step_back_ms(24 * 3600 * 1000);
    assert_eq!(queue.reclaim(10).await.grace_us, Some(RECLAIM_GRACE_MS * 1000));
    queue.advance_reclaiming_ms(RECLAIM_GRACE_MS).await;
    assert_eq!(queue.reclaim(10).await.grace_us, None);
}

async fn a_number_out_of_range_is_invalid(queue: Subject) {
    for jobs_max in [0, RECLAIM_JOBS_MAX + 1] {
        let refused = queue.engine.call(Reclaim { jobs_max }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))));
    }
}

async fn a_lost_lease_of_a_cancelled_job_is_cancelled(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.open_with_jobs("g", "b", 1).await;
    queue.add(jobs("g", 2)).await;
    queue.lease(3).await;
    queue.cancel("g", &["1"]).await;
    queue.cancel_bulk("g", "b").await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    let expected = Reclaimed { recovered: 1, dead: 0, cancelled: 2, grace_us: None };
    assert_eq!(queue.reclaim(10).await, expected);
    for id in ["1", "b1"] {
        let view = queue.job("g", id).await;
        assert_eq!((view.state, view.losses), (JobState::Cancelled, 1));
    }
    let (totals, group) = (queue.queue_view().await, queue.group("g").await);
    assert_eq!((totals.in_flight, totals.backlog, group.in_flight, group.backlog), (0, 1, 0, 1));
    assert_eq!(ids(&queue.lease(10).await), ["2"]);
}

/// Erratum Q17.
async fn too_many_lost_leases_end_dead_wanted_or_not(queue: Subject) {
    queue.set_queue(Settings { max_loss_count: 0, ..Settings::default() }).await;
    queue.end_reclaim_grace().await;
    queue.add([job("g", "1")]).await;
    queue.lease(1).await;
    queue.cancel("g", &["1"]).await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    let reclaimed = queue.reclaim(10).await;
    assert_eq!((reclaimed.dead, reclaimed.cancelled), (1, 0), "the reason of its end is kept");
}
