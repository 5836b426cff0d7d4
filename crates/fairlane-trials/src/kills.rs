//! Kills worker processes that work on bulk actions with callbacks, with SIGKILL at random moments.
//!
//! Each round starts processes that open one more bulk action and work on all jobs, and kills them
//! shortly afterwards, wherever they are: while they open it, in a job, an aggregation or a
//! callback. After the last round a worker in this process finishes the remaining work, and then
//! all of this must hold:
//!
//! - every job of every bulk action has reached exactly one end, within its attempts;
//! - every bulk action has completed, its counts and its summary equal a recount;
//! - every callback was delivered at least once, always under the same id;
//! - an audit finds nothing.
//!
//! Moments are drawn from a seed; where in the code they hit depends on the machine.
//! `kills/victim.rs` is the process.

mod victim;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fairlane_core::limits::{LIST_JOBS_MAX, MAX_RETRY_COUNT};
use fairlane_core::queue::*;
use fairlane_engine::Engine;
use fairlane_testkit::receiver::{Receiver, response};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_worker::{Problem, Summary, callback_id};
use tokio::sync::mpsc;

pub use victim::run_victim;
use victim::{GROUP, JOBS, bulk_ref};

const SIGKILL: i32 = 9;
/// The longest life of a victim after it is ready, in milliseconds.
const LIFE_MS_MAX: u64 = 250;
/// The longest time for the remaining jobs after the last kill: leases run out, callbacks are
/// repeated, and the reclaimer waits half a minute after an outage.
const END_LIMIT: Duration = Duration::from_secs(300);
/// One of this many callbacks is answered with an error.
const REFUSED_OF: u32 = 5;
/// The most violations that are recorded.
const VIOLATIONS_MAX: usize = 20;

/// The store under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// A data directory: one process at a time.
    Disk,
    /// A Redis: three processes at a time.
    Redis,
}

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// Number of processes that were killed.
    pub kills: u64,
    /// Number of bulk actions.
    pub bulks: u64,
    /// Jobs of these bulk actions.
    pub jobs: u64,
    /// Jobs that had ended before the last process was killed.
    pub ended_by_victims: u64,
    /// Of these, jobs that succeeded.
    pub succeeded: u64,
    /// Jobs that failed as they should.
    pub failed: u64,
    /// Jobs that lost more leases than they may.
    pub lost: u64,
    /// Number of leases that ran out.
    pub losses: u64,
    /// Callbacks delivered, repetitions included.
    pub callbacks: u64,
    /// The invariants that were violated; empty if all held.
    pub violations: Vec<String>,
}

impl Report {
    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(what());
        }
    }
}

/// The callbacks that were received, by bulk action and id, with their number.
#[derive(Default)]
struct Received {
    ids: BTreeMap<String, BTreeSet<String>>,
    count: u64,
}

/// Starts `program` with the arguments `victim`, an address and numbers, and kills it, in each
/// round.
pub async fn run(program: &Path, store: Store, seed: u64, rounds: u64) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    let server = (store == Store::Redis).then(|| RedisServer::start(ServerOptions::default()));
    let address = server.as_ref().map_or(format!("dir:{}", folder.path().display()), RedisServer::url);
    let received: Arc<Mutex<Received>> = Arc::default();
    let receiver = receive(received.clone());
    let callback = receiver.url("/");
    let mut report = Report { bulks: rounds, ..Report::default() };
    let mut random = fastrand::Rng::with_seed(seed);
    let mut sealed = 0;
    for round in 0..rounds {
        let helpers = if store == Store::Redis { random.u64(0..=2) } else { 0 };
        let mut victims: Vec<Victim> = Vec::new();
        for number in 0..=helpers {
            // Only the first one makes bulk actions; those without a line about their seal are made
            // again.
            let made = if number == 0 { (sealed, round + 1) } else { (0, 0) };
            victims.push(Victim::start(program, &address, &callback, made));
        }
        let life = Duration::from_millis(random.u64(1..=LIFE_MS_MAX));
        let (is_ready, sealed_now) = victims[0].live(life).await;
        sealed = sealed.max(sealed_now);
        report.expect(is_ready, || format!("round {round}: a process did not start after the last kill"));
        for victim in &mut victims {
            let killed = victim.kill();
            report.expect(killed, || format!("round {round}: a process had ended before it was killed"));
            report.kills += 1;
        }
    }
    let engine = fairlane_engine::open(&address, Settings::default()).await.expect("it opens after a kill");
    victim::make_bulks(&engine, &callback, sealed, rounds, |_| {}).await;
    report.ended_by_victims = ended(&engine, rounds).await;
    end_all(&engine, rounds, &mut report).await;
    check(&engine, rounds, &received, &mut report).await;
    report
}

fn receive(received: Arc<Mutex<Received>>) -> Receiver {
    Receiver::handling(move |request| {
        let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let bulk = body["data"]["id"].as_str().unwrap_or("?").to_owned();
        let id = request.header("webhook-id").unwrap_or("none").to_owned();
        let mut received = received.lock().expect("no holder of the lock panics");
        received.count += 1;
        received.ids.entry(bulk).or_default().insert(id);
        let is_refused = fastrand::u32(0..REFUSED_OF) == 0;
        std::future::ready(response(if is_refused { "503 Refused" } else { "200 OK" }, &[], ""))
    })
}

struct Victim {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Victim {
    fn start(program: &Path, address: &str, callback: &str, made: (u64, u64)) -> Self {
        let mut child = Command::new(program)
            .args(["victim", address, callback, &made.0.to_string(), &made.1.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let (sender, lines) = mpsc::unbounded_channel();
        let output = child.stdout.take().expect("it is piped");
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// Waits until the victim works and then for its life; returns whether it worked, and how many
    /// bulk actions are sealed for sure.
    async fn live(&mut self, life: Duration) -> (bool, u64) {
        let (mut is_ready, mut sealed) = (false, 0);
        let mut end = tokio::time::Instant::now() + Duration::from_secs(60);
        while let Ok(Some(line)) = tokio::time::timeout_at(end, self.lines.recv()).await {
            match line.split_once(' ') {
                Some(("sealed", number)) => sealed = number.parse().unwrap_or(sealed),
                _ => (is_ready, end) = (true, tokio::time::Instant::now() + life),
            }
        }
        (is_ready, sealed)
    }

    /// Whether it was killed; not if it had ended by itself.
    fn kill(&mut self) -> bool {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it has ended").signal() == Some(SIGKILL)
    }
}

/// Works in this process until all bulk actions have ended.
async fn end_all(engine: &Arc<dyn Engine>, rounds: u64, report: &mut Report) {
    let pool = victim::worker(engine).start().expect("the settings are valid");
    let started = Instant::now();
    for number in 0..rounds {
        loop {
            let view = bulk(engine, number).await;
            if view.as_ref().is_some_and(|view| view.state.is_final()) {
                break;
            }
            if started.elapsed() > END_LIMIT {
                report.expect(false, || format!("bulk action {number} has not ended: {view:?}"));
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    while left(engine).await > 0 && started.elapsed() < END_LIMIT {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let stop = pool.stop().await;
    report.expect(stop.left == 0, || format!("the last worker left {} jobs", stop.left));
    let left = left(engine).await;
    report.expect(left == 0, || format!("{left} jobs or aggregations are left"));
}

async fn ended(engine: &Arc<dyn Engine>, rounds: u64) -> u64 {
    let mut ended = 0;
    for number in 0..rounds {
        let view = bulk(engine, number).await;
        ended += view.map_or(0, |view| view.succeeded + view.failed + view.cancelled);
    }
    ended
}

async fn left(engine: &Arc<dyn Engine>) -> u64 {
    let totals = engine.call(InspectQueue).await.expect("the engine replies");
    totals.backlog + totals.in_flight + totals.aggregating
}

async fn bulk(engine: &Arc<dyn Engine>, number: u64) -> Option<BulkView> {
    engine.call(InspectBulk { bulk: bulk_ref(number) }).await.expect("the engine replies")
}

async fn check(engine: &Arc<dyn Engine>, rounds: u64, received: &Mutex<Received>, report: &mut Report) {
    for number in 0..rounds {
        let Some(view) = bulk(engine, number).await else {
            report.expect(false, || format!("bulk action {number} is gone"));
            continue;
        };
        let jobs = jobs_of(engine, number).await;
        check_bulk(&view, &jobs, report);
        let received = received.lock().expect("no holder of the lock panics");
        let ids = received.ids.get(&view.bulk.id.to_string()).cloned().unwrap_or_default();
        let expected = BTreeSet::from([callback_id(&view)]);
        report.expect(ids == expected, || format!("callbacks of {number}: {ids:?}, expected {expected:?}"));
    }
    report.callbacks = received.lock().expect("no holder of the lock panics").count;
    let audit = engine.audit_all(false, &mut |_| {}).await.expect("the engine replies");
    report.expect(audit.findings.is_empty(), || format!("the audit found {:?}", audit.findings));
}

fn check_bulk(view: &BulkView, jobs: &[JobLine], report: &mut Report) {
    let name = view.bulk.id.to_string();
    report.expect(view.state == BulkState::Completed, || format!("{name} is {view:?}"));
    let ids: BTreeSet<String> = jobs.iter().map(|job| job.job.id.to_string()).collect();
    let all = (0..JOBS).map(|index| format!("{name}-{index}")).collect::<BTreeSet<String>>();
    report.expect(ids == all && jobs.len() == all.len(), || format!("{name} has jobs {ids:?}"));
    let (mut succeeded, mut failed) = (0, 0);
    for job in jobs {
        report.losses += u64::from(job.losses);
        report.expect(job.attempts <= MAX_RETRY_COUNT + 1, || format!("too many attempts: {job:?}"));
        let fails = victim::fails(&job.job.id.to_string());
        match job.state {
            JobState::Completed => {
                succeeded += 1;
                report.expect(!fails, || format!("it should have failed: {job:?}"));
            }
            JobState::Failed => {
                failed += 1;
                let lost = Problem::from_bytes(&job.note).code == "lost";
                report.lost += u64::from(lost);
                report.expect(fails || lost, || format!("it should have succeeded: {job:?}"));
            }
            _ => report.expect(false, || format!("it has not ended: {job:?}")),
        }
    }
    report.jobs += jobs.len() as u64;
    report.succeeded += succeeded;
    report.failed += failed;
    let counts = (view.total, view.succeeded, view.failed, view.cancelled);
    let recount = (jobs.len() as u64, succeeded, failed, 0);
    report.expect(counts == recount, || format!("{name} counts {counts:?}, a recount {recount:?}"));
    let summary: Summary = serde_json::from_slice(&view.summary).unwrap_or_default();
    let summed = (summary.total, summary.succeeded, summary.failed, summary.cancelled);
    report.expect(summed == recount, || format!("{name} sums up to {summed:?}, a recount to {recount:?}"));
}

async fn jobs_of(engine: &Arc<dyn Engine>, number: u64) -> Vec<JobLine> {
    let (mut jobs, mut cursor) = (Vec::new(), Some(0));
    while let Some(from) = cursor {
        let listing = Listing::OfBulk(bulk_ref(number));
        let page = ListJobs { listing, group: None, type_id: None, cursor: from, limit: LIST_JOBS_MAX };
        let page = engine.call(page).await.expect("the engine replies");
        jobs.extend(page.jobs);
        cursor = page.next;
    }
    debug_assert!(jobs.iter().all(|job| job.job.group.to_string() == GROUP));
    jobs
}
