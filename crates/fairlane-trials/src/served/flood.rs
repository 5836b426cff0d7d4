//! A key that floods beside one that asks gently: what the gentle one notices.

use std::io::Result;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane::Rate;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, NewKey};
use hdrhistogram::Histogram;

use super::alone;
use super::client::{Adding, Connection};
use super::process::Served;

/// Connections of the gentle key: a slow answer must not keep its other requests back.
const GENTLE_CONNECTIONS: u64 = 8;
/// Longest that a flood goes on to be refused at all.
const FLOOD_LIMIT: Duration = Duration::from_secs(60);
/// Longest answer that is told apart.
const MINUTE_US: u64 = 60_000_000;

/// How long, and how much.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Turns without and with the flood.
    pub rounds: u64,
    /// Requests of the gentle key in each turn.
    pub requests: u64,
    /// And in a second.
    pub each_second: u64,
    /// Connections that flood.
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
    /// Requests of the flooding key that were let through.
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

/// The flooding key's requests.
#[derive(Default)]
struct Flood {
    over: AtomicBool,
    numbers: AtomicU64,
    passed: AtomicU64,
    refused: AtomicU64,
    other: AtomicU64,
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
    let flood = Arc::new(Flood::default());
    for _ in 0..plan.rounds {
        measure(&mut calm);
        flood.over.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| alone(|| run_flood(server.api, &flooding, plan.flooding, &flood)));
            measure(&mut flooded);
            let begun = Instant::now();
            while flood.refused.load(Ordering::Relaxed) == 0 && begun.elapsed() < FLOOD_LIMIT {
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
    if passed == 0 || refused == 0 || other > 0 {
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

/// Asks as fast as it can, on so many connections, until it is over.
async fn run_flood(api: SocketAddr, key: &str, connections: usize, flood: &Arc<Flood>) {
    let tasks: Vec<_> = (0..connections)
        .map(|_| {
            let (mut adding, flood) = (Adding::one("/api/jobs", Some(key)), flood.clone());
            tokio::spawn(async move {
                while !flood.over.load(Ordering::Relaxed) {
                    // A connection that is closed under a request is part of being refused: come again.
                    let _ = ask_on_one(api, &mut adding, &flood).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("it does not panic");
    }
}

async fn ask_on_one(api: SocketAddr, adding: &mut Adding, flood: &Flood) -> Result<()> {
    let mut connection = Connection::open(api).await?;
    while !flood.over.load(Ordering::Relaxed) {
        // Far from the ids of the gentle key.
        let number = (1 << 32) + flood.numbers.fetch_add(1, Ordering::Relaxed);
        let answer = connection.ask(adding.numbered(number)).await?;
        let counter = match answer.status {
            201 => &flood.passed,
            429 => &flood.refused,
            _ => &flood.other,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if answer.is_last {
            return Ok(());
        }
    }
    Ok(())
}
