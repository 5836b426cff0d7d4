//! Many waiters for one lock: their order, the commands that they send, and which of them are
//! woken. Also waiters whose process is killed.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane::{Fairlane, LockOptions};
use fairlane_core::lock::{LockAcquired, Reply as LockReply};
use fairlane_core::{Command as EngineCommand, Reply, lock};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{BoxFuture, Engine, Hooks, layer};
use fairlane_testkit::process::Process;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use tokio::task::JoinSet;

const NAME: &str = "crowd";

/// The size of the crowd.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Waiters of all processes together.
    pub waiters: usize,
    /// Number of clients, each with its own connection and thread, as in separate processes.
    pub processes: usize,
    /// How long all wait before the first release.
    pub quiet: Duration,
}

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// Commands per second and process while all wait.
    pub quiet_each_second: f64,
    /// Commands per grant from the first release to the last, without those that keep waiters
    /// alive.
    pub per_grant: f64,
    /// Tries to acquire per grant, from the first release to the last.
    pub tries_per_grant: f64,
    /// Grants per second.
    pub grants_each_second: f64,
    /// Connections for messages: beside the processes that wait, one has used the lock before.
    pub subscribers: usize,
    /// Connections for messages when no process waits any more.
    pub subscribers_after: usize,
    /// The invariants that were violated.
    pub violations: Vec<String>,
}

/// The commands that all processes sent to the engine.
#[derive(Default)]
struct Log {
    commands: u64,
    tries: u64,
    /// The place of each token when it registered.
    places: HashMap<String, u64>,
    /// The places in the order in which releases were sent, which is the order of the grants.
    released: Vec<u64>,
}

impl Log {
    /// Records a command before it is sent, and returns the token of an acquisition.
    fn note_command(&mut self, command: &EngineCommand) -> Option<String> {
        self.commands += 1;
        match command.lock()? {
            lock::Command::AcquireLock(acquire) => {
                self.tries += 1;
                Some(acquire.token.to_string())
            }
            lock::Command::ReleaseLock(release) => {
                self.released.extend(self.places.get(&release.token.to_string()));
                None
            }
            _ => None,
        }
    }

    fn note_reply(&mut self, token: String, reply: &Reply) {
        if let Some(LockReply::AcquireLock(LockAcquired::Waiting { position, .. })) = reply.lock() {
            self.places.entry(token).or_insert(*position);
        }
    }
}

/// Lets a crowd wait in first-come order, and releases the lock.
pub async fn run(plan: &Plan) -> Report {
    let server = RedisServer::start(ServerOptions::default());
    let log = Arc::new(Mutex::new(Log::default()));
    let mut processes = Vec::new();
    for _ in 0..plan.processes {
        processes.push(logged(&server, &log).await);
    }
    let holder = Fairlane::open(&server.url()).await.expect("the server runs");
    let long = Duration::from_secs(600);
    let options = LockOptions { max_wait: long, ttl: long, fair: true, ..LockOptions::default() };
    let guard = holder.lock(NAME).options(options.clone()).lock().await.expect("the lock is free");
    let mut waiting = JoinSet::new();
    for number in 0..plan.waiters {
        let lock = processes[number % plan.processes].lock(NAME).options(options.clone());
        waiting.spawn(async move { lock.lock().await?.release().await });
    }
    wait_for(&holder, NAME, plan.waiters as u64).await;
    let mut report = Report { subscribers: subscribers(&server), ..Report::default() };
    let count = || {
        let log = log.lock().expect("no holder of the lock panics");
        (log.commands, log.tries)
    };
    let before = count();
    tokio::time::sleep(plan.quiet).await;
    let (commands, tries) = count();
    report.quiet_each_second =
        (commands - before.0) as f64 / plan.quiet.as_secs_f64() / plan.processes as f64;
    let began = Instant::now();
    guard.release().await.expect("the server replies");
    for result in waiting.join_all().await {
        if !matches!(result, Ok(true)) {
            report.violations.push(format!("a waiter ended with {result:?}"));
        }
    }
    let (took, grants) = (began.elapsed().as_secs_f64(), plan.waiters as f64);
    let (commands, tries) = (count().0 - commands, count().1 - tries);
    report.per_grant = (commands as f64 - 3.0 * took * plan.processes as f64).max(0.0) / grants;
    report.tries_per_grant = tries as f64 / grants;
    report.grants_each_second = grants / took;
    tokio::time::sleep(Duration::from_secs(1)).await;
    report.subscribers_after = subscribers(&server);
    let log = log.lock().expect("no holder of the lock panics");
    if !log.released.is_sorted() || log.released.len() != plan.waiters {
        report.violations.push(format!("{} grants are not in the order of their places", log.released.len()));
    }
    report
}

/// A process whose commands are logged.
async fn logged(server: &RedisServer, log: &Arc<Mutex<Log>>) -> Fairlane {
    let engine = RedisEngine::connect(&server.url(), RedisOptions::default()).await;
    let log = log.clone();
    let submit = move |engine: Arc<dyn Engine>, command: EngineCommand| -> BoxFuture<'static, _> {
        let log = log.clone();
        let token = log.lock().expect("no holder of the lock panics").note_command(&command);
        Box::pin(async move {
            let reply = engine.submit(command).await;
            if let (Some(token), Ok(reply)) = (token, &reply) {
                log.lock().expect("no holder of the lock panics").note_reply(token, reply);
            }
            reply
        })
    };
    Fairlane::from_engine(layer(Arc::new(engine.expect("the server runs")), Hooks::default().submit(submit)))
}

pub(super) async fn wait_for(fairlane: &Fairlane, name: &str, waiters: u64) {
    let lock = fairlane.lock(name);
    while lock.view().await.expect("the server replies").is_none_or(|lock| lock.waiters < waiters) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The number of connections that are subscribed to a channel.
fn subscribers(server: &RedisServer) -> usize {
    let clients = server.command(&["CLIENT", "LIST"]);
    clients.lines().filter(|line| line.contains(" sub=") && !line.contains(" sub=0 ")).count()
}

/// How long a waiter waits behind a line of waiters whose process is killed, from the release.
pub async fn killed_waiters(program: &Path, waiters: u64) -> Duration {
    let server = RedisServer::start(ServerOptions::default());
    let fairlane = Fairlane::open(&server.url()).await.expect("the server runs");
    let guard = fairlane.lock(NAME).lock().await.expect("the lock is free");
    let arguments = [server.url(), NAME.to_owned(), waiters.to_string()];
    let mut killed = Process::start(Command::new(program).arg("lock-waiters").args(arguments));
    wait_for(&fairlane, NAME, waiters).await;
    let long = Duration::from_secs(60);
    let options = LockOptions { max_wait: long, fair: true, ..LockOptions::default() };
    let behind = fairlane.lock(NAME).options(options);
    let waiting = tokio::spawn(async move { behind.lock().await });
    wait_for(&fairlane, NAME, waiters + 1).await;
    killed.kill();
    let began = Instant::now();
    guard.release().await.expect("the server replies");
    let next = waiting.await.expect("the waiter does not panic").expect("the lock passes on");
    let took = began.elapsed();
    next.release().await.expect("the server replies");
    took
}
