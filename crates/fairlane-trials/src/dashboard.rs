//! The dashboard over a large queue on Redis: how long each page takes, how many rows it has, what it
//! costs the engine, and whether many open dashboards cost more than the pages they show.
//!
//! The server is in this process, and its pages are fetched over a connection. Commands are counted
//! by the Redis server itself. Pages that are shown again within a second share a rendering, so a
//! round opens each page once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fairlane::{Fairlane, Job, RoomSettings};
use fairlane_core::queue::{Lease, Leased, LeasedJob, Outcome, Settlement};
use fairlane_core::{RequestNumber, TypeId, WorkerId};
use fairlane_server::{Server, ServerSettings};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use tokio::time::sleep;

use crate::served::client::{Connection, request};

/// The longest time that a page may take.
pub const PAGE_MAX: Duration = Duration::from_millis(200);
/// The most rows that a page may have.
pub const ROWS_MAX: usize = 100;
/// Longer than a server reuses the data that it has read for a page.
const SHARED_FOR: Duration = Duration::from_millis(2100);
/// The time between two refreshes of an open page.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// The percentage of all jobs that belongs to the largest hundredth of the groups.
const LARGE_PERCENT: u64 = 50;
/// Jobs that are enqueued at a time.
const FILLED_AT_ONCE: usize = 20_000;
/// The number of jobs that are leased, and of those that are dead afterwards.
const LEASED: usize = 200;
const DEAD: usize = 150;
/// An allowance for commands that no page causes, such as reading the queue for charts.
const OTHER_COMMANDS: u64 = 20;

/// The size of a run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Groups with unfinished jobs.
    pub groups: u64,
    /// Unfinished jobs.
    pub jobs: u64,
    /// How often each page is opened.
    pub rounds: usize,
    /// Dashboards that are open at once.
    pub open: usize,
    /// How long they are open.
    pub open_for: Duration,
}

/// The measurements of one page.
#[derive(Debug, Clone)]
pub struct PageReport {
    /// The address of the page.
    pub path: String,
    /// The longest time until its last byte.
    pub longest: Duration,
    /// The number of rows in its tables.
    pub rows: usize,
    /// The size of the page, in bytes.
    pub bytes: usize,
    /// The most function calls that one view caused.
    pub calls: u64,
    /// The most commands that these functions executed.
    pub commands: u64,
}

/// The measurements of a run.
#[derive(Debug, Default)]
pub struct Report {
    /// The measurements of each page.
    pub pages: Vec<PageReport>,
    /// The number of distinct pages that open dashboards show.
    pub distinct: usize,
    /// The number of function calls while the dashboards were open.
    pub open_calls: u64,
    /// The most calls that the distinct pages account for.
    pub open_calls_max: u64,
    /// The invariants that were violated; empty if all held.
    pub violations: Vec<String>,
}

/// Fills a queue, opens every page, and then many dashboards at once.
pub async fn run(plan: &Plan) -> Report {
    let redis = RedisServer::start(ServerOptions::default());
    let fairlane = Fairlane::open(&redis.url()).await.expect("Redis is there");
    fill(&fairlane, plan).await;
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(fairlane, any, None, ServerSettings::default()).await.expect("a free port");
    let mut report = Report::default();
    for path in paths(plan) {
        report.pages.push(PageReport {
            path,
            longest: Duration::ZERO,
            rows: 0,
            bytes: 0,
            calls: 0,
            commands: 0,
        });
    }
    for _ in 0..plan.rounds {
        for page in &mut report.pages {
            // Waits until shared data has expired, so that each view has its full cost.
            sleep(SHARED_FOR).await;
            if let Err(violation) = open_once(&redis, server.address(), page).await {
                report.violations.push(violation);
            }
        }
    }
    for page in &report.pages {
        if page.rows > ROWS_MAX {
            report.violations.push(format!("{} has {} rows", page.path, page.rows));
        }
    }
    keep_open(&redis, server.address(), plan, &mut report).await;
    server.stop().await;
    report
}

/// Fills the queue: groups with very different numbers of jobs, some of them leased or dead, a bulk
/// action, a lock, a room and a change.
async fn fill(fairlane: &Fairlane, plan: &Plan) {
    let large = (plan.groups / 100).max(1);
    let of_large = plan.jobs * LARGE_PERCENT / 100 / large;
    let of_small = (plan.jobs - of_large * large) / plan.groups;
    let count = move |group| (of_small + if group < large { of_large } else { 0 }).max(1);
    let mut new = (0..plan.groups).flat_map(|group| {
        let name = group_name(group);
        (0..count(group)).map(move |number| Job::new(&*name, "mail", &number).id(number.to_string()))
    });
    loop {
        let chunk: Vec<Job> = new.by_ref().take(FILLED_AT_ONCE).collect();
        if chunk.is_empty() {
            break;
        }
        fairlane.enqueue_all(chunk).await.expect("the queue has room");
    }
    let bulk = fairlane.bulk(group_name(0), "newsletter").open().await.expect("it is new");
    let members = (0..LEASED).map(|number| bulk.job("mail", &number).id(format!("bulk-{number}")));
    bulk.add_all(members).await.expect("the queue has room");
    end_some(fairlane).await;
    fairlane.room("default").set(RoomSettings::default()).await.expect("a new room");
    let lock = fairlane.lock("trial").ttl(Duration::from_secs(600)).try_lock().await;
    lock.expect("the lock is free").detach().await.expect("it is held");
    fairlane.clone().recording("trial").group(group_name(0)).weight(2).apply().await.expect("it is set");
}

/// Leases some jobs, and lets most of them die.
async fn end_some(fairlane: &Fairlane) {
    let engine = fairlane.engine();
    let lease = Lease {
        worker: WorkerId::new("trial").expect("a plain word"),
        request: RequestNumber(1),
        types: vec![TypeId::new("mail").expect("a plain word")],
        jobs_max: LEASED,
        lease_ms: 600_000,
    };
    let Leased::Jobs { jobs, .. } = engine.call(lease).await.expect("it is answered") else { return };
    let dead = |job: &LeasedJob| Settlement {
        job: job.job.clone(),
        fence: job.fence,
        outcome: Outcome::Failed { reason: b"{\"code\":\"trial\",\"message\":\"refused\"}"[..].into() },
    };
    let settlements = jobs.iter().take(DEAD).map(dead).collect();
    engine.settle_all(settlements).await.expect("it is answered");
}

fn group_name(number: u64) -> String {
    format!("group-{number:06}")
}

/// Every page of the dashboard.
fn paths(plan: &Plan) -> Vec<String> {
    let (first, last) = (group_name(0), group_name(plan.groups - 1));
    [
        "/".to_owned(),
        "/customers".to_owned(),
        "/customers?page=10".to_owned(),
        "/customers?sort=name".to_owned(),
        "/customers?q=group-0".to_owned(),
        format!("/customers/{first}"),
        format!("/customers/{last}"),
        "/jobs".to_owned(),
        format!("/jobs?group={first}"),
        "/jobs?type=mail".to_owned(),
        format!("/jobs/{last}/0"),
        "/dead".to_owned(),
        format!("/bulks?group={first}"),
        format!("/bulks/{first}/newsletter"),
        "/types".to_owned(),
        "/types/mail".to_owned(),
        "/workers".to_owned(),
        "/locks".to_owned(),
        "/rooms".to_owned(),
        "/rooms/default".to_owned(),
        "/rankings".to_owned(),
        "/served".to_owned(),
        "/activity".to_owned(),
        "/audit".to_owned(),
    ]
    .into()
}

async fn open_once(redis: &RedisServer, server: SocketAddr, page: &mut PageReport) -> Result<(), String> {
    let before = Counts::read(redis);
    let start = Instant::now();
    let body = fetch(server, &page.path).await?;
    page.longest = page.longest.max(start.elapsed());
    let after = Counts::read(redis);
    page.calls = page.calls.max(after.calls - before.calls);
    page.commands = page.commands.max(after.commands - before.commands);
    page.rows = page.rows.max(body.matches("<tr").count() - body.matches("<thead").count());
    page.bytes = body.len();
    Ok(())
}

async fn fetch(server: SocketAddr, path: &str) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let mut connection = Connection::open(server).await.map_err(failed)?;
    let response = connection.round_trip(&request("GET", path, None, b"")).await.map_err(failed)?;
    match response.status {
        200 => Ok(String::from_utf8_lossy(response.body).into_owned()),
        status => Err(format!("{path} was answered with {status}")),
    }
}

/// Keeps dashboards open, each on one of the pages, and counts the calls of functions meanwhile.
async fn keep_open(redis: &RedisServer, server: SocketAddr, plan: &Plan, report: &mut Report) {
    let shown: Vec<PageReport> = report.pages.iter().take(5).cloned().collect();
    report.distinct = shown.len();
    sleep(SHARED_FOR).await;
    let (before, start) = (Counts::read(redis), Instant::now());
    let end = start + plan.open_for;
    let dashboards: Vec<_> = (0..plan.open)
        .map(|number| tokio::spawn(watch(server, shown[number % shown.len()].path.clone(), end)))
        .collect();
    for dashboard in dashboards {
        if let Err(violation) = dashboard.await.expect("the dashboard does not panic") {
            report.violations.push(violation);
        }
    }
    let calls = Counts::read(redis).calls - before.calls;
    // A rendering is used for a second, however many dashboards show it.
    let renderings = start.elapsed().as_secs() + 2;
    let of_pages: u64 = shown.iter().map(|page| page.calls * renderings).sum();
    report.open_calls = calls;
    report.open_calls_max = of_pages + OTHER_COMMANDS + renderings;
    if calls > report.open_calls_max {
        report.violations.push(format!(
            "{} dashboards on {} pages took {calls} calls, more than {}",
            plan.open, report.distinct, report.open_calls_max
        ));
    }
}

/// One open dashboard, which fetches its page repeatedly.
async fn watch(server: SocketAddr, path: String, end: Instant) -> Result<(), String> {
    while Instant::now() < end {
        fetch(server, &path).await?;
        sleep(REFRESH_EVERY).await;
    }
    Ok(())
}

/// The numbers of calls and commands that a Redis server has executed so far.
#[derive(Debug, Clone, Copy)]
struct Counts {
    calls: u64,
    commands: u64,
}

impl Counts {
    fn read(redis: &RedisServer) -> Self {
        let stats = redis.command(&["INFO", "commandstats"]);
        let mut counts = Self { calls: 0, commands: 0 };
        for (name, rest) in
            stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="))
        {
            let calls = rest.split(',').next().and_then(|calls| calls.parse().ok()).unwrap_or(0);
            match name {
                "fcall" | "fcall_ro" | "evalsha" | "eval" => counts.calls += calls,
                "info" => {}
                _ => counts.commands += calls,
            }
        }
        counts
    }
}
