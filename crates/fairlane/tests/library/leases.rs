//! Leases without a pool.

use std::time::Duration;

use fairlane::{
    EngineError, Error, Extension, Fairlane, HeldLease, Job, JobState, LeaseRequest, Leases, Outcome,
    Progress, TypeId, Verdict, WorkerId,
};

const LEASE: Duration = Duration::from_secs(60);

async fn queue(jobs: usize) -> (Fairlane, Leases) {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let jobs = (0..jobs).map(|number| Job::new("customer-7", "mail", &number).id(number.to_string()));
    fairlane.enqueue_all(jobs).await.unwrap();
    let leases = fairlane.leases();
    (fairlane, leases)
}

fn request(number: Option<u64>) -> LeaseRequest {
    let (worker, types) = (WorkerId::new("w").unwrap(), vec![TypeId::new("mail").unwrap()]);
    LeaseRequest { worker, types, jobs_max: 2, length: LEASE, number }
}

#[tokio::test]
async fn an_outcome_is_settled_as_by_a_pool() {
    let (fairlane, leases) = queue(4).await;
    let jobs = leases.leaser("w", ["mail"]).unwrap().lease(10, Duration::ZERO).await.unwrap();
    let too_large = Outcome::done_bytes(vec![b'1'; 100_000]);
    let outcomes = [Outcome::done(&"sent"), Outcome::failed("address", "none"), too_large];
    let settlements: Vec<_> = outcomes.into_iter().zip(&jobs).map(|(end, job)| end.settlement(job)).collect();
    assert_eq!(leases.settle(settlements.clone()).await.unwrap(), [Verdict::Applied; 3]);
    assert_eq!(leases.settle(settlements).await.unwrap(), [Verdict::Applied; 3], "repeated");
    assert_eq!(fairlane.job("customer-7", 0).result::<String>().await.unwrap(), "sent");
    let dead = fairlane.dead().list(10).await.unwrap();
    assert_eq!(dead.len(), 2);
    assert_eq!(fairlane.dead().code("result_too_large").list(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_extension_stores_progress_and_reports_lost_and_cancelled_jobs() {
    let (fairlane, leases) = queue(3).await;
    let jobs = leases.leaser("w", ["mail"]).unwrap().lease(3, Duration::ZERO).await.unwrap();
    assert_eq!(leases.release(&jobs[..1]).await.unwrap(), [Verdict::Applied]);
    fairlane.job("customer-7", 1).cancel().await.unwrap();
    let held = jobs.iter().map(|job| HeldLease::from(job).progress(3, 4));
    let extensions = leases.extend(held.clone(), LEASE).await.unwrap();
    assert!(matches!(extensions[..], [Extension::Lost, Extension::Cancelled(_), Extension::Until(_)]));
    let view = fairlane.job("customer-7", 2).view().await.unwrap().unwrap();
    assert_eq!((view.state, view.progress), (JobState::Processing, Some(Progress { done: 3, total: 4 })));
    let released = fairlane.job("customer-7", 0).view().await.unwrap().unwrap();
    assert_eq!((released.state, released.attempts), (JobState::Pending, 0));

    let invalid = leases.extend(held, Duration::ZERO).await.unwrap_err();
    assert!(matches!(invalid, Error::Engine(EngineError::Invalid(_))), "{invalid}");
    let overdone = leases.extend([HeldLease::from(&jobs[2]).progress(5, 4)], LEASE).await.unwrap_err();
    assert!(overdone.to_string().contains("units done"), "{overdone}");
}

#[tokio::test]
async fn a_lease_waits_for_the_first_job_and_two_leasers_share_a_name() {
    let (fairlane, leases) = queue(0).await;
    let mut one = leases.leaser("w", ["mail"]).unwrap().length(LEASE);
    let mut two = leases.leaser("w", ["mail"]).unwrap();
    assert!(two.lease(1, Duration::ZERO).await.unwrap().is_empty());
    let add = async {
        let jobs = (0..2).map(|number| Job::new("customer-7", "mail", &number));
        fairlane.enqueue_all(jobs).await.unwrap()
    };
    let (leased, _) = tokio::join!(one.lease(1, LEASE), add);
    assert_eq!(leased.unwrap().len(), 1);
    assert_eq!(two.lease(1, Duration::ZERO).await.unwrap().len(), 1);
    assert!(leases.leaser("", ["mail"]).is_err() && leases.leaser("w", [""]).is_err());
}

#[tokio::test]
async fn a_client_that_repeats_its_number_gets_the_same_jobs() {
    let (_, leases) = queue(4).await;
    let lease = async |number| leases.attempts(request(number)).unwrap().lease().await;
    let first = lease(Some(7)).await.unwrap().jobs.take();
    assert_eq!(lease(Some(7)).await.unwrap().jobs.take(), first);
    let others = lease(Some(8)).await.unwrap().jobs.take();
    assert!(others.len() == 2 && !others.contains(&first[0]));
    assert!(matches!(lease(Some(7)).await, Err(Error::Superseded { latest: 8 })));
    let invalid = leases.attempts(request(Some(0))).err().unwrap();
    assert!(matches!(invalid, Error::OutOfRange(_)), "{invalid}");
}

#[tokio::test]
async fn jobs_of_an_anonymous_request_are_released_unless_they_are_taken() {
    let (fairlane, leases) = queue(2).await;
    let attempt = leases.attempts(request(None)).unwrap().lease().await.unwrap();
    assert_eq!(fairlane.queue_view().await.unwrap().in_flight, 2);
    drop(attempt);
    while fairlane.queue_view().await.unwrap().in_flight > 0 {
        tokio::task::yield_now().await;
    }
    let taken = leases.attempts(request(None)).unwrap().lease().await.unwrap().jobs.take();
    assert_eq!((taken.len(), taken[0].attempt), (2, 1));
}
