//! The soak: producers and workers under load while replies are lost, futures are dropped, scripts are
//! flushed and Redis is killed; and what must hold in the end.
//!
//! Everybody goes through a [`Proxy`] that cuts connections after a command ran and before its reply comes
//! back. Redis writes each change to disk before it answers, so nothing acknowledged may be missing after a
//! kill. Faults are drawn from a seed; how tasks interleave is up to the machine.
//!
//! - `soak/ledger.rs`: what was promised and given, and what is wrong with it.
//! - `soak/parties.rs`: producers and workers. `soak/faults.rs`: what happens to them.

mod faults;
mod ledger;
mod parties;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::queue::*;
use fairlane_core::{Rate, TypeId};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Engine, EngineError};
use tokio::task::JoinSet;

use crate::dice::Dice;
use crate::proxy::Proxy;
use crate::servers::{RedisServer, ServerOptions};
use crate::subject::{group_id, group_seats, per_second, type_id};
use faults::Faults;
pub use ledger::Ledger;

/// Longest wait for the queue to drain once the faults have ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(120);
/// Between two looks at a condition.
const POLL: Duration = Duration::from_millis(50);
/// A reply that takes longer counts as lost.
const RESPONSE_LIMIT: Duration = Duration::from_secs(2);

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Decides faults and loads.
    pub seed: u64,
    /// Jobs are produced and faults happen this long.
    pub load: Duration,
    /// Time between two kills of Redis.
    pub kill_every: Duration,
    /// Workers sometimes forget a job, which then has to be taken back.
    pub abandon: bool,
}

/// How it went.
#[derive(Debug)]
pub struct Report {
    /// Distinct jobs whose enqueue was acknowledged.
    pub acknowledged: u64,
    /// Leases given out.
    pub leases: u64,
    /// Connections cut.
    pub cuts: u64,
    /// Futures dropped before their answer.
    pub dropped: u64,
    /// Times all scripts were flushed.
    pub flushes: u64,
    /// Times Redis was killed and started again.
    pub kills: u64,
    /// How long it took.
    pub seconds: f64,
    /// What did not hold; empty if all is well.
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

/// Runs the whole plan.
pub async fn run(plan: &Plan) -> Report {
    let started = Instant::now();
    let server = RedisServer::start(ServerOptions { durable: true, ..ServerOptions::default() });
    let proxy = Arc::new(Proxy::start(server.port()).await);
    let ledger = Arc::new(Ledger::default());
    // The observer goes to Redis directly and comes back after kills as everybody does.
    let observer = connect(&server.url()).await;
    prepare(&observer).await;

    let mut dice = Dice::new(plan.seed);
    let end = started + plan.load;
    let mut producers = JoinSet::new();
    for number in 0..2 {
        let engine = connect(&proxy.url()).await;
        let dice = Dice::new(plan.seed * 100 + number);
        producers.spawn(parties::produce(engine, ledger.clone(), dice, number, end));
    }
    let mut workers = JoinSet::new();
    for number in 0..3 {
        let engine = connect(&proxy.url()).await;
        let dice = Dice::new(plan.seed * 200 + number);
        workers.spawn(parties::work(engine, ledger.clone(), dice, number, plan.abandon, end));
    }
    workers.spawn(parties::reclaim(observer.clone()));
    let faults = Faults::play(server, proxy.clone(), &mut dice, plan.kill_every, end).await;
    note_panics(&mut producers, &ledger).await;
    let drained = drain(&observer, started + plan.load + DRAIN_LIMIT).await;
    workers.abort_all();
    note_panics(&mut workers, &ledger).await;
    if !drained {
        ledger.violation(format!("not drained within {DRAIN_LIMIT:?}: {:?}", whole(&observer).await));
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
    engine.set_whole(SetWhole { settings }).await.expect("nothing is wrong yet");
    let patch = group_seats(limits.seats);
    let seats = SetGroup { group: group_id(limits.seated_group), patch, reset_congestion: false };
    engine.set_group(seats).await.expect("nothing is wrong yet");
}

/// Waits for all of them; one that panicked met something it could not explain.
async fn note_panics(tasks: &mut JoinSet<()>, ledger: &Ledger) {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
        {
            ledger.violation(format!("a party gave up: {error}"));
        }
    }
}

/// Repeats a call until it is answered; errors that repeating cannot mend end the run.
async fn until_answered<T, F: Future<Output = Result<T, EngineError>>>(mut call: impl FnMut() -> F) -> T {
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) if error.is_retryable() => tokio::time::sleep(POLL / 10).await,
            Err(error) => panic!("an error that is no fault of ours: {error}"),
        }
    }
}

async fn whole(engine: &Arc<dyn Engine>) -> WholeView {
    match until_answered(|| engine.inspect(Inspect::Whole)).await {
        Inspected::Whole(view) => view,
        other => panic!("{other:?}"),
    }
}

async fn drain(observer: &Arc<dyn Engine>, deadline: Instant) -> bool {
    while Instant::now() < deadline {
        let view = whole(observer).await;
        if view.backlog == 0 && view.in_flight == 0 {
            return true;
        }
        tokio::time::sleep(POLL).await;
    }
    false
}

/// Nothing lost, every count back at rest, and the rate kept in every second.
async fn check_end(observer: &Arc<dyn Engine>, ledger: &Ledger) {
    let view = whole(observer).await;
    let acknowledged = ledger.acknowledged();
    let counts = (view.backlog, view.waiting, view.in_flight, view.completed + view.failed);
    let expected = (0, 0, 0, acknowledged.len() as u64);
    if counts != expected {
        ledger.violation(format!("backlog, waiting, in flight, ended are {counts:?}, not {expected:?}"));
    }
    for job in acknowledged {
        let answer = until_answered(|| observer.inspect(Inspect::Job(job.clone()))).await;
        let state = match answer {
            Inspected::Job(Some(view)) => view.state,
            _ => {
                ledger.violation(format!("{job:?} was acknowledged and is lost"));
                continue;
            }
        };
        if !matches!(state, JobState::Completed | JobState::Failed) {
            ledger.violation(format!("{job:?} is {}", state.as_str()));
        }
    }
    for type_id in types() {
        let answer = until_answered(|| observer.inspect(Inspect::Type(type_id.clone()))).await;
        if !matches!(answer, Inspected::Type(Some(TypeView { in_flight: 0, active_lanes: [0, 0, 0], .. }))) {
            ledger.violation(format!("type {type_id} is not at rest: {answer:?}"));
        }
    }
    let rate = limits().rate;
    ledger.check_rate(rate.count() + rate.burst());
}
