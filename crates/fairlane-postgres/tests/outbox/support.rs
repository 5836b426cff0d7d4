//! A database with an outbox, and a queue.

use std::time::Duration;

use fairlane::{Fairlane, Job};
use fairlane_postgres::{Outbox, Relay, RelaySettings, enqueue_in};
use fairlane_testkit::postgres::PostgresServer;

/// A database with an outbox, and a queue in memory.
pub struct Setup {
    pub postgres: PostgresServer,
    pub outbox: Outbox,
    pub fairlane: Fairlane,
}

impl Setup {
    pub async fn new() -> Self {
        Self::with_queue(Fairlane::open("memory:").await.expect("a queue in memory")).await
    }

    pub async fn with_queue(fairlane: Fairlane) -> Self {
        let postgres = PostgresServer::start();
        let outbox = Outbox::connect(&postgres.url()).await.expect("a connection");
        outbox.migrate().await.expect("tables");
        postgres.sql("CREATE TABLE orders (id text PRIMARY KEY)");
        Self { postgres, outbox, fairlane }
    }

    /// A database whose schema has these steps only, as an older version has left it.
    pub async fn with_schema(steps: &[&str]) -> Self {
        let postgres = PostgresServer::start();
        let outbox = Outbox::connect(&postgres.url()).await.expect("a connection");
        postgres.sql("CREATE TABLE fairlane_schema (step integer PRIMARY KEY)");
        for (index, step) in steps.iter().enumerate() {
            postgres.sql(step);
            postgres.sql(&format!("INSERT INTO fairlane_schema VALUES ({})", index + 1));
        }
        let fairlane = Fairlane::open("memory:").await.expect("a queue in memory");
        Self { postgres, outbox, fairlane }
    }

    /// Waits until a relay has passed this many rows on. A transaction of the server itself, such as an
    /// autovacuum, may hold rows back for a moment.
    pub async fn passes(&self, rows: u64) {
        let (relay, mut passed) = (self.relay(), 0);
        fairlane_testkit::wait::until_async("the rows are passed on", async || {
            passed += relay.drain().await.expect("database and queue reply").passed;
            passed >= rows
        })
        .await;
        assert_eq!(passed, rows);
    }

    /// A relay that does not reconcile.
    pub fn relay(&self) -> Relay {
        let settings = RelaySettings { reconcile_interval: None, ..RelaySettings::default() };
        Relay::new(&self.outbox, &self.fairlane, settings)
    }

    /// Commits one job in a transaction of its own.
    pub async fn commit(&self, group: &str, id: &str) {
        let mut transaction = self.outbox.begin().await.expect("a transaction");
        let job = Job::new(group, "mail", &serde_json::json!({ "to": id })).id(id);
        enqueue_in(&mut transaction, job).await.expect("a row");
        self.outbox.commit(transaction).await.expect("a commit");
    }

    pub async fn status(&self, group: &str, id: &str) -> String {
        let job = self.outbox.job(group, id).await.expect("a reply");
        job.map_or("absent".to_owned(), |job| job.status)
    }

    pub async fn is_queued(&self, group: &str, id: &str) -> bool {
        self.fairlane.job(group, id).view().await.expect("a reply").is_some()
    }
}

/// A worker's settings that make failures short.
pub fn quick(settings: &mut fairlane::WorkerSettings) {
    settings.lease = Duration::from_secs(1);
    settings.retry = fairlane::RetryPolicy { base: Duration::from_millis(1), ..settings.retry };
}
