//! What must hold for the embedded engine beyond what the conformance suite asks of every engine.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use fairlane_core::queue::{
    Command, Enqueue, Enqueued, Inspect, JobReceipt, JobRef, Lease, NewJob, Reply, Settings,
};
use fairlane_core::{Cost, GroupId, JobId, Level, RequestNumber, TypeId, WorkerId};
use tokio::sync::oneshot;

use super::EmbeddedEngine;
use crate::{Clock, DirectoryOptions, Durability, Engine, EngineError};

/// Longer than any test waits for something that happens.
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn type_a() -> TypeId {
    TypeId::new("a").unwrap()
}

pub(crate) fn jobs(count: usize) -> Vec<NewJob> {
    let job = |number| NewJob {
        job: JobRef { group: GroupId::new("g").unwrap(), id: JobId::new(format!("{number}")).unwrap() },
        type_id: type_a(),
        level: Level::Normal,
        cost: Cost::default(),
        payload: Arc::from(&b"{}"[..]),
        delay_ms: 0,
        bulk: None,
        trace: None,
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

/// Keeps the owner thread busy until let go.
pub(crate) struct Held(mpsc::Sender<()>);

impl Held {
    pub fn hold(engine: &EmbeddedEngine) -> Self {
        let (release, released) = mpsc::channel();
        let look = super::Request::Look(Box::new(move |_, _| released.recv().unwrap()));
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
            tokio::spawn(async move { seam(&engine).enqueue(Enqueue { jobs: vec![job] }).await })
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
async fn a_turn_ends_after_so_many_jobs_and_not_when_nothing_more_is_queued() {
    let engine = engine_with_jobs(0).await;
    let held = Held::hold(&engine);
    let mut steps: Vec<_> = jobs(1000)
        .chunks(200)
        .map(|step| {
            let (engine, jobs) = (engine.clone(), step.to_vec());
            Box::pin(async move { seam(&engine).enqueue(Enqueue { jobs }).await })
        })
        .collect();
    for step in &mut steps {
        assert!(poll_once(step.as_mut()).await.is_none());
    }
    let behind = Held::hold(&engine);
    held.let_go();
    for step in steps {
        // Who comes behind them in the same turn would keep all of them waiting.
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
    let mut looking = std::pin::pin!(seam(&engine).inspect(Inspect::Whole));
    assert!(poll_once(waiting.as_mut()).await.is_none());
    let panicking = super::Request::Look(Box::new(|_, _| panic!("planted by a test")));
    engine.send(panicking).unwrap();
    assert!(poll_once(looking.as_mut()).await.is_none());
    held.let_go();
    assert_broken(looking.await);
    assert_broken(waiting.await);
    assert_broken(seam(&engine).inspect(Inspect::Whole).await);
    assert_broken(engine.wait(&types, LONG).await);
    assert_broken(engine.dump().await);
    let lost = tokio::time::timeout(LONG, engine.lost()).await.expect("a thread that panicked is lost");
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

#[tokio::test]
async fn work_of_another_type_wakes_nobody() {
    let engine = engine_with_jobs(3).await;
    let woken = engine.wait(&[TypeId::new("b").unwrap()], Duration::from_millis(1)).await;
    assert_eq!(woken, Ok(false));
    assert_eq!(engine.wait(&[type_a()], LONG).await, Ok(true));
}

#[tokio::test]
async fn a_token_for_a_waiter_that_has_gone_wakes_another() {
    let engine = engine_with_jobs(0).await;
    let types = [type_a()];
    {
        let mut gone = std::pin::pin!(engine.wait(&types, LONG));
        assert!(poll_once(gone.as_mut()).await.is_none());
        seam(&engine).enqueue_all(jobs(1)).await.unwrap();
        // One more turn, so that the token has reached the waiter before it goes.
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
        .send(super::Request::Look(Box::new(move |_, _| {
            std::thread_local!(static KEPT: std::cell::RefCell<Option<mpsc::Sender<()>>> = const {
                std::cell::RefCell::new(None)
            });
            KEPT.set(Some(alive));
        })))
        .unwrap();
    drop(engine);
    assert!(ended.recv_timeout(LONG).is_err_and(|error| error == mpsc::RecvTimeoutError::Disconnected));
}

/// Sends a command past its validation.
fn unvalidated(engine: &EmbeddedEngine, command: Command) -> oneshot::Receiver<Result<Reply, EngineError>> {
    let (reply, replied) = oneshot::channel();
    engine.send(super::Request::Execute { command, reply }).unwrap();
    replied
}

fn unstorable_lease() -> Command {
    let (worker, request) = (WorkerId::new("w").unwrap(), RequestNumber(u64::MAX));
    Command::Lease(Lease { worker, request, types: vec![], jobs_max: 1, lease_ms: 30_000 })
}

#[tokio::test]
async fn a_value_that_cannot_be_stored_refuses_its_command_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let options = DirectoryOptions { synced: false, reserve_bytes: 0, ..Default::default() };
    let engine = EmbeddedEngine::open(folder.path(), options).unwrap();
    let held = Held::hold(&engine);
    let enqueue = |job| Command::Enqueue(Enqueue { jobs: vec![job] });
    let [first, second] = jobs(2).try_into().unwrap();
    let before = unvalidated(&engine, enqueue(first));
    let unstorable = unvalidated(&engine, unstorable_lease());
    let behind = unvalidated(&engine, enqueue(second));
    held.let_go();
    for accepted in [before, behind] {
        let Reply::Enqueued(enqueued) = accepted.await.unwrap().unwrap() else { panic!("not enqueued") };
        assert_eq!(enqueued.receipts, [JobReceipt::Created]);
    }
    let refused = unstorable.await.unwrap().unwrap_err();
    assert!(matches!(refused, EngineError::Refused { .. }), "{refused:?}");
    assert!(!refused.to_string().contains("damaged"), "{refused}");
    assert!(poll_once(std::pin::pin!(engine.lost())).await.is_none());
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
    let refused = engine.execute(unstorable_lease()).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
}
