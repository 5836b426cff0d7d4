//! `trials locks …`: runs a trial of locks at full length and prints its figures.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fairlane_core::limits::LOCK_SLICE_MS;

use super::fire::Server;
use super::{contend, crowd, fire, names, races, speed};

const USAGE: &str = "Usage: trials locks fire [--seed S] [--acquisitions N] [--processes N] | \
    races [--seed S] [--races N] | crowd [--waiters N] [--processes N] [--killed N] | \
    names [--locks N] [--calls N] | speed [--rounds N] [--repetitions N] | contend [--tasks N] [--handles N] [--rounds N]";

/// The largest ratio of the time of an acquisition and release to that of SET and DEL.
const ACQUIRE_RATIO_MAX: f64 = 1.5;
/// The largest ratio of the time of a hand-off between waiters to that of a message and a round
/// trip.
const HAND_OFF_RATIO_MAX: f64 = 1.3;
/// The most commands per grant, and per second and process.
const COMMANDS_MAX: f64 = 3.0;

/// Runs the named trial.
pub async fn run(arguments: &[String]) -> ExitCode {
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    let program = Path::new(&arguments[0]);
    let violations = match arguments.get(2).map(String::as_str) {
        Some("fire") => {
            let plan = fire::Plan {
                seed: number("--seed", 1),
                acquisitions: number("--acquisitions", 300_000) / 2,
                processes: number("--processes", 6) as usize,
            };
            burn(program, &plan).await
        }
        Some("races") => race(number("--seed", 1), number("--races", 100_000)).await,
        Some("crowd") => {
            let plan = crowd::Plan {
                waiters: number("--waiters", 10_000) as usize,
                processes: number("--processes", 4) as usize,
                quiet: Duration::from_secs(10),
            };
            crowd_together(program, &plan, number("--killed", 1000)).await
        }
        Some("names") => name_many(number("--locks", 100_000), number("--calls", 2000)).await,
        Some("speed") => {
            let plan = speed::Plan {
                rounds: number("--rounds", 10) as usize,
                repetitions: number("--repetitions", 1000) as usize,
            };
            measure(program, plan).await
        }
        Some("contend") => {
            let plan = contend::Plan {
                tasks: number("--tasks", 8) as usize,
                handles: number("--handles", 4) as usize,
                turn: Duration::from_secs(1),
                rounds: number("--rounds", 5) as usize,
            };
            contend_for_one(&plan).await
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

async fn burn(program: &Path, plan: &fire::Plan) -> Vec<String> {
    let mut violations = Vec::new();
    for server in [Server::Restarts, Server::FailsOver] {
        let report = fire::run(program, server, plan).await;
        println!(
            "{server:?}, seed {}: {} acquisitions by {} processes; {} kills, {} stops, {} cuts, {} restarts or \
             failovers; {} stopped holders saw the loss at their first poll; {} late writes refused, {} without another \
             holder; {} violations",
            plan.seed,
            report.acquisitions,
            plan.processes,
            report.kills,
            report.stops,
            report.cuts,
            report.servers,
            report.losses_seen,
            report.refused,
            report.alone,
            report.violations.len()
        );
        violations.extend(report.violations);
    }
    violations
}

async fn race(seed: u64, count: u64) -> Vec<String> {
    let report = races::run(seed, count).await;
    println!(
        "{count} races, seed {seed}: {} held at once, {} woken, {} wake-ups lost",
        report.held_at_once, report.woken, report.lost
    );
    if report.lost > 0 { vec![format!("{} wake-ups were lost", report.lost)] } else { Vec::new() }
}

async fn crowd_together(program: &Path, plan: &crowd::Plan, killed: u64) -> Vec<String> {
    let report = crowd::run(plan).await;
    println!(
        "{} waiters of {} processes: {:.1} commands a second and process while all wait; {:.2} commands and {:.3} \
         tries per grant, {:.0} grants a second; {} subscribers, {} afterwards",
        plan.waiters,
        plan.processes,
        report.quiet_each_second,
        report.per_grant,
        report.tries_per_grant,
        report.grants_each_second,
        report.subscribers,
        report.subscribers_after
    );
    let mut violations = report.violations;
    if report.per_grant > COMMANDS_MAX {
        violations.push(format!("{:.2} commands per grant", report.per_grant));
    }
    if report.quiet_each_second > COMMANDS_MAX {
        violations.push(format!("{:.2} commands a second and process", report.quiet_each_second));
    }
    if (report.subscribers, report.subscribers_after) != (plan.processes, 0) {
        violations.push("a process that does not wait is subscribed".to_owned());
    }
    let took = crowd::killed_waiters(program, killed).await;
    println!("behind {killed} waiters of a killed process: {} ms", took.as_millis());
    if took > Duration::from_millis(LOCK_SLICE_MS * 3 / 2) {
        violations.push("killed waiters delay the line by more than one slice".to_owned());
    }
    violations
}

async fn name_many(locks: u64, calls: u64) -> Vec<String> {
    let report = names::run(locks, calls).await;
    println!("{locks} locks: {:.0} bytes each", report.bytes_per_lock);
    let mut violations = Vec::new();
    for (operation, few, all) in report.costs {
        println!("  {operation}: {few:.2} µs beside {} locks, {all:.2} µs beside {locks}", locks / 100);
        if all > 2.0 * few {
            violations.push(format!("the cost of {operation} grows with the number of locks"));
        }
    }
    violations
}

/// Measures on its own thread, so that no other task of this program interferes.
async fn measure(program: &Path, plan: speed::Plan) -> Vec<String> {
    let program = program.to_owned();
    let reports = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be made").block_on(async {
            let report = speed::run(&plan).await;
            (report, speed::killed_holder(&program, 20, Duration::from_millis(500)).await)
        })
    });
    let (report, (late, latest, round_trip)) = reports.join().expect("the measurement does not panic");
    let guard = report.guard_us / report.set_del_us;
    let hand_offs = [("barging", report.hand_off_us), ("fair", report.fair_hand_off_us)];
    println!(
        "acquire and release, p50: SET NX PX and DEL {:.1} µs; engine {:.1} µs, ratio {:.2}; guard {:.1} µs, \
         ratio {guard:.2}; rslock {:.1} µs, ratio {:.2}",
        report.set_del_us,
        report.engine_us,
        report.engine_us / report.set_del_us,
        report.guard_us,
        report.rslock_us,
        report.rslock_us / report.set_del_us
    );
    for (order, took_us) in hand_offs {
        println!(
            "hand-off, {order}, p50: message and round trip {:.1} µs; hand-off {took_us:.1} µs, ratio {:.2}",
            report.hop_us,
            took_us / report.hop_us
        );
    }
    println!(
        "the lock of a killed holder passes on {late:?} (median) and {latest:?} (most) after the end of its lease; a \
         round trip to an idle server takes {round_trip:?}"
    );
    let mut violations = Vec::new();
    if late > 2 * round_trip {
        violations.push(format!("the lock of a killed holder passes on {late:?} after the end of its lease"));
    }
    if guard > ACQUIRE_RATIO_MAX {
        violations.push(format!("an acquisition takes {guard:.2} times as long as SET and DEL"));
    }
    for (order, took_us) in hand_offs {
        let ratio = took_us / report.hop_us;
        if ratio > HAND_OFF_RATIO_MAX {
            violations
                .push(format!("a hand-off, {order}, takes {ratio:.2} times a message and a round trip"));
        }
    }
    violations
}

async fn contend_for_one(plan: &contend::Plan) -> Vec<String> {
    for (engine, address) in [("Redis", None), ("embedded", Some("memory:"))] {
        // Each handle in memory would have its own store.
        let handles = if address.is_some() { 1 } else { plan.handles };
        let rates = contend::run(&contend::Plan { handles, ..*plan }, address).await;
        println!("{engine}, {} tasks on {handles} handles, grants a second:", plan.tasks);
        for (order, rate) in contend::ORDERS.iter().zip(rates) {
            println!("  {order:?}: {rate:.0}");
        }
    }
    Vec::new()
}
