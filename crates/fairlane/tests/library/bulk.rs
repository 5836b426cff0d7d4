//! Bulk actions: streaming in, sealing, waiting, ending.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane::{
    Backpressure, BulkState, Context, Difference, EndedJob, Error, Fairlane, Ingested, Job, JobState,
    Refusal, RetryBudget, Settings,
};

use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_worker::callback_id;

use super::lossy::Lossy;

async fn memory() -> Fairlane {
    Fairlane::open("memory:").await.unwrap()
}

fn counts(created: u64, existing: u64) -> Ingested {
    Ingested { jobs: created + existing, created, existing }
}

#[tokio::test]
async fn ingesting_the_same_source_again_adds_no_job_twice() {
    let fairlane = memory().await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    let source = |jobs: u64| (0..jobs).map(|number| bulk.job("mail", &number));
    // The first producer is killed after 450 jobs: the jobs it had buffered are lost.
    assert_eq!(bulk.add_all(source(450)).await.unwrap(), counts(450, 0));
    let again = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    assert!(bulk.is_new() && !again.is_new());
    assert_eq!(again.add_all(source(1000)).await.unwrap(), counts(550, 450));
    assert_eq!(bulk.seal(Some(1000)).await.unwrap().total, 1000);
    assert_eq!(again.add_all(source(1000)).await.unwrap(), counts(0, 1000));
    assert!(fairlane.job("customer-7", "newsletter-1000").view().await.unwrap().is_some());
}

#[tokio::test]
async fn skipping_jobs_keeps_the_positions_of_the_others() {
    let fairlane = memory().await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    bulk.add_all((0..3).map(|number| bulk.job("mail", &number))).await.unwrap();
    let mut ingest = bulk.ingest().skip(3);
    ingest.push(bulk.job("mail", &3)).await.unwrap();
    assert_eq!(ingest.finish().await.unwrap(), Ingested { jobs: 4, created: 1, existing: 0 });
    assert!(fairlane.job("customer-7", "newsletter-4").view().await.unwrap().is_some());
}

#[tokio::test]
async fn another_source_with_the_same_positions_is_rejected() {
    let fairlane = memory().await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    bulk.add_all((0..300).map(|number| bulk.job("mail", &number))).await.unwrap();
    // A line was removed: all lines after it have moved up.
    let shifted = (0..300).filter(|number| *number != 150).map(|number| bulk.job("mail", &number));
    let error = bulk.add_all(shifted).await.unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, Error::OtherSource { position: 151, .. }), "{message}");
    for words in [
        "newsletter-151 (number 151",
        "with another payload",
        "never remove",
        "give its jobs ids",
        "--append",
    ] {
        assert!(message.contains(words), "{message}");
    }
    let other = bulk.add_all([bulk.job("mail", &"another")]).await.unwrap_err();
    assert!(matches!(other, Error::OtherSource { position: 1, .. }), "{other}");
    let other = bulk.add_all([bulk.job("text", &0)]).await.unwrap_err();
    assert!(matches!(other, Error::OtherSource { difference: Difference::Type, .. }), "{other}");
    // Appended to the existing jobs, the other source adds all of its jobs.
    let mut behind = bulk.ingest().skip(300);
    behind.push(bulk.job("mail", &"another")).await.unwrap();
    assert_eq!(behind.finish().await.unwrap(), Ingested { jobs: 301, created: 1, existing: 0 });
    // Jobs with ids are identified by those, and a different job with the same id is still
    // reported.
    let order = |payload: u64| bulk.add_all([bulk.job("mail", &payload).id("order-1")]);
    assert_eq!(order(1).await.unwrap(), counts(1, 0));
    let other = order(2).await.unwrap_err();
    assert!(matches!(other, Error::Differs { difference: Difference::Payload, .. }), "{other}");
    assert_eq!(order(1).await.unwrap(), counts(0, 1));
}

#[tokio::test]
async fn new_jobs_of_another_source_are_counted_and_different_jobs_are_not() {
    let fairlane = memory().await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    bulk.add_all((0..3).map(|number| bulk.job("mail", &number))).await.unwrap();
    let mut ingest = bulk.ingest();
    for number in 10..15 {
        ingest.push(bulk.job("mail", &number)).await.unwrap();
    }
    assert!(matches!(ingest.flush().await, Err(Error::OtherSource { position: 1, .. })));
    assert_eq!(ingest.counts(), counts(2, 0));
    assert_eq!(ingest.finish().await.unwrap(), counts(2, 0));
}

#[tokio::test]
async fn a_source_can_be_ingested_again_after_its_jobs_have_ended() {
    let fairlane = memory().await;
    let bulk = fairlane.bulk("customer-7", "newsletter").source("f00d").open().await.unwrap();
    assert_eq!(bulk.plan().await.unwrap().source.as_deref(), Some("f00d"));
    let source = || (0..10).map(|number| bulk.job("mail", &number));
    bulk.add_all(source()).await.unwrap();
    bulk.seal(Some(10)).await.unwrap();
    let pool = fairlane.worker().process("mail", |_: u64, _: Context| async {}).start().unwrap();
    bulk.finished().await.unwrap();
    pool.stop().await;
    assert_eq!(bulk.add_all(source()).await.unwrap(), counts(0, 10));
}

#[tokio::test]
async fn a_bulk_action_with_a_callback_needs_no_room_for_another_type() {
    let fairlane = memory().await;
    for number in 0..64 {
        fairlane.job_type(format!("type-{number}")).apply().await.unwrap();
    }
    let bulk = fairlane.bulk("customer-7", "late").callback("https://customer-7.example/done");
    let bulk = bulk.open().await.unwrap();
    assert!(fairlane.job_type("fairlane-callback").view().await.unwrap().is_none(), "it is added at the end");
    bulk.seal(Some(0)).await.unwrap();
    let pool = fairlane.worker().start().unwrap();
    let id = callback_id(&bulk.finished().await.unwrap());
    pool.stop().await;
    assert_eq!(fairlane.job("customer-7", id).view().await.unwrap().unwrap().state, JobState::Pending);
}

#[tokio::test]
async fn after_lost_replies_no_job_is_added_twice() {
    let (lossy, fairlane) = Lossy::open(Settings::default()).await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    let waits = Arc::new(AtomicU64::new(0));
    let counter = waits.clone();
    let mut ingest = bulk.ingest().on_backpressure(move |backpressure| {
        assert!(matches!(backpressure, Backpressure::Down(_)));
        counter.fetch_add(1, Ordering::SeqCst);
    });
    for number in 0..450 {
        if number == 200 {
            lossy.to_lose.store(2, Ordering::SeqCst);
        }
        ingest.push(bulk.job("mail", &number)).await.unwrap();
    }
    // The jobs of the step whose reply was lost exist when it is sent again.
    assert_eq!(ingest.finish().await.unwrap(), counts(250, 200));
    assert_eq!(waits.load(Ordering::SeqCst), 2);
    assert_eq!(bulk.seal(Some(450)).await.unwrap().total, 450);
}

#[tokio::test]
async fn a_retry_budget_ends_if_the_engine_stays_unreachable() {
    let (lossy, fairlane) = Lossy::open(Settings::default()).await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    let budget = RetryBudget { while_down: Duration::from_millis(1), ..RetryBudget::default() };
    let mut ingest = bulk.ingest().retry_budget(budget);
    ingest.push(bulk.job("mail", &1)).await.unwrap();
    lossy.to_lose.store(u64::MAX, Ordering::SeqCst);
    let error = ingest.flush().await.unwrap_err();
    assert!(matches!(error, Error::GaveUp { .. }) && error.to_string().contains("safe to repeat"), "{error}");
    lossy.to_lose.store(0, Ordering::SeqCst);
    // The failure loses no job.
    assert_eq!(ingest.finish().await.unwrap(), counts(0, 1));
}

#[tokio::test]
async fn an_ingestion_larger_than_the_queue_waits_for_room() {
    let settings = Settings { group_backlog_max: 50, ..Settings::default() };
    let (lossy, fairlane) = Lossy::open(settings).await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    let worker = fairlane.clone();
    let pool = Arc::new(Mutex::new(None));
    let started = pool.clone();
    // The worker starts when the queue is full for the first time.
    let mut ingest = bulk.ingest().on_backpressure(move |backpressure| {
        assert_eq!(*backpressure, Backpressure::Full(Refusal::GroupFull));
        let start = || worker.worker().process("mail", |_: u64, _: Context| async {}).start().unwrap();
        started.lock().unwrap().get_or_insert_with(start);
    });
    for number in 0..100 {
        ingest.push(bulk.job("mail", &number)).await.unwrap();
    }
    assert_eq!(ingest.finish().await.unwrap(), counts(100, 0));
    assert!(lossy.enqueues.load(Ordering::SeqCst) >= 2);
    bulk.seal(Some(100)).await.unwrap();
    let view = bulk.finished().await.unwrap();
    assert_eq!((view.state, view.succeeded), (BulkState::Completed, 100));
    let pool = pool.lock().unwrap().take();
    pool.unwrap().stop().await;
}

#[tokio::test]
async fn an_id_of_another_bulk_action_is_a_conflict_that_names_the_job() {
    let fairlane = memory().await;
    let first = fairlane.bulk("customer-7", "first").open().await.unwrap();
    let second = fairlane.bulk("customer-7", "second").open().await.unwrap();
    first.add_all([first.job("mail", &1).id("order-1")]).await.unwrap();
    let error = second.add_all([second.job("mail", &1).id("order-1")]).await.unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, Error::Conflict { owner: Some(_), .. }), "{message}");
    assert!(message.contains("order-1") && message.contains("in bulk action first"), "{message}");
    fairlane.enqueue(Job::new("customer-7", "mail", &1).id("order-2")).await.unwrap().accepted().unwrap();
    let alone = second.add_all([second.job("mail", &1).id("order-2")]).await.unwrap_err();
    assert!(matches!(alone, Error::Conflict { owner: None, .. }), "{alone}");
}

#[tokio::test]
async fn an_error_names_the_job_that_cannot_join() {
    let fairlane = memory().await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    let mut ingest = bulk.ingest();
    let other = ingest.push(Job::new("customer-8", "mail", &1)).await.unwrap_err();
    assert!(matches!(other, Error::OtherGroup { .. }), "{other}");
    ingest.push(bulk.job("mail", &1)).await.unwrap();
    let wrong = ingest.push(bulk.job("mail", &1).cost(0)).await.unwrap_err();
    assert!(wrong.to_string().contains("\"newsletter-3\" (number 3)"), "{wrong}");
    assert_eq!(ingest.finish().await.unwrap(), counts(1, 0));
    bulk.seal(None).await.unwrap();
    let sealed = bulk.ingest().skip(5).retry_budget(RetryBudget::NONE);
    let late = push_one(sealed, bulk.job("mail", &2)).await.unwrap_err();
    assert!(late.to_string().contains("newsletter-6") && late.to_string().contains("sealed"), "{late}");
    let nowhere = fairlane.bulk("customer-7", "unknown").opened_before().unwrap();
    let unknown = nowhere.add_all([nowhere.job("mail", &1)]).await.unwrap_err();
    assert!(unknown.to_string().contains("open it first"), "{unknown}");
}

#[tokio::test]
async fn a_job_that_is_left_out_does_not_shift_the_positions_of_the_others() {
    let fairlane = memory().await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    fairlane.enqueue(Job::new("customer-7", "mail", &1).id("taken")).await.unwrap().accepted().unwrap();
    let mut ingest = bulk.ingest();
    ingest.push(bulk.job("mail", &1)).await.unwrap();
    ingest.push(bulk.job("mail", &2).cost(0)).await.unwrap_err();
    ingest.push(bulk.job("mail", &3).id("taken")).await.unwrap();
    ingest.push(bulk.job("mail", &4)).await.unwrap();
    let conflict = ingest.flush().await.unwrap_err();
    assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
    ingest.push(bulk.job("mail", &5)).await.unwrap();
    assert_eq!(ingest.finish().await.unwrap(), counts(3, 0));
    for (id, payload) in [("newsletter-1", "1"), ("newsletter-4", "4"), ("newsletter-5", "5")] {
        let view = fairlane.job("customer-7", id).view().await.unwrap().unwrap();
        assert_eq!(&*view.payload, payload.as_bytes());
    }
}

#[tokio::test]
async fn large_payloads_are_sent_in_commands_that_fit() {
    let (lossy, fairlane) = Lossy::open(Settings::default()).await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    let mut ingest = bulk.ingest();
    for size in [400_000, 400_000, 400_000, 524_288, 524_288, 1, 0] {
        ingest.push(Job::bytes("customer-7", "mail", vec![b'1'; size])).await.unwrap();
    }
    let (ingested, view) = ingest.seal().await.unwrap();
    assert_eq!((ingested, view.total, view.sealed), (counts(7, 0), 7, true));
    assert_eq!(lossy.enqueues.load(Ordering::SeqCst), 3);
}

#[test]
fn an_invalid_callback_url_is_rejected() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let refused = runtime.block_on(async {
        let new = memory().await.bulk("customer-7", "newsletter").callback("customer-7.example");
        // Everything here can be spawned.
        tokio::spawn(new.open()).await.unwrap().err().unwrap()
    });
    assert!(refused.to_string().contains("begins with http:// or https://"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_is_killed_and_restarted_gets_every_job_once() {
    let server = RedisServer::start(ServerOptions { durable: true, ..ServerOptions::default() });
    let fairlane = Fairlane::open(&server.url()).await.unwrap();
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    let server = Arc::new(Mutex::new((server, false)));
    let down = server.clone();
    let mut ingest = bulk.ingest().on_backpressure(move |_| {
        let (server, is_back) = &mut *down.lock().unwrap();
        if !std::mem::replace(is_back, true) {
            server.restart();
        }
    });
    for number in 0..1000 {
        if number == 500 {
            server.lock().unwrap().0.kill();
        }
        ingest.push(bulk.job("mail", &number)).await.unwrap();
    }
    let (ingested, view) = tokio::spawn(ingest.seal()).await.unwrap().unwrap();
    assert_eq!((ingested.jobs, view.total), (1000, 1000));
    assert!(server.lock().unwrap().1, "the outage was noticed");
}

async fn push_one(mut ingest: fairlane::Ingest, job: Job) -> Result<Ingested, Error> {
    ingest.push(job).await?;
    ingest.finish().await
}

#[tokio::test]
async fn sealing_with_another_number_of_jobs_leaves_the_bulk_action_open() {
    let fairlane = memory().await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    bulk.add_all([bulk.job("mail", &1)]).await.unwrap();
    let error = bulk.seal(Some(2)).await.unwrap_err();
    assert!(matches!(error, Error::Mismatch { expected: 2, total: 1, .. }), "{error}");
    assert!(!bulk.view().await.unwrap().sealed);
}

#[tokio::test]
async fn sealing_again_with_another_number_of_jobs_is_rejected() {
    let fairlane = memory().await;
    let bulk = fairlane.bulk("customer-7", "newsletter").open().await.unwrap();
    bulk.add_all([bulk.job("mail", &1)]).await.unwrap();
    let sealed = bulk.seal(Some(1)).await.unwrap();
    let error = bulk.seal(Some(2)).await.unwrap_err();
    assert!(matches!(error, Error::SealedWithOthers { expected: 2, total: 1, .. }), "{error}");
    assert_eq!(bulk.seal(Some(1)).await.unwrap(), sealed);
    assert_eq!(bulk.seal(None).await.unwrap(), sealed);
}

#[tokio::test]
async fn a_bulk_action_is_held_resumed_and_cancelled() {
    let fairlane = memory().await;
    let bulk =
        fairlane.bulk("customer-7", "newsletter").deadline(Duration::from_secs(60)).open().await.unwrap();
    bulk.add_all((0..10).map(|number| bulk.job("mail", &number))).await.unwrap();
    assert!(bulk.view().await.unwrap().deadline.is_some());
    assert_eq!(bulk.hold().await.unwrap().mode.as_str(), "hold");
    assert_eq!(bulk.resume().await.unwrap().mode.as_str(), "run");
    assert_eq!(bulk.cancel().await.unwrap().state, BulkState::Cancelled);
    assert_eq!(bulk.finished().await.unwrap().state, BulkState::Cancelled);
    let unknown = fairlane.bulk("customer-7", "unknown").opened_before().unwrap();
    for error in
        [unknown.view().await, unknown.hold().await, unknown.cancel().await, unknown.seal(None).await]
    {
        assert!(matches!(error, Err(Error::NoSuchBulk(_))));
    }
}

#[tokio::test]
async fn a_summary_has_error_counts_and_the_value_of_its_fold() {
    let fairlane = memory().await;
    let bulk = fairlane.bulk("customer-7", "newsletter").fold("lengths").open().await.unwrap();
    assert_eq!(bulk.summary().await.unwrap(), None);
    let pool = fairlane
        .worker()
        .process("mail", |number: u64, _: Context| async move {
            match number % 2 {
                0 => fairlane::Outcome::done(&number),
                _ => fairlane::Outcome::failed("odd", "only even numbers are done"),
            }
        })
        .fold("lengths", |bytes: &mut u64, job: &EndedJob| {
            *bytes += if job.state == JobState::Completed { job.note.len() as u64 } else { 0 };
        })
        .start()
        .unwrap();
    bulk.add_all((0..10).map(|number| bulk.job("mail", &number))).await.unwrap();
    bulk.seal(Some(10)).await.unwrap();
    let mut polls = 0;
    let view = bulk.finished_with(|_| polls += 1).await.unwrap();
    assert_eq!((view.state, view.succeeded, view.failed), (BulkState::Completed, 5, 5));
    assert!(polls > 0);
    let summary = bulk.summary().await.unwrap().unwrap();
    assert_eq!((summary.errors[0].code.as_str(), summary.errors[0].count), ("odd", 5));
    assert_eq!(summary.fold, Some(5.into()));
    pool.stop().await;
}
