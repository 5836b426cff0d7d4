//! An aggregator whose engine loses replies, is slow, or revokes a leased bulk action.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::*;
use fairlane_core::queue::{
    self, Aggregation, BulkCause, BulkState, BulkView, CancelBulk, CancelJob, JobState, NewJob, OpenBulk,
    SealBulk, Settings, SettleBulk,
};
use fairlane_core::{Command, Reply};
use fairlane_engine::{Clock, EmbeddedEngine, Engine, EngineError, Hooks, layer};
use fairlane_worker::*;
use tokio::sync::Notify;

/// Longer than any test runs: a bulk action that is neither renewed nor released fails the test.
const LONG_LEASE: Duration = Duration::from_secs(300);

/// The faults of an engine, and what it has done.
#[derive(Default)]
struct Faults {
    /// Commands to lose before they are sent, and replies to lose, by kind of command.
    to_lose: Mutex<HashMap<&'static str, (u32, u32)>>,
    /// Pages of jobs are held back until bulk actions were leased this many times.
    list_after: AtomicUsize,
    /// Replies that leased at least one bulk action.
    leases: AtomicUsize,
    /// Notified when one of the two numbers above changes.
    changed: Notify,
    /// Commands that requested a lease of bulk actions.
    lease_requests: AtomicUsize,
    /// Commands that released a bulk action.
    releases: AtomicUsize,
    /// The clock of the engine.
    clock: Arc<AtomicU64>,
    /// Every lease and release of a bulk action advances the clock by this.
    step_us: u64,
}

impl Faults {
    /// The engine with these faults.
    fn around(self: &Arc<Self>, inner: &Arc<dyn Engine>) -> Arc<dyn Engine> {
        let faults = self.clone();
        let hooks = Hooks::default().submit(move |inner, command| {
            let faults = faults.clone();
            Box::pin(async move { faults.submit(&inner, command).await })
        });
        layer(inner.clone(), hooks)
    }

    /// Waits until as many bulk actions were leased as a page of jobs is held back for.
    async fn may_list(&self) {
        loop {
            let changed = self.changed.notified();
            if self.leases.load(Ordering::SeqCst) >= self.list_after.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }

    async fn submit(&self, inner: &Arc<dyn Engine>, command: Command) -> Result<Reply, EngineError> {
        let kind = kind(&command);
        self.lose(kind, Stage::Command)?;
        if kind == "lease" {
            self.lease_requests.fetch_add(1, Ordering::SeqCst);
        }
        let is_release = matches!(
            &command,
            Command::Queue(queue::Command::SettleBulk(SettleBulk {
                outcome: Aggregation::Released { .. },
                ..
            }))
        );
        if kind == "list" {
            self.may_list().await;
        }
        let reply = inner.submit(command).await?;
        if is_release {
            self.releases.fetch_add(1, Ordering::SeqCst);
            self.clock.fetch_add(self.step_us, Ordering::SeqCst);
        }
        match &reply {
            Reply::Queue(queue::Reply::LeaseBulks(leased)) if leased.bulks.is_empty() => return Ok(reply),
            Reply::Queue(queue::Reply::LeaseBulks(_)) => {
                self.leases.fetch_add(1, Ordering::SeqCst);
                self.changed.notify_waiters();
                self.clock.fetch_add(self.step_us, Ordering::SeqCst);
            }
            _ => {}
        }
        self.lose(kind, Stage::Reply)?;
        Ok(reply)
    }

    fn lose(&self, kind: &'static str, stage: Stage) -> Result<(), EngineError> {
        let mut to_lose = self.to_lose.lock().expect("no test panics here");
        let (commands, replies) = to_lose.entry(kind).or_default();
        let left = match stage {
            Stage::Command => commands,
            Stage::Reply => replies,
        };
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        Err(EngineError::Unavailable { engine: "faulty", reason: format!("{kind} was lost") })
    }
}

/// When a command is lost.
enum Stage {
    Command,
    Reply,
}

fn kind(command: &Command) -> &'static str {
    match command {
        Command::Queue(queue::Command::LeaseBulks(_)) => "lease",
        Command::Queue(queue::Command::ListJobs(_)) => "list",
        Command::Queue(queue::Command::SettleBulk(_)) => "settle",
        _ => "other",
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

/// Opens a bulk action that is ready to be aggregated; its only job is cancelled.
async fn complete(engine: &Arc<dyn Engine>, group: &str, id: &str, plan: &BulkPlan) {
    let bulk = bulk_ref(group, id);
    let payload = plan.to_bytes();
    let command = OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload };
    engine.call(command).await.expect("it is opened");
    enqueue(engine, vec![NewJob { bulk: Some(bulk.id.clone()), ..job(group, id, "work", "1") }]).await;
    engine.call(CancelJob { jobs: vec![job_ref(group, id)] }).await.expect("it is cancelled");
    engine.call(SealBulk { bulk, expected: None }).await.expect("it is sealed");
}

async fn aggregated(engine: &Arc<dyn Engine>, group: &str, id: &str) -> BulkView {
    eventually(async || {
        let view = bulk_view(engine, group, id).await;
        if view.state.is_final() && !view.summary.is_empty() { Ok(view) } else { Err(view) }
    })
    .await
}

fn is_ended(event: &Event) -> bool {
    matches!(event, Event::BulkEnded { .. })
}

fn is_stuck(event: &Event) -> bool {
    matches!(event, Event::BulkStuck { .. })
}

#[tokio::test]
async fn an_aggregation_survives_the_loss_of_every_command_and_reply() {
    on_both_engines(|inner| async move {
        complete(&inner, "a", "lossy", &with_callback()).await;
        let faults = Arc::new(Faults::default());
        let kinds = ["lease", "list", "settle"];
        *faults.to_lose.lock().unwrap() = kinds.map(|kind| (kind, (1, 1))).into();
        let events = RecordedEvents::default();
        let worker = Worker::new(faults.around(&inner)).settings(settings(LONG_LEASE));
        let pool = worker.on_event(events.hook()).start().unwrap();
        let view = aggregated(&inner, "a", "lossy").await;
        assert_eq!((view.state, view.cancelled), (BulkState::Completed, 1));
        until("its event is emitted", || events.any(is_ended)).await;
        assert_eq!((events.count(is_ended), events.count(is_stuck)), (1, 0));
        assert_eq!(queue_view(&inner).await.backlog, 1, "one callback");
        reaches(&inner, "a", &callback_id(&view), JobState::Pending).await;
        assert!(events.any(|event| matches!(event, Event::EngineDown { .. })));
        let left: u32 = faults.to_lose.lock().unwrap().values().map(|(one, other)| one + other).sum();
        assert_eq!(left, 0, "a command and a reply of each kind were lost");
        pool.stop().await;
    })
    .await;
}

/// The engine's clock advances only when the lease is renewed, and in total beyond its length.
#[tokio::test]
async fn the_lease_of_a_long_aggregation_is_renewed() {
    const LEASE_MS: u64 = 300;
    let clock = Arc::new(AtomicU64::new(1_700_000_000_000_000));
    let inner = EmbeddedEngine::new(Settings::default(), Clock::Given(clock.clone())).unwrap();
    let inner: Arc<dyn Engine> = Arc::new(inner);
    complete(&inner, "a", "long", &BulkPlan::default()).await;
    // Two commands may renew it at a time, and both together must not outlast the lease.
    let step_us = LEASE_MS * 400;
    let faults = Arc::new(Faults { list_after: 6.into(), clock, step_us, ..Faults::default() });
    let (events, rival_events) = (RecordedEvents::default(), RecordedEvents::default());
    let slow = Worker::new(faults.around(&inner)).settings(settings(Duration::from_millis(LEASE_MS)));
    let slow = slow.on_event(events.hook()).start().unwrap();
    until("it is leased", || faults.leases.load(Ordering::SeqCst) > 0).await;
    let rival = Worker::new(inner.clone()).settings(settings(LONG_LEASE)).on_event(rival_events.hook());
    let rival = rival.start().unwrap();
    aggregated(&inner, "a", "long").await;
    until("its event is emitted", || events.any(is_ended)).await;
    assert_eq!((events.count(is_stuck), rival_events.count(is_ended)), (0, 0));
    slow.stop().await;
    rival.stop().await;
}

#[tokio::test]
async fn the_aggregation_of_a_cancelled_bulk_action_is_abandoned_and_started_again() {
    let inner = embedded().await;
    complete(&inner, "a", "unwanted", &BulkPlan::default()).await;
    let faults = Arc::new(Faults { list_after: usize::MAX.into(), ..Faults::default() });
    let events = RecordedEvents::default();
    let worker = Worker::new(faults.around(&inner)).settings(settings(Duration::from_secs(3)));
    let pool = worker.on_event(events.hook()).start().unwrap();
    until("it is leased", || faults.leases.load(Ordering::SeqCst) > 0).await;
    inner.call(CancelBulk { bulk: bulk_ref("a", "unwanted") }).await.unwrap();
    faults.list_after.store(0, Ordering::SeqCst);
    faults.changed.notify_waiters();
    assert_eq!(aggregated(&inner, "a", "unwanted").await.state, BulkState::Cancelled);
    until("its events are emitted", || events.any(is_ended) && events.any(is_stuck)).await;
    assert_eq!((events.count(is_stuck), events.count(is_ended)), (1, 1));
    pool.stop().await;
}

/// A worker without the fold releases the bulk action at once, reports it once, and continues with
/// other bulk actions.
#[tokio::test]
async fn a_bulk_action_with_an_unknown_fold_is_aggregated_by_a_worker_that_has_it() {
    on_both_engines(|engine| async move {
        let plan = BulkPlan { fold: Some("count".into()), ..BulkPlan::default() };
        for id in ["first", "second"] {
            complete(&engine, "a", id, &plan).await;
        }
        let events = RecordedEvents::default();
        let mut seldom = settings(LONG_LEASE);
        seldom.loops.aggregate_interval = Duration::from_secs(1);
        let without_fold = Worker::new(engine.clone()).settings(seldom).on_event(events.hook());
        let without_fold = without_fold.start().unwrap();
        until("both are reported", || events.count(is_stuck) == 2).await;
        complete(&engine, "b", "plain", &BulkPlan::default()).await;
        aggregated(&engine, "b", "plain").await;
        let add = |count: &mut u64, _: &EndedJob| *count += 1;
        let with_fold = Worker::new(engine.clone()).settings(settings(LONG_LEASE)).fold("count", add);
        let with_fold = with_fold.start().unwrap();
        for id in ["first", "second"] {
            assert_eq!(aggregated(&engine, "a", id).await.state, BulkState::Completed);
        }
        assert_eq!(events.count(is_stuck), 2, "once for each");
        without_fold.stop().await;
        with_fold.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_full_group_keeps_no_bulk_action_and_no_callback_from_ending() {
    let queue_settings = Settings { group_backlog_max: 1, ..Settings::default() };
    let engine = fairlane_engine::open("memory:", queue_settings).await.unwrap();
    complete(&engine, "a", "full", &with_callback()).await;
    enqueue(&engine, vec![job("a", "in the way", "unprocessed", "1")]).await;
    let events = RecordedEvents::default();
    let worker = Worker::new(engine.clone()).settings(settings(LONG_LEASE)).on_event(events.hook());
    let pool = worker.start().unwrap();
    let view = aggregated(&engine, "a", "full").await;
    reaches(&engine, "a", &callback_id(&view), JobState::Pending).await;
    pool.stop().await;
    assert_eq!(events.count(is_stuck), 0);
}

const START_US: u64 = 1_700_000_000_000_000;

/// An engine, and faults around it that advance its clock by `step_us` at every lease and release of
/// bulk actions.
fn on_a_clock(step_us: u64) -> (Arc<dyn Engine>, Arc<Faults>) {
    let clock = Arc::new(AtomicU64::new(START_US));
    let inner = EmbeddedEngine::new(Settings::default(), Clock::Given(clock.clone()))
        .expect("an engine in memory starts");
    (Arc::new(inner), Arc::new(Faults { clock, step_us, ..Faults::default() }))
}

fn unknown_fold() -> BulkPlan {
    BulkPlan { fold: Some("unknown".into()), ..BulkPlan::default() }
}

/// The clock does not advance: bulk actions released with a delay are not leased again.
#[tokio::test]
async fn stuck_aggregations_of_one_customer_delay_no_other_customers() {
    const STUCK: usize = 1500;
    let (inner, faults) = on_a_clock(0);
    for number in 0..STUCK {
        let bulk = bulk_ref("stuck", &number.to_string());
        let payload = unknown_fold().to_bytes();
        let open = OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload };
        inner.call(open).await.expect("it is opened");
        inner.call(SealBulk { bulk, expected: None }).await.expect("it is sealed");
    }
    let events = RecordedEvents::default();
    let worker = Worker::new(faults.around(&inner)).settings(settings(LONG_LEASE));
    let pool = worker.on_event(events.hook()).start().unwrap();
    until("each is released", || faults.releases.load(Ordering::SeqCst) >= STUCK).await;
    let before = faults.lease_requests.load(Ordering::SeqCst);
    complete(&inner, "other", "plain", &BulkPlan::default()).await;
    until("it has ended", || events.any(is_ended)).await;
    let requests = faults.lease_requests.load(Ordering::SeqCst) - before;
    assert!(requests <= 20, "it was leased by request {requests}");
    assert_eq!(faults.releases.load(Ordering::SeqCst), STUCK, "none was leased before its delay was over");
    assert!(events.count(is_stuck) <= 10, "{} events about {STUCK} bulk actions", events.count(is_stuck));
    pool.stop().await;
}

/// Each release advances the clock past every delay.
#[tokio::test]
async fn a_bulk_action_whose_fold_stays_unknown_fails_in_the_end() {
    let (inner, faults) = on_a_clock(400_000_000);
    complete(&inner, "a", "stuck", &unknown_fold()).await;
    let events = RecordedEvents::default();
    let worker = Worker::new(faults.around(&inner)).settings(settings(LONG_LEASE));
    let pool = worker.on_event(events.hook()).start().unwrap();
    let view = aggregated(&inner, "a", "stuck").await;
    assert_eq!((view.state, view.cause), (BulkState::Failed, Some(BulkCause::Aggregation)));
    assert!(String::from_utf8_lossy(&view.summary).contains("no worker knows its fold"), "{view:?}");
    assert_eq!(faults.releases.load(Ordering::SeqCst), 299, "it was attempted 300 times");
    assert_eq!(events.count(is_stuck), 1, "only the first release is reported");
    pool.stop().await;
}
