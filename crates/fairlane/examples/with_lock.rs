//! Runs work while it holds a lock. The argument is the address of an engine.

use fairlane::{Fairlane, LockHold, LockOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let fairlane = Fairlane::open(&url).await?;

    let report = |hold: LockHold| async move { format!("written under fence {}", hold.fence()) };
    let written = fairlane.with_lock("nightly-report", LockOptions::default(), report).await?;
    println!("the report was {written}");
    Ok(())
}
