//! Leases without a pool.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane::{
    EngineError, Error, Extension, Fairlane, HeldLease, Job, JobState, LeaseRequest, Leases, Outcome,
    Progress, Rate, TypeId, Verdict, WorkerId,
};
use fairlane_core::queue::{self, Leased};
use fairlane_core::{Command, Reply};
use fairlane_engine::{Hooks, layer};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until;

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
async fn a_lease_may_wait_without_an_end() {
    let (fairlane, leases) = queue(1).await;
    let mut leaser = leases.leaser("w", ["mail"]).unwrap();
    assert_eq!(leaser.lease(1, Duration::MAX).await.unwrap().len(), 1);
    let add = fairlane.enqueue(Job::new("customer-7", "mail", &1));
    let (leased, _) = tokio::join!(leaser.lease(1, Duration::MAX), add);
    assert_eq!(leased.unwrap().len(), 1);
}

/// A time is waited for at least as long as the waits before it yielded nothing.
#[tokio::test]
async fn a_leaser_waits_no_longer_than_to_a_time_that_it_learns_after_many_waits() {
    const EMPTY: usize = 10;
    const TIME: Duration = Duration::from_millis(5);
    let (leases, waits) = (AtomicUsize::new(0), Arc::new(Mutex::new(Vec::new())));
    let seen = waits.clone();
    let hooks = Hooks::default()
        .submit(move |inner, command: Command| {
            let is_lease = matches!(command, Command::Queue(queue::Command::Lease(_)));
            let names_time = is_lease && leases.fetch_add(1, Ordering::SeqCst) == EMPTY;
            Box::pin(async move {
                let mut reply = inner.submit(command).await?;
                if let Reply::Queue(queue::Reply::Lease(Leased::Jobs { wake_in_us, .. })) = &mut reply
                    && names_time
                {
                    *wake_in_us = Some(TIME.as_micros() as u64);
                }
                Ok(reply)
            })
        })
        .wait(move |_, _, at_most| {
            let mut seen = seen.lock().unwrap();
            seen.push(at_most);
            let is_last = seen.len() > EMPTY;
            Box::pin(async move { if is_last { std::future::pending().await } else { Ok(false) } })
        });
    let (fairlane, _) = queue(0).await;
    let fairlane = Fairlane::from_engine(layer(fairlane.engine().clone(), hooks));
    let mut leaser = fairlane.leases().leaser("w", ["mail"]).unwrap();
    tokio::select! {
        leased = leaser.lease(1, LEASE) => panic!("{leased:?}"),
        () = until("the wait for the time", || waits.lock().unwrap().len() > EMPTY) => {}
    }
    let waits = waits.lock().unwrap();
    assert!(waits[..EMPTY].iter().all(|wait| *wait > TIME) && waits[EMPTY] <= TIME, "{waits:?}");
}

/// The server ends a blocking command up to a tenth of a second late, with which these jobs would
/// take five seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_leaser_on_redis_keeps_up_with_the_rate_of_its_type() {
    let server = RedisServer::start(ServerOptions::default());
    let fairlane = Fairlane::open(&server.url()).await.unwrap();
    let rate = Rate::new(100, 1000, Some(1)).unwrap();
    fairlane.job_type("mail").rate(rate).apply().await.unwrap();
    fairlane.enqueue_all((0..50).map(|number| Job::new("customer-7", "mail", &number))).await.unwrap();
    let mut leaser = fairlane.leases().leaser("w", ["mail"]).unwrap();
    let (begun, mut leased) = (Instant::now(), 0);
    while leased < 50 {
        leased += leaser.lease(10, LEASE).await.unwrap().len();
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(2500), "50 jobs took {took:?}");
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
