//! Issues coupons one at a time from several tasks, under a lock. The stock checks fences, so that a
//! holder that has lost its lock changes nothing. The argument is the address of an engine.

use std::sync::{Arc, Mutex};

use fairlane::{Fairlane, Fence, LockOptions};

/// A resource that remembers the largest fence it has seen. A table in SQL does the same with
/// `fairlane::fencing::SQL_CONDITION`.
#[derive(Default)]
struct Stock {
    issued: u32,
    fence: Fence,
}

impl Stock {
    fn issue(&mut self, fence: Fence) -> Result<(), String> {
        if fence < self.fence {
            return Err(format!("fence {fence} is older than {}", self.fence));
        }
        self.fence = fence;
        self.issued += 1;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or("memory:".into());
    let fairlane = Fairlane::open(&url).await?;
    let stock = Arc::new(Mutex::new(Stock::default()));

    let issue = |number: u32| {
        let (fairlane, stock) = (fairlane.clone(), stock.clone());
        async move {
            let options = LockOptions { fair: true, ..LockOptions::default() };
            let work = |hold: fairlane::LockHold| async move {
                println!("task {number} issues a coupon under fence {}", hold.fence());
                stock.lock().expect("no task panics").issue(hold.fence())
            };
            fairlane.with_lock("coupon:issue:42", options, work).await
        }
    };
    let tasks: Vec<_> = (0..10).map(|number| tokio::spawn(issue(number))).collect();
    for task in tasks {
        task.await???;
    }

    // A holder whose lock was broken learns of it, and what it still writes is refused.
    let late = fairlane.lock("coupon:issue:42").lock().await?;
    fairlane.lock("coupon:issue:42").break_holders(None).await?;
    let next = fairlane.lock("coupon:issue:42").lock().await?;
    let mut stock = stock.lock().expect("no task panics");
    stock.fence = next.fence();
    assert!(stock.issue(late.fence()).is_err());
    println!("{} coupons were issued, and a late write was refused", stock.issued);
    Ok(())
}
