//! Tests of the embedded engine beyond the conformance suite for all engines.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use fairlane_core::kernel::Registered;
use fairlane_core::queue::{
    Enqueue, Enqueued, InspectQueue, JobReceipt, JobRef, Lease, Leased, NewJob, SetType, Settings, TypePatch,
};
use fairlane_core::{Command, GroupId, JobId, Micros, Rate, Reply, RequestNumber, TypeId, WorkerId};
use tokio::sync::oneshot;

use super::{EmbeddedEngine, OwnClock};
use crate::waiters::Submission;
use crate::{Clock, DirectoryOptions, Durability, Engine, EngineError};

/// Longer than any event in a test takes.
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn type_a() -> TypeId {
    TypeId::new("a").unwrap()
}

pub(crate) fn jobs(count: usize) -> Vec<NewJob> {
    let job = |number| {
        NewJob::new(
            JobRef { group: GroupId::new("g").unwrap(), id: JobId::new(format!("{number}")).unwrap() },
            type_a(),
            Arc::from(&b"{}"[..]),
        )
    };
    (0..count).map(job).collect()
}

pub(crate) async fn engine_with_jobs(count: usize) -> Arc<EmbeddedEngine> {
    let engine = Arc::new(EmbeddedEngine::new(Settings::default(), Clock::System).unwrap());
    let receipts = seam(&engine).enqueue_all(jobs(count)).await.unwrap().receipts;
    assert!(receipts.iter().all(|receipt| *receipt == JobReceipt::Created));
    engine
}

fn seam(engine: &Arc<EmbeddedEngine>) -> &dyn Engine {
    &**engine
}

pub(crate) async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Keeps the owner thread busy until [`Held::let_go`].
pub(crate) struct Held(mpsc::Sender<()>);

impl Held {
    pub fn hold(engine: &EmbeddedEngine) -> Self {
        let (release, released) = mpsc::channel();
        let look = super::Request::Read(Box::new(move |_, _| released.recv().unwrap()));
        engine.send(look).unwrap();
        Self(release)
    }

    pub fn let_go(self) {
        self.0.send(()).unwrap();
    }
}

fn assert_broken<T: std::fmt::Debug>(result: Result<T, EngineError>) {
    assert!(matches!(result, Err(EngineError::Broken { .. })), "{result:?}");
}

#[tokio::test]
async fn commands_queued_together_are_each_answered() {
    let engine = engine_with_jobs(0).await;
    let held = Held::hold(&engine);
    let senders: Vec<_> = jobs(3000)
        .into_iter()
        .map(|job| {
            let engine = engine.clone();
            tokio::spawn(async move { seam(&engine).call(Enqueue { jobs: vec![job] }).await })
        })
        .collect();
    tokio::task::yield_now().await;
    held.let_go();
    for sender in senders {
        assert_eq!(sender.await.unwrap().unwrap().receipts, [JobReceipt::Created]);
    }
    engine.check().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_small_command_waits_for_one_large_command_and_not_for_all_of_them() {
    let engine = engine_with_jobs(0).await;
    let held = Held::hold(&engine);
    let mut jobs = jobs(3);
    for large in [0, 1] {
        jobs[large].payload = vec![0; super::LARGE_BYTES].into();
    }
    let mut enqueues: Vec<_> = jobs
        .into_iter()
        .map(|job| {
            let engine = engine.clone();
            Box::pin(async move { seam(&engine).call(Enqueue { jobs: vec![job] }).await })
        })
        .collect();
    for enqueue in &mut enqueues {
        assert!(poll_once(enqueue.as_mut()).await.is_none());
    }
    held.let_go();
    for enqueue in enqueues {
        assert_eq!(enqueue.await.unwrap().receipts, [JobReceipt::Created]);
    }
    let (worker, request) = (WorkerId::new("w").unwrap(), RequestNumber(1));
    let lease = Lease { worker, request, types: vec![type_a()], jobs_max: 3, lease_ms: 60_000 };
    let Leased::Jobs { jobs, .. } = seam(&engine).call(lease).await.unwrap() else {
        panic!("the request is new");
    };
    let order: Vec<_> = jobs.iter().map(|job| job.job.id.escaped()).collect();
    assert_eq!(order, ["0", "2", "1"]);
}

#[tokio::test]
async fn a_turn_ends_after_so_many_jobs_and_not_when_nothing_more_is_queued() {
    let engine = engine_with_jobs(0).await;
    let held = Held::hold(&engine);
    let mut steps: Vec<_> = jobs(1000)
        .chunks(200)
        .map(|step| {
            let (engine, jobs) = (engine.clone(), step.to_vec());
            Box::pin(async move { seam(&engine).call(Enqueue { jobs }).await })
        })
        .collect();
    for step in &mut steps {
        assert!(poll_once(step.as_mut()).await.is_none());
    }
    let behind = Held::hold(&engine);
    held.let_go();
    for step in steps {
        // A request behind them in the same turn would delay all of their replies.
        let answered = tokio::time::timeout(LONG, step).await.expect("the turn ends before the next request");
        assert!(answered.unwrap().receipts.iter().all(|receipt| *receipt == JobReceipt::Created));
    }
    behind.let_go();
}

#[tokio::test]
async fn a_panic_in_the_machine_hangs_no_caller() {
    let engine = engine_with_jobs(0).await;
    let held = Held::hold(&engine);
    let types = [type_a()];
    let mut waiting = std::pin::pin!(engine.wait(&types, LONG));
    let mut looking = std::pin::pin!(seam(&engine).call(InspectQueue));
    assert!(poll_once(waiting.as_mut()).await.is_none());
    let panicking = super::Request::Read(Box::new(|_, _| panic!("planted by a test")));
    engine.send(panicking).unwrap();
    assert!(poll_once(looking.as_mut()).await.is_none());
    held.let_go();
    assert_broken(looking.await);
    assert_broken(waiting.await);
    assert_broken(seam(&engine).call_when_woken(&types, LONG, lease_of("one", 1)).await);
    assert_broken(seam(&engine).call(InspectQueue).await);
    assert_broken(engine.wait(&types, LONG).await);
    assert_broken(engine.dump().await);
    let lost =
        tokio::time::timeout(LONG, engine.admin().lost()).await.expect("a thread that panicked is lost");
    assert_broken::<()>(Err(lost));
}

#[tokio::test]
async fn an_enqueue_wakes_one_waiter() {
    let engine = engine_with_jobs(0).await;
    let types = [type_a()];
    let mut first = std::pin::pin!(engine.wait(&types, LONG));
    let mut second = std::pin::pin!(engine.wait(&types, LONG));
    assert!(poll_once(first.as_mut()).await.is_none());
    assert!(poll_once(second.as_mut()).await.is_none());
    seam(&engine).enqueue_all(jobs(5)).await.unwrap();
    assert_eq!(first.await, Ok(true));
    engine.check().await.unwrap().unwrap();
    assert!(poll_once(second.as_mut()).await.is_none());
}

fn lease_of(worker: &str, jobs_max: usize) -> Lease {
    let worker = WorkerId::new(worker).unwrap();
    Lease { worker, request: RequestNumber(1), types: vec![type_a()], jobs_max, lease_ms: 30_000 }
}

fn count(leased: Result<Leased, EngineError>) -> usize {
    let Ok(Leased::Jobs { jobs, .. }) = leased else { panic!("{leased:?}") };
    jobs.len()
}

#[tokio::test]
async fn leases_that_wait_share_the_jobs_of_one_enqueue() {
    let engine = engine_with_jobs(0).await;
    let types = [type_a()];
    let wait = |worker, jobs_max| seam(&engine).call_when_woken(&types, LONG, lease_of(worker, jobs_max));
    let (mut first, mut second) = (Box::pin(wait("one", 1)), Box::pin(wait("two", 3)));
    let mut third = Box::pin(wait("three", 9));
    for waiting in [&mut first, &mut second, &mut third] {
        assert!(poll_once(waiting.as_mut()).await.is_none());
    }
    seam(&engine).enqueue_all(jobs(3)).await.unwrap();
    assert_eq!((count(first.await), count(second.await)), (1, 2));
    engine.check().await.unwrap().unwrap();
    assert!(poll_once(third.as_mut()).await.is_none(), "there is no job for it");
}

#[tokio::test]
async fn a_lease_that_waited_long_enough_is_applied_without_a_wake_up() {
    let engine = engine_with_jobs(4).await;
    let other = [TypeId::new("b").unwrap()];
    let leased = seam(&engine).call_when_woken(&other, Duration::from_millis(1), lease_of("one", 3)).await;
    assert_eq!(count(leased), 3);
}

#[tokio::test]
async fn a_waiting_lease_that_is_dropped_takes_neither_job_nor_token() {
    let engine = engine_with_jobs(0).await;
    let types = [type_a()];
    {
        let mut gone = std::pin::pin!(seam(&engine).call_when_woken(&types, LONG, lease_of("one", 3)));
        assert!(poll_once(gone.as_mut()).await.is_none());
    }
    seam(&engine).enqueue_all(jobs(1)).await.unwrap();
    assert_eq!(seam(&engine).call(InspectQueue).await.unwrap().in_flight, 0);
    assert_eq!(engine.wait(&types, LONG).await, Ok(true));
}

#[tokio::test]
async fn work_of_another_type_wakes_no_waiter() {
    let engine = engine_with_jobs(3).await;
    let woken = engine.wait(&[TypeId::new("b").unwrap()], Duration::from_millis(1)).await;
    assert_eq!(woken, Ok(false));
    assert_eq!(engine.wait(&[type_a()], LONG).await, Ok(true));
}

#[tokio::test]
async fn a_token_for_a_dropped_waiter_wakes_another() {
    let engine = engine_with_jobs(0).await;
    let types = [type_a()];
    {
        let mut gone = std::pin::pin!(engine.wait(&types, LONG));
        assert!(poll_once(gone.as_mut()).await.is_none());
        seam(&engine).enqueue_all(jobs(1)).await.unwrap();
        // One more turn, so that the token has reached the waiter before it is dropped.
        engine.check().await.unwrap().unwrap();
    }
    assert_eq!(engine.wait(&types, LONG).await, Ok(true));
}

#[tokio::test]
async fn a_waiter_that_left_before_the_push_takes_no_token() {
    let engine = engine_with_jobs(0).await;
    let types = [type_a()];
    assert_eq!(engine.wait(&types, Duration::ZERO).await, Ok(false));
    seam(&engine).enqueue_all(jobs(1)).await.unwrap();
    assert_eq!(engine.wait(&types, LONG).await, Ok(true));
}

#[tokio::test]
async fn a_large_enqueue_is_split_and_answered_in_order() {
    let engine = engine_with_jobs(300).await;
    let mut more = jobs(700);
    for job in &mut more[650..] {
        job.payload = vec![b'x'; 300 * 1024].into();
    }
    let Enqueued { receipts, backlogs } = seam(&engine).enqueue_all(more).await.unwrap();
    let existing = receipts.iter().take_while(|receipt| matches!(receipt, JobReceipt::Exists { .. })).count();
    assert_eq!((existing, receipts.len()), (300, 700));
    assert!(receipts[300..].iter().all(|receipt| *receipt == JobReceipt::Created));
    assert_eq!(backlogs, [vec![300; 300], (301..=700).collect()].concat());
}

#[test]
fn dropping_the_engine_ends_its_thread() {
    let engine = EmbeddedEngine::new(Settings::default(), Clock::System).unwrap();
    let (alive, ended) = mpsc::channel::<()>();
    engine
        .send(super::Request::Read(Box::new(move |_, _| {
            std::thread_local!(static KEPT: std::cell::RefCell<Option<mpsc::Sender<()>>> = const {
                std::cell::RefCell::new(None)
            });
            KEPT.set(Some(alive));
        })))
        .unwrap();
    drop(engine);
    assert!(ended.recv_timeout(LONG).is_err_and(|error| error == mpsc::RecvTimeoutError::Disconnected));
}

/// Sends a command without validating it.
fn unvalidated(engine: &EmbeddedEngine, command: Command) -> oneshot::Receiver<Result<Reply, EngineError>> {
    let (reply, replied) = oneshot::channel();
    engine.send(super::Request::Submit(Submission { command, reply })).unwrap();
    replied
}

fn unstorable_lease() -> Command {
    let (worker, request) = (WorkerId::new("w").unwrap(), RequestNumber(u64::MAX));
    Lease { worker, request, types: vec![], jobs_max: 1, lease_ms: 30_000 }.into_command()
}

#[tokio::test]
async fn a_value_that_cannot_be_stored_refuses_its_command_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let options = DirectoryOptions { synced: false, reserve_bytes: 0, ..Default::default() };
    let engine = EmbeddedEngine::open(folder.path(), options).unwrap();
    let held = Held::hold(&engine);
    let enqueue = |job| Enqueue { jobs: vec![job] }.into_command();
    let [first, second] = jobs(2).try_into().unwrap();
    let before = unvalidated(&engine, enqueue(first));
    let unstorable = unvalidated(&engine, unstorable_lease());
    let behind = unvalidated(&engine, enqueue(second));
    held.let_go();
    for accepted in [before, behind] {
        let reply = accepted.await.unwrap().unwrap();
        let enqueued = Enqueue::from_reply(reply).expect("the reply to an enqueue");
        assert_eq!(enqueued.receipts, [JobReceipt::Created]);
    }
    let refused = unstorable.await.unwrap().unwrap_err();
    assert!(matches!(refused, EngineError::Refused { .. }), "{refused:?}");
    assert!(!refused.to_string().contains("damaged"), "{refused}");
    assert!(poll_once(std::pin::pin!(engine.admin().lost())).await.is_none());
    let dump = engine.dump().await.unwrap();
    drop(engine);
    let options = DirectoryOptions { synced: false, reserve_bytes: 0, ..Default::default() };
    let engine = EmbeddedEngine::open(folder.path(), options).unwrap();
    assert_eq!(dump.difference(&engine.dump().await.unwrap()), "");
}

#[tokio::test]
async fn an_interval_with_a_value_that_cannot_be_stored_is_undone_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let durability = Durability::Interval;
    let options = DirectoryOptions { durability, synced: false, reserve_bytes: 0, ..Default::default() };
    let engine = EmbeddedEngine::open(folder.path(), options).unwrap();
    assert!(unvalidated(&engine, unstorable_lease()).await.unwrap().is_ok(), "it is written later");
    let deadline = std::time::Instant::now() + LONG;
    while format!("{:?}", engine.dump().await.unwrap()).contains(&u64::MAX.to_string()) {
        assert!(std::time::Instant::now() < deadline, "what cannot be written is undone");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let receipts = (&engine as &dyn Engine).enqueue_all(jobs(1)).await.unwrap().receipts;
    assert_eq!(receipts, [JobReceipt::Created]);
}

#[tokio::test]
async fn a_request_number_beyond_the_bound_is_refused_before_it_is_sent() {
    let engine = engine_with_jobs(0).await;
    let refused = engine.submit(unstorable_lease()).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
}

const HOUR_US: u64 = 3_600_000_000;
const NOON: u64 = 1_700_000_000_000_000;

#[test]
fn a_clock_that_was_ahead_never_steps_back_and_is_caught_up_with() {
    let given = Arc::new(AtomicU64::new(NOON));
    let clock = OwnClock::new(Clock::Given(given.clone()), Micros(NOON + HOUR_US));
    assert_eq!(clock.now(), Micros(NOON + HOUR_US), "it goes on from the stored time");
    assert!(clock.warning().is_some_and(|warning| warning.contains("3600 s ahead")));
    let mut last = clock.now();
    for minute in 1..=100 * 60 {
        given.store(NOON + minute * 60_000_000, Ordering::SeqCst);
        let passed_us = clock.now().since(last);
        assert_eq!(passed_us, 59_400_000, "a hundredth slower in minute {minute}");
        last = clock.now();
    }
    assert_eq!(clock.now(), Micros(NOON + 100 * HOUR_US), "an hour is made up for in 100 hours");
    given.fetch_add(HOUR_US, Ordering::SeqCst);
    assert_eq!((clock.now(), clock.warning()), (Micros(NOON + 101 * HOUR_US), None));
}

#[tokio::test]
async fn a_rate_holds_in_a_directory_whose_clock_was_an_hour_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let given = Arc::new(AtomicU64::new(NOON + HOUR_US));
    let open = || {
        let clock = Clock::Given(given.clone());
        let options = DirectoryOptions { clock, synced: false, reserve_bytes: 0, ..Default::default() };
        Arc::new(EmbeddedEngine::open(folder.path(), options).unwrap())
    };
    let engine = open();
    let patch = TypePatch { rate: Some(Some(Rate::per_second(50).unwrap())), ..TypePatch::default() };
    seam(&engine).call(SetType { type_id: type_a(), patch }).await.unwrap();
    seam(&engine).enqueue_all(jobs(2000)).await.unwrap();
    drop(engine);
    given.store(NOON, Ordering::SeqCst);
    let engine = open();
    assert!(
        engine.info().warnings.iter().any(|warning| warning.contains("ahead")),
        "{:?}",
        engine.info().warnings
    );
    let (mut leased, mut request) = (0, 0);
    while given.load(Ordering::SeqCst) < NOON + 20_000_000 {
        request += 1;
        let (worker, request) = (WorkerId::new("w").unwrap(), RequestNumber(request));
        let lease = Lease { worker, request, types: vec![type_a()], jobs_max: 10, lease_ms: 60_000 };
        let Leased::Jobs { jobs, wake_in_us } = seam(&engine).call(lease).await.unwrap() else {
            panic!("numbers only grow");
        };
        leased += jobs.len();
        if jobs.is_empty() {
            let pause_us = wake_in_us.expect("the timer is this worker's");
            assert!((1..=1_000_000).contains(&pause_us), "a caller waits {pause_us} us by its own clock");
            given.fetch_add(pause_us, Ordering::SeqCst);
        }
    }
    assert!((980..=1005).contains(&leased), "{leased} jobs in 20 s at 50/s");
}
