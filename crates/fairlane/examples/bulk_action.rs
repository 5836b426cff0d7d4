//! A thousand jobs that finish together. The argument is the address of an engine: `memory:`,
//! `./data`, `redis://host:port`.

use fairlane::{Context, Fairlane};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let fairlane = Fairlane::open(&url).await?;
    let pool = fairlane.worker().process("letter", |_to: String, _: Context| async {}).start()?;

    let bulk = fairlane.bulk("customer-7", "newsletter").failures_max(100).open().await?;
    let mut ingest = bulk.ingest();
    for number in 1..=1000 {
        ingest.push(bulk.job("letter", &format!("reader-{number}@example.com"))).await?;
    }
    ingest.seal().await?;

    let view = bulk.finished().await?;
    println!("{}: {} of {} done", view.state.name(), view.succeeded, view.total);
    if let Some(summary) = bulk.summary().await? {
        println!("half of them waited at most {} ms; errors: {:?}", summary.wait_ms.p50, summary.errors);
    }
    pool.stop().await;
    Ok(())
}
