//! Enqueues a job and runs it in a worker. The argument is the address of an engine: `memory:`,
//! `./data`, `redis://host:port`.

use fairlane::{Context, Fairlane, Job, Outcome};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let fairlane = Fairlane::open(&url).await?;

    let mail = Mail { to: "ada@example.com".into() };
    let job = fairlane.enqueue(Job::new("customer-7", "mail", &mail)).await?.accepted()?;

    let pool = fairlane
        .worker()
        .process("mail", |mail: Mail, job: Context| async move {
            println!("attempt {} to write to {}", job.attempt(), mail.to);
            Outcome::done(&"sent")
        })
        .start()?;
    let result: String = fairlane.job(job.group, job.id).result().await?;
    println!("the result: {result}");
    pool.stop().await;
    Ok(())
}
