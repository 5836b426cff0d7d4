//! `trials rooms …`: runs a trial of waiting rooms at full length and prints its figures.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fairlane::{PassKeys, PassVerifier};
use fairlane_core::queue::Settings;
use fairlane_testkit::redis::{RedisServer, ServerOptions};

use super::{crowd, draw, fire, order, room, scale, user};

const USAGE: &str = "Usage: trials rooms crowd [--rounds N] [--seed S] | scale [--waiters N] | \
    draw [--users N] [--places N] [--seed S] | passes [--passes N] | fire [--kills N] [--processes N] [--seed S]";

/// The longest server time of showing a place, in microseconds.
const SHOW_US_MAX: f64 = 25.0;
/// The largest ratio of the time of a round trip that shows a place to that of a bare one.
const TRIP_RATIO_MAX: f64 = 1.4;
/// The largest 99.9th percentile of the server time of all calls, in microseconds.
const MOST_US_MAX: f64 = 5000.0;
/// The longest time of a verification, in microseconds.
const VERIFY_US_MAX: f64 = 100.0;

/// Runs the named trial.
pub async fn run(arguments: &[String]) -> ExitCode {
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let seed = number("--seed", 1);
    let violations = match arguments.get(2).map(String::as_str) {
        Some("crowd") => run_crowd(seed, number("--rounds", 200)).await,
        Some("scale") => run_scale(number("--waiters", 1_000_000)).await,
        Some("draw") => run_draw(number("--users", 1_000_000), number("--places", 1000), seed).await,
        Some("passes") => run_passes(number("--passes", 10_000)),
        Some("fire") => {
            let program = Path::new(&arguments[0]);
            let report =
                fire::run(program, seed, number("--kills", 200), number("--processes", 8) as usize).await;
            println!("seed {seed}: {report:?}");
            report.violations
        }
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

async fn run_crowd(seed: u64, rounds: u64) -> Vec<String> {
    let server = RedisServer::start(ServerOptions::default());
    let engine = fairlane_engine::open(&server.url(), Settings::default()).await.expect("Redis is there");
    let (checked, mut violations) = order::run(engine.clone(), seed, rounds * 20, 5).await;
    println!("seed {seed}: {checked} freed places, each taken by the first waiter in the same step");
    server.command(&["FLUSHALL"]);
    let engine = fairlane_engine::open(&server.url(), Settings::default()).await.expect("Redis is there");
    let plan = crowd::Plan { schedulers: 64, users: 1000, rounds, max_active: 50 };
    let report = crowd::run(plan, engine).await;
    println!("{report:?}");
    violations.extend(report.violations);
    violations
}

async fn run_scale(waiters: u64) -> Vec<String> {
    let server = RedisServer::start(ServerOptions::default());
    let engine = fairlane_engine::open(&server.url(), Settings::default()).await.expect("Redis is there");
    let sizes = [1000, 32_000, 1_000_000].map(|size: u64| size.min(waiters));
    let mut violations = Vec::new();
    for cost in scale::measure(&server, engine, &sizes).await {
        let ratio = cost.show_trip_us / cost.bare_trip_us;
        println!("{cost:?}, {ratio:.2} round trips");
        let misses = [
            (cost.wrong_positions > 0, "positions are not exact"),
            (cost.show_us > SHOW_US_MAX, "showing a place takes too long"),
            (ratio > TRIP_RATIO_MAX, "a round trip takes too long"),
            (cost.most_us > MOST_US_MAX, "a call in a thousand takes too long"),
        ];
        let missed = misses.into_iter().filter(|(is_missed, _)| *is_missed);
        violations.extend(missed.map(|(_, what)| format!("{what} with {} waiters", cost.waiters)));
    }
    violations
}

async fn run_draw(users: u64, places: u64, seed: u64) -> Vec<String> {
    let server = RedisServer::start(ServerOptions::default());
    let engine = fairlane_engine::open(&server.url(), Settings::default()).await.expect("Redis is there");
    let report = draw::run(engine, users, places, seed).await;
    println!("{report:?}");
    report.violations
}

/// Verifies passes without a network, each of another user.
fn run_passes(count: u64) -> Vec<String> {
    let keys = PassKeys::generate().expect("there are random bytes");
    let pass = |number: u64| keys.issue_bypass(&room(), &user(number), 0, Duration::from_secs(60)).jwt;
    let passes: Vec<String> = (0..count).map(pass).collect();
    let verifier = PassVerifier::from_jwks(&keys.public_set()).expect("the keys are valid");
    let started = Instant::now();
    let accepted = passes.iter().filter(|pass| verifier.verify(pass, "default", 1).is_ok()).count();
    let each_us = started.elapsed().as_secs_f64() * 1e6 / count as f64;
    println!("{accepted} of {count} passes accepted, {each_us:.1} µs each");
    let mut violations = Vec::new();
    if accepted as u64 != count {
        violations.push("a valid pass was refused".to_owned());
    }
    if each_us > VERIFY_US_MAX {
        violations.push(format!("a verification takes {each_us:.1} µs"));
    }
    violations
}
