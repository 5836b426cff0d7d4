//! `extend`: a lease is kept alive; a lost one is reported as lost, never recreated.

use fairlane_core::Fence;
use fairlane_core::kernel::Invalid;
use fairlane_core::limits::{EXTEND_JOBS_MAX, LEASE_MS_MAX, LEASE_MS_MIN};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    an_extended_lease_ends_later,
    an_extended_lease_is_not_reclaimed,
    an_overdue_lease_can_be_extended_until_it_is_reclaimed,
    a_reclaimed_lease_is_lost,
    a_lease_given_to_another_is_lost,
    a_settled_lease_is_lost,
    an_unknown_job_is_lost_and_not_made,
    extensions_come_in_the_order_of_the_leases,
    a_repeated_request_still_gives_an_extended_job,
    a_cancelled_job_is_extended_and_reported_as_cancelled,
    a_job_whose_bulk_action_is_gone_is_reported_as_cancelled,
    a_cancelled_job_that_is_extended_is_not_reclaimed,
    the_same_job_twice_is_invalid,
    a_length_out_of_range_is_invalid,
];

async fn an_extended_lease_ends_later(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    queue.advance_ms(1000);
    let until = START.plus_ms(1000 + 60_000);
    assert_eq!(queue.extend(&leased, 60_000).await, Extension::Until(until));
    assert_eq!(queue.job("g", "1").await.until, Some(until));
    let sooner = START.plus_ms(1000 + 500);
    assert_eq!(queue.extend(&leased, 500).await, Extension::Until(sooner), "counted from now");
    assert_eq!(queue.queue_view().await.in_flight, 1);
}

/// Erratum Q38.
async fn an_extended_lease_is_not_reclaimed(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(2).await;
    for _ in 0..4 {
        queue.advance_ms(10_000);
        queue.extend(&leased[0], LEASE_MS).await;
        queue.reclaim(10).await;
    }
    assert_eq!(queue.state("g", "1").await, JobState::Processing);
    assert_eq!(queue.state("g", "2").await, JobState::Waiting, "without a heartbeat it comes back");
}

async fn an_overdue_lease_can_be_extended_until_it_is_reclaimed(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    queue.advance_ms(LEASE_MS + 5000);
    let until = queue.now().plus_ms(LEASE_MS);
    assert_eq!(queue.extend(&leased, LEASE_MS).await, Extension::Until(until));
    assert_eq!(queue.settle(&leased, succeeded()).await, Verdict::Applied);
}

/// Erratum Q38.
async fn a_reclaimed_lease_is_lost(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    queue.advance_reclaiming_ms(LEASE_MS).await;
    assert_eq!(queue.reclaim(10).await.recovered, 1);
    assert_eq!(queue.extend(&leased, LEASE_MS).await, Extension::Lost);
    assert_eq!(queue.state("g", "1").await, JobState::Waiting);
    assert_eq!(queue.queue_view().await.in_flight, 0);
}

async fn a_lease_given_to_another_is_lost(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let first = queue.lease_one().await;
    queue.settle(&first, Outcome::Released).await;
    let second = queue.lease_one().await;
    assert_eq!(queue.extend(&first, LEASE_MS_MAX).await, Extension::Lost);
    assert_eq!(queue.job("g", "1").await.until, Some(START.plus_ms(LEASE_MS)));
    assert!(matches!(queue.extend(&second, LEASE_MS_MAX).await, Extension::Until(_)));
}

async fn a_settled_lease_is_lost(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    queue.succeed(std::slice::from_ref(&leased)).await;
    assert_eq!(queue.extend(&leased, LEASE_MS).await, Extension::Lost);
    assert_eq!(queue.state("g", "1").await, JobState::Completed);
}

/// Erratum Q13.
async fn an_unknown_job_is_lost_and_not_made(queue: Subject) {
    let command = Extend { leases: vec![(job_ref("g", "1"), Fence(5))], lease_ms: LEASE_MS };
    let extended = queue.engine.call(command).await.expect("extend is answered");
    assert_eq!(extended.extensions, [Extension::Lost]);
    assert_eq!(queue.find_job("g", "1").await, None);
    assert_eq!(queue.queue_view().await.in_flight, 0);
}

async fn extensions_come_in_the_order_of_the_leases(queue: Subject) {
    queue.add(jobs("g", 4)).await;
    let leased = queue.lease(4).await;
    queue.succeed(&leased[1..2]).await;
    let mut leases: Vec<_> = leased.iter().map(|job| (job.job.clone(), job.fence)).rev().collect();
    leases.push((job_ref("h", "1"), Fence(1)));
    let extended = queue.engine.call(Extend { leases, lease_ms: 1000 }).await.expect("extend is answered");
    let held = Extension::Until(START.plus_ms(1000));
    assert_eq!(extended.extensions, [held, held, Extension::Lost, held, Extension::Lost]);
    let none = Extend { leases: vec![], lease_ms: 1000 };
    assert_eq!(queue.engine.call(none).await.expect("extend is answered").extensions, []);
}

async fn a_repeated_request_still_gives_an_extended_job(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let first = queue.leased(request("w", 1, 1)).await.0;
    queue.advance_ms(LEASE_MS - 1);
    queue.extend(&first[0], LEASE_MS).await;
    queue.advance_ms(LEASE_MS - 1);
    assert_eq!(queue.leased(request("w", 1, 1)).await.0, first);
}

async fn the_same_job_twice_is_invalid(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    let leases = vec![(leased.job.clone(), leased.fence), (leased.job.clone(), Fence(1))];
    let refused = queue.engine.call(Extend { leases, lease_ms: LEASE_MS }).await;
    assert_eq!(refused, Err(job_named_twice("g", "1")));
}

async fn a_length_out_of_range_is_invalid(queue: Subject) {
    for lease_ms in [LEASE_MS_MIN - 1, LEASE_MS_MAX + 1] {
        let refused = queue.engine.call(Extend { leases: vec![], lease_ms }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))));
    }
    let lease = |number: usize| (job_ref("g", &number.to_string()), Fence(1));
    let leases = (0..=EXTEND_JOBS_MAX).map(lease).collect();
    let refused = queue.engine.call(Extend { leases, lease_ms: LEASE_MS }).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::TooMany { .. }))));
}

async fn a_cancelled_job_is_extended_and_reported_as_cancelled(queue: Subject) {
    queue.open_with_jobs("g", "b", 2).await;
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(4).await;
    queue.cancel("g", &["1"]).await;
    queue.cancel_bulk("g", "b").await;
    let leases: Vec<_> = leased.iter().map(|job| (job.job.clone(), job.fence)).collect();
    let extended = queue.engine.call(Extend { leases, lease_ms: 7000 }).await.expect("extend is answered");
    let until = START.plus_ms(7000);
    for (job, extension) in leased.iter().zip(extended.extensions) {
        let wanted = job.job.id.to_string() == "2";
        let expected = if wanted { Extension::Until(until) } else { Extension::Cancelled(until) };
        assert_eq!(extension, expected, "{:?}", job.job);
        assert_eq!(queue.job("g", &job.job.id.to_string()).await.until, Some(until));
    }
}

async fn a_job_whose_bulk_action_is_gone_is_reported_as_cancelled(queue: Subject) {
    queue.set_queue(Settings { bulk_retention_ms: 0, ..Settings::default() }).await;
    queue.open_with_jobs("g", "b", 1).await;
    let leased = queue.lease_one().await;
    queue.cancel_bulk("g", "b").await;
    queue.sweep(10).await;
    assert_eq!(queue.find_bulk("g", "b").await, None);
    assert!(matches!(queue.extend(&leased, LEASE_MS).await, Extension::Cancelled(_)));
}

async fn a_cancelled_job_that_is_extended_is_not_reclaimed(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    queue.cancel("g", &["1"]).await;
    for _ in 0..4 {
        queue.advance_ms(10_000);
        assert!(matches!(queue.extend(&leased, LEASE_MS).await, Extension::Cancelled(_)));
        assert_eq!(queue.reclaim(10).await.cancelled, 0);
    }
    assert_eq!(queue.settle(&leased, Outcome::Released).await, Verdict::Applied);
    assert_eq!(queue.state("g", "1").await, JobState::Cancelled);
}
