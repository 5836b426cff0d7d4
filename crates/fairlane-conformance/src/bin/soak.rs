//! Runs load and faults for a given time, on a Redis that it starts or on a data directory; fails
//! if an invariant was violated.
//!
//! With the arguments `victim FOLDER NUMBER` it runs as the process that is killed.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fairlane_conformance::kills;
use fairlane_conformance::soak::{Plan, run};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, mode, folder, number] = &arguments[..]
        && mode == "victim"
    {
        kills::run_victim(Path::new(folder), number.parse().unwrap_or(0)).await;
        return ExitCode::FAILURE;
    }
    let known = [("--seed", 1), ("--minutes", 2), ("--disk-kills", 0), ("--scripts", 0)];
    let values = fairlane_conformance::arguments::read(&known);
    let [seed, minutes, disk_kills, scripts] = values[..] else { unreachable!("as many values as names") };
    if disk_kills > 0 {
        return kill_on_disk(&arguments[0], seed, disk_kills).await;
    }
    let load = Duration::from_secs(minutes * 60);
    let plan = Plan { seed, load, kill_every: Duration::from_secs(10), abandon: true, scripts: scripts > 0 };
    println!("seed {seed}: {minutes} minutes of load, then the queue drains");
    let report = run(&plan).await;
    println!(
        "{} jobs acknowledged, {} leases, {} connections cut, {} futures dropped, {} times scripts flushed, \
         {} times Redis killed, {:.0} seconds",
        report.acknowledged,
        report.leases,
        report.cuts,
        report.dropped,
        report.flushes,
        report.kills,
        report.seconds
    );
    for violation in &report.violations {
        println!("violated: {violation}");
    }
    println!("{} violations", report.violations.len());
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn kill_on_disk(program: &str, seed: u64, rounds: u64) -> ExitCode {
    let folder = tempfile::tempdir().expect("a folder");
    println!("seed {seed}: a process on a data directory is killed {rounds} times");
    let report = kills::run(Path::new(program), folder.path(), seed, rounds).await;
    println!(
        "{} kills, {} jobs acknowledged, {} leases, {} ends",
        report.kills, report.acknowledged, report.leases, report.ends
    );
    for violation in &report.violations {
        println!("violated: {violation}");
    }
    println!("{} violations", report.violations.len());
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
