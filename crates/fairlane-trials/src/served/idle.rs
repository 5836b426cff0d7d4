//! Very many long polls, or event streams, held by one server, which must still serve others beside them.

use std::io::Result;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc};

use super::alone;
use super::client::{Connection, find, number_after, request};
use super::process::Served;

/// Connections that are being opened at once.
const OPENING: usize = 64;
/// Longer than the trial: the job that wakes a poll is not settled, and must not wake a second one.
const LEASE_MS: u64 = 900_000;
/// Longest wait for something that comes at once.
const LIMIT: Duration = Duration::from_secs(60);

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Requests for jobs that wait this long.
    Polls {
        /// In milliseconds.
        wait_ms: u64,
    },
    /// Streams of the whole's figures, which come every second.
    Streams,
}

/// How many, and how long they are looked at.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// What.
    pub held: Held,
    /// How many at once.
    pub count: usize,
    /// How long the server's processor time is taken while nothing else happens.
    pub quiet: Duration,
}

/// How it went.
#[derive(Debug, Default)]
pub struct Report {
    /// Memory of the server before, in MiB.
    pub before_mib: f64,
    /// While all are held.
    pub held_mib: f64,
    /// At most.
    pub most_mib: f64,
    /// Processors in use while nothing else happens.
    pub cpus: f64,
    /// Until all were held, in seconds.
    pub opened_seconds: f64,
    /// A job elsewhere, in, leased and settled, in milliseconds.
    pub elsewhere_ms: f64,
    /// From a job's enqueueing to one of the polls having it, in milliseconds.
    pub woken_ms: f64,
    /// Polls that ended without a job, or streams that got an event while all were held.
    pub served: usize,
    /// What did not hold; empty if all is well.
    pub violations: Vec<String>,
}

impl Report {
    /// What one takes, in KiB.
    pub fn each_kib(&self, plan: &Plan) -> f64 {
        (self.held_mib - self.before_mib) * 1024.0 / plan.count as f64
    }

    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(what());
        }
    }
}

/// Holds them, looks at the server, and lets them end.
pub fn run(program: &Path, plan: &Plan) -> Report {
    let server = Served::start(program, None);
    let mut report = Report::default();
    let result = alone(|| async {
        match plan.held {
            Held::Polls { wait_ms } => polls(&server, plan, wait_ms, &mut report).await,
            Held::Streams => streams(&server, plan, &mut report).await,
        }
    });
    if let Err(error) = result {
        report.violations.push(format!("the server could not be asked: {error}"));
    }
    report
}

async fn polls(server: &Served, plan: &Plan, wait_ms: u64, report: &mut Report) -> Result<()> {
    let asking = |number: usize| {
        let body = format!(
            r#"{{"worker":"worker-{number}","types":["polled"],"wait_ms":{wait_ms},"lease_ms":{LEASE_MS}}}"#
        );
        request("POST", "/api/leases", None, body.as_bytes())
    };
    let (mut side, held) = hold(server, plan, report, asking).await?;
    let (ended, mut ends) = mpsc::unbounded_channel();
    for mut connection in held {
        let ended = ended.clone();
        tokio::spawn(async move {
            let has_job = connection.answer().await.map(|answer| find(answer.body, b"\"waking\"").is_some());
            // Nobody listens any more when the trial has failed.
            let _ = ended.send((has_job, Instant::now()));
        });
    }
    observe(server, plan, report, &mut side).await?;
    let begun = Instant::now();
    add(&mut side, "waking", "polled").await?;
    match tokio::time::timeout(LIMIT, ends.recv()).await {
        Ok(Some((Ok(has_job), at))) => {
            report.woken_ms = (at - begun).as_secs_f64() * 1000.0;
            report.expect(has_job, || "a poll ended without the job that was there".to_owned());
        }
        other => report.expect(false, || format!("no poll was woken: {other:?}")),
    }
    for _ in 1..plan.count {
        match tokio::time::timeout(Duration::from_millis(wait_ms) + LIMIT, ends.recv()).await {
            Ok(Some((Ok(false), _))) => report.served += 1,
            other => report.expect(false, || format!("a poll did not end as it should: {other:?}")),
        }
    }
    Ok(())
}

async fn streams(server: &Served, plan: &Plan, report: &mut Report) -> Result<()> {
    let asking = |_| request("GET", "/api/events", None, b"");
    let (mut side, mut held) = hold(server, plan, report, asking).await?;
    for connection in &mut held {
        connection.until(b"text/event-stream").await?;
    }
    // Whoever is not read from is not written to.
    let (ended, mut ends) = mpsc::unbounded_channel();
    let reading: Vec<_> =
        held.into_iter().map(|connection| tokio::spawn(read(connection, ended.clone()))).collect();
    observe(server, plan, report, &mut side).await?;
    while report.served < plan.count {
        match tokio::time::timeout(LIMIT, ends.recv()).await {
            Ok(Some(())) => report.served += 1,
            _ => break,
        }
    }
    let served = report.served;
    report.expect(served == plan.count, || format!("{served} of {} streams got an event", plan.count));
    reading.iter().for_each(tokio::task::JoinHandle::abort);
    all_held(&mut side, 0).await
}

/// Reads events for as long as they come, and says when the first one has.
async fn read(mut connection: Connection, first: mpsc::UnboundedSender<()>) {
    let mut first = Some(first);
    while connection.until(b"event: figures").await.is_ok() {
        if let Some(first) = first.take() {
            let _ = first.send(());
        }
    }
}

/// Opens as many connections and sends a request on each; gives them back when the server holds them all, and one
/// more to ask it otherwise.
async fn hold(
    server: &Served,
    plan: &Plan,
    report: &mut Report,
    asking: impl Fn(usize) -> Vec<u8>,
) -> Result<(Connection, Vec<Connection>)> {
    let mut side = Connection::open(server.api).await?;
    elsewhere(&mut side, "first").await?;
    report.before_mib = server.memory_mib().0;
    let begun = Instant::now();
    let doors = Arc::new(Semaphore::new(OPENING));
    let opening: Vec<_> =
        (0..plan.count).map(|number| tokio::spawn(open(server.api, asking(number), doors.clone()))).collect();
    let mut held = Vec::with_capacity(plan.count);
    for connection in opening {
        held.push(connection.await.expect("it does not panic")?);
    }
    all_held(&mut side, plan.count as u64).await?;
    report.opened_seconds = begun.elapsed().as_secs_f64();
    Ok((side, held))
}

async fn open(api: SocketAddr, request: Vec<u8>, doors: Arc<Semaphore>) -> Result<Connection> {
    let _door = doors.acquire().await.expect("it is never closed");
    let mut connection = Connection::open(api).await?;
    connection.send(&request).await?;
    Ok(connection)
}

/// Waits until the server says that it holds so many.
async fn all_held(side: &mut Connection, count: u64) -> Result<()> {
    let begun = Instant::now();
    let asking = request("GET", "/metrics", None, b"");
    loop {
        let answer = side.ask(&asking).await?;
        let held = number_after(answer.body, b"\nfairlane_http_held_requests ").unwrap_or(0);
        if held == count {
            return Ok(());
        }
        if begun.elapsed() > LIMIT {
            return Err(std::io::Error::other(format!("it holds {held} requests instead of {count}")));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What the server takes while it holds them, and whether it still does its work.
async fn observe(server: &Served, plan: &Plan, report: &mut Report, side: &mut Connection) -> Result<()> {
    let cpu = server.cpu_seconds();
    tokio::time::sleep(plan.quiet).await;
    report.cpus = (server.cpu_seconds() - cpu) / plan.quiet.as_secs_f64().max(0.001);
    let begun = Instant::now();
    let settled = elsewhere(side, "second").await?;
    report.elsewhere_ms = begun.elapsed().as_secs_f64() * 1000.0;
    report.expect(settled, || "a job elsewhere was not settled".to_owned());
    (report.held_mib, report.most_mib) = server.memory_mib();
    Ok(())
}

/// A job in, leased and settled; whether that worked.
async fn elsewhere(side: &mut Connection, id: &str) -> Result<bool> {
    add(side, id, "elsewhere").await?;
    let body = br#"{"worker":"elsewhere","types":["elsewhere"]}"#;
    let leased = side.ask(&request("POST", "/api/leases", None, body)).await?;
    let fence = number_after(leased.body, b"\"fence\":").unwrap_or(0);
    let body =
        format!(r#"{{"settlements":[{{"group":"g","id":"{id}","fence":{fence},"outcome":"succeeded"}}]}}"#);
    let verdicts = side.ask(&request("POST", "/api/leases/settle", None, body.as_bytes())).await?;
    Ok(find(verdicts.body, b"applied").is_some())
}

async fn add(side: &mut Connection, id: &str, type_id: &str) -> Result<()> {
    let body = format!(r#"{{"group":"g","id":"{id}","type":"{type_id}","payload":null}}"#);
    let answer = side.ask(&request("POST", "/api/jobs", None, body.as_bytes())).await?;
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(answer.body));
    Ok(())
}
