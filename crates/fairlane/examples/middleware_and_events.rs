//! A middleware around every attempt, and a hook for events.
//! The argument is the address of an engine: `memory:`, `./data`, `redis://host:port`.

use std::time::Instant;

use fairlane::{Context, Event, Fairlane, Job, Next, Outcome};

/// Measures each attempt, and rejects jobs of an unknown customer.
async fn guard(job: Context, next: Next) -> Outcome {
    if job.group().to_string() == "customer-0" {
        return Outcome::failed("unknown_customer", "there is no such customer");
    }
    let (started, id) = (Instant::now(), job.id().clone());
    let outcome = next.run(job).await;
    println!("{id}: {} after {:?}", outcome.as_str(), started.elapsed());
    outcome
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let fairlane = Fairlane::open(&url).await?;
    let pool = fairlane
        .worker()
        .process("resize", |pixels: u64, job: Context| async move {
            job.progress(pixels, pixels);
            Outcome::done(&pixels)
        })
        .middleware(guard)
        .on_event(|event| match event {
            Event::Settled { job, outcome, took, .. } => println!("settled {}: {outcome} ({took:?})", job.id),
            Event::EngineDown { error, .. } => eprintln!("the engine does not reply: {error}"),
            _ => {}
        })
        .start()?;

    for group in ["customer-7", "customer-0"] {
        let job = fairlane.enqueue(Job::new(group, "resize", &640)).await?.accepted()?;
        let ended = fairlane.job(job.group, job.id).finished().await?.expect("it was enqueued");
        println!("{group}: {}", ended.state.as_str());
    }
    let report = pool.stop().await;
    println!("{} jobs left", report.left);
    Ok(())
}
