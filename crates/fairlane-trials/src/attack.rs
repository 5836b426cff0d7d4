//! Attacks by one customer beside another: how much longer the other customer waits, and whether
//! the server survives.
//!
//! - `attack/kind.rs`: the attacks by name. `attack/attacker.rs`: how each is carried out.
//!   `attack/collisions.rs`: job ids with equal hashes.
//! - `attack/customer.rs`: the other customer, whose waits are measured. `attack/process.rs`: the
//!   server.
//!
//! Each attack has a server of its own: the `fairlane` program on a data directory that is removed
//! afterwards. The attacker has a key bound to one group, the weakest that can write. Everything
//! stays on loopback, is bounded in count and time, and stops with the trial. The attacker connects
//! from 127.0.0.2 and memory is read from `/proc`, so this runs on Linux.

mod attacker;
mod collisions;
mod customer;
mod kind;
mod process;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use attacker::Attacker;
use customer::{Customer, Target};
pub use kind::Kind;
use process::{Keys, ServerProcess};

/// The most by which the 99th percentile may grow during an attack.
pub const SLOWER_MAX: Duration = Duration::from_millis(20);

/// The duration and the size of the attacks.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How long the other customer is measured before an attack, and during it.
    pub phase: Duration,
    /// Jobs per second of the other customer.
    pub jobs_per_second: u64,
    /// Bulk actions per second of the other customer.
    pub bulks_per_second: u64,
    /// Number of job ids with equal hashes.
    pub colliding_ids: usize,
    /// Number of jobs with a payload of 500 KiB.
    pub large_jobs: usize,
    /// Number of bulk actions whose callback gets no response.
    pub hanging_callbacks: usize,
    /// Number of bulk actions with a fold that no worker knows.
    pub unknown_folds: usize,
    /// Connections that the server accepts in the attack by connections; the attacker opens twice
    /// as many.
    pub connections_max: usize,
    /// Size of a body of unknown keys, in bytes.
    pub unknown_keys_bytes: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            phase: Duration::from_secs(10),
            jobs_per_second: 100,
            bulks_per_second: 10,
            colliding_ids: 40_000,
            large_jobs: 600,
            hanging_callbacks: 200,
            unknown_folds: 1500,
            connections_max: 200,
            unknown_keys_bytes: 8 * 1024 * 1024,
        }
    }
}

/// The waits of the other customer, in microseconds.
#[derive(Debug)]
pub struct Waits {
    /// From the request to its response.
    pub enqueue: Histogram<u64>,
    /// From the request to the call of the job's target.
    pub completion: Histogram<u64>,
    /// From sealing a bulk action to its callback.
    pub bulk: Histogram<u64>,
    /// Requests that failed, and jobs and bulk actions that did not end in time.
    pub failed: u64,
}

/// The result of one attack.
#[derive(Debug)]
pub struct Report {
    /// The kind of the attack.
    pub kind: Kind,
    /// The waits of the other customer before the attack.
    pub before: Waits,
    /// The waits of the other customer during the attack.
    pub during: Waits,
    /// Requests of the attacker that succeeded.
    pub accepted: u64,
    /// Requests of the attacker that were refused.
    pub refused: u64,
    /// Connections of the attacker that ended before a response.
    pub broken: u64,
    /// The peak memory of the server, in MiB.
    pub memory_mib: f64,
    /// How long the server took to serve again after it was killed.
    pub restart: Option<Duration>,
    /// The invariants that were violated on any machine.
    pub violations: Vec<String>,
}

impl Waits {
    fn new() -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are constants that fit");
        Self { enqueue: histogram(), completion: histogram(), bulk: histogram(), failed: 0 }
    }

    /// The 99th percentiles in milliseconds: enqueue, completion, bulk action.
    pub fn p99_ms(&self) -> [f64; 3] {
        let ms = |waits: &Histogram<u64>| waits.value_at_quantile(0.99) as f64 / 1000.0;
        [ms(&self.enqueue), ms(&self.completion), ms(&self.bulk)]
    }
}

impl Report {
    /// The waits that grew by more than is allowed, a sentence each.
    pub fn slower(&self) -> Vec<String> {
        let most = SLOWER_MAX.as_millis() as f64;
        let names = ["enqueue", "completion", "bulk action"];
        let pairs = self.before.p99_ms().into_iter().zip(self.during.p99_ms());
        // A bulk action waits for the aggregator's next poll, which varies by more than the bound.
        let is_slower = |name, before: f64, during: f64| {
            let bound = if name == "bulk action" { before * 2.0 } else { before };
            during > bound + most
        };
        let slower = names.into_iter().zip(pairs);
        let slower = slower.filter(|(name, (before, during))| is_slower(*name, *before, *during));
        let sentence = |(name, (before, during)): (&str, (f64, f64))| {
            format!("{}: the p99 of {name} went from {before:.1} to {during:.1} ms", self.kind.name())
        };
        slower.map(sentence).collect()
    }
}

/// Carries out one attack against `program serve`.
pub async fn run(program: &Path, kind: Kind, plan: &Plan) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, hanging) = (Target::start(), attacker::hanging_receiver().await);
    let keys = Keys::create(folder.path());
    let connections_max = (kind == Kind::Connections).then_some(plan.connections_max);
    process::configure(folder.path(), target.address(), connections_max);
    let mut server = ServerProcess::start(program, folder.path()).expect("the server starts");
    process::add_types(server.address, &keys.admin).await.expect("an administrator can add types");
    let attacker = Arc::new(Attacker::new(server.address, &keys.attacker, hanging, kind, plan));
    let customer = Customer::new(server.address, &keys.customer, &target, plan);
    // The first requests open connections and files.
    customer.measure("warm", plan.phase / 5).await;
    let before = customer.measure("before", plan.phase).await;
    let attacking = attacker::start(&attacker);
    let during = customer.measure("during", plan.phase).await;
    attacker.until_answered().await;
    attacker.stop();
    let mut violations = Vec::new();
    if attacking.join().is_err() {
        violations.push(format!("{}: the attacker itself failed", kind.name()));
    }
    let memory_mib = server.process().memory_mib().1;
    if let Some(status) = server.ended() {
        violations.push(format!("{}: the server ended with {status}", kind.name()));
    }
    server.process().kill();
    let begun = Instant::now();
    let restart = match ServerProcess::start(program, folder.path()) {
        Ok(server) => {
            let restart = begun.elapsed();
            if process::add_types(server.address, &keys.admin).await.is_err() {
                violations.push(format!("{}: the server refuses jobs after a restart", kind.name()));
            }
            Some(restart)
        }
        Err(reason) => {
            violations.push(format!("{}: the server does not start again: {reason}", kind.name()));
            None
        }
    };
    if during.failed > 0 {
        violations.push(format!("{}: {} of the other customer failed", kind.name(), during.failed));
    }
    let Counts { accepted, refused, broken } = attacker.counts();
    Report { kind, before, during, accepted, refused, broken, memory_mib, restart, violations }
}

/// The numbers of the attacker's requests by result.
struct Counts {
    accepted: u64,
    refused: u64,
    broken: u64,
}

impl Counts {
    /// Whether no request has been answered yet.
    fn is_empty(&self) -> bool {
        self.accepted + self.refused == 0
    }
}

/// Counters that several tasks share.
#[derive(Default)]
struct Counters {
    accepted: AtomicU64,
    refused: AtomicU64,
    broken: AtomicU64,
    over: AtomicBool,
}

impl Counters {
    fn read(&self) -> Counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts { accepted: count(&self.accepted), refused: count(&self.refused), broken: count(&self.broken) }
    }
}
