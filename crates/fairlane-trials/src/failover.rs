//! A Redis primary that is replaced behind one address while a worker with ten slots is busy: the
//! time until the worker is as fast as before, and whether every acknowledged job ends without a
//! dropped result.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane_core::queue::*;
use fairlane_core::{GroupId, JobId, TypeId};
use fairlane_engine::Engine;
use fairlane_testkit::failover::RedisPair;
use fairlane_worker::{Context, Event, Pool, Worker};

const SLOTS: usize = 10;
/// How long a job takes: with ten slots the worker's rate does not depend on the machine.
const SERVICE: Duration = Duration::from_millis(20);
/// The fraction of the previous rate, measured over [`WINDOW`], that counts as full rate.
const FULL: f64 = 0.9;
const WINDOW: Duration = Duration::from_secs(1);
const SAMPLE: Duration = Duration::from_millis(50);
/// Jobs that the producer keeps ahead of the worker.
const AHEAD: u64 = 1000;
const BATCH: u64 = 50;
const LIMIT: Duration = Duration::from_secs(120);

/// How long to measure and how often to fail over.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The number of failovers, one after the other.
    pub rounds: usize,
    /// How long the rate is measured before each failover.
    pub before: Duration,
}

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// For each round, the rate before in jobs per second, and the time from the failover until
    /// that rate is reached again.
    pub rounds: Vec<(f64, Duration)>,
    /// Jobs that were acknowledged.
    pub jobs: u64,
    /// Jobs that ran more than once.
    pub ran_twice: u64,
    /// The invariants that were violated.
    pub violations: Vec<String>,
}

/// Counts of the worker.
#[derive(Default)]
struct Counts {
    runs: AtomicU64,
    settled: AtomicU64,
    dropped: AtomicU64,
    ran: Mutex<BTreeSet<String>>,
    ran_twice: AtomicU64,
    is_over: AtomicBool,
}

impl Counts {
    fn note_run(&self, id: &JobId) {
        self.runs.fetch_add(1, Ordering::SeqCst);
        if !self.ran.lock().expect("no holder of the lock panics").insert(id.to_string()) {
            self.ran_twice.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn note_event(&self, event: &Event) {
        match event {
            Event::Settled { verdict: Verdict::Applied, .. } => self.settled.fetch_add(1, Ordering::SeqCst),
            Event::Unsettled { .. } => self.dropped.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
    }

    fn settled(&self) -> u64 {
        self.settled.load(Ordering::SeqCst)
    }
}

/// Runs the trial.
pub async fn run(plan: &Plan) -> Report {
    let mut pair = RedisPair::start().await;
    let engine = fairlane_engine::open(&pair.url(), Settings::default()).await.expect("the primary is there");
    let counts = Arc::new(Counts::default());
    let pool = work(engine.clone(), &counts);
    let producing = tokio::spawn(produce(engine.clone(), counts.clone()));
    let mut report = Report::default();
    for _ in 0..plan.rounds {
        let rate = rate_over(&counts, plan.before).await;
        let began = Instant::now();
        pair.fail_over().await;
        match time_to(&counts, rate * FULL, began).await {
            Some(after) => report.rounds.push((rate, after)),
            None => report.violations.push(format!("never back to {rate:.0} jobs a second")),
        }
    }
    counts.is_over.store(true, Ordering::SeqCst);
    report.jobs = producing.await.expect("the producer does not panic");
    let deadline = Instant::now() + LIMIT;
    while counts.settled() < report.jobs && Instant::now() < deadline {
        tokio::time::sleep(SAMPLE).await;
    }
    pool.stop().await;
    report.ran_twice = counts.ran_twice.load(Ordering::SeqCst);
    check(&*engine, &counts, &mut report).await;
    report
}

fn work(engine: Arc<dyn Engine>, counts: &Arc<Counts>) -> Pool {
    let (runs, events) = (counts.clone(), counts.clone());
    let worker = Worker::new(engine).configure(|settings| settings.worker_count = SLOTS);
    let worker = worker.on_event(move |event| events.note_event(event));
    let worker = worker.processor("t", move |job: Context| {
        runs.note_run(&job.job().id);
        tokio::time::sleep(SERVICE)
    });
    worker.start().expect("the settings are valid")
}

/// Keeps the worker busy; a batch that was not acknowledged is sent again. Returns the number of
/// jobs.
async fn produce(engine: Arc<dyn Engine>, counts: Arc<Counts>) -> u64 {
    let mut added = 0;
    while !counts.is_over.load(Ordering::SeqCst) {
        if added >= counts.settled() + AHEAD {
            tokio::time::sleep(SAMPLE).await;
            continue;
        }
        let batch = (added..added + BATCH).map(new_job);
        if engine.enqueue_all(batch).await.is_ok() {
            added += BATCH;
        } else {
            tokio::time::sleep(SAMPLE).await;
        }
    }
    added
}

fn new_job(number: u64) -> NewJob {
    NewJob::new(
        JobRef {
            group: GroupId::new(format!("g{}", number % 5)).expect("a plain word is a name"),
            id: JobId::new(number.to_string()).expect("a number is a name"),
        },
        TypeId::new("t").expect("a plain word is a name"),
        b"null".as_slice().into(),
    )
}

/// The rate in jobs per second, measured for this long.
async fn rate_over(counts: &Counts, length: Duration) -> f64 {
    while counts.settled() < AHEAD / 5 {
        tokio::time::sleep(SAMPLE).await;
    }
    let (first, began) = (counts.settled(), Instant::now());
    tokio::time::sleep(length).await;
    (counts.settled() - first) as f64 / began.elapsed().as_secs_f64()
}

/// The time until the rate over a window that began after the failover reached this rate.
async fn time_to(counts: &Counts, rate: f64, began: Instant) -> Option<Duration> {
    let mut samples = VecDeque::new();
    while began.elapsed() < LIMIT {
        samples.push_back((Instant::now(), counts.settled()));
        while samples.len() > 1 && samples[1].0.elapsed() >= WINDOW {
            samples.pop_front();
        }
        let (at, settled) = samples[0];
        if at.elapsed() >= WINDOW && (counts.settled() - settled) as f64 / at.elapsed().as_secs_f64() >= rate
        {
            return Some(began.elapsed());
        }
        tokio::time::sleep(SAMPLE).await;
    }
    None
}

async fn check(engine: &dyn Engine, counts: &Counts, report: &mut Report) {
    let lost = report.jobs - counts.ran.lock().expect("no holder of the lock panics").len() as u64;
    let dropped = counts.dropped.load(Ordering::SeqCst);
    for (count, what) in [(lost, "jobs were lost"), (dropped, "results were dropped")] {
        if count > 0 {
            report.violations.push(format!("{count} {what}"));
        }
    }
    let totals = match engine.call(InspectQueue).await {
        Ok(totals) => totals,
        Err(error) => return report.violations.push(format!("the queue does not reply: {error}")),
    };
    let (left, completed) = ((totals.backlog, totals.in_flight, totals.failed), totals.completed);
    if left != (0, 0, 0) || completed != report.jobs {
        let jobs = report.jobs;
        report.violations.push(format!("of {jobs} jobs {completed} completed; {left:?} are left"));
    }
}
