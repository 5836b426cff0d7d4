//! The trials at full length; ends with failure if anything did not hold.
//!
//! `trials kills [--seed S] [--rounds N]`, `trials neighbours [--redis 1] [--slots N]`, `trials downstream [--seconds N]`.
//! With the word `victim` it is a process to be killed.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use fairlane_conformance::servers::{RedisServer, ServerOptions};
use fairlane_core::queue::Settings;
use fairlane_engine::Engine;
use fairlane_trials::kills::Store;
use fairlane_trials::{downstream, kills, neighbours};

const USAGE: &str = "Usage: trials kills [--seed S] [--rounds N] | neighbours [--redis 1] [--slots N] | downstream [--seconds N]";

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let at = words.iter().position(|word| word == name);
        at.and_then(|at| words.get(at + 1)).and_then(|word| word.parse().ok()).unwrap_or(default)
    };
    match words.get(1).map(String::as_str) {
        Some("victim") if words.len() == 6 => {
            let count = |at: usize| words[at].parse().unwrap_or(0);
            kills::be_victim(&words[2], &words[3], count(4), count(5)).await;
            ExitCode::FAILURE
        }
        Some("kills") => kill(&words[0], number("--seed", 1), number("--rounds", 1000)).await,
        Some("neighbours") => meet(number("--redis", 0) == 1, number("--slots", 50) as usize).await,
        Some("downstream") => call(number("--seconds", 120)).await,
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Half of the rounds on each store.
async fn kill(program: &str, seed: u64, rounds: u64) -> ExitCode {
    let mut violations = Vec::new();
    for (store, rounds) in [(Store::Disk, rounds / 2), (Store::Redis, rounds - rounds / 2)] {
        let report = kills::run(Path::new(program), store, seed, rounds).await;
        println!(
            "{store:?}, seed {seed}: {rounds} rounds, {} kills, {} bulk actions, {} jobs: {} succeeded, {} failed \
             ({} of them lost too often), {} leases lost, {} callbacks",
            report.kills,
            report.bulks,
            report.jobs,
            report.succeeded,
            report.failed,
            report.lost,
            report.losses,
            report.callbacks
        );
        violations.extend(report.violations);
    }
    end(&violations)
}

async fn meet(on_redis: bool, slots: usize) -> ExitCode {
    let plan = neighbours::Plan {
        large: 20,
        large_jobs: 50_000,
        small: 200,
        small_jobs: 50,
        slots,
        service: Duration::from_millis(10),
    };
    let servers = std::sync::Mutex::new(Vec::new());
    let report = neighbours::run(&plan, || async {
        let address = if on_redis {
            let server = RedisServer::start(ServerOptions::default());
            let url = server.url();
            servers.lock().expect("nothing panics while it holds them").push(server);
            url
        } else {
            "memory:".to_owned()
        };
        open(&address).await
    })
    .await;
    println!(
        "small customers' waits p50/p99: alone {:.0}/{:.0} ms, beside the large ones {:.0}/{:.0} ms, ratio {:.3}; \
         the large ones took {:.0} s",
        report.alone_ms.0,
        report.alone_ms.1,
        report.beside_ms.0,
        report.beside_ms.1,
        report.ratio(&plan),
        report.large_seconds
    );
    end(&report.violations)
}

async fn call(seconds: u64) -> ExitCode {
    let plan = downstream::Plan {
        allowed: 50,
        configured: 500,
        latency: Duration::from_millis(100),
        length: Duration::from_secs(seconds),
    };
    let report = downstream::run(&plan, open("memory:").await).await;
    println!(
        "{} calls taken and {} refused in {:.1} s: {:.1} % of what is allowed, {:.2} % refused",
        report.taken,
        report.refused,
        report.seconds,
        report.achieved(&plan) * 100.0,
        report.refused_part() * 100.0
    );
    let mut violations = Vec::new();
    if report.achieved(&plan) < 0.95 {
        violations.push("less than 95 % of what is allowed was achieved".to_owned());
    }
    if report.refused_part() > 0.03 {
        violations.push("more than 3 % of all calls were refused".to_owned());
    }
    end(&violations)
}

async fn open(address: &str) -> Arc<dyn Engine> {
    fairlane_engine::open(address, Settings::default()).await.expect("it opens")
}

fn end(violations: &[String]) -> ExitCode {
    for violation in violations {
        println!("violated: {violation}");
    }
    println!("{} violations", violations.len());
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
