//! A downstream with a limit: set in the queue if it is known, learned from its rejections if it is
//! not. The argument is the address of an engine: `memory:`, `./data`, `redis://host:port`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane::{Context, Fairlane, Job, Outcome};

/// Number of calls; every tenth is rejected, as by a service that limits its rate.
static CALLS: AtomicU64 = AtomicU64::new(0);

async fn call_the_service(_number: u64, _: Context) -> Outcome {
    if CALLS.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
        // A 429 uses up no attempt, slows the type down, and closes it for the time in Retry-After.
        return Outcome::throttled(Some(Duration::from_millis(100)));
    }
    Outcome::done(&"ok")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let fairlane = Fairlane::open(&url).await?;
    fairlane.job_type("geocode").rate("100/s burst 5").concurrency(4).apply().await?;
    fairlane.group("customer-7").weight(2).apply().await?;

    let started = Instant::now();
    let jobs = (0..50).map(|number| Job::new(format!("customer-{}", number % 8), "geocode", &number));
    let mut enqueued = Vec::new();
    for receipt in fairlane.enqueue_all(jobs).await? {
        enqueued.push(receipt.accepted()?);
    }
    let pool = fairlane.worker().process("geocode", call_the_service).start()?;
    for job in enqueued {
        fairlane.job(job.group, job.id).finished().await?;
    }
    println!("50 jobs with {} calls in {:?}", CALLS.load(Ordering::Relaxed), started.elapsed());
    if let Some(view) = fairlane.job_type("geocode").view().await? {
        println!("the rate now: {:?} thousandths of a job a second", view.rate_milli);
    }
    pool.stop().await;
    Ok(())
}
