//! The outbox under faults: processes and servers killed at every step, the order under load, the
//! cost, and outages.
//!
//! - `outbox/kills.rs`: producers, relays, workers, PostgreSQL and Redis killed at random moments;
//!   `outbox/victim.rs` is the process. `outbox/order.rs`: many producers of one group.
//! - `outbox/speed.rs`: the cost of a job in a transaction, and the time from its commit to its
//!   start.
//! - `outbox/outages.rs`: servers that are down, a flushed queue, a transaction left open.
//! - `outbox/ground.rs`: the servers and tables that they share.

mod ground;
pub mod kills;
pub mod order;
pub mod outages;
pub mod speed;
mod victim;

use std::path::Path;

use crate::kills::Store;

pub use victim::run_victim;

/// Runs the named trial at full length, and returns its violations; `None` for an unknown name.
pub async fn run(program: &Path, arguments: &[String]) -> Option<Vec<String>> {
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let mut violations = Vec::new();
    match arguments.first()?.as_str() {
        "kills" => {
            for store in [Store::Disk, Store::Redis] {
                let report = kills::run(program, store, number("--seed", 1), number("--rounds", 300)).await;
                println!("{store:?}: {report}");
                violations.extend(report.violations);
            }
        }
        "order" => {
            let plan = order::Plan { jobs: number("--jobs", 100_000), ..order::Plan::default() };
            let report = order::run(&plan).await;
            println!("{report}");
            violations.extend(report.violations);
        }
        "speed" => {
            let plan = speed::Plan {
                seconds: number("--seconds", 5),
                rounds: number("--rounds", 3) as usize,
                ..speed::Plan::default()
            };
            let report = speed::run(&plan).await;
            println!("{report}");
            violations.extend(report.violations());
        }
        "outages" => {
            let report = outages::run(number("--seconds", 60)).await;
            report.lines.iter().for_each(|line| println!("{line}"));
            violations.extend(report.violations);
        }
        _ => return None,
    }
    Some(violations)
}
