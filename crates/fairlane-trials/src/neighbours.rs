//! Customers with many jobs beside customers with few.
//!
//! The same two hundred small customers enqueue the same jobs twice: once alone, and once after
//! twenty large customers have each opened a bulk action and streamed their jobs in. The waits of
//! the small customers must hardly differ between the two runs; every large bulk action must
//! complete once, with a summary that equals a recount.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane_core::queue::*;
use fairlane_core::{BulkId, GroupId, JobId, TypeId};
use fairlane_engine::Engine;
use fairlane_worker::{Context, Event, Pool, Summary, Worker, WorkerSettings};
use hdrhistogram::Histogram;

const TYPE: &str = "work";
/// The longest wait that is recorded exactly, in microseconds.
const HOUR_US: u64 = 3600 * 1_000_000;
/// The longest time without progress before a run counts as stuck.
const SILENCE: Duration = Duration::from_secs(120);

/// The amount of work and the number of workers.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Number of large customers, which have a bulk action each.
    pub large: u64,
    /// Number of jobs of each large customer.
    pub large_jobs: u64,
    /// Number of small customers, which have no bulk action.
    pub small: u64,
    /// Number of jobs of each small customer.
    pub small_jobs: u64,
    /// Jobs that run at once.
    pub slots: usize,
    /// The duration of each job.
    pub service: Duration,
}

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// The p50 and p99 of the small customers' waits alone, in milliseconds.
    pub alone_ms: (f64, f64),
    /// The p50 and p99 of the small customers' waits beside the large ones, in milliseconds.
    pub beside_ms: (f64, f64),
    /// Jobs of the large customers that started while the small ones had work.
    pub large_started: u64,
    /// The time until the large bulk actions ended, in seconds.
    pub large_seconds: f64,
    /// The invariants that were violated; empty if all held.
    pub violations: Vec<String>,
}

impl Report {
    /// The ratio of the p99 beside the large customers, less one service time, to the p99 alone.
    pub fn ratio(&self, plan: &Plan) -> f64 {
        (self.beside_ms.1 - plan.service.as_secs_f64() * 1000.0) / self.alone_ms.1
    }

    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(what());
        }
    }
}

/// Runs both parts, each on a new engine from `open`.
pub async fn run<F, Fut>(plan: &Plan, open: F) -> Report
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn Engine>>,
{
    let mut report = Report::default();
    let alone = open().await;
    report.alone_ms = small_ones(&alone, plan, &mut report).await;
    let beside = open().await;
    let ended: Arc<Mutex<HashMap<BulkRef, u64>>> = Arc::default();
    let started = Instant::now();
    stream_large(&beside, plan).await;
    let watching = loops_only(&beside, ended.clone());
    report.beside_ms = small_ones(&beside, plan, &mut report).await;
    let pool = worker(&beside, plan, Waits::default());
    large_end(&beside, plan, &mut report).await;
    report.large_seconds = started.elapsed().as_secs_f64();
    pool.stop().await;
    watching.stop().await;
    let ended = ended.lock().expect("no holder of the lock panics");
    let once = ended.len() as u64 == plan.large && ended.values().all(|times| *times == 1);
    report.expect(once, || format!("bulk actions ended: {ended:?}"));
    report
}

/// How long the jobs of small customers have waited, and how many of the others have started.
#[derive(Clone)]
struct Waits(Arc<Mutex<Histogram<u64>>>, Arc<AtomicU64>);

impl Default for Waits {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, HOUR_US, 3).expect("the bounds are constants that fit");
        Self(Arc::new(Mutex::new(histogram)), Arc::default())
    }
}

fn settings(slots: usize) -> WorkerSettings {
    WorkerSettings { worker_count: slots, fetch_batch_size: slots.min(500), ..WorkerSettings::default() }
}

/// A worker that records how long the jobs of small customers have waited.
fn worker(engine: &Arc<dyn Engine>, plan: &Plan, waits: Waits) -> Pool {
    let service = plan.service;
    Worker::new(engine.clone())
        .settings(settings(plan.slots))
        .without_loops()
        .processor(TYPE, move |job: Context| {
            if job.bulk().is_none() {
                // A fence is the time of its lease.
                let waited_us = job.fence().0.saturating_sub(job.created_at().0);
                waits.0.lock().expect("no holder of the lock panics").saturating_record(waited_us);
            } else {
                waits.1.fetch_add(1, Ordering::Relaxed);
            }
            tokio::time::sleep(service)
        })
        .start()
        .expect("the settings are valid")
}

/// The loops, which count how often each bulk action ends.
fn loops_only(engine: &Arc<dyn Engine>, ended: Arc<Mutex<HashMap<BulkRef, u64>>>) -> Pool {
    let hook = move |event: &Event| {
        if let Event::BulkEnded { view, .. } = event {
            let mut ended = ended.lock().expect("no holder of the lock panics");
            *ended.entry(view.bulk.clone()).or_default() += 1;
        }
    };
    Worker::new(engine.clone()).on_event(hook).start().expect("the settings are valid")
}

/// Enqueues the jobs of the small customers, works until they are done, and returns their waits.
async fn small_ones(engine: &Arc<dyn Engine>, plan: &Plan, report: &mut Report) -> (f64, f64) {
    let jobs = plan.small * plan.small_jobs;
    // One job of each customer in turn, as if all customers had enqueued at once.
    let job = |number: u64| {
        let (index, customer) = (number / plan.small, number % plan.small);
        new_job(&format!("small-{customer}"), &format!("job-{index}"), None)
    };
    let waits = Waits::default();
    engine.enqueue_all((0..jobs).map(job)).await.expect("the jobs are accepted");
    let pool = worker(engine, plan, waits.clone());
    let recorded = || waits.0.lock().expect("no holder of the lock panics").len();
    let (mut last, mut moved) = (0, Instant::now());
    while recorded() < jobs {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if recorded() > last {
            (last, moved) = (recorded(), Instant::now());
        }
        if moved.elapsed() > SILENCE {
            report.expect(false, || format!("{last} of {jobs} small jobs have started"));
            break;
        }
    }
    let started = waits.1.load(Ordering::Relaxed);
    report.large_started = started;
    // With equal shares each large customer starts as many jobs as a small one; in plain order the
    // large ones would start all of theirs.
    let most = 2 * plan.large * plan.small_jobs + 200;
    report.expect(started <= most, || {
        format!("{started} large jobs were started while small ones waited; fair are {most} at most")
    });
    let stop = pool.stop().await;
    report.expect(stop.left == 0, || format!("{} jobs were left", stop.left));
    let waits = waits.0.lock().expect("no holder of the lock panics");
    let ms = |quantile: f64| waits.value_at_quantile(quantile) as f64 / 1000.0;
    (ms(0.5), ms(0.99))
}

fn new_job(group: &str, id: &str, bulk: Option<BulkId>) -> NewJob {
    let group = GroupId::new(group).expect("a word and a number");
    NewJob {
        bulk,
        ..NewJob::new(
            JobRef { group, id: JobId::new(id).expect("a word and a number") },
            TypeId::new(TYPE).expect("a plain word"),
            Arc::from(&b"{}"[..]),
        )
    }
}

fn large_bulk(customer: u64) -> BulkRef {
    BulkRef {
        group: GroupId::new(format!("large-{customer}")).expect("a word and a number"),
        id: BulkId::new("all-of-it").expect("plain words"),
    }
}

async fn stream_large(engine: &Arc<dyn Engine>, plan: &Plan) {
    for customer in 0..plan.large {
        let bulk = large_bulk(customer);
        let open = OpenBulk {
            bulk: bulk.clone(),
            deadline_ms: None,
            failures_max: None,
            payload: Arc::from(&[][..]),
        };
        engine.call(open).await.expect("the engine replies");
        let group = bulk.group.to_string();
        let jobs = (0..plan.large_jobs)
            .map(|number| new_job(&group, &format!("job-{number}"), Some(bulk.id.clone())));
        engine.enqueue_all(jobs).await.expect("the jobs are accepted");
        let seal = SealBulk { bulk, expected: Some(plan.large_jobs) };
        let sealed = engine.call(seal).await.expect("the engine replies");
        assert!(matches!(sealed, BulkSealed::Sealed(_)), "{sealed:?}");
    }
}

/// Waits until the bulk actions of the large customers have ended, and checks their counts.
async fn large_end(engine: &Arc<dyn Engine>, plan: &Plan, report: &mut Report) {
    for customer in 0..plan.large {
        let (mut last, mut moved) = (0, Instant::now());
        let view = loop {
            let found = engine.call(InspectBulk { bulk: large_bulk(customer) }).await;
            let view = found.expect("the engine replies").expect("the bulk action exists");
            if view.state.is_final() {
                break view;
            }
            if view.succeeded > last {
                (last, moved) = (view.succeeded, Instant::now());
            }
            if moved.elapsed() > SILENCE {
                report.expect(false, || format!("no progress: {view:?}"));
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        let summary: Summary = serde_json::from_slice(&view.summary).unwrap_or_default();
        let counts = (view.state, view.total, view.succeeded, summary.succeeded, summary.attempts);
        let all = plan.large_jobs;
        let expected = (BulkState::Completed, all, all, all, all);
        report.expect(counts == expected, || format!("{counts:?} instead of {expected:?}"));
    }
}
