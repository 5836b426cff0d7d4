//! The soak: runs producers and workers under load while replies are lost, futures are dropped,
//! scripts are flushed and Redis is killed, and then checks the invariants.
//!
//! Every client connects through a [`Proxy`] that cuts connections after a command ran and before
//! its reply arrives. Redis writes each change to disk before it replies, so no acknowledged job
//! may be missing after a kill. Faults are drawn from a seed; how tasks interleave depends on the
//! machine.
//!
//! - `soak/ledger.rs`: acknowledgements and leases, and the violations among them.
//! - `soak/clients.rs`: producers and workers. `soak/faults.rs`: the faults.

mod clients;
mod faults;
mod ledger;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::queue::*;
use fairlane_core::{Rate, TypeId};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Engine, EngineError};
use tokio::task::JoinSet;

use crate::dice::Dice;
use crate::subject::{group_id, group_seats, per_second, type_id};
use fairlane_testkit::proxy::Proxy;
use fairlane_testkit::redis::RedisServer;
use faults::Faults;
pub use ledger::Ledger;

/// Longest wait for the queue to drain once the faults have ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(120);
/// The time between two checks of a condition.
const POLL: Duration = Duration::from_millis(50);
/// A reply that takes longer counts as lost.
const RESPONSE_LIMIT: Duration = Duration::from_secs(2);

/// Arguments of a Redis whose writes are on disk before they are answered.
const DURABLE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
/// Arguments of a Redis that refuses functions, also after a restart.
const NO_FUNCTIONS: [&str; 9] =
    ["--user", "default", "on", "nopass", "~*", "&*", "+@all", "-fcall", "-function|load"];

/// The plan of a soak.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed of faults and load.
    pub seed: u64,
    /// How long jobs are produced and faults happen.
    pub load: Duration,
    /// Time between two kills of Redis.
    pub kill_every: Duration,
    /// Whether workers sometimes abandon a job, which then has to be reclaimed.
    pub abandon: bool,
    /// Whether Redis refuses functions, so that engines run scripts instead.
    pub scripts: bool,
}

/// The result of a soak.
#[derive(Debug)]
pub struct Report {
    /// Distinct jobs whose enqueue was acknowledged.
    pub acknowledged: u64,
    /// Number of leases.
    pub leases: u64,
    /// Number of connections that were cut.
    pub cuts: u64,
    /// Number of futures that were dropped before their reply.
    pub dropped: u64,
    /// Number of times that all scripts were flushed.
    pub flushes: u64,
    /// Number of times that Redis was killed and restarted.
    pub kills: u64,
    /// The duration of the soak, in seconds.
    pub seconds: f64,
    /// The invariants that were violated; empty if all held.
    pub violations: Vec<String>,
}

/// The limits under which the load runs.
struct Limits {
    rate: Rate,
    seated_group: &'static str,
    seats: u32,
}

fn limits() -> Limits {
    Limits { rate: per_second(400, 20), seated_group: "g0", seats: 3 }
}

fn types() -> Vec<TypeId> {
    vec![type_id("mail"), type_id("a:b%")]
}

/// Runs the plan.
pub async fn run(plan: &Plan) -> Report {
    let started = Instant::now();
    let more: &[&str] = if plan.scripts { &NO_FUNCTIONS } else { &[] };
    let server = RedisServer::start_with(&[&DURABLE, more].concat());
    let proxy = Arc::new(Proxy::start(server.port()).await);
    let ledger = Arc::new(Ledger::default());
    // The observer connects to Redis directly and reconnects after kills like every other client.
    let observer = connect(&server.url()).await;
    prepare(&observer).await;

    let mut dice = Dice::new(plan.seed);
    let end = started + plan.load;
    let mut producers = JoinSet::new();
    for number in 0..2 {
        let engine = connect(&proxy.url()).await;
        let dice = Dice::new(plan.seed * 100 + number);
        producers.spawn(clients::produce(engine, ledger.clone(), dice, number, end));
    }
    let mut workers = JoinSet::new();
    for number in 0..3 {
        let engine = connect(&proxy.url()).await;
        let dice = Dice::new(plan.seed * 200 + number);
        workers.spawn(clients::work(engine, ledger.clone(), dice, number, plan.abandon, end));
    }
    workers.spawn(clients::reclaim(observer.clone()));
    let faults = Faults::inject(server, proxy.clone(), &mut dice, plan.kill_every, end).await;
    note_panics(&mut producers, &ledger).await;
    let drained = drain(&observer, started + plan.load + DRAIN_LIMIT).await;
    workers.abort_all();
    note_panics(&mut workers, &ledger).await;
    if !drained {
        ledger.violation(format!("not drained within {DRAIN_LIMIT:?}: {:?}", queue_view(&observer).await));
    }
    check_end(&observer, &ledger).await;
    Report {
        acknowledged: ledger.acknowledged().len() as u64,
        leases: ledger.leases(),
        cuts: proxy.cuts(),
        dropped: ledger.dropped(),
        flushes: faults.flushes,
        kills: faults.kills,
        seconds: started.elapsed().as_secs_f64(),
        violations: ledger.violations(),
    }
}

async fn connect(url: &str) -> Arc<dyn Engine> {
    let options = RedisOptions { response_timeout: RESPONSE_LIMIT, ..RedisOptions::default() };
    Arc::new(RedisEngine::connect(url, options).await.expect("Redis is there"))
}

async fn prepare(engine: &Arc<dyn Engine>) {
    let limits = limits();
    let settings = Settings { rate: Some(limits.rate), max_retry_count: 10_000, ..Settings::default() };
    engine.call(SetQueue { settings }).await.expect("no fault has happened yet");
    let patch = group_seats(limits.seats);
    let seats = SetGroup { group: group_id(limits.seated_group), patch, reset_congestion: false };
    engine.call(seats).await.expect("no fault has happened yet");
}

/// Waits for all tasks, and records each panic as a violation.
async fn note_panics(tasks: &mut JoinSet<()>, ledger: &Ledger) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
        {
            ledger.violation(format!("a client gave up: {error}"));
        }
    }
}

/// Repeats a call until it succeeds; an error that is not retryable ends the run.
async fn until_answered<T, F: Future<Output = Result<T, EngineError>>>(mut call: impl FnMut() -> F) -> T {
    loop {
        match call().await {
            Ok(reply) => return reply,
            Err(error) if error.is_retryable() => tokio::time::sleep(POLL / 10).await,
            Err(error) => panic!("an error that no injected fault causes: {error}"),
        }
    }
}

async fn queue_view(engine: &Arc<dyn Engine>) -> QueueView {
    until_answered(|| engine.call(InspectQueue)).await
}

async fn drain(observer: &Arc<dyn Engine>, deadline: Instant) -> bool {
    while Instant::now() < deadline {
        let view = queue_view(observer).await;
        if view.backlog == 0 && view.in_flight == 0 {
            return true;
        }
        tokio::time::sleep(POLL).await;
    }
    false
}

/// Checks that no job is lost, every count is back at zero, and the rate held in every second.
async fn check_end(observer: &Arc<dyn Engine>, ledger: &Ledger) {
    let view = queue_view(observer).await;
    let acknowledged = ledger.acknowledged();
    let counts = (view.backlog, view.waiting, view.in_flight, view.completed + view.failed);
    let expected = (0, 0, 0, acknowledged.len() as u64);
    if counts != expected {
        ledger.violation(format!("backlog, waiting, in flight, ended are {counts:?}, not {expected:?}"));
    }
    for job in acknowledged {
        let found = until_answered(|| observer.call(InspectJob { job: job.clone() })).await;
        match found.map(|view| view.state) {
            Some(JobState::Completed | JobState::Failed) => {}
            Some(state) => ledger.violation(format!("{job:?} is {}", state.as_str())),
            None => ledger.violation(format!("{job:?} was acknowledged and is lost")),
        }
    }
    for type_id in types() {
        let found = until_answered(|| observer.call(InspectType { type_id: type_id.clone() })).await;
        if !matches!(found, Some(TypeView { in_flight: 0, active_lanes: [0, 0, 0], .. })) {
            ledger.violation(format!("type {type_id} is not at rest: {found:?}"));
        }
    }
    let rate = limits().rate;
    ledger.check_rate(rate.count() + rate.burst());
}
