//! The process that is killed: a producer, a relay, a worker, or a relay and a worker in one.

use std::io::Write;
use std::time::Duration;

use fairlane::Fairlane;
use fairlane_postgres::Outbox;

use super::ground;

/// Runs in one role until it is killed. Servers that do not reply are waited for.
pub async fn run_victim(role: &str, database: &str, queue: &str, first: u64) {
    let outbox = Outbox::connect_lazy(database).expect("a valid address");
    if role == "producer" {
        print_ready();
        return produce(&outbox, first).await;
    }
    let fairlane = loop {
        match Fairlane::open(queue).await {
            Ok(fairlane) => break fairlane,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let pool = (role != "relay").then(|| ground::worker(&outbox, &fairlane));
    print_ready();
    if role == "worker" {
        std::future::pending::<()>().await;
    }
    ground::relay(&outbox, &fairlane).run(std::future::pending()).await.expect("the tables exist");
    drop(pool);
}

/// Commits orders with jobs, and rolls one of four back.
async fn produce(outbox: &Outbox, first: u64) {
    for number in first.. {
        let id = format!("{number:08}");
        // An order that failed may have been committed; the next one has another number.
        if ground::order(outbox, &id, number % 4 != 0).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn print_ready() {
    let mut output = std::io::stdout().lock();
    writeln!(output, "ready").and_then(|()| output.flush()).expect("the parent reads the output");
}
