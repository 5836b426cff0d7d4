//! Slots, leases, stops and outages of a worker.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::*;
use fairlane_core::Command;
use fairlane_core::kernel::Invalid;
use fairlane_core::queue::{
    self, Discipline, JobLine, JobState, ListJobs, Listing, QueueSet, Reclaim, SetQueue, Settings, Verdict,
};
use fairlane_engine::{Clock, EmbeddedEngine, Engine, EngineError, Hooks, layer};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_worker::*;
use tokio::sync::Semaphore;

fn jobs(count: usize, type_name: &str) -> Vec<fairlane_core::queue::NewJob> {
    (0..count).map(|n| job(&format!("group-{}", n % 7), &format!("{type_name}-{n}"), type_name, "")).collect()
}

/// Counts the jobs that run concurrently, now and at most.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<(usize, usize)>>);

impl Running {
    fn enter(&self) -> Entered {
        let mut counts = self.0.lock().expect("no test panics here");
        counts.0 += 1;
        counts.1 = counts.1.max(counts.0);
        Entered(self.clone())
    }

    fn max(&self) -> usize {
        self.0.lock().expect("no test panics here").1
    }

    fn now(&self) -> usize {
        self.0.lock().expect("no test panics here").0
    }
}

struct Entered(Running);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.0.lock().expect("no test panics here").0 -= 1;
    }
}

#[tokio::test]
async fn no_job_is_leased_beyond_the_free_slots_of_the_worker_and_of_its_type() {
    on_both_engines(|engine| async move {
        let (all, few) = (Running::default(), Running::default());
        let open = Arc::new(Semaphore::new(0));
        enqueue(&engine, jobs(100, "few")).await;
        let options = TypeOptions { concurrency: Some(2), ..TypeOptions::default() };
        let work = |counters: Vec<Running>| {
            let open = open.clone();
            move |_: Context| {
                let (counters, open) = (counters.clone(), open.clone());
                async move {
                    let _entered: Vec<Entered> = counters.iter().map(Running::enter).collect();
                    let _permit = open.acquire().await.unwrap();
                }
            }
        };
        let pool = Worker::new(engine.clone())
            .settings(WorkerSettings { worker_count: 6, ..quick() })
            .processor("many", work(vec![all.clone()]))
            .processor_with("few", options, work(vec![all.clone(), few.clone()]))
            .start()
            .unwrap();
        until("two run", || few.now() == 2).await;
        assert_eq!(queue_view(&engine).await.in_flight, 2, "the limit of its type");
        enqueue(&engine, jobs(100, "many")).await;
        until("six run", || all.now() == 6).await;
        assert_eq!(queue_view(&engine).await.in_flight, 6, "no more than run");
        open.add_permits(1000);
        drained(&engine).await;
        assert_eq!((all.max(), few.max()), (6, 2));
        assert_eq!(pool.stop().await.left, 0);
    })
    .await;
}

#[tokio::test]
async fn the_lease_of_a_long_job_is_renewed() {
    on_both_engines(|engine| async move {
        let finish = Arc::new(Semaphore::new(0));
        let waiting = finish.clone();
        enqueue(&engine, vec![job("a", "1", "long", "")]).await;
        let pool = Worker::new(engine.clone())
            .settings(WorkerSettings { lease: Duration::from_millis(400), ..quick() })
            .processor("long", move |_: Context| {
                let waiting = waiting.clone();
                async move { waiting.acquire().await.unwrap().forget() }
            })
            .start()
            .unwrap();
        let first = reaches(&engine, "a", "1", JobState::Processing).await;
        let (mut renewals, mut last) = (0, first.until);
        eventually(async || {
            let now = view(&engine, "a", "1").await;
            assert_eq!((now.state, now.fence), (JobState::Processing, first.fence));
            renewals += usize::from(now.until > last);
            last = now.until;
            if renewals == 5 { Ok(()) } else { Err(renewals) }
        })
        .await;
        finish.add_permits(1);
        let done = reaches(&engine, "a", "1", JobState::Completed).await;
        assert_eq!((done.attempts, done.losses), (1, 0));
        pool.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_job_whose_lease_was_reclaimed_is_stopped_and_runs_under_a_higher_fence() {
    let us = Arc::new(AtomicU64::new(1_700_000_000_000_000));
    let engine = EmbeddedEngine::new(Settings::default(), Clock::Given(us.clone())).unwrap();
    let engine: Arc<dyn Engine> = Arc::new(engine);
    let (events, reasons) = (RecordedEvents::default(), Arc::<Mutex<Vec<CancelReason>>>::default());
    let recorded = reasons.clone();
    enqueue(&engine, vec![job("a", "1", "work", ""), job("a", "2", "long", "")]).await;
    let finish = Arc::new(Semaphore::new(0));
    let waiting = finish.clone();
    let settings = WorkerSettings { lease: Duration::from_secs(3), ..quick() };
    let pool = Worker::new(engine.clone())
        .settings(settings)
        .without_loops()
        .on_event(events.hook())
        .processor("work", move |job: Context| {
            let recorded = recorded.clone();
            async move {
                if recorded.lock().unwrap().is_empty() {
                    let reason = job.cancelled().await;
                    recorded.lock().unwrap().push(reason);
                }
            }
        })
        .processor("long", move |_: Context| {
            let waiting = waiting.clone();
            async move { waiting.acquire().await.unwrap().forget() }
        })
        .start()
        .unwrap();
    let first = reaches(&engine, "a", "1", JobState::Processing).await;
    reaches(&engine, "a", "2", JobState::Processing).await;
    let mut recovered = 0;
    for _ in 0..5 {
        // Steps short enough not to count as an outage. The jobs may be leased again at once, so no
        // step follows the one that ended their leases.
        if recovered == 0 {
            us.fetch_add(10_000_000, Ordering::SeqCst);
            recovered = engine.call(Reclaim { jobs_max: 10 }).await.unwrap().recovered;
        }
    }
    assert_eq!(recovered, 2, "neither lease was renewed meanwhile");
    let done = reaches(&engine, "a", "1", JobState::Completed).await;
    assert_eq!((done.attempts, done.losses), (1, 1));
    assert!(done.fence > first.fence);
    assert_eq!(*reasons.lock().unwrap(), [CancelReason::Lost]);
    finish.add_permits(2);
    reaches(&engine, "a", "2", JobState::Completed).await;
    assert_eq!(pool.stop().await.left, 0);
}

#[tokio::test]
async fn a_stop_under_load_leaves_no_lease_and_no_job_runs_twice() {
    on_both_engines(|engine| async move {
        let runs: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        enqueue(&engine, jobs(2000, "work")).await;
        let start = || {
            let runs = runs.clone();
            Worker::new(engine.clone())
                .settings(WorkerSettings { worker_count: 20, ..quick() })
                .processor("work", move |job: Context| {
                    *runs.lock().unwrap().entry(job.id().to_string()).or_default() += 1;
                    a_moment()
                })
                .start()
                .unwrap()
        };
        let mut finished = 0;
        for stop in 0..10 {
            let pool = start();
            let goal = (stop + 1) * 100;
            until("a hundred more ran", || runs.lock().unwrap().len() >= goal).await;
            let report = pool.stop().await;
            assert_eq!((report.left, queue_view(&engine).await.in_flight), (0, 0));
            finished += report.finished;
        }
        assert!(finished > 0, "some jobs ran when it stopped");
        let pool = start();
        drained(&engine).await;
        pool.stop().await;
        let runs = runs.lock().unwrap();
        assert_eq!((runs.len(), runs.values().copied().max()), (2000, Some(1)));
    })
    .await;
}

#[tokio::test]
async fn a_dropped_pool_finishes_its_running_jobs_and_ends() {
    let engine = embedded().await;
    enqueue(&engine, jobs(50, "work")).await;
    let alive = Arc::new(());
    let held = alive.clone();
    let pool = Worker::new(engine.clone())
        .settings(WorkerSettings { lease: Duration::from_millis(300), ..quick() })
        .processor("work", move |_: Context| {
            let _held = &held;
            a_moment()
        })
        .start()
        .unwrap();
    until("a job runs", || pool.active_jobs() > 0).await;
    drop(pool);
    until("its tasks are gone", || Arc::strong_count(&alive) == 1).await;
    assert_eq!(queue_view(&engine).await.in_flight, 0);
}

#[tokio::test]
async fn a_job_that_outlasts_the_grace_period_is_handed_back_and_runs_elsewhere_at_once() {
    on_both_engines(|engine| async move {
        enqueue(&engine, vec![job("a", "1", "work", "")]).await;
        let settings = WorkerSettings { shutdown_grace_period: Duration::from_millis(20), ..quick() };
        let pool = Worker::new(engine.clone())
            .settings(settings)
            .process("work", |(): (), _| std::future::pending::<()>())
            .start()
            .unwrap();
        reaches(&engine, "a", "1", JobState::Processing).await;
        let report = pool.stop().await;
        assert_eq!(report, StopReport { finished: 0, handed_back: 1, left: 0 });
        let back = view(&engine, "a", "1").await;
        assert_eq!((back.state, back.attempts), (JobState::Pending, 0), "it used up no attempt");
        let other = Worker::new(engine.clone()).settings(quick()).process("work", |(): (), _| async {});
        let other = other.start().unwrap();
        reaches(&engine, "a", "1", JobState::Completed).await;
        other.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_worker_survives_a_killed_redis() {
    let mut server = RedisServer::start(ServerOptions { durable: true, cluster: false });
    let engine = open(&server.url()).await;
    let (events, runs) = (RecordedEvents::default(), Arc::new(AtomicUsize::new(0)));
    let counted = runs.clone();
    enqueue(&engine, jobs(300, "work")).await;
    let pool = Worker::new(engine.clone())
        .settings(WorkerSettings { worker_count: 5, ..quick() })
        .on_event(events.hook())
        .processor("work", move |_: Context| {
            counted.fetch_add(1, Ordering::SeqCst);
            a_moment()
        })
        .start()
        .unwrap();
    for goal in [50, 100, 150] {
        until("some jobs ran", || runs.load(Ordering::SeqCst) >= goal).await;
        let is_down = |event: &Event| matches!(event, Event::EngineDown { .. });
        let downs = events.count(is_down);
        server.kill();
        until("the outage is reported", || events.count(is_down) > downs).await;
        server.restart();
        until("more jobs ran", || runs.load(Ordering::SeqCst) > goal + 10).await;
    }
    drained(&engine).await;
    assert!(events.any(|event| matches!(event, Event::EngineBack { .. })));
    assert_eq!(pool.stop().await.left, 0);
    let (mut done, mut next) = (0, Some(0));
    while let Some(cursor) = next {
        let page = ListJobs { listing: Listing::Finished, group: None, type_id: None, cursor, limit: 500 };
        let page = engine.call(page).await.unwrap();
        let is_done = |job: &&JobLine| job.state == JobState::Completed && job.attempts == 1;
        done += page.jobs.iter().filter(is_done).count();
        next = page.next;
    }
    assert_eq!(done, 300, "every job has ended once");
}

#[tokio::test]
async fn a_slow_redis_slows_the_worker_and_no_job_runs_twice() {
    let server = RedisServer::start(ServerOptions::default());
    let engine = open(&server.url()).await;
    let runs: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let counted = runs.clone();
    enqueue(&engine, jobs(400, "work")).await;
    let pool = Worker::new(engine.clone())
        .settings(WorkerSettings { worker_count: 5, ..quick() })
        .processor("work", move |job: Context| {
            *counted.lock().unwrap().entry(job.id().to_string()).or_default() += 1;
            a_moment()
        })
        .start()
        .unwrap();
    for goal in [100, 200, 300] {
        until("some jobs ran", || runs.lock().unwrap().len() >= goal).await;
        assert_eq!(server.command(&["CLIENT", "PAUSE", "700", "ALL"]), "OK");
    }
    drained(&engine).await;
    assert_eq!(pool.stop().await.left, 0);
    let runs = runs.lock().unwrap();
    assert_eq!((runs.len(), runs.values().copied().max()), (400, Some(1)));
}

#[tokio::test]
async fn a_stop_during_an_outage_of_the_engine_ends() {
    let mut server = RedisServer::start(ServerOptions::default());
    let engine = open(&server.url()).await;
    enqueue(&engine, jobs(50, "work")).await;
    let running = Arc::new(AtomicUsize::new(0));
    let counted = running.clone();
    let settings = WorkerSettings { shutdown_grace_period: Duration::from_millis(50), ..quick() };
    let pool = Worker::new(engine)
        .settings(settings)
        .processor("work", move |_: Context| {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>()
        })
        .start()
        .unwrap();
    until("ten run", || running.load(Ordering::SeqCst) == 10).await;
    server.kill();
    let report = pool.stop().await;
    assert_eq!(report.left, 10, "their leases expire");
}

#[tokio::test]
async fn the_loops_admit_jobs_and_return_those_that_classic_refused() {
    on_both_engines(|engine| async move {
        let settings = Settings { discipline: Discipline::Classic, global_rps: 50, ..Settings::default() };
        let set = engine.call(SetQueue { settings }).await.unwrap();
        assert_eq!(set, QueueSet::Set);
        enqueue(&engine, jobs(120, "work")).await;
        let pool = Worker::new(engine.clone())
            .settings(quick())
            .process("work", |(): (), _| async {})
            .start()
            .unwrap();
        drained(&engine).await;
        let done = queue_view(&engine).await.completed;
        assert_eq!(done, 120);
        pool.stop().await;
    })
    .await;
}

/// An engine that fails the commands that `fails` selects.
fn failing(inner: Arc<dyn Engine>, error: EngineError, fails: fn(&Command) -> bool) -> Arc<dyn Engine> {
    let hooks = Hooks::default().submit(move |inner, command| {
        let error = error.clone();
        Box::pin(async move { if fails(&command) { Err(error) } else { inner.submit(command).await } })
    });
    layer(inner, hooks)
}

/// On the runtime's clock: on a real one the test would take as long as the timeouts.
#[tokio::test(start_paused = true)]
async fn a_stop_without_active_jobs_does_not_wait_long_for_an_unreachable_engine() {
    let error = EngineError::Unavailable { engine: "failing", reason: "it is away".into() };
    let engine = failing(embedded().await, error, |_| true);
    let events = RecordedEvents::default();
    let pool = Worker::new(engine)
        .on_event(events.hook())
        .process("work", |(): (), _| std::future::ready(()))
        .start()
        .unwrap();
    until("the outage is reported", || events.any(|event| matches!(event, Event::EngineDown { .. }))).await;
    let started = tokio::time::Instant::now();
    assert_eq!(pool.stop().await, StopReport::default());
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_result_that_the_engine_never_accepts_is_reported() {
    let inner = embedded().await;
    enqueue(&inner, vec![job("a", "1", "work", "")]).await;
    let error = EngineError::Invalid(Invalid::TooMany { what: "settle", most: 0, got: 1 });
    let fails = |command: &Command| matches!(command, Command::Queue(queue::Command::Settle(_)));
    let events = RecordedEvents::default();
    let pool = Worker::new(failing(inner, error, fails))
        .settings(quick())
        .on_event(events.hook())
        .process("work", |(): (), _| std::future::ready(()))
        .start()
        .unwrap();
    let is_reported = |event: &Event| matches!(event, Event::Unsettled { job, outcome: Outcome::Done { .. }, .. } if *job == job_ref("a", "1"));
    until("it is reported", || events.any(is_reported)).await;
    assert_eq!(pool.stop().await.left, 0);
}

/// An engine that refuses this many settle commands and accepts the following ones.
fn refusing(inner: Arc<dyn Engine>, refusals: usize) -> Arc<dyn Engine> {
    let left = Arc::new(AtomicUsize::new(refusals));
    let hooks = Hooks::default().submit(move |inner, command| {
        let decrement = |left: usize| left.checked_sub(1);
        let is_refused = matches!(command, Command::Queue(queue::Command::Settle(_)))
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, decrement).is_ok();
        Box::pin(async move {
            match is_refused {
                true => Err(EngineError::Refused { reason: "it is full".into() }),
                false => inner.submit(command).await,
            }
        })
    });
    layer(inner, hooks)
}

#[tokio::test]
async fn a_refused_result_is_kept_until_the_engine_accepts_it() {
    let inner = embedded().await;
    enqueue(&inner, vec![job("a", "1", "work", "")]).await;
    let events = RecordedEvents::default();
    let pool = Worker::new(refusing(inner, 10))
        .on_event(events.hook())
        .process("work", |(): (), _| std::future::ready(()))
        .start()
        .unwrap();
    let is_accepted = |event: &Event| matches!(event, Event::Settled { verdict: Verdict::Applied, .. });
    until("the engine accepts it", || events.any(is_accepted)).await;
    assert!(!events.any(|event| matches!(event, Event::Unsettled { .. })));
    assert_eq!(pool.stop().await.left, 0);
}
