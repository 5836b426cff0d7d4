//! `fairlane demo`: one customer with many jobs, and two that arrive later with a few; then the same
//! jobs in one plain queue.
//!
//! Invariant: lost and duplicated jobs are counted three times: by the handlers, from the replies
//! to the settlements, and from the store's own counts.

mod ledger;
mod progress;
pub mod report;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use fairlane::{Fairlane, JobId, JobReceipt, JobRef, Rate, TypeId, TypePatch};
use fairlane_core::limits::ENQUEUE_JOBS_MAX;
use fairlane_core::queue::NewJob;
use fairlane_server::{Server, ServerSettings};
use fairlane_worker::{Context, Event, Pool, WorkerSettings};
use tokio::sync::mpsc;

use crate::failure::Failure;
use crate::own_engine::{OwnEngine, run_id};
use crate::{output, tables};
use ledger::Ledger;
use progress::Progress;
use report::DemoReport;

/// Jobs of one customer at most, so that the ledger fits in memory.
const SIZE_MAX: u32 = 5_000_000;
/// Jobs of one lease at most; fewer if fewer slots are free.
const BATCH_MAX: u32 = 500;
/// The others arrive when one in this many of A's jobs is done.
const ARRIVAL_PART: u64 = 10;

const EXAMPLES: &str = "\
Examples:
  fairlane demo
  fairlane demo --sizes 1000000,100,50
  fairlane demo --engine redis://127.0.0.1:6379 --rate 5000
  fairlane demo --keep
  fairlane demo --json

The dashboard is served at the printed address while the demo runs, to programs of this machine only.
On Redis, the demo uses its own key prefix and removes its keys at the end.
Exit codes: 0 no job was lost or run twice; 1 otherwise; 2 bad input; 130 interrupted by Ctrl-C.";

/// Demonstrates fairness: a customer with 50,000 jobs, and two that arrive later with a few
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Address of the queue: memory: or redis://host:port
    #[arg(long, value_name = "URL", default_value = "memory:")]
    engine: String,
    /// Number of jobs of the customers A, B, C …; A starts, the others arrive when a tenth of A is
    /// done
    #[arg(
        long,
        value_name = "N,N,…",
        value_delimiter = ',',
        default_value = "50000,100,50",
        allow_negative_numbers = true
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(SIZE_MAX)))]
    sizes: Vec<u32>,
    /// Number of jobs that run concurrently
    #[arg(long, value_name = "N", default_value_t = 64, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    workers: u32,
    /// Rate limit of the downstream, in jobs per second [default: unlimited]
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    rate: Option<u64>,
    /// Duration of each job, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1, allow_negative_numbers = true)]
    work_ms: u64,
    /// Keep the dashboard open after the run, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// Runs the demonstration and prints its result.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let customers = customers(&arguments.sizes)?;
    let rate = arguments.rate.map(Rate::per_second).transpose();
    let rate = rate.map_err(|error| Failure::bad_input(format!("--rate: {error}")))?;
    let own = OwnEngine::open(&arguments.engine, "demo").await?;
    let shown = run_shown(&arguments, &own, &customers, rate).await;
    let cleared = own.clear().await;
    let report = shown?;
    cleared?;
    report.verdict()
}

/// The run with its dashboard, which is open until the result is printed, and longer with `--keep`.
async fn run_shown(
    arguments: &Arguments,
    own: &OwnEngine,
    customers: &[(String, u32)],
    rate: Option<Rate>,
) -> Result<DemoReport, Failure> {
    let fairlane = Fairlane::from_engine(own.engine.clone());
    let any_port = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::start(fairlane, any_port, None, ServerSettings::default()).await;
    let server = server.map_err(|error| Failure::broken(error.to_string()))?;
    let address = format!("http://{}/", server.address());
    if !arguments.json {
        output::print_message(&format!("Dashboard: {address}"));
    }
    let ledger = Arc::new(Ledger::new(customers, false));
    let mut report = demonstrate(server.uncharged(), arguments, ledger, rate).await?;
    if report.is_sound() {
        let plain = run_plain(arguments, customers, rate).await?;
        report.compare_with(&plain);
    }
    if arguments.json {
        output::print_json(&report)?;
    } else {
        output::print(&tables::demo(&report))?;
    }
    if arguments.keep {
        output::print_message(&format!("The dashboard stays open until Ctrl-C: {address}"));
        // Without a handler for the signal, the process ends with it.
        let _ = tokio::signal::ctrl_c().await;
    }
    server.stop().await;
    Ok(report)
}

/// The same jobs on another temporary engine, all in one plain queue.
async fn run_plain(
    arguments: &Arguments,
    customers: &[(String, u32)],
    rate: Option<Rate>,
) -> Result<DemoReport, Failure> {
    let own = OwnEngine::open(&arguments.engine, "demo").await?;
    let fairlane = Fairlane::from_engine(own.engine.clone());
    let ended = demonstrate(&fairlane, arguments, Arc::new(Ledger::new(customers, true)), rate).await;
    let cleared = own.clear().await;
    let report = ended?;
    cleared?;
    Ok(report)
}

fn customers(sizes: &[u32]) -> Result<Vec<(String, u32)>, Failure> {
    if sizes.len() < 2 || sizes.len() > 26 {
        return Err(Failure::bad_input("--sizes takes 2 to 26 numbers, such as 50000,100,50"));
    }
    Ok(('A'..='Z').map(|letter| format!("customer-{letter}")).zip(sizes.iter().copied()).collect())
}

async fn demonstrate(
    fairlane: &Fairlane,
    arguments: &Arguments,
    ledger: Arc<Ledger>,
    rate: Option<Rate>,
) -> Result<DemoReport, Failure> {
    let run = run_id();
    let type_id = TypeId::new("demo").expect("a plain word is a name");
    let patch = TypePatch { rate: Some(rate), ..TypePatch::default() };
    fairlane.job_type(&type_id).patch(patch).apply().await?;
    let progress = Progress::start(ledger.clone(), arguments.json);
    let (failed, mut failures) = mpsc::unbounded_channel();
    enqueue(fairlane, &ledger, 0, &run, &type_id).await?;
    let pool = start_worker(fairlane, arguments, &ledger, &type_id, failed)?;
    let ended = tokio::select! {
        ended = work_through(fairlane, &ledger, &run, &type_id) => ended.map(|()| false),
        failure = failures.recv() => Err(Failure::broken(failure.unwrap_or_default())),
        _ = tokio::signal::ctrl_c() => Ok(true),
    };
    tokio::select! {
        _ = pool.stop() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    progress.end().await;
    let stopped = ended?;
    let queue = fairlane.queue_view().await?;
    Ok(DemoReport::new(&ledger, fairlane.engine().name(), &queue, stopped))
}

/// Enqueues the jobs of the later customers, and waits until all jobs are done.
async fn work_through(
    fairlane: &Fairlane,
    ledger: &Ledger,
    run: &str,
    type_id: &TypeId,
) -> Result<(), Failure> {
    let arrival = ledger.enqueued(0).div_ceil(ARRIVAL_PART);
    until(ledger, |ledger| ledger.done(0) >= arrival).await;
    for customer in 1..ledger.customers() {
        enqueue(fairlane, ledger, customer, run, type_id).await?;
    }
    until(ledger, Ledger::is_finished).await;
    Ok(())
}

async fn enqueue(
    fairlane: &Fairlane,
    ledger: &Ledger,
    customer: usize,
    run: &str,
    type_id: &TypeId,
) -> Result<(), Failure> {
    let payload: Arc<[u8]> = Arc::from(&br#"{"demo":true}"#[..]);
    let indexes: Vec<usize> = (0..ledger.size(customer)).collect();
    for batch in indexes.chunks(ENQUEUE_JOBS_MAX) {
        let jobs = batch.iter().map(|index| {
            NewJob::new(
                JobRef {
                    group: ledger.group_of_jobs(customer).clone(),
                    id: JobId::new(format!("{run}-{customer}-{index}"))
                        .expect("a run and numbers make a name"),
                },
                type_id.clone(),
                payload.clone(),
            )
        });
        let jobs: Vec<NewJob> = jobs.collect();
        let sent_us = ledger.now_us();
        let receipts = fairlane.enqueue_commands(jobs).await?;
        for (index, receipt) in batch.iter().zip(receipts) {
            if receipt.receipt != JobReceipt::Created {
                let reason = format!("a new job was not accepted: {:?}", receipt.receipt);
                return Err(Failure::broken(reason));
            }
            ledger.note_enqueued(customer, *index, sent_us);
        }
    }
    Ok(())
}

/// Starts a worker whose handler records the job, takes a little time, and succeeds. A worker would
/// wait for an engine that does not respond; the demonstration fails instead.
fn start_worker(
    fairlane: &Fairlane,
    arguments: &Arguments,
    ledger: &Arc<Ledger>,
    type_id: &TypeId,
    failed: mpsc::UnboundedSender<String>,
) -> Result<Pool, Failure> {
    let settings = WorkerSettings {
        worker_count: arguments.workers as usize,
        fetch_batch_size: arguments.workers.min(BATCH_MAX) as usize,
        ..WorkerSettings::default()
    };
    let work_time = Duration::from_millis(arguments.work_ms);
    let (starts, ends) = (ledger.clone(), ledger.clone());
    let worker = fairlane
        .worker()
        .name("demo")
        .settings(settings)
        .processor(type_id.to_string(), move |job: Context| {
            starts.note_started(job.job());
            async move {
                if !work_time.is_zero() {
                    tokio::time::sleep(work_time).await;
                }
            }
        })
        .on_event(move |event| match event {
            Event::Settled { job, verdict, .. } => ends.note_settled(job, *verdict),
            Event::EngineDown { error, .. } => {
                let _ = failed.send(error.clone());
            }
            _ => {}
        });
    worker.start().map_err(|error| Failure::bad_input(error.to_string()))
}

/// Waits until the ledger meets a condition.
async fn until(ledger: &Ledger, reached: impl Fn(&Ledger) -> bool) {
    loop {
        let changed = ledger.changed();
        if reached(ledger) {
            return;
        }
        changed.await;
    }
}
