//! Many locks at once: the memory per lock, and the cost of a command with few and with many locks.

use std::sync::Arc;

use fairlane_core::Command;
use fairlane_core::kernel::Registered;
use fairlane_core::lock::{AcquireLock, HeldLock, InspectLock, ListLocks, RenewLocks, SweepLocks};
use fairlane_engine::Engine;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use tokio::task::JoinSet;

use super::{acquire, lock_name, lock_token, process, release};

/// Tasks that acquire locks at the same time.
const TASKS: u64 = 8;
const HOUR_MS: u64 = 60 * 60 * 1000;

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// Memory of the server per lock, in bytes.
    pub bytes_per_lock: f64,
    /// For each operation, the server time of a call with few locks and with all, in microseconds.
    pub costs: Vec<(&'static str, f64, f64)>,
}

/// Acquires this many locks, and measures with a hundredth of them and with all.
pub async fn run(locks: u64, calls: u64) -> Report {
    let server = RedisServer::start(ServerOptions::default());
    let engine = RedisEngine::connect(&server.url(), RedisOptions::default()).await;
    let engine: Arc<dyn Engine> = Arc::new(engine.expect("the server runs"));
    let few = (locks / 100).max(1);
    acquire_all(&engine, 0, few).await;
    let (before, beside_few) = (memory(&server), costs(&server, &engine, few, calls).await);
    acquire_all(&engine, few, locks).await;
    let bytes_per_lock = (memory(&server) - before) / (locks - few) as f64;
    let beside_all = costs(&server, &engine, locks, calls).await;
    let costs = beside_few.into_iter().zip(beside_all).map(|((name, few), (_, all))| (name, few, all));
    Report { bytes_per_lock, costs: costs.collect() }
}

fn name(number: u64) -> String {
    format!("customer-{}:import:{number}", number % 100)
}

async fn acquire_all(engine: &Arc<dyn Engine>, from: u64, to: u64) {
    let mut acquiring = JoinSet::new();
    for task in 0..TASKS {
        let engine = engine.clone();
        acquiring.spawn(async move {
            let own = process("names");
            for number in (from..to).filter(|number| number % TASKS == task) {
                let command = AcquireLock { ttl_ms: HOUR_MS, ..acquire(&name(number), &token(number), &own) };
                engine.call(command).await.expect("the server replies");
            }
        });
    }
    acquiring.join_all().await;
}

fn token(number: u64) -> String {
    format!("{number:032x}")
}

fn memory(server: &RedisServer) -> f64 {
    let info = server.command(&["INFO", "memory"]);
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).expect("Redis reports its memory")
}

/// The server time of a call of each operation, in microseconds. New locks are acquired first, and
/// released.
async fn costs(
    server: &RedisServer,
    engine: &Arc<dyn Engine>,
    locks: u64,
    calls: u64,
) -> Vec<(&'static str, f64)> {
    let own = process("names");
    let new = |call: u64| (format!("new:{call}"), token(call));
    let acquired = |call| {
        let (name, token) = new(call);
        acquire(&name, &token, &own).into_command()
    };
    let released = |call| {
        let (name, token) = new(call);
        release(&name, &token).into_command()
    };
    let known = |call: u64| {
        let number = call * 7919 % locks;
        HeldLock { name: lock_name(&name(number)), token: lock_token(&token(number)), ttl_ms: HOUR_MS }
    };
    let renewed = |call| RenewLocks { locks: vec![known(call)] }.into_command();
    let inspected = |call| InspectLock { name: known(call).name }.into_command();
    let listed =
        |call| ListLocks { group: None, after: Some(known(call).name), locks_max: 10 }.into_command();
    let swept = |_| SweepLocks { locks_max: 100 }.into_command();
    let operations: [&dyn Fn(u64) -> Command; 6] =
        [&acquired, &released, &renewed, &inspected, &listed, &swept];
    let mut costs = Vec::new();
    for operation in operations {
        server.command(&["CONFIG", "RESETSTAT"]);
        for call in 0..calls {
            engine.submit(operation(call)).await.expect("the server replies");
        }
        costs.push((operation(0).stem(), function_us(server)));
    }
    costs
}

/// The mean server time of a function call, in microseconds.
fn function_us(server: &RedisServer) -> f64 {
    let info = server.command(&["INFO", "commandstats"]);
    let line = info.lines().find(|line| line.starts_with("cmdstat_fcall:")).unwrap_or_default();
    let cost = line.split("usec_per_call=").nth(1).and_then(|rest| rest.split(',').next());
    cost.and_then(|cost| cost.parse().ok()).expect("Redis reports its calls")
}
