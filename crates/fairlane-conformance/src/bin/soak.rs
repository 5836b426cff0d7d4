//! Load and faults for a while, on a Redis it starts; ends with failure if anything did not hold.

use std::process::ExitCode;
use std::time::Duration;

use fairlane_conformance::soak::{Plan, run};

#[tokio::main]
async fn main() -> ExitCode {
    let values = fairlane_conformance::arguments::read(&[("--seed", 1), ("--minutes", 2)]);
    let [seed, minutes] = values[..] else { unreachable!("as many values as names") };
    let load = Duration::from_secs(minutes * 60);
    let plan = Plan { seed, load, kill_every: Duration::from_secs(10), abandon: true };
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
