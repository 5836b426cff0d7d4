//! The processes that are measured: a server, and the library alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::routing::post;
use fairlane::Fairlane;
use fairlane_core::queue::*;
use fairlane_core::{Cost, GroupId, JobId, Level, TypeId, WorkerId};
use fairlane_engine::{Engine, Leaser};
use fairlane_server::keys::Keys;
use fairlane_server::{Server, ServerSettings, figures};
use fairlane_worker::Worker;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use super::client::{GROUPS, payload};

/// Ticks of processor time in a second, as Linux shows it to all programs.
const TICKS: f64 = 100.0;
/// Jobs of a batch.
pub const BATCH: u64 = 100;
/// How long they are leased for.
const LEASE_MS: u64 = 30_000;

/// A server in a process of its own; ends with the value.
pub struct Served {
    child: Child,
    /// Where it listens.
    pub api: SocketAddr,
    /// Where the handler listens that does nothing.
    pub bare: SocketAddr,
}

impl Served {
    /// Starts `program` with the word `http-server`.
    pub fn start(program: &Path, keys: Option<&Path>) -> Self {
        let mut command = Command::new(program);
        command.arg("http-server").args(keys).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut address = || {
            let mut line = String::new();
            output.read_line(&mut line).expect("the server says where it listens");
            line.trim().parse().expect("an address")
        };
        Self { api: address(), bare: address(), child }
    }

    /// Processor time that it has used, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        cpu_seconds(&self.child.id().to_string())
    }

    /// Memory that it has, in MiB: at the moment, and at most so far.
    pub fn memory_mib(&self) -> (f64, f64) {
        let status = std::fs::read(format!("/proc/{}/status", self.child.id())).expect("it runs, on Linux");
        let status = String::from_utf8_lossy(&status);
        let kib = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).unwrap_or(f64::NAN)
        };
        (kib("VmRSS:") / 1024.0, kib("VmHWM:") / 1024.0)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cpu_seconds(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs, on Linux");
    // The name in brackets may contain anything; behind it come the state and eleven others, and then the times.
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// Serves a queue in memory, with everything that `fairlane serve` has, until nobody holds its input any more.
pub async fn be_server(keys: Option<&str>) {
    figures::install();
    let fairlane = Fairlane::open("memory:").await.expect("memory is there");
    let keys = keys.map(|path| Arc::new(Keys::open(path).expect("the keys can be read")));
    let loops = Worker::new(fairlane.engine().clone()).start().expect("its settings are right");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(fairlane, any, keys, ServerSettings::default()).await.expect("a free port");
    let bare = bare().await;
    say(&format!("{}\n{bare}", server.address()));
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
    server.stop().await;
    loops.stop().await;
}

fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush()).expect("somebody listens");
}

/// The same stack without anything of ours: a handler that reads the body and says yes.
async fn bare() -> SocketAddr {
    let answer = |body: Bytes| async move {
        let status = if body.is_empty() { StatusCode::BAD_REQUEST } else { StatusCode::CREATED };
        (status, [(header::CONTENT_TYPE, "application/json")], "{}")
    };
    let router = Router::new().route("/noop", post(answer));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let service = TowerToHyperService::new(router.clone());
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

/// What the library alone did.
pub struct Measured {
    pub seconds: f64,
    pub cpu_seconds: f64,
}

/// Starts `program` with the word `http-library`, which takes so many batches through the queue.
pub fn library(program: &Path, tasks: usize, batches: u64) -> Measured {
    let mut command = Command::new(program);
    let output = command.arg("http-library").args([tasks.to_string(), batches.to_string()]).output();
    let output = output.expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(|word| word.parse().expect("a number"));
    let mut next = || numbers.next().expect("two numbers");
    Measured { seconds: next(), cpu_seconds: next() }
}

/// Takes batches through a queue in memory, by so many tasks, and says how long it took.
pub async fn be_library(tasks: usize, batches: u64) {
    let engine = fairlane_engine::open("memory:", Settings::default()).await.expect("memory is there");
    let numbers = Arc::new(AtomicU64::new(0));
    take_through(&engine, tasks, &numbers, batches / 10).await;
    let (begun, cpu) = (Instant::now(), cpu_seconds("self"));
    take_through(&engine, tasks, &numbers, batches / 10 + batches).await;
    say(&format!("{} {}", begun.elapsed().as_secs_f64(), cpu_seconds("self") - cpu));
}

async fn take_through(engine: &Arc<dyn Engine>, tasks: usize, numbers: &Arc<AtomicU64>, until: u64) {
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let worker = WorkerId::new(format!("worker-{task}-{until}")).expect("words and numbers");
            tokio::spawn(cycles(engine.clone(), worker, numbers.clone(), until))
        })
        .collect();
    for task in tasks {
        task.await.expect("it does not panic");
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
        let jobs = (0..BATCH).map(|place| new_job(number, place, &types[0], &payload)).collect();
        let receipts = engine.enqueue(Enqueue { jobs }).await.expect("it answers").receipts;
        assert!(receipts.iter().all(|receipt| *receipt == JobReceipt::Created));
        let leased = leaser.lease(&types, BATCH as usize, LEASE_MS).await.expect("it answers");
        let settlement = |job: LeasedJob| {
            let outcome = Outcome::Succeeded { result: Arc::from(&[][..]) };
            Settlement { job: job.job, fence: job.fence, outcome }
        };
        let settlements = leased.jobs.into_iter().map(settlement).collect();
        let verdicts = engine.settle(Settle { settlements }).await.expect("it answers").verdicts;
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Applied));
    }
}

fn new_job(number: u64, place: u64, type_id: &TypeId, payload: &[u8]) -> NewJob {
    NewJob {
        job: JobRef {
            group: GroupId::new(format!("group-{:06}", number % GROUPS)).expect("a word and a number"),
            id: JobId::new(format!("{:016x}", number * BATCH + place)).expect("a number"),
        },
        type_id: type_id.clone(),
        level: Level::Normal,
        cost: Cost::default(),
        payload: payload.into(),
        delay_ms: 0,
        bulk: None,
        trace: None,
    }
}
