//! An aggregator whose engine loses replies, is slow, or takes away what was in hand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::*;
use fairlane_core::queue::*;
use fairlane_core::{TypeId, WorkerId};
use fairlane_engine::{BoxFuture, Clock, EmbeddedEngine, Engine, EngineError, WalkPage};
use fairlane_worker::*;
use tokio::sync::mpsc;

/// So long that no test outlives it: what is not kept in hand, or given back, fails.
const LONG_LEASE: Duration = Duration::from_secs(300);

/// An engine between a worker and another engine.
struct Troubled {
    inner: Arc<dyn Engine>,
    /// Replies to lose, and commands not to send before that, by kind.
    to_lose: Mutex<HashMap<&'static str, (u32, u32)>>,
    /// Pages of jobs are held back until this many times bulk actions were given.
    list_after: AtomicUsize,
    given: AtomicUsize,
    /// Commands that took bulk actions or asked for some, and those that gave one back.
    takes: AtomicUsize,
    releases: AtomicUsize,
    /// The clock of the engine, and what every gift and return of a bulk action moves it on by.
    clock: Arc<AtomicU64>,
    step_us: u64,
}

impl Troubled {
    fn new(inner: Arc<dyn Engine>) -> Self {
        let (to_lose, list_after, given, takes, releases, clock) = Default::default();
        Self { inner, to_lose, list_after, given, takes, releases, clock, step_us: 0 }
    }

    fn lost(&self, kind: &'static str, reply: bool) -> Result<(), EngineError> {
        let mut to_lose = self.to_lose.lock().expect("no test panics here");
        let (unsent, unheard) = to_lose.entry(kind).or_default();
        let left = if reply { unheard } else { unsent };
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        Err(EngineError::Unavailable { engine: "troubled", reason: format!("{kind} was lost") })
    }
}

fn kind(command: &Command) -> &'static str {
    match command {
        Command::TakeCompleted(_) => "take",
        Command::ListJobs(_) => "list",
        Command::Enqueue(_) => "enqueue",
        Command::FinishBulk(_) => "finish",
        _ => "other",
    }
}

impl Engine for Troubled {
    fn name(&self) -> &'static str {
        "troubled"
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        Box::pin(async move {
            let kind = kind(&command);
            self.lost(kind, false)?;
            if kind == "take" {
                self.takes.fetch_add(1, Ordering::SeqCst);
            }
            let is_release = matches!(
                &command,
                Command::FinishBulk(FinishBulk { outcome: Aggregation::Released { .. }, .. })
            );
            while kind == "list" && self.given.load(Ordering::SeqCst) < self.list_after.load(Ordering::SeqCst)
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let reply = self.inner.execute(command).await?;
            if is_release {
                self.releases.fetch_add(1, Ordering::SeqCst);
                self.clock.fetch_add(self.step_us, Ordering::SeqCst);
            }
            match &reply {
                Reply::CompletedTaken(taken) if taken.bulks.is_empty() => return Ok(reply),
                Reply::CompletedTaken(_) => {
                    self.given.fetch_add(1, Ordering::SeqCst);
                    self.clock.fetch_add(self.step_us, Ordering::SeqCst);
                }
                _ => {}
            }
            self.lost(kind, true)?;
            Ok(reply)
        })
    }

    fn wait<'a>(&'a self, types: &'a [TypeId], most: Duration) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.inner.wait(types, most)
    }

    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        self.inner.walk(pages)
    }
}

fn settings(aggregation_lease: Duration) -> WorkerSettings {
    let mut settings = quick();
    settings.loops.aggregation_lease = aggregation_lease;
    settings
}

fn with_callback() -> BulkPlan {
    let url = "https://example.com/hook".to_owned();
    BulkPlan { callback: Some(CallbackPlan { url }), ..BulkPlan::default() }
}

/// A bulk action that is to be aggregated; its only job was cancelled.
async fn complete(engine: &Arc<dyn Engine>, group: &str, id: &str, plan: &BulkPlan) {
    let bulk = bulk_ref(group, id);
    let payload = plan.to_bytes();
    let command = OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload };
    engine.open_bulk(command).await.expect("it is opened");
    enqueue(engine, vec![NewJob { bulk: Some(bulk.id.clone()), ..job(group, id, "work", "1") }]).await;
    engine.cancel_job(CancelJob { jobs: vec![job_ref(group, id)] }).await.expect("it is cancelled");
    engine.seal_bulk(SealBulk { bulk, expected: None }).await.expect("it is sealed");
}

async fn ends(engine: &Arc<dyn Engine>, group: &str, id: &str) -> BulkView {
    eventually(async || {
        let view = bulk_view(engine, group, id).await;
        if view.state.is_final() && !view.summary.is_empty() { Ok(view) } else { Err(view) }
    })
    .await
}

fn ended(event: &Event) -> bool {
    matches!(event, Event::BulkEnded { .. })
}

fn stuck(event: &Event) -> bool {
    matches!(event, Event::BulkStuck { .. })
}

#[tokio::test]
async fn an_aggregation_outlives_the_loss_of_every_reply() {
    on_both_engines(|inner| async move {
        complete(&inner, "a", "lossy", &with_callback()).await;
        let troubled = Troubled::new(inner.clone());
        let kinds = ["take", "list", "enqueue", "finish"];
        *troubled.to_lose.lock().unwrap() = kinds.map(|kind| (kind, (1, 1))).into();
        let troubled = Arc::new(troubled);
        let told = Told::default();
        let worker = Worker::new(troubled.clone()).settings(settings(LONG_LEASE)).on_event(told.hook());
        let pool = worker.start().unwrap();
        let view = ends(&inner, "a", "lossy").await;
        assert_eq!((view.state, view.cancelled), (BulkState::Completed, 1));
        until("it is told", || told.any(ended)).await;
        assert_eq!((told.count(ended), told.count(stuck)), (1, 0));
        assert_eq!(whole(&inner).await.backlog, 1, "one callback");
        reaches(&inner, "a", &callback_id(&view), JobState::Pending).await;
        assert!(told.any(|event| matches!(event, Event::EngineDown { .. })));
        let left: u32 = troubled.to_lose.lock().unwrap().values().map(|(one, other)| one + other).sum();
        assert_eq!(left, 0, "a command and a reply of each kind were lost");
        pool.stop().await;
    })
    .await;
}

/// The engine's clock moves only when the lease is renewed, and further than the lease is long.
#[tokio::test]
async fn a_long_aggregation_stays_in_hand() {
    const LEASE_MS: u64 = 300;
    let clock = Arc::new(AtomicU64::new(1_700_000_000_000_000));
    let inner = EmbeddedEngine::new(Settings::default(), Clock::Given(clock.clone())).unwrap();
    let inner: Arc<dyn Engine> = Arc::new(inner);
    complete(&inner, "a", "long", &BulkPlan::default()).await;
    // Two commands may renew it at a time, and both together must not outlast the lease.
    let step_us = LEASE_MS * 400;
    let troubled =
        Arc::new(Troubled { list_after: 6.into(), clock, step_us, ..Troubled::new(inner.clone()) });
    let (told, rivals) = (Told::default(), Told::default());
    let slow = Worker::new(troubled.clone()).settings(settings(Duration::from_millis(LEASE_MS)));
    let slow = slow.on_event(told.hook()).start().unwrap();
    until("it is in hand", || troubled.given.load(Ordering::SeqCst) > 0).await;
    let rival = Worker::new(inner.clone()).settings(settings(LONG_LEASE)).on_event(rivals.hook());
    let rival = rival.start().unwrap();
    ends(&inner, "a", "long").await;
    until("it is told", || told.any(ended)).await;
    assert_eq!((told.count(stuck), rivals.count(ended)), (0, 0));
    slow.stop().await;
    rival.stop().await;
}

#[tokio::test]
async fn an_aggregation_that_is_called_off_is_left_and_begun_anew() {
    let inner = embedded().await;
    complete(&inner, "a", "unwanted", &BulkPlan::default()).await;
    let troubled = Arc::new(Troubled { list_after: usize::MAX.into(), ..Troubled::new(inner.clone()) });
    let told = Told::default();
    let worker = Worker::new(troubled.clone()).settings(settings(Duration::from_secs(3)));
    let pool = worker.on_event(told.hook()).start().unwrap();
    until("it is in hand", || troubled.given.load(Ordering::SeqCst) > 0).await;
    inner.cancel_bulk(CancelBulk { bulk: bulk_ref("a", "unwanted") }).await.unwrap();
    troubled.list_after.store(0, Ordering::SeqCst);
    assert_eq!(ends(&inner, "a", "unwanted").await.state, BulkState::Cancelled);
    until("it is told", || told.any(ended) && told.any(stuck)).await;
    assert_eq!((told.count(stuck), told.count(ended)), (1, 1));
    pool.stop().await;
}

/// Who does not know a fold gives the bulk action back at once, says so once, and goes on with others.
#[tokio::test]
async fn what_cannot_be_aggregated_here_is_aggregated_by_whoever_can() {
    on_both_engines(|engine| async move {
        let plan = BulkPlan { fold: Some("count".into()), ..BulkPlan::default() };
        for id in ["first", "second"] {
            complete(&engine, "a", id, &plan).await;
        }
        let told = Told::default();
        let mut seldom = settings(LONG_LEASE);
        seldom.loops.aggregate_interval = Duration::from_secs(1);
        let ignorant = Worker::new(engine.clone()).settings(seldom).on_event(told.hook());
        let ignorant = ignorant.start().unwrap();
        until("it says so", || told.count(stuck) == 2).await;
        complete(&engine, "b", "plain", &BulkPlan::default()).await;
        ends(&engine, "b", "plain").await;
        let add = |count: &mut u64, _: &EndedJob| *count += 1;
        let knowing = Worker::new(engine.clone()).settings(settings(LONG_LEASE)).fold("count", add);
        let knowing = knowing.start().unwrap();
        for id in ["first", "second"] {
            assert_eq!(ends(&engine, "a", id).await.state, BulkState::Completed);
        }
        assert_eq!(told.count(stuck), 2, "once for each");
        ignorant.stop().await;
        knowing.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_bulk_action_whose_callback_is_refused_is_given_back_and_holds_nobody_up() {
    let settings_of_whole = Settings { group_backlog_max: 1, ..Settings::default() };
    let engine = fairlane_engine::open("memory:", settings_of_whole).await.unwrap();
    complete(&engine, "a", "full", &with_callback()).await;
    enqueue(&engine, vec![job("a", "in the way", "nobody works on this", "1")]).await;
    let told = Told::default();
    let worker = Worker::new(engine.clone()).settings(settings(LONG_LEASE)).on_event(told.hook());
    let pool = worker.start().unwrap();
    let refused = |event: &Event| matches!(event, Event::BulkStuck { advice, .. } if advice.contains("its callback was refused"));
    until("it says so", || told.any(refused)).await;
    complete(&engine, "b", "other", &BulkPlan::default()).await;
    ends(&engine, "b", "other").await;
    pool.stop().await;
    assert_eq!(told.count(stuck), 1);
    let worker = WorkerId::new("another").unwrap();
    eventually(async || {
        let command = TakeCompleted { worker: worker.clone(), bulks_max: 1, lease_ms: 1000 };
        let taken = engine.take_completed(command).await.unwrap();
        if taken.bulks.len() == 1 { Ok(()) } else { Err(taken) }
    })
    .await;
}

const START_US: u64 = 1_700_000_000_000_000;

/// An engine whose clock moves on by `step_us` whenever it gives bulk actions.
fn on_a_clock(step_us: u64) -> (Arc<dyn Engine>, Arc<Troubled>) {
    let clock = Arc::new(AtomicU64::new(START_US));
    let inner = EmbeddedEngine::new(Settings::default(), Clock::Given(clock.clone()))
        .expect("an engine in memory starts");
    let inner: Arc<dyn Engine> = Arc::new(inner);
    (inner.clone(), Arc::new(Troubled { clock, step_us, ..Troubled::new(inner) }))
}

fn unknown_fold() -> BulkPlan {
    BulkPlan { fold: Some("unknown".into()), ..BulkPlan::default() }
}

/// The clock stands still: what was given back with a delay is not given again.
#[tokio::test]
async fn stuck_aggregations_of_one_customer_delay_no_other_customers() {
    const STUCK: usize = 1500;
    let (inner, troubled) = on_a_clock(0);
    for number in 0..STUCK {
        let bulk = bulk_ref("stuck", &number.to_string());
        let payload = unknown_fold().to_bytes();
        let open = OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload };
        inner.open_bulk(open).await.expect("it is opened");
        inner.seal_bulk(SealBulk { bulk, expected: None }).await.expect("it is sealed");
    }
    let told = Told::default();
    let worker = Worker::new(troubled.clone()).settings(settings(LONG_LEASE)).on_event(told.hook());
    let pool = worker.start().unwrap();
    until("each was given back", || troubled.releases.load(Ordering::SeqCst) >= STUCK).await;
    let before = troubled.takes.load(Ordering::SeqCst);
    complete(&inner, "other", "plain", &BulkPlan::default()).await;
    until("it has ended", || told.any(ended)).await;
    let takes = troubled.takes.load(Ordering::SeqCst) - before;
    assert!(takes <= 20, "it was taken by the {takes}th command");
    assert_eq!(troubled.releases.load(Ordering::SeqCst), STUCK, "none came again before its time");
    assert!(told.count(stuck) <= 10, "{} events about {STUCK} bulk actions", told.count(stuck));
    pool.stop().await;
}

/// Each return moves the clock past every delay.
#[tokio::test]
async fn a_bulk_action_whose_fold_stays_unknown_fails_in_the_end() {
    let (inner, troubled) = on_a_clock(400_000_000);
    complete(&inner, "a", "stuck", &unknown_fold()).await;
    let told = Told::default();
    let worker = Worker::new(troubled.clone()).settings(settings(LONG_LEASE)).on_event(told.hook());
    let pool = worker.start().unwrap();
    let view = ends(&inner, "a", "stuck").await;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Aggregation)));
    assert!(String::from_utf8_lossy(&view.summary).contains("no worker knows its fold"), "{view:?}");
    assert_eq!(troubled.releases.load(Ordering::SeqCst), 299, "it was tried 300 times");
    assert_eq!(told.count(stuck), 1, "the first time only");
    pool.stop().await;
}
