//! Servers that are down for a while, a flushed queue, and a transaction left open: processing must
//! resume without intervention.

use std::time::{Duration, Instant};

use fairlane::Fairlane;
use fairlane_postgres::{Outbox, sqlx};
use fairlane_testkit::postgres::PostgresServer;
use fairlane_testkit::redis::{RedisServer, ServerOptions};

use super::ground;

/// The longest time from the end of an outage until all jobs have ended: the reclaimer waits half a
/// minute after an outage of the queue.
const RESUME_LIMIT: Duration = Duration::from_secs(120);

/// The result of the trial.
#[derive(Debug, Default)]
pub struct Report {
    /// A line about each outage.
    pub lines: Vec<String>,
    /// Outages after which processing did not resume; empty if it always did.
    pub violations: Vec<String>,
}

struct Trial {
    postgres: PostgresServer,
    redis: RedisServer,
    outbox: Outbox,
    fairlane: Fairlane,
    seconds: u64,
    number: u64,
    report: Report,
}

/// Runs four outages of this many seconds, one after the other, while orders are committed.
pub async fn run(seconds: u64) -> Report {
    let postgres = PostgresServer::start();
    let redis = RedisServer::start(ServerOptions { durable: true, ..ServerOptions::default() });
    let outbox = ground::prepare(&postgres).await;
    let fairlane = Fairlane::open(&redis.url()).await.expect("the queue opens");
    let relay = ground::relay(&outbox, &fairlane);
    let relaying = tokio::spawn(async move { relay.run(std::future::pending()).await });
    let pool = ground::worker(&outbox, &fairlane);
    let report = Report::default();
    let mut trial = Trial { postgres, redis, outbox, fairlane, seconds, number: 0, report };
    trial.without_postgres().await;
    trial.without_redis().await;
    trial.flushed().await;
    trial.open_transaction().await;
    relaying.abort();
    pool.stop().await;
    ground::check(&trial.postgres, &mut trial.report.violations);
    trial.report
}

impl Trial {
    /// Orders, one after the other, for this long; returns how many were committed.
    async fn orders(&mut self, time: Duration) -> u64 {
        let (end, mut committed) = (Instant::now() + time, 0);
        while Instant::now() < end {
            self.number += 1;
            let id = format!("{:06}", self.number);
            // While the database is down, an order fails within a few seconds.
            committed += u64::from(ground::order(&self.outbox, &id, true).await.is_ok());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        committed
    }

    async fn away(&mut self) -> u64 {
        self.orders(Duration::from_secs(self.seconds)).await
    }

    /// Waits until all jobs have ended, and records how long that took.
    async fn resumed(&mut self, outage: &str, committed: u64) {
        let started = Instant::now();
        while self.postgres.sql(ground::UNFINISHED) != "0" {
            if started.elapsed() > RESUME_LIMIT {
                let left = self.postgres.sql(ground::UNFINISHED);
                return self.report.violations.push(format!("{outage}: {left} jobs have not ended"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let took = started.elapsed().as_secs_f64();
        self.report.lines.push(format!(
            "{outage}: {committed} orders committed meanwhile, all jobs ended {took:.1} s after it"
        ));
    }

    async fn without_postgres(&mut self) {
        self.orders(Duration::from_millis(500)).await;
        self.postgres.kill();
        let committed = self.away().await;
        self.postgres.restart();
        self.resumed("PostgreSQL away", committed).await;
    }

    async fn without_redis(&mut self) {
        self.orders(Duration::from_millis(500)).await;
        self.redis.kill();
        let committed = self.away().await;
        self.redis.restart();
        self.resumed("Redis away", committed).await;
    }

    async fn flushed(&mut self) {
        let committed = self.orders(Duration::from_millis(500)).await;
        self.fairlane.job_type(ground::TYPE).pause().apply().await.expect("the queue replies");
        self.orders(Duration::from_millis(500)).await;
        let waiting = "SELECT count(*) FROM fairlane_outbox";
        while self.postgres.sql(waiting) != "0" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let open = self.postgres.sql("SELECT count(*) FROM fairlane_mirror WHERE ended_at IS NULL");
        self.redis.command(&["FLUSHALL"]);
        self.report.lines.push(format!("Redis flushed with {open} open jobs"));
        self.resumed("Redis flushed", committed).await;
    }

    async fn open_transaction(&mut self) {
        let other = Outbox::connect(&format!("{}&application_name=forgetful", self.postgres.url())).await;
        let other = other.expect("the database replies");
        let mut transaction = other.begin().await.expect("the database replies");
        let order = sqlx::query("INSERT INTO orders VALUES ('never')");
        order.execute(&mut *transaction).await.expect("the order is new");
        let committed = self.away().await;
        let waiting = self.outbox.status().await.expect("the database replies");
        let holders = self.outbox.horizon_holders().await.expect("the database replies");
        match holders.first() {
            Some(holder) if holder.application == "forgetful" && waiting.ready == 0 => {
                self.report.lines.push(format!(
                    "a transaction open for {:.0} s held {} jobs back; why names pid {:?} of {}: {}",
                    holder.age_seconds, waiting.rows, holder.pid, holder.application, holder.query
                ));
            }
            other => self.report.violations.push(format!("why names {other:?} with {waiting:?}")),
        }
        transaction.rollback().await.expect("the database replies");
        self.resumed("transaction left open", committed).await;
    }
}
