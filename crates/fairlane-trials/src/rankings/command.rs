//! `trials rankings …`: runs a trial of rankings at full length and prints its figures.

use std::process::ExitCode;

use fairlane_testkit::redis::{RedisServer, ServerOptions};

use super::scale;

const USAGE: &str = "Usage: trials rankings scale [--members N]";

/// The largest ratios of the time of an update with its rank to that of the two bare commands: with
/// one window and with four.
const RATIO_MAX: [f64; 2] = [1.5, 2.0];
/// The longest time for which a command may block the server while windows expire and boards are
/// removed, in microseconds.
const BLOCKED_US_MAX: f64 = 5000.0;

/// Runs the named trial.
pub async fn run(arguments: &[String]) -> ExitCode {
    let members = || {
        let at = arguments.iter().position(|argument| argument == "--members")?;
        arguments.get(at + 1)?.parse().ok()
    };
    let violations = match arguments.get(2).map(String::as_str) {
        Some("scale") => run_scale(members().unwrap_or(1_000_000)).await,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    for violation in &violations {
        eprintln!("violated: {violation}");
    }
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn run_scale(members: u64) -> Vec<String> {
    let server = RedisServer::start(ServerOptions::default());
    let sizes = [1000, 32_000, 1_000_000].map(|size: u64| size.min(members));
    let (costs, removal) = scale::measure(&server, &sizes).await;
    let mut violations = Vec::new();
    for cost in costs {
        let ratios = cost.ratios();
        println!("{cost:?}, ratios {:.2} with one window, {:.2} with four", ratios[0], ratios[1]);
        let misses = [
            (cost.wrong_ranks > 0, "ranks are not exact"),
            (ratios[0] > RATIO_MAX[0], "an update with one window takes too long"),
            (ratios[1] > RATIO_MAX[1], "an update with four windows takes too long"),
        ];
        let missed = misses.into_iter().filter(|(is_missed, _)| *is_missed);
        violations.extend(missed.map(|(_, what)| format!("{what} with {} members", cost.members)));
    }
    println!("{removal:?}");
    if removal.longest_us > BLOCKED_US_MAX {
        violations.push(format!("{} blocked the server for {:.0} µs", removal.longest, removal.longest_us));
    }
    if removal.keys_left > 0 {
        violations.push(format!("{} keys of removed boards are left", removal.keys_left));
    }
    violations
}
