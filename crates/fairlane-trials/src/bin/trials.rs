//! The trials at full length; fails if an invariant was violated.
//!
//! - `trials kills [--seed S] [--rounds N]`
//! - `trials neighbours [--redis 1] [--slots N]`
//! - `trials downstream [--seconds N]`
//! - `trials dashboard [--groups N] [--jobs N] [--rounds N] [--open N] [--seconds N]`
//! - `trials rooms crowd|scale|draw|passes|fire`, `trials rankings scale`
//! - `trials hold [--redis 1] [--jobs N] [--stuck N]`
//! - `trials failover [--rounds N] [--seconds N]`
//! - `trials http [cycle|single|idle|flood] [--rounds N] [--connections N]`: one of them, or all
//! - `trials attack --program PATH [NAME…] [--seconds N] [--json]`: all attacks on `PATH serve`, or
//!   those named
//! - `trials outbox kills|order|speed|outages [--rounds N] [--jobs N] [--seconds N]`
//! - `trials locks fire|races|crowd|names|speed|contend`: locks on Redis
//!
//! With the argument `victim`, `outbox-victim`, `rooms-victim`, `lock-holder`, `lock-waiters` or
//! `lock-hold` it is a process to be killed, with `http-server` or `http-library` a process to be
//! measured.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::queue::Settings;
use fairlane_engine::Engine;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_trials::attack::Kind;
use fairlane_trials::kills::Store;
use fairlane_trials::served::{self, Compared, cycle, flood, idle, single};
use fairlane_trials::{
    attack, dashboard, downstream, failover, hold, kills, locks, neighbours, outbox, rankings, rooms,
};

const USAGE: &str = "Usage: trials kills [--seed S] [--rounds N] | neighbours [--redis 1] [--slots N] | \
    rooms crowd|scale|draw|fire|passes … | rankings scale [--members N] | \
    downstream [--seconds N] | \
    dashboard [--groups N] [--jobs N] [--rounds N] [--open N] [--seconds N] | hold [--redis 1] [--jobs N] [--stuck N] | failover [--rounds N] [--seconds N] | \
    attack --program PATH [NAME…] [--seconds N] [--json] | \
    outbox kills|order|speed|outages [--rounds N] [--jobs N] [--seconds N] | \
    locks fire|races|crowd|names|speed|contend | \
    http [cycle|single|idle|flood] [--rounds N] [--connections N]";

/// The least ratio of the server's rate with batches to the rate of the library.
const CYCLE_RATIO_MIN: f64 = 0.3;
/// The least ratio of the server's rate with single jobs to the rate of a handler that does
/// nothing.
const SINGLE_RATIO_MIN: f64 = 0.5;
/// The number of requests held at once, and the most memory for them in MiB.
const HELD: usize = 10_000;
const HELD_MIB_MAX: f64 = 1024.0;
/// The least fraction of a steady customer's jobs that must be completed in each window beside
/// holds, resumes and cancels.
const STEADY_RATIO_MIN: f64 = 0.95;
/// The most by which the 99th percentile of these jobs may grow, in milliseconds.
const STEADY_MORE_MS_MAX: f64 = 20.0;
/// The largest ratio of the time of a resume beside cancelled bulk actions that cannot end to its
/// time alone.
const RESUME_RATIO_MAX: f64 = 2.0;
/// The longest time from a failover until the previous rate is reached again.
const FAILOVER_MAX: Duration = Duration::from_secs(10);
/// The largest ratio of the 99th percentile beside a flood to the one without it.
const FLOOD_RATIO_MAX: f64 = 2.0;

/// The allocator of the `fairlane` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).and_then(|value| value.parse().ok()).unwrap_or(default)
    };
    if let Some(ended) = run_child(&arguments).await {
        return ended;
    }
    match arguments.get(1).map(String::as_str) {
        Some("outbox") => match outbox::run(Path::new(&arguments[0]), &arguments[2..]).await {
            Some(violations) => end(&violations),
            None => {
                eprintln!("{USAGE}");
                ExitCode::from(2)
            }
        },
        Some("http") => {
            let (rounds, connections) = (number("--rounds", 9) as usize, number("--connections", 0) as usize);
            serve(Path::new(&arguments[0]), arguments.get(2).map(String::as_str), rounds, connections)
        }
        Some("attack") => {
            attack(
                &arguments[2..],
                number("--seconds", 10),
                arguments.iter().any(|argument| argument == "--json"),
            )
            .await
        }
        Some("kills") => kill(&arguments[0], number("--seed", 1), number("--rounds", 1000)).await,
        Some("neighbours") => meet(number("--redis", 0) == 1, number("--slots", 50) as usize).await,
        Some("hold") => {
            interfere(number("--redis", 0) == 1, number("--jobs", 1_000_000), number("--stuck", 10_000)).await
        }
        Some("rooms") => rooms::command::run(&arguments).await,
        Some("rankings") => rankings::command::run(&arguments).await,
        Some("locks") => locks::command::run(&arguments).await,
        Some("downstream") => call(number("--seconds", 120)).await,
        Some("dashboard") => look(number).await,
        Some("failover") => fail_over(number("--rounds", 3) as usize, number("--seconds", 5)).await,
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Runs the process that a trial starts and kills, if the arguments name one.
async fn run_child(arguments: &[String]) -> Option<ExitCode> {
    let ended = match arguments.get(1).map(String::as_str) {
        Some("victim") if arguments.len() == 6 => {
            let count = |at: usize| arguments[at].parse().unwrap_or(0);
            kills::run_victim(&arguments[2], &arguments[3], count(4), count(5)).await;
            ExitCode::FAILURE
        }
        Some("outbox-victim") if arguments.len() == 6 => {
            let first = arguments[5].parse().unwrap_or(0);
            outbox::run_victim(&arguments[2], &arguments[3], &arguments[4], first).await;
            ExitCode::FAILURE
        }
        Some("lock-holder") if arguments.len() == 5 => {
            let seed = arguments[4].parse().unwrap_or(0);
            locks::holder::run_holder(&arguments[2], &arguments[3], seed).await;
            ExitCode::FAILURE
        }
        Some("lock-waiters") if arguments.len() == 5 => {
            let waiters = arguments[4].parse().unwrap_or(0);
            locks::holder::run_waiters(&arguments[2], &arguments[3], waiters).await;
            ExitCode::FAILURE
        }
        Some("lock-hold") if arguments.len() == 5 => {
            let ttl_ms = arguments[4].parse().unwrap_or(0);
            locks::holder::run_hold(&arguments[2], &arguments[3], ttl_ms).await;
            ExitCode::FAILURE
        }
        Some("http-server") => {
            served::run_server(arguments.get(2).map(String::as_str)).await;
            ExitCode::SUCCESS
        }
        Some("http-library") if arguments.len() == 4 => {
            let count = |at: usize| arguments[at].parse().unwrap_or(1);
            served::run_library(count(2) as usize, count(3)).await;
            ExitCode::SUCCESS
        }
        Some("rooms-victim") if arguments.len() == 5 => {
            let count = |at: usize| arguments[at].parse().unwrap_or(1);
            rooms::fire::run_victim(&arguments[2], count(3), count(4)).await;
            ExitCode::SUCCESS
        }
        _ => return None,
    };
    Some(ended)
}

/// Runs the named attacks, or all of them.
async fn attack(arguments: &[String], seconds: u64, is_json: bool) -> ExitCode {
    let program =
        arguments.iter().position(|argument| argument == "--program").and_then(|at| arguments.get(at + 1));
    let mut names = Vec::new();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(argument) = rest.next() {
        match argument {
            "--program" | "--seconds" => drop(rest.next()),
            "--json" => {}
            name => names.push(name),
        }
    }
    let kinds: Option<Vec<Kind>> = names.iter().map(|name| Kind::named(name)).collect();
    let (Some(program), Some(kinds)) = (program, kinds) else {
        let known = Kind::ALL.map(Kind::name).join(", ");
        eprintln!("{USAGE}\nattacks: {known}");
        return ExitCode::from(2);
    };
    let kinds = if kinds.is_empty() { Kind::ALL.to_vec() } else { kinds };
    let plan = attack::Plan { phase: Duration::from_secs(seconds.max(1)), ..attack::Plan::default() };
    let mut reports = Vec::new();
    for kind in kinds {
        if !is_json {
            eprintln!("attacking by {} …", kind.name());
        }
        reports.push(attack::run(Path::new(program), kind, &plan).await);
    }
    if is_json {
        println!("{}", attack_json(&reports));
    } else {
        println!("{}", attack_table(&reports));
    }
    let violations: Vec<String> =
        reports.iter().flat_map(|report| [report.violations.clone(), report.slower()].concat()).collect();
    match is_json {
        true if violations.is_empty() => ExitCode::SUCCESS,
        true => ExitCode::FAILURE,
        false => end(&violations),
    }
}

/// A line for each attack: the p99s of the other customer before and during it, in milliseconds.
fn attack_table(reports: &[attack::Report]) -> String {
    let mut lines = vec![
        "p99 in ms, before > during   enqueue          completion       bulk action      attacker: accepted, \
         refused, broken   memory     restart   verdict"
            .to_owned(),
    ];
    for report in reports {
        let (before, during) = (report.before.p99_ms(), report.during.p99_ms());
        let pair = |at: usize| format!("{:>7.1} > {:<7.1}", before[at], during[at]);
        let restart = report.restart.map_or("none".to_owned(), |took| format!("{:.1} s", took.as_secs_f64()));
        let verdict = match (report.violations.is_empty(), report.slower().is_empty()) {
            (true, true) => "holds",
            (true, false) => "slower",
            (false, _) => "violated",
        };
        let attacker = format!("{}, {}, {}", report.accepted, report.refused, report.broken);
        lines.push(format!(
            "{:<28} {} {} {} {attacker:<37} {:>6.0} MiB {restart:>9}   {verdict}",
            report.kind.name(),
            pair(0),
            pair(1),
            pair(2),
            report.memory_mib,
        ));
    }
    lines.join("\n")
}

fn attack_json(reports: &[attack::Report]) -> serde_json::Value {
    let waits = |waits: &attack::Waits| {
        let [enqueue, completion, bulk] = waits.p99_ms();
        serde_json::json!({
            "enqueue_p99_ms": enqueue, "completion_p99_ms": completion, "bulk_p99_ms": bulk,
            "jobs": waits.completion.len(), "bulks": waits.bulk.len(), "failed": waits.failed,
        })
    };
    let report = |report: &attack::Report| {
        serde_json::json!({
            "attack": report.kind.name(),
            "before": waits(&report.before),
            "during": waits(&report.during),
            "accepted": report.accepted,
            "refused": report.refused,
            "broken": report.broken,
            "memory_mib": report.memory_mib,
            "restart_ms": report.restart.map(|took| took.as_millis() as u64),
            "slower": report.slower(),
            "violations": report.violations,
        })
    };
    serde_json::json!({ "attacks": reports.iter().map(report).collect::<Vec<_>>() })
}

/// Runs half of the rounds on each store.
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
            servers.lock().expect("no holder of the lock panics").push(server);
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

/// Runs the trial on Redis, or on a data directory.
async fn interfere(on_redis: bool, jobs: u64, stuck: u64) -> ExitCode {
    let plan = hold::Plan {
        jobs,
        each_second: 100,
        before: Duration::from_secs(20),
        step: Duration::from_secs(10),
        window: Duration::from_secs(5),
        slots: 50,
        service: Duration::from_millis(20),
        stuck,
        resumed: 1000,
    };
    let (servers, directories) = (std::sync::Mutex::new(Vec::new()), std::sync::Mutex::new(Vec::new()));
    let report = hold::run(&plan, || async {
        let address = if on_redis {
            let server = RedisServer::start(ServerOptions::default());
            let url = server.url();
            servers.lock().expect("no holder of the lock panics").push(server);
            url
        } else {
            let directory = tempfile::tempdir().expect("a directory can be made");
            let address = directory.path().join("data").display().to_string();
            directories.lock().expect("no holder of the lock panics").push(directory);
            address
        };
        open(&address).await
    })
    .await;
    let store = if on_redis { "Redis" } else { "a data directory" };
    println!(
        "{jobs} jobs held, resumed and cancelled on {store}, beside {} jobs a second: p99 {:.1} ms before, {:.1} ms \
         during; at least {:.1} jobs a second in each of {} windows",
        plan.each_second, report.before_ms, report.during_ms, report.fewest_each_second, report.windows
    );
    for (step, seconds) in &report.steps {
        println!("  {step}: all jobs had followed after {seconds:.1} s");
    }
    let ratio = report.resume_beside_ms / report.resume_alone_ms;
    println!(
        "{} jobs resumed: {:.0} ms alone, {:.0} ms beside {stuck} cancelled bulk actions, ratio {ratio:.2}",
        plan.resumed, report.resume_alone_ms, report.resume_beside_ms
    );
    let mut violations = report.violations;
    if report.fewest_each_second < STEADY_RATIO_MIN * plan.each_second as f64 {
        violations.push(format!("a window had {:.1} jobs a second", report.fewest_each_second));
    }
    if report.during_ms > report.before_ms + STEADY_MORE_MS_MAX {
        let more = report.during_ms - report.before_ms;
        violations.push(format!("the steady customer's p99 became {more:.1} ms longer"));
    }
    if ratio > RESUME_RATIO_MAX {
        violations.push(format!("a resume took {ratio:.2} times as long"));
    }
    end(&violations)
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

async fn fail_over(rounds: usize, seconds: u64) -> ExitCode {
    let report = failover::run(&failover::Plan { rounds, before: Duration::from_secs(seconds) }).await;
    let mut violations = report.violations;
    for (rate, after) in &report.rounds {
        println!("failover: {rate:.0} jobs/s before, at full rate again after {:.1} s", after.as_secs_f64());
        if *after > FAILOVER_MAX {
            violations.push(format!("full rate only after {:.1} s", after.as_secs_f64()));
        }
    }
    println!("{} jobs acknowledged, {} of them ran more than once", report.jobs, report.ran_twice);
    end(&violations)
}

/// Opens every page of the dashboard over a large queue.
async fn look(number: impl Fn(&str, u64) -> u64) -> ExitCode {
    let plan = dashboard::Plan {
        groups: number("--groups", 100_000).max(1),
        jobs: number("--jobs", 1_000_000),
        rounds: number("--rounds", 3) as usize,
        open: number("--open", 50) as usize,
        open_for: Duration::from_secs(number("--seconds", 10)),
    };
    let report = dashboard::run(&plan).await;
    let mut violations = report.violations;
    println!("{} groups, {} jobs on Redis; the longest of {} views", plan.groups, plan.jobs, plan.rounds);
    for page in &report.pages {
        println!(
            "{:<36} {:>7.1} ms {:>4} rows {:>5.1} KiB {:>3} calls {:>5} commands",
            page.path,
            page.longest.as_secs_f64() * 1000.0,
            page.rows,
            page.bytes as f64 / 1024.0,
            page.calls,
            page.commands
        );
        if page.longest > dashboard::PAGE_MAX {
            violations.push(format!("{} took {:?}", page.path, page.longest));
        }
    }
    println!(
        "{} open dashboards on {} pages: {} calls in {:?}, at most {} for the pages alone",
        plan.open, report.distinct, report.open_calls, plan.open_for, report.open_calls_max
    );
    end(&violations)
}

/// Runs the named trial of the server, or all of them without a name.
fn serve(program: &Path, name: Option<&str>, rounds: usize, connections: usize) -> ExitCode {
    let name = name.filter(|name| !name.starts_with('-'));
    let wanted = |trial: &str| name.is_none_or(|name| name == trial);
    let or = |default: usize| if connections == 0 { default } else { connections };
    let mut violations = Vec::new();
    if wanted("cycle") {
        let plan = cycle::Plan { rounds, batches: 2000, connections: or(4) };
        let what = format!("batches of 100, {} connections, against the library", plan.connections);
        violations.extend(compare(&what, "jobs", CYCLE_RATIO_MIN, cycle::run(program, &plan)));
    }
    if wanted("single") {
        for with_key in [false, true] {
            let plan = single::Plan { rounds, requests: 40_000, connections: or(64), with_key };
            let key = if with_key { "with" } else { "without" };
            let what =
                format!("single, {} connections, {key} a key, against a bare handler", plan.connections);
            violations.extend(compare(&what, "requests", SINGLE_RATIO_MIN, single::run(program, &plan)));
        }
    }
    if wanted("idle") {
        for held in [idle::Held::Polls { wait_ms: 55_000 }, idle::Held::Streams] {
            violations.extend(hold(program, held));
        }
    }
    if wanted("flood") {
        use flood::Kind::{Batches, Lists, Single, Streams};
        for (kind, flooding) in [(Single, 64), (Single, 512), (Batches, 64), (Streams, 64), (Lists, 64)] {
            violations.extend(endure(program, (rounds as u64).div_ceil(3), kind, flooding));
        }
    }
    end(&violations)
}

fn compare(what: &str, unit: &str, least: f64, compared: Compared) -> Vec<String> {
    let (ours, floor, ratio) = (&compared.ours, &compared.floor, compared.ratio());
    println!(
        "{what}: {:.0} {unit}/s, {:.1} µs of the server's CPU time each; baseline {:.0}/s, {:.1} µs; ratio {ratio:.2}",
        ours.rate(),
        ours.cpu(),
        floor.rate(),
        floor.cpu()
    );
    println!("  rounds: {:.0?} against {:.0?}", ours.rates, floor.rates);
    let mut violations = compared.violations;
    if ratio < least {
        violations.push(format!("{what}: the ratio {ratio:.2} is below {least}"));
    }
    violations
}

fn hold(program: &Path, held: idle::Held) -> Vec<String> {
    let plan = idle::Plan { held, count: HELD, quiet: Duration::from_secs(10) };
    let report = idle::run(program, &plan);
    println!(
        "{HELD} of {held:?}: {:.0} MiB, {:.0} at most, {:.1} before, {:.1} KiB each; {:.2} CPUs while idle; opened \
         in {:.1} s; a job elsewhere took {:.1} ms, waking {:.1} ms; {} served",
        report.held_mib,
        report.most_mib,
        report.before_mib,
        report.each_kib(&plan),
        report.cpus,
        report.opened_seconds,
        report.elsewhere_ms,
        report.woken_ms,
        report.served
    );
    let mut violations = report.violations;
    if report.most_mib > HELD_MIB_MAX {
        violations.push(format!("{held:?}: the server had {:.0} MiB", report.most_mib));
    }
    violations
}

fn endure(program: &Path, rounds: u64, kind: flood::Kind, flooding: usize) -> Vec<String> {
    let plan = flood::Plan { rounds, requests: 800, each_second: 100, kind, flooding, rate: None };
    let report = flood::run(program, &plan);
    let (p50, p99) = (|waits| flood::ms(waits, 0.5), |waits| flood::ms(waits, 0.99));
    println!(
        "flood of {kind:?}, {flooding} connections: the gentle key waits p50/p99 {:.2}/{:.2} ms alone, {:.2}/{:.2} ms beside \
         it, ratio of the p99s {:.2}; the flooding key: {} passed, {} refused",
        p50(&report.alone),
        p99(&report.alone),
        p50(&report.flooded),
        p99(&report.flooded),
        report.ratio(),
        report.passed,
        report.refused
    );
    let mut violations = report.violations.clone();
    if report.ratio() > FLOOD_RATIO_MAX {
        let ratio = report.ratio();
        violations.push(format!("{flooding} connections of {kind:?} made the p99 {ratio:.2} times as long"));
    }
    violations
}

async fn open(address: &str) -> Arc<dyn Engine> {
    fairlane_engine::open(address, Settings::default()).await.expect("the engine opens")
}

fn end(violations: &[String]) -> ExitCode {
    for violation in violations {
        println!("violated: {violation}");
    }
    println!("{} violations", violations.len());
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
