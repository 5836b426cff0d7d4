//! A job fails, is retried, dies, and is requeued when the fault is fixed.
//! The argument is the address of an engine: `memory:`, `./data`, `redis://host:port`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlane::{Context, Fairlane, Job, Outcome, RetryPolicy, TypeOptions, typed};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let fairlane = Fairlane::open(&url).await?;
    fairlane.job_type("invoice").max_retry_count(2).apply().await?;

    let printer_works = Arc::new(AtomicBool::new(false));
    let printer = printer_works.clone();
    let print = typed(move |number: u64, job: Context| {
        let works = printer.load(Ordering::Relaxed);
        async move {
            println!("invoice {number}, attempt {}", job.attempt());
            if works {
                Outcome::done(&"printed")
            } else {
                Outcome::retry("paper_jam", "the printer is stuck")
            }
        }
    });
    // Delays grow from at most 50 ms; the number of retries is set above.
    let retry = RetryPolicy { base: Duration::from_millis(50), cap: Duration::from_secs(1) };
    let options = TypeOptions { retry: Some(retry), ..TypeOptions::default() };
    let pool = fairlane.worker().processor_with("invoice", options, print).start()?;

    let job = fairlane.enqueue(Job::new("customer-7", "invoice", &4711)).await?.accepted()?;
    let job = fairlane.job(job.group, job.id);
    let dead = job.finished().await?.expect("it was enqueued");
    println!(
        "{} after {} attempts: {}",
        dead.state.as_str(),
        dead.attempts,
        String::from_utf8_lossy(&dead.note)
    );

    printer_works.store(true, Ordering::Relaxed);
    let counts = fairlane.dead().job_type("invoice").code("paper_jam").requeue().await?;
    println!("{} requeued", counts.requeued);
    println!("{}", job.finished().await?.expect("it was requeued").state.as_str());
    pool.stop().await;
    Ok(())
}
