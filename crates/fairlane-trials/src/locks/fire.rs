//! Locks held by processes that are killed, stopped for longer than their leases and cut off, on a
//! Redis that is restarted or replaced. A resource in a server of its own checks their fences.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use fairlane_testkit::failover::RedisPair;
use fairlane_testkit::process::Process;
use fairlane_testkit::proxy::Proxy;
use fairlane_testkit::redis::{RedisServer, ServerOptions};

use super::holder::TTL;

/// Time between two disturbances.
const DISTURB_EVERY: Duration = Duration::from_millis(150);
/// The server is restarted or replaced after this many disturbances.
const SERVER_EVERY: u64 = 40;
/// Longest time without an acquisition.
const STALL_MAX: Duration = Duration::from_secs(60);

/// The fault of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// It writes everything to disk before it replies, and is killed and started again.
    Restarts,
    /// It is replaced by its replica.
    FailsOver,
}

/// The size of the trial.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The seed of all random choices.
    pub seed: u64,
    /// Acquisitions of all processes together.
    pub acquisitions: u64,
    /// Processes at a time.
    pub processes: usize,
}

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// Locks that were acquired by all processes.
    pub acquisitions: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Processes that were stopped for longer than a lease.
    pub stops: u64,
    /// Times that all connections were cut.
    pub cuts: u64,
    /// Restarts or failovers.
    pub servers: u64,
    /// Holders that were stopped and whose first poll reported the loss.
    pub losses_seen: u64,
    /// Writes of late holders that the resource refused.
    pub refused: u64,
    /// Writes of late holders after which no other holder had written.
    pub alone: u64,
    /// The invariants that were violated.
    pub violations: Vec<String>,
}

/// A Redis behind a proxy.
enum Store {
    Single { server: Box<RedisServer>, proxy: Proxy },
    Pair(Box<RedisPair>),
}

impl Store {
    async fn start(kind: Server) -> Self {
        match kind {
            Server::Restarts => {
                let server = RedisServer::start(ServerOptions { durable: true, ..ServerOptions::default() });
                let proxy = Proxy::start(server.port()).await;
                Self::Single { server: Box::new(server), proxy }
            }
            Server::FailsOver => Self::Pair(Box::new(RedisPair::start().await)),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Single { proxy, .. } => proxy.url(),
            Self::Pair(pair) => pair.url(),
        }
    }

    fn cut(&self) -> bool {
        if let Self::Single { proxy, .. } = self {
            proxy.cut_all();
        }
        matches!(self, Self::Single { .. })
    }

    async fn replace(&mut self) {
        match self {
            Self::Single { server, .. } => server.restart(),
            Self::Pair(pair) => pair.fail_over().await,
        }
    }
}

struct Holders<'a> {
    program: &'a Path,
    store: String,
    resource: String,
    seed: u64,
    running: Vec<Process>,
    lines: mpsc::Receiver<String>,
    sender: mpsc::Sender<String>,
}

impl Holders<'_> {
    fn start(&mut self) -> Process {
        self.seed += 1;
        let mut command = Command::new(self.program);
        let arguments = [self.store.as_str(), &self.resource, &self.seed.to_string()];
        command.arg("lock-holder").args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process::start(&mut command);
        let (output, sender) = (process.stdout.take().expect("it is piped"), self.sender.clone());
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        process
    }
}

/// Disturbs processes that acquire locks, until all acquisitions are made.
pub async fn run(program: &Path, server: Server, plan: &Plan) -> Report {
    let mut store = Store::start(server).await;
    let resource = RedisServer::start(ServerOptions::default());
    let (sender, lines) = mpsc::channel();
    let (seed, store_url, resource_url) = (plan.seed * 1_000_000, store.url(), resource.url());
    let mut holders = Holders {
        program,
        store: store_url,
        resource: resource_url,
        seed,
        running: Vec::new(),
        lines,
        sender,
    };
    for _ in 0..plan.processes {
        let process = holders.start();
        holders.running.push(process);
    }
    let mut dice = fastrand::Rng::with_seed(plan.seed);
    let (mut report, mut disturbances, mut last) = (Report::default(), 0, Instant::now());
    while report.acquisitions < plan.acquisitions {
        let before = report.acquisitions;
        tokio::time::sleep(DISTURB_EVERY).await;
        disturbances += 1;
        disturb(&mut store, &mut holders, &mut dice, disturbances, &mut report).await;
        while let Ok(line) = holders.lines.try_recv() {
            report.note(&line);
        }
        if report.acquisitions > before {
            last = Instant::now();
        } else if last.elapsed() > STALL_MAX {
            report.violations.push("no acquisition for a minute".to_owned());
            break;
        }
    }
    report
}

async fn disturb(
    store: &mut Store,
    holders: &mut Holders<'_>,
    dice: &mut fastrand::Rng,
    number: u64,
    report: &mut Report,
) {
    if number % SERVER_EVERY == SERVER_EVERY / 2 {
        store.replace().await;
        report.servers += 1;
        return;
    }
    let chosen = dice.usize(..holders.running.len());
    match dice.u32(..8) {
        0 => {
            holders.running[chosen].kill();
            holders.running[chosen] = holders.start();
            report.kills += 1;
        }
        1 | 2 => {
            // No other process notices before the lease is over.
            let stopped = &holders.running[chosen];
            stopped.signal("-STOP");
            tokio::time::sleep(TTL + TTL.mul_f64(0.2 + dice.f64())).await;
            stopped.signal("-CONT");
            report.stops += 1;
        }
        3 => report.cuts += u64::from(store.cut()),
        _ => {}
    }
}

impl Report {
    fn note(&mut self, line: &str) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("acquired", count) => self.acquisitions += count.parse::<u64>().unwrap_or(0),
            ("lost", _) => self.losses_seen += 1,
            ("unaware", _) => self.violations.push("the first poll after a stop reports no loss".to_owned()),
            ("refused", _) => self.refused += 1,
            ("alone", _) => self.alone += 1,
            (_, rest) => self.violations.push(rest.to_owned()),
        }
    }
}
