//! Many producers of one group, and several relays: each producer's jobs must arrive in the order of
//! its commits.

use std::fmt;
use std::time::{Duration, Instant};

use fairlane::{Fairlane, Settings, TypeId};
use fairlane_core::WorkerId;
use fairlane_engine::Leaser;
use fairlane_postgres::sqlx;
use fairlane_postgres::{Job, Outbox, Relay, RelaySettings, enqueue_in};
use fairlane_testkit::postgres::PostgresServer;
use fairlane_testkit::redis::{RedisServer, ServerOptions};

use super::ground::{self, GROUP, TYPE};

/// Most violations that are listed.
const VIOLATIONS_MAX: usize = 10;

/// The size of the trial.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Number of jobs in total.
    pub jobs: u64,
    /// Producers at a time.
    pub producers: u64,
    /// Relays at a time.
    pub relays: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self { jobs: 100_000, producers: 64, relays: 4 }
    }
}

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// Jobs that arrived.
    pub jobs: u64,
    /// Time from the first transaction to the last job in the queue.
    pub took: Duration,
    /// Jobs out of order, or missing; empty if there are none.
    pub violations: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.jobs as f64 / self.took.as_secs_f64();
        write!(f, "{} jobs arrived in {:.1} s, {rate:.0} a second", self.jobs, self.took.as_secs_f64())
    }
}

/// Produces and relays at the same time, then reads the queue in its order.
pub async fn run(plan: &Plan) -> Report {
    let (postgres, redis) = (PostgresServer::start(), RedisServer::start(ServerOptions::default()));
    ground::prepare(&postgres).await;
    let room = plan.jobs + plan.producers;
    let settings = Settings { group_backlog_max: room, queue_backlog_max: room, ..Settings::default() };
    let fairlane = Fairlane::open_with(&redis.url(), settings).await.expect("the queue opens");
    let (started, pool) = (Instant::now(), ground::pool(&postgres, plan.producers as usize).await);
    let each = plan.jobs.div_ceil(plan.producers);
    let producers: Vec<_> = (0..plan.producers)
        .map(|producer| tokio::spawn(produce(Outbox::from_pool(pool.clone()), producer, each)))
        .collect();
    let mut relays = Vec::new();
    for _ in 0..plan.relays {
        let outbox = Outbox::connect(&postgres.url()).await.expect("the database replies");
        let settings = RelaySettings { reconcile_interval: None, ..RelaySettings::default() };
        let relay = Relay::new(&outbox, &fairlane, settings);
        relays.push(tokio::spawn(async move { relay.run(std::future::pending()).await }));
    }
    for producer in producers {
        producer.await.expect("a producer does not fail");
    }
    while postgres.sql("SELECT count(*) FROM (SELECT FROM fairlane_outbox LIMIT 1) AS rest") != "0" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut report = Report { took: started.elapsed(), ..Report::default() };
    relays.iter().for_each(tokio::task::JoinHandle::abort);
    read(&fairlane, each, plan.producers, &mut report).await;
    report
}

async fn produce(outbox: Outbox, producer: u64, jobs: u64) {
    for number in 0..jobs {
        let id = format!("{producer}-{number}");
        let mut transaction = outbox.begin().await.expect("the database replies");
        let order = sqlx::query("INSERT INTO orders VALUES ($1)").bind(&id);
        order.execute(&mut *transaction).await.expect("the order is new");
        enqueue_in(&mut transaction, Job::new(GROUP, TYPE, &number).id(id)).await.expect("the job is valid");
        outbox.commit(transaction).await.expect("the database replies");
    }
}

/// Leases all jobs and compares the numbers of each producer.
async fn read(fairlane: &Fairlane, each: u64, producers: u64, report: &mut Report) {
    let worker = WorkerId::new("reader").expect("a plain word");
    let mut leaser = Leaser::new(fairlane.engine().clone(), worker);
    let types = [TypeId::new(TYPE).expect("a plain word")];
    let mut next = vec![0_u64; producers as usize];
    loop {
        let batch = leaser.lease(&types, 500, 900_000).await.expect("the queue replies");
        if batch.jobs.is_empty() {
            break;
        }
        for job in &batch.jobs {
            report.jobs += 1;
            let id = job.job.id.to_string();
            let numbers = id.split_once('-').map(|(a, b)| (a.parse::<usize>(), b.parse::<u64>()));
            let Some((Ok(producer), Ok(number))) = numbers else { continue };
            if number != next[producer] && report.violations.len() < VIOLATIONS_MAX {
                report.violations.push(format!("{id} came instead of number {}", next[producer]));
            }
            next[producer] = number + 1;
        }
    }
    if report.jobs != each * producers {
        report.violations.push(format!("{} of {} jobs arrived", report.jobs, each * producers));
    }
}
