//! Kills producers, relays, workers, PostgreSQL and Redis with SIGKILL at random moments.
//!
//! In each round one of them is killed, wherever it is between BEGIN and the settled job, and is
//! restarted. After the last round every committed job must have ended, and no other job may exist.
//! A data directory belongs to one process, so there the relay and the worker are one process.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fairlane::Fairlane;
use fairlane_testkit::postgres::PostgresServer;
use fairlane_testkit::process::Process;
use fairlane_testkit::redis::{RedisServer, ServerOptions};

use super::ground;
use crate::kills::Store;

/// The longest time between two kills, in milliseconds.
const PAUSE_MS_MAX: u64 = 250;
/// The longest time for the remaining jobs: the reclaimer waits half a minute after an outage.
const END_LIMIT: Duration = Duration::from_secs(240);
/// Number of order numbers that are reserved for each producer.
const NUMBERS: u64 = 100_000;

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// Kills of producers, relays, workers (with the relay on a directory), PostgreSQL and Redis.
    pub kills: [u64; 5],
    /// Orders that were committed.
    pub orders: u64,
    /// Jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that failed, as some should.
    pub failed: u64,
    /// Jobs that had ended before the last kill.
    pub ended_early: u64,
    /// The invariants that were violated; empty if all held.
    pub violations: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [producers, relays, workers, postgres, redis] = self.kills;
        write!(
            f,
            "{} orders committed, {} jobs succeeded, {} failed, {} ended before the last kill; killed: {producers} \
             producers, {relays} relays, {workers} workers, PostgreSQL {postgres} times, Redis {redis} times",
            self.orders, self.succeeded, self.failed, self.ended_early
        )
    }
}

/// The processes that are killed.
struct Victims<'a> {
    program: &'a Path,
    database: String,
    queue: String,
    producers: u64,
    processes: Vec<(&'static str, Process)>,
}

impl Victims<'_> {
    fn start(&mut self, role: &'static str) {
        let first = match role {
            "producer" => {
                self.producers += 1;
                self.producers * NUMBERS
            }
            _ => 0,
        };
        let mut command = Command::new(self.program);
        command.args(["outbox-victim", role, &self.database, &self.queue, &first.to_string()]);
        let mut process = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        std::thread::spawn(move || drop(output.read_line(&mut String::new())));
        self.processes.push((role, process));
    }

    fn replace(&mut self, at: usize) {
        let (role, mut process) = self.processes.swap_remove(at);
        process.kill();
        self.start(role);
    }
}

/// Kills one process or server in each round.
pub async fn run(program: &Path, store: Store, seed: u64, rounds: u64) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    let mut postgres = PostgresServer::start();
    let outbox = ground::prepare(&postgres).await;
    let options = ServerOptions { durable: true, ..ServerOptions::default() };
    let mut redis = (store == Store::Redis).then(|| RedisServer::start(options));
    let queue = redis.as_ref().map_or(format!("dir:{}", folder.path().display()), RedisServer::url);
    let (database, processes) = (postgres.url(), Vec::new());
    let mut victims = Victims { program, database, queue: queue.clone(), producers: 0, processes };
    let roles: &[&str] = match store {
        Store::Disk => &["producer", "producer", "both"],
        Store::Redis => &["producer", "producer", "relay", "relay", "worker", "worker"],
    };
    roles.iter().for_each(|role| victims.start(role));
    let mut report = Report::default();
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..rounds {
        tokio::time::sleep(Duration::from_millis(random.u64(1..=PAUSE_MS_MAX))).await;
        let servers = if redis.is_some() { 2 } else { 1 };
        let at = random.usize(0..roles.len() + servers);
        match victims.processes.get(at).map(|(role, _)| *role) {
            Some(role) => {
                victims.replace(at);
                report.kills[["producer", "relay"].iter().position(|one| *one == role).unwrap_or(2)] += 1;
            }
            None if at == roles.len() => {
                postgres.restart();
                report.kills[3] += 1;
            }
            None => {
                redis.as_mut().expect("counted only with Redis").restart();
                report.kills[4] += 1;
            }
        }
    }
    drop(victims);
    let count = |sql: &str| postgres.sql(sql).parse::<u64>().unwrap_or(0);
    report.ended_early = count("SELECT count(*) FROM fairlane_mirror WHERE ended_at IS NOT NULL");
    end_all(&postgres, &outbox, &queue).await;
    ground::check(&postgres, &mut report.violations);
    report.orders = count("SELECT count(*) FROM orders");
    report.succeeded = count("SELECT count(*) FROM fairlane_mirror WHERE status = 'SUCCEEDED'");
    report.failed = count("SELECT count(*) FROM fairlane_mirror WHERE status = 'FAILED'");
    report
}

/// Passes on and runs the remaining jobs.
async fn end_all(postgres: &PostgresServer, outbox: &fairlane_postgres::Outbox, queue: &str) {
    let fairlane = Fairlane::open(queue).await.expect("it opens after a kill");
    let pool = ground::worker(outbox, &fairlane);
    let relay = ground::relay(outbox, &fairlane);
    let ended = async {
        let deadline = Instant::now() + END_LIMIT;
        while postgres.sql(ground::UNFINISHED) != "0" && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    relay.run(ended).await.expect("the tables exist");
    pool.stop().await;
}
