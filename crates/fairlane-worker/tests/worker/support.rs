//! Shared test support: engines to run on, jobs, and bounded waits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane_core::queue::*;
use fairlane_core::{BulkId, GroupId, JobId, TypeId};
use fairlane_engine::Engine;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
pub use fairlane_testkit::wait::{eventually, until, until_async};
use fairlane_worker::{Event, RetryPolicy, WorkerSettings};

/// Runs a test on the embedded engine and on Redis.
pub async fn on_both_engines<F, Fut>(test: F)
where
    F: Fn(Arc<dyn Engine>) -> Fut,
    Fut: Future<Output = ()>,
{
    test(embedded().await).await;
    let server = RedisServer::start(ServerOptions::default());
    test(open(&server.url()).await).await;
}

pub async fn embedded() -> Arc<dyn Engine> {
    open("memory:").await
}

pub async fn open(url: &str) -> Arc<dyn Engine> {
    fairlane_engine::open(url, Settings::default()).await.expect("it opens")
}

/// Settings with short times, so that nothing waits longer than it must.
pub fn quick() -> WorkerSettings {
    let mut settings = WorkerSettings {
        retry: RetryPolicy { base: Duration::from_millis(2), cap: Duration::from_millis(10) },
        worker_timeout: Duration::from_millis(200),
        cancel_grace_period: Duration::from_millis(100),
        ..WorkerSettings::default()
    };
    settings.loops.sweep_interval = Duration::from_millis(50);
    settings.loops.reclaim_interval = Duration::from_millis(100);
    settings.loops.aggregate_interval = Duration::from_millis(50);
    settings
}

pub fn type_of(name: &str) -> TypeId {
    TypeId::new(name).expect("a good name")
}

pub fn job_ref(group: &str, id: &str) -> JobRef {
    JobRef { group: GroupId::new(group).expect("a good name"), id: JobId::new(id).expect("a good name") }
}

pub fn bulk_ref(group: &str, id: &str) -> BulkRef {
    BulkRef { group: GroupId::new(group).expect("a good name"), id: BulkId::new(id).expect("a good name") }
}

pub fn job(group: &str, id: &str, type_name: &str, payload: &str) -> NewJob {
    NewJob::new(job_ref(group, id), type_of(type_name), payload.as_bytes().into())
}

pub async fn enqueue(engine: &Arc<dyn Engine>, jobs: Vec<NewJob>) {
    let receipts = engine.enqueue_all(jobs).await.expect("the engine replies").receipts;
    assert!(receipts.iter().all(|receipt| *receipt == JobReceipt::Created), "{receipts:?}");
}

pub async fn view(engine: &Arc<dyn Engine>, group: &str, id: &str) -> JobView {
    let found = engine.call(InspectJob { job: job_ref(group, id) }).await.expect("the engine replies");
    found.expect("there is such a job")
}

pub async fn bulk_view(engine: &Arc<dyn Engine>, group: &str, id: &str) -> BulkView {
    let found = engine.call(InspectBulk { bulk: bulk_ref(group, id) }).await.expect("the engine replies");
    found.expect("there is such a bulk action")
}

pub async fn queue_view(engine: &Arc<dyn Engine>) -> QueueView {
    engine.call(InspectQueue).await.expect("the engine replies")
}

/// Waits until the job is in this state and returns it.
pub async fn reaches(engine: &Arc<dyn Engine>, group: &str, id: &str, state: JobState) -> JobView {
    eventually(async || {
        let view = view(engine, group, id).await;
        if view.state == state { Ok(view) } else { Err(view) }
    })
    .await
}

/// Waits until no job is queued or running.
pub async fn drained(engine: &Arc<dyn Engine>) {
    eventually(async || {
        let totals = queue_view(engine).await;
        if totals.backlog == 0 && totals.in_flight == 0 { Ok(()) } else { Err(totals) }
    })
    .await
}

/// The work of a job that takes 2 ms.
pub async fn a_moment() {
    tokio::time::sleep(Duration::from_millis(2)).await
}

/// The events that a worker has emitted.
#[derive(Clone, Default)]
pub struct RecordedEvents(Arc<Mutex<Vec<Event>>>);

impl RecordedEvents {
    pub fn hook(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let events = self.0.clone();
        move |event| events.lock().expect("no test panics here").push(event.clone())
    }

    pub fn count(&self, matches: impl Fn(&Event) -> bool) -> usize {
        self.0.lock().expect("no test panics here").iter().filter(|event| matches(event)).count()
    }

    pub fn any(&self, matches: impl Fn(&Event) -> bool) -> bool {
        self.count(matches) > 0
    }
}
