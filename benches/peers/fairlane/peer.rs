//! Fairlane's side of `cargo xtask peers`: enqueues jobs, then starts a worker and waits until the
//! engine has acknowledged the last settlement.
//!
//! Arguments: URL, number of jobs, bytes of a payload, `bulk` or `single`, slots or `default`, number
//! of customers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fairlane::{Context, Event, Fairlane, Job};
use tokio::sync::Notify;
use tokio::task::JoinSet;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "usage: peer URL JOBS PAYLOAD_BYTES bulk|single SLOTS|default CUSTOMERS";
const CALLS_IN_FLIGHT: usize = 100;
/// JSON adds them to a payload of letters.
const QUOTES_BYTES: usize = 2;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, jobs, payload_bytes, mode, slots, customers] = &arguments[..] else {
        return Err(USAGE.into());
    };
    let letters = "x".repeat(payload_bytes.parse::<usize>()?.saturating_sub(QUOTES_BYTES));
    let workload = Workload { jobs: jobs.parse()?, customers: customers.parse()?, letters };
    let slots = if slots == "default" { None } else { Some(slots.parse()?) };
    let fairlane = Fairlane::open(url).await?;
    let enqueue = match mode.as_str() {
        "bulk" => enqueue_bulk(&fairlane, &workload).await?,
        _ => enqueue_single(&fairlane, &workload).await?,
    };
    let drain = drain(&fairlane, workload.jobs, slots).await?;
    let (enqueue_s, drain_s) = (enqueue.as_secs_f64(), drain.as_secs_f64());
    println!("enqueue_s={enqueue_s} drain_s={drain_s} version={}", env!("CARGO_PKG_VERSION"));
    Ok(())
}

#[derive(Clone)]
struct Workload {
    jobs: usize,
    customers: usize,
    letters: String,
}

impl Workload {
    /// A job of one customer after the other, as if all of them enqueued at the same time.
    fn job(&self, number: usize) -> Job {
        Job::new(format!("customer-{}", number % self.customers), "work", &self.letters)
    }
}

async fn enqueue_bulk(fairlane: &Fairlane, workload: &Workload) -> Result<Duration, Failure> {
    let started = Instant::now();
    let receipts = fairlane.enqueue_all((0..workload.jobs).map(|number| workload.job(number))).await?;
    let took = started.elapsed();
    for receipt in receipts {
        receipt.accepted()?;
    }
    Ok(took)
}

async fn enqueue_single(fairlane: &Fairlane, workload: &Workload) -> Result<Duration, Failure> {
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLS_IN_FLIGHT {
        let (fairlane, workload) = (fairlane.clone(), workload.clone());
        callers.spawn(async move {
            for number in (caller..workload.jobs).step_by(CALLS_IN_FLIGHT) {
                fairlane.enqueue(workload.job(number)).await?.accepted()?;
            }
            Ok::<_, fairlane::Error>(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(started.elapsed())
}

async fn drain(fairlane: &Fairlane, jobs: usize, slots: Option<usize>) -> Result<Duration, Failure> {
    let started = Instant::now();
    let (settled, last) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let notify = last.clone();
    let mut worker = fairlane.worker().process("work", |_: String, _: Context| async {});
    if let Some(slots) = slots {
        worker = worker.configure(|settings| settings.worker_count = slots);
    }
    let count = move |event: &Event| {
        if matches!(event, Event::Settled { .. }) && settled.fetch_add(1, Ordering::Relaxed) + 1 == jobs {
            notify.notify_one();
        }
    };
    let pool = worker.on_event(count).start()?;
    last.notified().await;
    let took = started.elapsed();
    pool.stop().await;
    Ok(took)
}
