//! A key that floods beside one that asks gently: what the gentle one notices.
//!
//! - `flood/flooding.rs`: the flood, of each kind.

mod flooding;

use std::io::Result;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane::Rate;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, NewKey};
use hdrhistogram::Histogram;

use super::alone;
use super::client::{Adding, Connection};
use super::process::Served;
use flooding::Flood;

/// Connections of the gentle key: a slow answer must not keep its other requests back.
const GENTLE_CONNECTIONS: u64 = 8;
/// Longest that a flood goes on to be refused at all.
const FLOOD_LIMIT: Duration = Duration::from_secs(60);
/// Longest answer that is told apart.
const MINUTE_US: u64 = 60_000_000;

/// What a flood is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One job a request.
    Single,
    /// A hundred jobs a request.
    Batches,
    /// Jobs without end.
    Streams,
    /// Pages of 500 jobs.
    Lists,
}

/// How long, and how much.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Turns without and with the flood.
    pub rounds: u64,
    /// Requests of the gentle key in each turn.
    pub requests: u64,
    /// And in a second.
    pub each_second: u64,
    /// What floods.
    pub kind: Kind,
    /// Over how many connections.
    pub flooding: usize,
    /// What the flooding key may send; else what the server allows every key.
    pub rate: Option<Rate>,
}

/// How it went.
#[derive(Debug)]
pub struct Report {
    /// What the gentle key waited, alone …
    pub alone: Histogram<u64>,
    /// … and beside the flood, in microseconds.
    pub flooded: Histogram<u64>,
    /// Requests of the flooding key that were let through; of streams, jobs.
    pub passed: u64,
    /// And that were told to wait.
    pub refused: u64,
    /// What did not hold; empty if all is well.
    pub violations: Vec<String>,
}

impl Report {
    /// The flooded p99 in terms of the other.
    pub fn ratio(&self) -> f64 {
        ms(&self.flooded, 0.99) / ms(&self.alone, 0.99)
    }
}

/// A quantile in milliseconds.
pub fn ms(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1000.0
}

/// Runs both in turns.
pub fn run(program: &Path, plan: &Plan) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys.json");
    let [flooding, gentle] =
        [("flooding", plan.rate), ("gentle", None)].map(|(name, rate)| key(&path, name, rate));
    let server = Served::start(program, Some(&path));
    let histogram =
        || Histogram::new_with_bounds(1, MINUTE_US, 3).expect("the bounds are constants that fit");
    let (mut calm, mut flooded, mut failed) = (histogram(), histogram(), 0);
    let numbers = Arc::new(AtomicU64::new(0));
    let mut measure = |waits: &mut Histogram<u64>| {
        let (heard, wrong) = alone(|| ask_gently(server.api, &gentle, plan, &numbers));
        heard.into_iter().for_each(|wait| waits.saturating_record(wait));
        failed += wrong;
    };
    measure(&mut histogram());
    let flood = Arc::new(Flood::new(server.api, &flooding, plan));
    if plan.kind == Kind::Lists {
        alone(|| flooding::fill(server.api, &gentle)).expect("the server takes what is to be listed");
    }
    for _ in 0..plan.rounds {
        measure(&mut calm);
        flood.over.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| alone(|| flooding::run(&flood, plan.flooding)));
            measure(&mut flooded);
            let begun = Instant::now();
            while !flood.is_felt() && begun.elapsed() < FLOOD_LIMIT {
                std::thread::sleep(Duration::from_millis(10));
            }
            flood.over.store(true, Ordering::Relaxed);
            running.join().expect("it does not panic");
        });
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (passed, refused, other) = (count(&flood.passed), count(&flood.refused), count(&flood.other));
    let mut violations = Vec::new();
    if failed > 0 {
        violations.push(format!("{failed} requests of the gentle key were not answered with 201"));
    }
    if passed == 0 || !flood.is_felt() || other > 0 {
        violations.push(format!("the flood: {passed} passed, {refused} refused, {other} answered otherwise"));
    }
    Report { alone: calm, flooded, passed, refused, violations }
}

fn key(path: &Path, name: &str, rate: Option<Rate>) -> String {
    let new = NewKey { name: name.to_owned(), role: Role::Producer, groups: None, rate, expires_in: None };
    KeyFile::at(path.to_owned()).create(new).expect("the folder can be written").1.reveal().to_owned()
}

/// Asks at a pace; gives what each answer took in microseconds, and how many were wrong.
async fn ask_gently(api: SocketAddr, key: &str, plan: &Plan, numbers: &Arc<AtomicU64>) -> (Vec<u64>, u64) {
    let (begun, each_second) = (tokio::time::Instant::now(), plan.each_second);
    let requests = plan.requests / GENTLE_CONNECTIONS;
    let tasks: Vec<_> = (0..GENTLE_CONNECTIONS)
        .map(|lane| {
            let (mut adding, numbers) = (Adding::one("/api/jobs", Some(key)), numbers.clone());
            tokio::spawn(async move {
                let mut connection = Connection::open(api).await?;
                let (mut waits, mut wrong) = (Vec::new(), 0);
                let mut free = begun;
                for turn in 0..requests {
                    let due = begun
                        + Duration::from_secs(1) * (turn * GENTLE_CONNECTIONS + lane) as u32
                            / each_second as u32;
                    tokio::time::sleep_until(due).await;
                    // A request that another one kept waiting has waited since it was due; a late timer is ours.
                    let since = if free > due { due } else { tokio::time::Instant::now() };
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    let answer = connection.ask(adding.numbered(number)).await?;
                    wrong += u64::from(answer.status != 201);
                    free = tokio::time::Instant::now();
                    waits.push((free - since).as_micros() as u64);
                }
                Result::Ok((waits, wrong))
            })
        })
        .collect();
    let (mut waits, mut wrong) = (Vec::new(), 0);
    for task in tasks {
        let (heard, more) = task.await.expect("it does not panic").expect("the server answers");
        waits.extend(heard);
        wrong += more;
    }
    (waits, wrong)
}
