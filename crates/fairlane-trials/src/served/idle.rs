//! Very many long polls or event streams held by one server, which must still serve other requests.

use std::io::Result;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc};

use super::alone;
use super::client::{Connection, find, number_after, request};
use super::process::Served;

/// The most connections that are opened at the same time.
const OPENING: usize = 64;
/// The length of leases in milliseconds, longer than the trial: the job that wakes a poll is not
/// settled, and must not wake a second one.
const LEASE_MS: u64 = 900_000;
/// The longest wait for a response that needs no long poll.
const LIMIT: Duration = Duration::from_secs(60);

/// The kind of request that the server holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Long polls for jobs.
    Polls {
        /// The timeout of each poll, in milliseconds.
        wait_ms: u64,
    },
    /// Event streams of the queue's totals, which are sent every second.
    Streams,
}

/// The number of held requests, and how long they are measured.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The kind of request.
    pub held: Held,
    /// The number of requests held at once.
    pub count: usize,
    /// How long the CPU time of the server is measured while it is otherwise idle.
    pub quiet: Duration,
}

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// Memory of the server before, in MiB.
    pub before_mib: f64,
    /// Memory of the server while all requests are held, in MiB.
    pub held_mib: f64,
    /// The peak memory of the server, in MiB.
    pub most_mib: f64,
    /// CPUs in use while the server is otherwise idle.
    pub cpus: f64,
    /// The time until all requests were held, in seconds.
    pub opened_seconds: f64,
    /// The time to add, lease and settle a job of another type, in milliseconds.
    pub elsewhere_ms: f64,
    /// The time from adding a job to the response of a poll with it, in milliseconds.
    pub woken_ms: f64,
    /// Polls that ended without a job, or streams that got an event while all were held.
    pub served: usize,
    /// The invariants that were violated; empty if all held.
    pub violations: Vec<String>,
}

impl Report {
    /// The memory of one held request, in KiB.
    pub fn each_kib(&self, plan: &Plan) -> f64 {
        (self.held_mib - self.before_mib) * 1024.0 / plan.count as f64
    }

    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(what());
        }
    }
}

/// Holds the requests, measures the server, and lets the requests end.
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
        report.violations.push(format!("a request failed: {error}"));
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
            let response = connection.read_response().await;
            let has_job = response.map(|response| find(response.body, b"\"waking\"").is_some());
            // The receiver is dropped when the trial has failed.
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
    // The server stops writing to a connection that is not read.
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

/// Reads events until the stream ends, and reports the first one.
async fn read(mut connection: Connection, first: mpsc::UnboundedSender<()>) {
    let mut first = Some(first);
    while connection.until(b"event: figures").await.is_ok() {
        if let Some(first) = first.take() {
            let _ = first.send(());
        }
    }
}

/// Opens the connections and sends a request on each; returns them when the server holds all
/// requests, with one more connection for other requests.
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
    let permits = Arc::new(Semaphore::new(OPENING));
    let opening: Vec<_> = (0..plan.count)
        .map(|number| tokio::spawn(open(server.api, asking(number), permits.clone())))
        .collect();
    let mut held = Vec::with_capacity(plan.count);
    for connection in opening {
        held.push(connection.await.expect("the task does not panic")?);
    }
    all_held(&mut side, plan.count as u64).await?;
    report.opened_seconds = begun.elapsed().as_secs_f64();
    Ok((side, held))
}

async fn open(api: SocketAddr, request: Vec<u8>, permits: Arc<Semaphore>) -> Result<Connection> {
    let _permit = permits.acquire().await.expect("the semaphore is never closed");
    let mut connection = Connection::open(api).await?;
    connection.send(&request).await?;
    Ok(connection)
}

/// Waits until the server reports this many held requests.
async fn all_held(side: &mut Connection, count: u64) -> Result<()> {
    let begun = Instant::now();
    let asking = request("GET", "/metrics", None, b"");
    loop {
        let response = side.round_trip(&asking).await?;
        let held = number_after(response.body, b"\nfairlane_http_held_requests ").unwrap_or(0);
        if held == count {
            return Ok(());
        }
        if begun.elapsed() > LIMIT {
            return Err(std::io::Error::other(format!("it holds {held} requests instead of {count}")));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Measures the server while it holds the requests, and checks that it still works.
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

/// Adds, leases and settles a job of another type; returns whether that worked.
async fn elsewhere(side: &mut Connection, id: &str) -> Result<bool> {
    add(side, id, "elsewhere").await?;
    let body = br#"{"worker":"elsewhere","types":["elsewhere"]}"#;
    let leased = side.round_trip(&request("POST", "/api/leases", None, body)).await?;
    let fence = number_after(leased.body, b"\"fence\":").unwrap_or(0);
    let body =
        format!(r#"{{"settlements":[{{"group":"g","id":"{id}","fence":{fence},"outcome":"succeeded"}}]}}"#);
    let verdicts = side.round_trip(&request("POST", "/api/leases/settle", None, body.as_bytes())).await?;
    Ok(find(verdicts.body, b"applied").is_some())
}

async fn add(side: &mut Connection, id: &str, type_id: &str) -> Result<()> {
    let body = format!(r#"{{"group":"g","id":"{id}","type":"{type_id}","payload":null}}"#);
    let response = side.round_trip(&request("POST", "/api/jobs", None, body.as_bytes())).await?;
    assert_eq!(response.status, 201, "{}", String::from_utf8_lossy(response.body));
    Ok(())
}
