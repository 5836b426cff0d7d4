//! A customer who holds, resumes and cancels a large bulk action beside a customer with steady
//! work.
//!
//! First the steady customer's jobs are timed while the large bulk action runs, then while it is
//! held, resumed and cancelled in turn: neither the jobs completed in any window nor the slowest
//! hundredth may suffer. Then the resume of a small held bulk action is timed, alone and beside
//! thousands of cancelled ones that cannot end yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane_core::queue::*;
use fairlane_core::{BulkId, GroupId, JobId, RequestNumber, TypeId, WorkerId};
use fairlane_engine::Engine;
use fairlane_worker::{Context, Event, Pool, Worker, WorkerSettings};

const TYPE: &str = "work";
/// The type of jobs that run until the trial ends.
const STUCK_TYPE: &str = "stuck";
/// Longest time that a step of the trial may take before it counts as stuck.
const SILENCE: Duration = Duration::from_secs(600);
/// The sweep interval while resumes are timed. With the default of a second, the time until the
/// next sweep would dominate.
const RESUME_SWEEP_INTERVAL: Duration = Duration::from_millis(100);
/// How often the resume is timed; the median counts.
const RESUMES: usize = 5;

/// The amount of work, and how long it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Jobs of the large bulk action.
    pub jobs: u64,
    /// Jobs per second of the steady customer.
    pub each_second: u64,
    /// How long the steady customer is watched before the first hold.
    pub before: Duration,
    /// The shortest time for which it is watched after each hold, resume and cancel.
    pub step: Duration,
    /// The length of a window in which completed jobs are counted.
    pub window: Duration,
    /// Jobs that run at once.
    pub slots: usize,
    /// How long a job of the large bulk action takes.
    pub service: Duration,
    /// Cancelled bulk actions that cannot end, or had a delayed job.
    pub stuck: u64,
    /// Jobs of the bulk action that is resumed beside them.
    pub resumed: u64,
}

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// The 99th percentile of the steady jobs, from enqueue to completion, before the first hold,
    /// in milliseconds.
    pub before_ms: f64,
    /// The same percentile from the first hold on, in milliseconds.
    pub during_ms: f64,
    /// The fewest jobs completed in a window, as jobs per second.
    pub fewest_each_second: f64,
    /// Windows that were counted.
    pub windows: usize,
    /// Each step with the time until it had taken effect on all jobs, in seconds.
    pub steps: Vec<(&'static str, f64)>,
    /// The time from a resume to the end of its last job without stuck bulk actions, in
    /// milliseconds.
    pub resume_alone_ms: f64,
    /// The time from a resume to the end of its last job beside stuck bulk actions, in
    /// milliseconds.
    pub resume_beside_ms: f64,
    /// The invariants that were violated on any machine; empty if all held.
    pub violations: Vec<String>,
}

/// Runs both parts, each on a new engine from `open`.
pub async fn run<F, Fut>(plan: &Plan, open: F) -> Report
where
    F: Fn() -> Fut,
    Fut: Future<Output = Arc<dyn Engine>>,
{
    let mut report = Report::default();
    beside_steady(&open().await, plan, &mut report).await;
    beside_stuck(&open().await, plan, &mut report).await;
    report
}

/// When each steady job was enqueued, and when and after how long it was completed.
#[derive(Debug, Default)]
struct Timed {
    under_way: HashMap<JobId, Instant>,
    completed: Vec<(Instant, Duration)>,
}

type Shared<T> = Arc<Mutex<T>>;

fn locked<T>(shared: &Shared<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().expect("no holder of the lock panics")
}

async fn beside_steady(engine: &Arc<dyn Engine>, plan: &Plan, report: &mut Report) {
    let large = bulk("large", "b");
    open_bulk(engine, &large).await;
    add(engine, &large, plan.jobs, 0, TYPE).await;
    let timed: Shared<Timed> = Arc::default();
    let pool = worker(engine, plan, Duration::from_secs(1), timed.clone());
    let steady = tokio::spawn(enqueue_steadily(engine.clone(), plan.each_second, timed.clone()));
    // The first jobs open connections and files.
    tokio::time::sleep(plan.window.min(plan.before)).await;
    let begun = Instant::now();
    tokio::time::sleep(plan.before).await;
    let first_hold = Instant::now();
    for (step, name) in [Step::Hold, Step::Resume, Step::Hold, Step::Resume, Step::Cancel].map(Step::named) {
        let at = Instant::now();
        submit_step(engine, &large, step).await;
        match followed(engine, &large, step).await {
            true => report.steps.push((name, at.elapsed().as_secs_f64())),
            false => report.violations.push(format!("{name}: jobs did not follow in {SILENCE:?}")),
        }
        tokio::time::sleep(plan.step.saturating_sub(at.elapsed())).await;
    }
    let ended = Instant::now();
    steady.abort();
    let _ = steady.await;
    if !drained(&timed).await {
        report.violations.push(format!("{} steady jobs were not completed", locked(&timed).under_way.len()));
    }
    pool.stop().await;
    let timed = locked(&timed);
    report.before_ms = slowest_hundredth_ms(&timed, begun, first_hold);
    report.during_ms = slowest_hundredth_ms(&timed, first_hold, ended);
    (report.fewest_each_second, report.windows) = fewest_each_second(&timed, first_hold, ended, plan.window);
}

/// A step of the large customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Hold,
    Resume,
    Cancel,
}

impl Step {
    fn named(self) -> (Self, &'static str) {
        let name = match self {
            Self::Hold => "hold",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
        };
        (self, name)
    }
}

async fn submit_step(engine: &Arc<dyn Engine>, bulk: &BulkRef, step: Step) {
    let bulk = bulk.clone();
    match step {
        Step::Hold => drop(engine.call(HoldBulk { bulk }).await.expect("the engine replies")),
        Step::Resume => drop(engine.call(ResumeBulk { bulk }).await.expect("the engine replies")),
        Step::Cancel => drop(engine.call(CancelBulk { bulk }).await.expect("the engine replies")),
    }
}

/// Waits until every job is set aside, back in its lane, or has ended; false on a timeout.
async fn followed(engine: &Arc<dyn Engine>, bulk: &BulkRef, step: Step) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < SILENCE {
        let view = bulk_view(engine, bulk).await;
        let ended = view.succeeded + view.failed + view.cancelled;
        let done = match step {
            Step::Hold => ended + view.on_hold == view.total,
            Step::Resume => view.on_hold == 0,
            Step::Cancel => ended == view.total,
        };
        if done {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

async fn enqueue_steadily(engine: Arc<dyn Engine>, each_second: u64, timed: Shared<Timed>) {
    let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / each_second));
    for number in 0_u64.. {
        ticks.tick().await;
        let new = new_job("steady", &number.to_string(), None, TYPE, 0);
        locked(&timed).under_way.insert(new.job.id.clone(), Instant::now());
        engine.call(Enqueue { jobs: vec![new] }).await.expect("the job is accepted");
    }
}

/// Waits until all steady jobs are completed; false on a timeout.
async fn drained(timed: &Shared<Timed>) -> bool {
    let begun = Instant::now();
    // The last job may not have been enqueued when its task was aborted.
    while locked(timed).under_way.len() > 1 {
        if begun.elapsed() > SILENCE {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    true
}

fn slowest_hundredth_ms(timed: &Timed, from: Instant, to: Instant) -> f64 {
    let within = timed.completed.iter().filter(|(at, _)| (from..to).contains(at));
    let mut took: Vec<Duration> = within.map(|(_, took)| *took).collect();
    took.sort_unstable();
    let at = (took.len() * 99 / 100).min(took.len().saturating_sub(1));
    took.get(at).map_or(f64::INFINITY, |took| took.as_secs_f64() * 1000.0)
}

/// The fewest completions in a complete window, as jobs per second, and the number of windows.
fn fewest_each_second(timed: &Timed, from: Instant, to: Instant, window: Duration) -> (f64, usize) {
    let windows = (to - from).as_nanos() / window.as_nanos();
    let mut counts = vec![0_u64; windows as usize];
    for (at, _) in timed.completed.iter().filter(|(at, _)| *at >= from) {
        let index = ((*at - from).as_nanos() / window.as_nanos()) as usize;
        if let Some(count) = counts.get_mut(index) {
            *count += 1;
        }
    }
    let fewest = counts.iter().copied().min().unwrap_or(0);
    (fewest as f64 / window.as_secs_f64(), counts.len())
}

/// A worker with its loops. It times the steady jobs, and other jobs take their service time.
fn worker(engine: &Arc<dyn Engine>, plan: &Plan, sweep_interval: Duration, timed: Shared<Timed>) -> Pool {
    let service = plan.service;
    let mut settings = WorkerSettings {
        worker_count: plan.slots,
        fetch_batch_size: plan.slots.min(500),
        ..WorkerSettings::default()
    };
    settings.loops.sweep_interval = sweep_interval;
    let hook = move |event: &Event| {
        if let Event::Settled { job, .. } = event {
            let mut timed = locked(&timed);
            if let Some(at) = timed.under_way.remove(&job.id).filter(|_| job.group.escaped() == "steady") {
                timed.completed.push((Instant::now(), at.elapsed()));
            }
        }
    };
    Worker::new(engine.clone())
        .settings(settings)
        .on_event(hook)
        .processor(TYPE, move |job: Context| async move {
            if job.bulk().is_some() {
                tokio::time::sleep(service).await;
            }
        })
        .start()
        .expect("the settings are valid")
}

async fn beside_stuck(engine: &Arc<dyn Engine>, plan: &Plan, report: &mut Report) {
    let pool = worker(engine, plan, RESUME_SWEEP_INTERVAL, Arc::default());
    report.resume_alone_ms = resume_ms(engine, plan, "alone", report).await;
    stick(engine, plan.stuck).await;
    let begun = Instant::now();
    while queue_view(engine).await.sweeping > 0 {
        if begun.elapsed() > SILENCE {
            report.violations.push("cancelled bulk actions are swept forever".to_owned());
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    report.resume_beside_ms = resume_ms(engine, plan, "beside", report).await;
    pool.stop().await;
}

/// The median time of a resume, from its request to the end of its last job.
async fn resume_ms(engine: &Arc<dyn Engine>, plan: &Plan, name: &str, report: &mut Report) -> f64 {
    let mut took = Vec::new();
    for round in 0..RESUMES {
        let resumed = bulk("resumed", &format!("{name}-{round}"));
        open_bulk(engine, &resumed).await;
        submit_step(engine, &resumed, Step::Hold).await;
        add(engine, &resumed, plan.resumed, 0, TYPE).await;
        let all_held = followed(engine, &resumed, Step::Hold).await;
        let begun = Instant::now();
        submit_step(engine, &resumed, Step::Resume).await;
        let all_ended = followed(engine, &resumed, Step::Cancel).await;
        took.push(begun.elapsed());
        if !all_held || !all_ended {
            report.violations.push(format!("{name}: a resumed bulk action makes no progress"));
        }
    }
    took.sort_unstable();
    took[RESUMES / 2].as_secs_f64() * 1000.0
}

/// Cancels bulk actions of which each has one job: half of them run, half are delayed by a year.
async fn stick(engine: &Arc<dyn Engine>, count: u64) {
    let year_ms = 365 * 24 * 3600 * 1000;
    let names: Vec<BulkRef> = (0..count).map(|number| bulk("stuck", &number.to_string())).collect();
    for (number, name) in names.iter().enumerate() {
        let delay_ms = if number % 2 == 0 { 0 } else { year_ms };
        open_bulk(engine, name).await;
        add(engine, name, 1, delay_ms, STUCK_TYPE).await;
    }
    let mut running = 0;
    for request in 1.. {
        let lease = Lease {
            worker: WorkerId::new("stuck").expect("a plain word"),
            request: RequestNumber(request),
            types: vec![TypeId::new(STUCK_TYPE).expect("a plain word")],
            jobs_max: 500,
            lease_ms: 15 * 60 * 1000,
        };
        match engine.call(lease).await.expect("the engine replies") {
            Leased::Jobs { jobs, .. } if jobs.is_empty() => break,
            Leased::Jobs { jobs, .. } => running += jobs.len() as u64,
            superseded => panic!("{superseded:?}"),
        }
    }
    assert_eq!(running, count.div_ceil(2), "half of them run");
    for name in &names {
        submit_step(engine, name, Step::Cancel).await;
    }
}

fn bulk(group: &str, id: &str) -> BulkRef {
    let group = GroupId::new(group).expect("a plain word");
    BulkRef { group, id: BulkId::new(id).expect("a plain word") }
}

async fn open_bulk(engine: &Arc<dyn Engine>, bulk: &BulkRef) {
    let payload = Arc::from(&[][..]);
    let open = OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload };
    engine.call(open).await.expect("the engine replies");
}

/// Adds all jobs of a bulk action.
async fn add(engine: &Arc<dyn Engine>, bulk: &BulkRef, jobs: u64, delay_ms: u64, type_name: &str) {
    let group = bulk.group.to_string();
    let id = |number: u64| format!("{}-{number}", bulk.id);
    let jobs =
        (0..jobs).map(|number| new_job(&group, &id(number), Some(bulk.id.clone()), type_name, delay_ms));
    engine.enqueue_all(jobs).await.expect("the jobs are accepted");
    engine.call(SealBulk { bulk: bulk.clone(), expected: None }).await.expect("the engine replies");
}

fn new_job(group: &str, id: &str, bulk: Option<BulkId>, type_name: &str, delay_ms: u64) -> NewJob {
    let group = GroupId::new(group).expect("a plain word");
    NewJob {
        delay_ms,
        bulk,
        ..NewJob::new(
            JobRef { group, id: JobId::new(id).expect("a word and a number") },
            TypeId::new(type_name).expect("a plain word"),
            Arc::from(&b"{}"[..]),
        )
    }
}

async fn bulk_view(engine: &Arc<dyn Engine>, bulk: &BulkRef) -> BulkView {
    let found = engine.call(InspectBulk { bulk: bulk.clone() }).await;
    found.expect("the engine replies").expect("the bulk action exists")
}

async fn queue_view(engine: &Arc<dyn Engine>) -> QueueView {
    engine.call(InspectQueue).await.expect("the engine replies")
}
