//! The processes that are measured: a server, and the library alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::routing::post;
use fairlane::Fairlane;
use fairlane_core::queue::*;
use fairlane_core::{GroupId, JobId, TypeId, WorkerId};
use fairlane_engine::{Engine, Leaser};
use fairlane_server::keys::Keys;
use fairlane_server::{Server, ServerSettings, metrics};
use fairlane_testkit::process::Process;
use fairlane_worker::Worker;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use super::client::{GROUPS, payload};

/// Ticks of CPU time per second in `/proc`.
const TICKS: f64 = 100.0;
/// The number of jobs of a batch.
pub const BATCH: u64 = 100;
/// The lease of the jobs of a batch, in milliseconds.
const LEASE_MS: u64 = 30_000;

/// A server in a process of its own, which ends when dropped.
pub struct Served {
    child: Process,
    /// The address of the server.
    pub api: SocketAddr,
    /// The address of the handler that does nothing.
    pub bare: SocketAddr,
}

impl Served {
    /// Starts `program` with the argument `http-server`.
    pub fn start(program: &Path, keys: Option<&Path>) -> Self {
        let mut command = Command::new(program);
        command.arg("http-server").args(keys).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Process::start(&mut command);
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut address = || {
            let mut line = String::new();
            output.read_line(&mut line).expect("the server prints its addresses");
            line.trim().parse().expect("an address")
        };
        Self { api: address(), bare: address(), child }
    }

    /// The CPU time of the server so far, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        cpu_seconds(&self.child.id().to_string())
    }

    /// The memory of the server in MiB: current and peak.
    pub fn memory_mib(&self) -> (f64, f64) {
        self.child.memory_mib()
    }
}

fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("the process runs, on Linux");
    // The name in parentheses may contain anything; after it come the state, ten other fields and
    // the times.
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// Serves a queue in memory, with everything that `fairlane serve` has, until its standard input is
/// closed.
pub async fn run_server(keys: Option<&str>) {
    metrics::install();
    let fairlane = Fairlane::open("memory:").await.expect("a queue in memory opens");
    let keys = keys.map(|path| Arc::new(Keys::open(path).expect("the keys can be read")));
    let loops = Worker::new(fairlane.engine().clone()).start().expect("the settings are valid");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(fairlane, any, keys, ServerSettings::default()).await.expect("a free port");
    let bare = bare().await;
    print_line(&format!("{}\n{bare}", server.address()));
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
    server.stop().await;
    loops.stop().await;
}

fn print_line(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush()).expect("the parent reads the output");
}

/// The same HTTP stack without Fairlane: a handler that reads the body and responds with 201.
async fn bare() -> SocketAddr {
    let handler = |body: Bytes| async move {
        let status = if body.is_empty() { StatusCode::BAD_REQUEST } else { StatusCode::CREATED };
        (status, [(header::CONTENT_TYPE, "application/json")], "{}")
    };
    let router = Router::new().route("/noop", post(handler));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("the listener is bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

/// The result of the library alone.
pub struct Measured {
    pub seconds: f64,
    pub cpu_seconds: f64,
}

/// Starts `program` with the argument `http-library`, which runs this many batches.
pub fn library(program: &Path, tasks: usize, batches: u64) -> Measured {
    let mut command = Command::new(program);
    let output = command.arg("http-library").args([tasks.to_string(), batches.to_string()]).output();
    let output = output.expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(|number| number.parse().expect("a number"));
    let mut next = || numbers.next().expect("two numbers");
    Measured { seconds: next(), cpu_seconds: next() }
}

/// Runs batches through a queue in memory, with this many tasks, and prints how long they took.
pub async fn run_library(tasks: usize, batches: u64) {
    let engine =
        fairlane_engine::open("memory:", Settings::default()).await.expect("a queue in memory opens");
    let numbers = Arc::new(AtomicU64::new(0));
    run_batches(&engine, tasks, &numbers, batches / 10).await;
    let (begun, cpu) = (Instant::now(), cpu_seconds("self"));
    run_batches(&engine, tasks, &numbers, batches / 10 + batches).await;
    print_line(&format!("{} {}", begun.elapsed().as_secs_f64(), cpu_seconds("self") - cpu));
}

async fn run_batches(engine: &Arc<dyn Engine>, tasks: usize, numbers: &Arc<AtomicU64>, until: u64) {
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let worker = WorkerId::new(format!("worker-{task}-{until}")).expect("words and numbers");
            tokio::spawn(cycles(engine.clone(), worker, numbers.clone(), until))
        })
        .collect();
    for task in tasks {
        task.await.expect("the task does not panic");
    }
    numbers.store(until, Ordering::Relaxed);
}

async fn cycles(engine: Arc<dyn Engine>, worker: WorkerId, numbers: Arc<AtomicU64>, until: u64) {
    let types = [TypeId::new("bench").expect("a plain word")];
    let mut leaser = Leaser::new(engine.clone(), worker);
    let payload = payload();
    loop {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        if number >= until {
            return;
        }
        let jobs = (0..BATCH).map(|index| new_job(number, index, &types[0], &payload)).collect();
        let receipts = engine.call(Enqueue { jobs }).await.expect("the engine replies").receipts;
        assert!(receipts.iter().all(|receipt| *receipt == JobReceipt::Created));
        let leased = leaser.lease(&types, BATCH as usize, LEASE_MS).await.expect("the engine replies");
        let settlement = |job: LeasedJob| {
            let outcome = Outcome::Succeeded { result: Arc::from(&[][..]) };
            Settlement { job: job.job, fence: job.fence, outcome }
        };
        let settlements = leased.jobs.into_iter().map(settlement).collect();
        let verdicts = engine.call(Settle { settlements }).await.expect("the engine replies").verdicts;
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Applied));
    }
}

fn new_job(number: u64, index: u64, type_id: &TypeId, payload: &[u8]) -> NewJob {
    NewJob::new(
        JobRef {
            group: GroupId::new(format!("group-{:06}", number % GROUPS)).expect("a word and a number"),
            id: JobId::new(format!("{:016x}", number * BATCH + index)).expect("a number"),
        },
        type_id.clone(),
        payload.into(),
    )
}
