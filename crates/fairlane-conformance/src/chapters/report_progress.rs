//! `report_progress`: the progress of a running attempt, which belongs to its lease.

use fairlane_core::Fence;
use fairlane_core::limits::{INTEGER_MAX, PROGRESS_REPORTS_MAX};
use fairlane_core::queue::*;
use fairlane_engine::EngineError;

use super::{Case, cases};
use crate::subject::*;

/// The claims.
pub const CASES: &[Case] = cases![
    the_last_report_is_shown,
    it_survives_an_extension_and_a_request_to_stop,
    it_ends_with_its_lease,
    a_report_of_a_lost_lease_is_ignored,
    jobs_with_a_report_are_settled_and_reclaimed_like_others,
    an_invalid_report_is_refused,
];

fn report(leased: &LeasedJob, done: u64, total: u64) -> ProgressReport {
    ProgressReport { job: leased.job.clone(), fence: leased.fence, progress: Progress { done, total } }
}

async fn send(queue: &Subject, reports: Vec<ProgressReport>) -> usize {
    queue.engine.call(ReportProgress { reports }).await.expect("progress is stored").stored
}

async fn shown(queue: &Subject, id: &str) -> Option<(u64, u64)> {
    queue.job("g", id).await.progress.map(|progress| (progress.done, progress.total))
}

async fn the_last_report_is_shown(queue: Subject) {
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease(2).await;
    assert_eq!(shown(&queue, "1").await, None);
    assert_eq!(send(&queue, vec![report(&leased[0], 1, 20), report(&leased[1], 0, 1)]).await, 2);
    assert_eq!((shown(&queue, "1").await, shown(&queue, "2").await), (Some((1, 20)), Some((0, 1))));
    let largest = INTEGER_MAX - 1;
    assert_eq!(send(&queue, vec![report(&leased[0], largest, largest)]).await, 1);
    assert_eq!(shown(&queue, "1").await, Some((largest, largest)));
    assert_eq!(shown(&queue, "2").await, Some((0, 1)), "other reports stay");
    assert_eq!(shown(&queue, "3").await, None);
}

async fn it_survives_an_extension_and_a_request_to_stop(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    send(&queue, vec![report(&leased, 3, 4)]).await;
    queue.extend(&leased, LEASE_MS).await;
    queue.cancel("g", &["1"]).await;
    assert_eq!(shown(&queue, "1").await, Some((3, 4)));
    assert_eq!(send(&queue, vec![report(&leased, 4, 4)]).await, 1);
    assert!(matches!(queue.extend(&leased, LEASE_MS).await, Extension::Cancelled(_)));
}

async fn it_ends_with_its_lease(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let leased = queue.lease(2).await;
    send(&queue, vec![report(&leased[0], 1, 2), report(&leased[1], 1, 2)]).await;
    queue.settle(&leased[0], succeeded()).await;
    queue.settle(&leased[1], Outcome::Released).await;
    assert_eq!((shown(&queue, "1").await, shown(&queue, "2").await), (None, None));
    queue.lease_one().await;
    assert_eq!(shown(&queue, "2").await, None, "the next attempt begins without one");
}

async fn a_report_of_a_lost_lease_is_ignored(queue: Subject) {
    queue.add(jobs("g", 2)).await;
    let first = queue.lease_one().await;
    queue.settle(&first, Outcome::Released).await;
    let second = queue.lease_one().await;
    assert_eq!(first.job, second.job);
    let unknown = ProgressReport {
        job: JobRef { id: fairlane_core::JobId::new("none").expect("a valid id"), ..first.job.clone() },
        ..report(&first, 1, 2)
    };
    let later = ProgressReport { fence: Fence(second.fence.0 + 1), ..report(&second, 1, 2) };
    assert_eq!(send(&queue, vec![report(&first, 1, 2), unknown]).await, 0);
    assert_eq!(send(&queue, vec![later]).await, 0);
    assert_eq!(shown(&queue, "1").await, None);
}

async fn jobs_with_a_report_are_settled_and_reclaimed_like_others(queue: Subject) {
    queue.end_reclaim_grace().await;
    queue.add(jobs("g", 3)).await;
    let leased = queue.lease(3).await;
    send(&queue, leased.iter().map(|job| report(job, 1, 3)).collect()).await;
    assert_eq!(queue.settle(&leased[0], succeeded()).await, Verdict::Applied);
    assert_eq!(queue.settle(&leased[1], retry(60_000)).await, Verdict::Applied);
    queue.advance_reclaiming_ms(LEASE_MS).await;
    assert_eq!(queue.reclaim(10).await.recovered, 1);
    assert_eq!(queue.state("g", "3").await, JobState::Waiting);
    assert_eq!(queue.queue_view().await.in_flight, 0);
}

async fn an_invalid_report_is_refused(queue: Subject) {
    queue.add([job("g", "1")]).await;
    let leased = queue.lease_one().await;
    for (done, total) in [(0, 0), (2, 1), (0, INTEGER_MAX)] {
        let reports = vec![report(&leased, done, total)];
        let refused = queue.engine.call(ReportProgress { reports }).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{done} of {total}: {refused:?}");
    }
    let twice = vec![report(&leased, 0, 1); 2];
    assert!(queue.engine.call(ReportProgress { reports: twice }).await.is_err());
    let many = vec![report(&leased, 0, 1); PROGRESS_REPORTS_MAX + 1];
    assert!(queue.engine.call(ReportProgress { reports: many }).await.is_err());
    assert_eq!(send(&queue, vec![]).await, 0);
}
