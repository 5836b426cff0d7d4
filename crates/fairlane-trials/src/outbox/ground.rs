//! The servers and tables that the trials share.

use std::time::Duration;

use fairlane::{Context, Fairlane, Outcome, Pool, RetryPolicy, WorkerSettings};
use fairlane_postgres::sqlx::{self, PgPool, postgres::PgPoolOptions};
use fairlane_postgres::{Error, Job, Outbox, ReconcileSettings, Relay, RelaySettings, enqueue_in};
use fairlane_testkit::postgres::PostgresServer;

/// The type of all jobs.
pub const TYPE: &str = "work";
/// The group of all jobs.
pub const GROUP: &str = "customer";

/// The orders of an application, and a record of every end that was written to the mirror.
const TABLES: &str = "\
CREATE TABLE orders (id text PRIMARY KEY);
CREATE TABLE ends (group_id text, id text, status text);
CREATE FUNCTION record_end() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO ends VALUES (NEW.group_id, NEW.id, NEW.status); RETURN NULL; END $$;
CREATE TRIGGER ends AFTER UPDATE ON fairlane_mirror FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION record_end();
CREATE TRIGGER inserted_ends AFTER INSERT ON fairlane_mirror FOR EACH ROW
    WHEN (NEW.ended_at IS NOT NULL) EXECUTE FUNCTION record_end();";

/// Jobs that have not ended, and rows that a relay has not yet moved: a job may end before that.
pub const UNFINISHED: &str = "\
SELECT (SELECT count(*) FROM fairlane_jobs WHERE ended_at IS NULL) + (SELECT count(*) FROM fairlane_outbox)";

/// Makes the tables of the outbox and of the application.
pub async fn prepare(postgres: &PostgresServer) -> Outbox {
    let outbox = Outbox::connect(&postgres.url()).await.expect("the database replies");
    outbox.migrate().await.expect("the tables can be made");
    postgres.sql(TABLES);
    outbox
}

/// A pool with this many connections.
pub async fn pool(postgres: &PostgresServer, connections: usize) -> PgPool {
    let options = PgPoolOptions::new().max_connections(connections as u32);
    options.test_before_acquire(false).connect(&postgres.url()).await.expect("the database replies")
}

/// Commits an order with its job, or rolls both back.
pub async fn order(outbox: &Outbox, id: &str, is_committed: bool) -> Result<(), Error> {
    let mut transaction = outbox.begin().await?;
    sqlx::query("INSERT INTO orders VALUES ($1)").bind(id).execute(&mut *transaction).await?;
    enqueue_in(&mut transaction, Job::new(GROUP, TYPE, &id).id(id)).await?;
    if is_committed {
        return outbox.commit(transaction).await;
    }
    Ok(transaction.rollback().await?)
}

/// A relay that detects within seconds that the queue has lost jobs.
pub fn relay(outbox: &Outbox, fairlane: &Fairlane) -> Relay {
    let reconcile = ReconcileSettings { stale_after: Duration::from_secs(2), ..ReconcileSettings::default() };
    let reconcile_interval = Some(Duration::from_secs(1));
    Relay::new(outbox, fairlane, RelaySettings { reconcile, reconcile_interval, ..RelaySettings::default() })
}

/// A worker with a mirror and short leases, so that the jobs of a killed worker come back soon.
pub fn worker(outbox: &Outbox, fairlane: &Fairlane) -> Pool {
    let mut settings = WorkerSettings {
        lease: Duration::from_millis(500),
        retry: RetryPolicy { base: Duration::from_millis(5), cap: Duration::from_millis(50) },
        ..WorkerSettings::default()
    };
    settings.loops.reclaim_interval = Duration::from_millis(100);
    let worker = fairlane.worker().settings(settings).process(TYPE, work);
    outbox.mirror(worker, fairlane).start().expect("the settings are valid")
}

async fn work(id: String, job: Context) -> Outcome {
    let kind = kind(&id);
    match kind {
        0 => Outcome::failed("never", "this one never succeeds"),
        1 if job.attempt() == 1 => Outcome::retry("later", "this one succeeds the second time"),
        kind => {
            tokio::time::sleep(Duration::from_millis(u64::from(kind))).await;
            Outcome::done(&kind)
        }
    }
}

/// One of ten kinds of jobs, by id.
pub fn kind(id: &str) -> u32 {
    id.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 10
}

/// Checks that every committed order has a job that has ended and succeeded at most once, and that
/// no other job exists.
pub fn check(postgres: &PostgresServer, violations: &mut Vec<String>) {
    for (what, sql) in [
        (
            "committed orders without an ended job",
            "SELECT count(*) FROM orders o WHERE NOT EXISTS \
             (SELECT FROM fairlane_mirror m WHERE m.id = o.id AND m.ended_at IS NOT NULL)",
        ),
        (
            "jobs of orders that were rolled back",
            "SELECT count(*) FROM fairlane_jobs j WHERE NOT EXISTS (SELECT FROM orders o WHERE o.id = j.id)",
        ),
        (
            "jobs that succeeded more than once",
            "SELECT count(*) FROM (SELECT id FROM ends WHERE status = 'SUCCEEDED' GROUP BY id HAVING count(*) > 1) AS d",
        ),
        (
            "jobs that ended again after a success",
            "SELECT count(*) FROM fairlane_mirror m WHERE m.status <> 'SUCCEEDED' AND EXISTS \
             (SELECT FROM ends e WHERE e.id = m.id AND e.status = 'SUCCEEDED')",
        ),
        ("rows left in the outbox", "SELECT count(*) FROM fairlane_outbox"),
    ] {
        let count = postgres.sql(sql);
        if count != "0" {
            violations.push(format!("{count} {what}"));
        }
    }
}
