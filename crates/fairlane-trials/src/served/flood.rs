//! A key that floods the server beside a gentle one: how much longer the gentle one waits.
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
use super::client::{AddRequest, Connection};
use super::process::Served;
use flooding::Flood;

/// Connections of the gentle key: a slow response must not delay its other requests.
const GENTLE_CONNECTIONS: u64 = 8;
/// The longest time until a flood is refused for the first time.
const FLOOD_LIMIT: Duration = Duration::from_secs(60);
/// The longest wait that is recorded exactly, in microseconds.
const MINUTE_US: u64 = 60_000_000;

/// The kind of requests of a flood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Requests with one job.
    Single,
    /// Requests with a hundred jobs.
    Batches,
    /// Endless streams of jobs.
    Streams,
    /// Pages of 500 jobs.
    Lists,
}

/// The number of rounds and the load.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Rounds without and with the flood.
    pub rounds: u64,
    /// Requests of the gentle key in each round.
    pub requests: u64,
    /// Requests of the gentle key per second.
    pub each_second: u64,
    /// The kind of requests of the flood.
    pub kind: Kind,
    /// Connections of the flooding key.
    pub flooding: usize,
    /// The rate of the flooding key; `None` for the server's default.
    pub rate: Option<Rate>,
}

/// The result of the trial.
#[derive(Debug)]
pub struct Report {
    /// The waits of the gentle key alone, in microseconds.
    pub alone: Histogram<u64>,
    /// The waits of the gentle key beside the flood, in microseconds.
    pub flooded: Histogram<u64>,
    /// Requests of the flooding key that were accepted; jobs, in the case of streams.
    pub passed: u64,
    /// Requests of the flooding key that were refused.
    pub refused: u64,
    /// The invariants that were violated; empty if all held.
    pub violations: Vec<String>,
}

impl Report {
    /// The ratio of the two p99s.
    pub fn ratio(&self) -> f64 {
        ms(&self.flooded, 0.99) / ms(&self.alone, 0.99)
    }
}

/// A quantile in milliseconds.
pub fn ms(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1000.0
}

/// Runs both sides in turns.
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
        let (measured, wrong) = alone(|| send_gently(server.api, &gentle, plan, &numbers));
        measured.into_iter().for_each(|wait| waits.saturating_record(wait));
        failed += wrong;
    };
    measure(&mut histogram());
    let flood = Arc::new(Flood::new(server.api, &flooding, plan));
    if plan.kind == Kind::Lists {
        alone(|| flooding::fill(server.api, &gentle)).expect("the server accepts the jobs to be listed");
    }
    for _ in 0..plan.rounds {
        measure(&mut calm);
        flood.over.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| alone(|| flooding::run(&flood, plan.flooding)));
            measure(&mut flooded);
            let begun = Instant::now();
            while !flood.has_reached_limit() && begun.elapsed() < FLOOD_LIMIT {
                std::thread::sleep(Duration::from_millis(10));
            }
            flood.over.store(true, Ordering::Relaxed);
            running.join().expect("the task does not panic");
        });
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (passed, refused, other) = (count(&flood.passed), count(&flood.refused), count(&flood.other));
    let mut violations = Vec::new();
    if failed > 0 {
        violations.push(format!("{failed} requests of the gentle key did not get the status 201"));
    }
    if passed == 0 || !flood.has_reached_limit() || other > 0 {
        violations
            .push(format!("the flood: {passed} passed, {refused} refused, {other} with another status"));
    }
    Report { alone: calm, flooded, passed, refused, violations }
}

fn key(path: &Path, name: &str, rate: Option<Rate>) -> String {
    let new = NewKey { name: name.to_owned(), role: Role::Producer, groups: None, rate, expires_in: None };
    KeyFile::at(path.to_owned()).create(new).expect("the folder can be written").1.reveal().to_owned()
}

/// Sends requests at a steady pace; returns the wait of each in microseconds, and the number of
/// failures.
async fn send_gently(api: SocketAddr, key: &str, plan: &Plan, numbers: &Arc<AtomicU64>) -> (Vec<u64>, u64) {
    let (begun, each_second) = (tokio::time::Instant::now(), plan.each_second);
    let requests = plan.requests / GENTLE_CONNECTIONS;
    let tasks: Vec<_> = (0..GENTLE_CONNECTIONS)
        .map(|lane| {
            let (mut adding, numbers) = (AddRequest::one("/api/jobs", Some(key)), numbers.clone());
            tokio::spawn(async move {
                let mut connection = Connection::open(api).await?;
                let (mut waits, mut wrong) = (Vec::new(), 0);
                let mut free = begun;
                for turn in 0..requests {
                    let due = begun
                        + Duration::from_secs(1) * (turn * GENTLE_CONNECTIONS + lane) as u32
                            / each_second as u32;
                    tokio::time::sleep_until(due).await;
                    // A request that another one delayed has waited since it was due; a late timer
                    // does not count.
                    let since = if free > due { due } else { tokio::time::Instant::now() };
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    let response = connection.round_trip(adding.numbered(number)).await?;
                    wrong += u64::from(response.status != 201);
                    free = tokio::time::Instant::now();
                    waits.push((free - since).as_micros() as u64);
                }
                Result::Ok((waits, wrong))
            })
        })
        .collect();
    let (mut waits, mut wrong) = (Vec::new(), 0);
    for task in tasks {
        let (measured, more) = task.await.expect("the task does not panic").expect("the server responds");
        waits.extend(measured);
        wrong += more;
    }
    (waits, wrong)
}
