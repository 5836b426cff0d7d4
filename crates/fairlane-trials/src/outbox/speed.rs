//! Measures the cost of a job in a transaction, the rate of a relay, and the time of a job from its
//! commit to its start. Each is compared with a baseline in the same run, in turns.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane::{Context, Fairlane, Settings};
use fairlane_postgres::sqlx::postgres::PgListener;
use fairlane_postgres::sqlx::{self, PgPool};
use fairlane_postgres::{Job, Outbox, Relay, RelaySettings, enqueue_all_in, enqueue_in};
use fairlane_testkit::postgres::PostgresServer;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use serde_json::json;

use super::ground::{self, GROUP, TYPE};

/// The least ratio of the commit rate with a job to that with a plain row.
const COMMIT_RATIO_MIN: f64 = 0.9;
/// The least ratio of the rate of a relay to that of batched INSERTs.
const RELAY_RATIO_MIN: f64 = 0.5;
/// The largest ratio of the time to the start of a job to that of a NOTIFY and a Redis round trip.
const START_RATIO_MAX: f64 = 4.0;
/// Rows of one batched INSERT, as many as a relay passes on at a time.
const BATCH: usize = 500;

/// Tables for comparison: an order, and a row of the size of a job, with columns of the same widths.
const TABLES: &str = "\
CREATE TABLE purchases (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, total int);
CREATE TABLE plain (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, version bigint NOT NULL DEFAULT 1,
    kind smallint NOT NULL DEFAULT 1, created_at timestamptz NOT NULL DEFAULT now(), job jsonb NOT NULL);";

/// The size of the trial.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Length of each measurement of commits, in seconds.
    pub seconds: u64,
    /// Rounds of all measurements; the medians count.
    pub rounds: usize,
    /// Producers at a time.
    pub producers: usize,
    /// Rows that a relay passes on.
    pub rows: usize,
    /// Number of jobs whose time to their start is measured.
    pub starts: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self { seconds: 5, rounds: 3, producers: 64, rows: 20_000, starts: 500 }
    }
}

/// The result of the trial: medians.
#[derive(Debug, Default)]
pub struct Report {
    /// Commits per second: without a second row, with a plain row, with a job, and with a job and
    /// NOTIFY.
    pub commits: [f64; 4],
    /// Rows per second: by batched INSERT, and by the relay.
    pub rows: [f64; 2],
    /// Times in milliseconds: one NOTIFY, one round trip to Redis, and from commit to start.
    pub start_ms: [f64; 3],
}

impl Report {
    fn ratios(&self) -> (f64, f64, f64) {
        let [_, plain, job, _] = self.commits;
        let [notify, redis, start] = self.start_ms;
        (job / plain, self.rows[1] / self.rows[0], start / (notify + redis))
    }

    /// Bounds that were missed.
    pub fn violations(&self) -> Vec<String> {
        let (commits, rows, start) = self.ratios();
        let mut violations = Vec::new();
        if commits < COMMIT_RATIO_MIN {
            violations.push(format!("commits with a job reach {commits:.2} of those with a plain row"));
        }
        if rows < RELAY_RATIO_MIN {
            violations.push(format!("the relay reaches {rows:.2} of batched INSERTs"));
        }
        if start > START_RATIO_MAX {
            violations.push(format!("a job starts after {start:.2} times a NOTIFY and a round trip"));
        }
        violations
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([none, plain, job, notify], [inserts, relay]) = (self.commits, self.rows);
        let (commit_ratio, relay_ratio, start_ratio) = self.ratios();
        let [hop, round_trip, start] = self.start_ms;
        writeln!(
            f,
            "commits a second: {none:.0} without a second row, {plain:.0} with a plain row, {job:.0} with a job \
             ({commit_ratio:.2} of plain, {:.2} of none), {notify:.0} with NOTIFY inside",
            job / none
        )?;
        writeln!(
            f,
            "rows a second: {inserts:.0} by batched INSERT, {relay:.0} by the relay ({relay_ratio:.2})"
        )?;
        write!(
            f,
            "from commit to start: {start:.2} ms; NOTIFY {hop:.2} ms, Redis {round_trip:.2} ms ({start_ratio:.2} times)"
        )
    }
}

/// The second row of a transaction, besides its order.
#[derive(Debug, Clone, Copy)]
enum Second {
    Nothing,
    Plain,
    Job,
    PlainAndNotify,
}

/// Measures everything in turns.
pub async fn run(plan: &Plan) -> Report {
    let (postgres, redis) = (PostgresServer::start_with(&[]), RedisServer::start(ServerOptions::default()));
    let outbox = ground::prepare(&postgres).await;
    postgres.sql(TABLES);
    let settings =
        Settings { group_backlog_max: 10_000_000, queue_backlog_max: 10_000_000, ..Settings::default() };
    let fairlane = Fairlane::open_with(&redis.url(), settings.clone()).await.expect("the queue opens");
    let pool = ground::pool(&postgres, plan.producers).await;
    let mut commits = [const { Vec::new() }; 4];
    let mut rows = [const { Vec::new() }; 2];
    for _ in 0..plan.rounds {
        let kinds = [Second::Nothing, Second::Plain, Second::Job, Second::PlainAndNotify];
        for (kind, rates) in kinds.into_iter().zip(&mut commits) {
            rates.push(commit_rate(&pool, kind, plan).await);
            postgres.sql("TRUNCATE purchases, plain, fairlane_outbox; CHECKPOINT");
        }
        rows[0].push(insert_rate(&outbox, plan.rows).await);
        postgres.sql("TRUNCATE plain; CHECKPOINT");
        rows[1].push(relay_rate(&outbox, &fairlane, plan.rows).await);
        // Also the rows that the relay has deleted, as a vacuum does within a minute.
        postgres.sql("TRUNCATE fairlane_mirror, fairlane_outbox; CHECKPOINT");
        redis.command(&["FLUSHALL"]);
        fairlane.set_queue(settings.clone()).await.expect("the queue replies");
    }
    let start_ms = start_times(&postgres, &redis, &outbox, &fairlane, plan.starts).await;
    Report { commits: commits.map(median), rows: rows.map(median), start_ms }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn payload(number: u64) -> serde_json::Value {
    json!({ "to": "ada@example.com", "subject": "Your order", "number": number, "text": "x".repeat(200) })
}

async fn commit_rate(pool: &PgPool, kind: Second, plan: &Plan) -> f64 {
    let end = Instant::now() + Duration::from_secs(plan.seconds);
    let outbox = Outbox::from_pool(pool.clone());
    let count = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let producers: Vec<_> = (0..plan.producers)
        .map(|producer| {
            let (outbox, count) = (outbox.clone(), count.clone());
            tokio::spawn(async move {
                let mut number = producer as u64;
                while Instant::now() < end {
                    number += 1000;
                    commit(&outbox, kind, number).await.expect("the database replies");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.expect("a producer does not fail");
    }
    count.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64()
}

async fn commit(outbox: &Outbox, kind: Second, number: u64) -> Result<(), fairlane_postgres::Error> {
    let mut transaction = outbox.begin().await?;
    let order = sqlx::query("INSERT INTO purchases (total) VALUES ($1)").bind(number as i32);
    order.execute(&mut *transaction).await?;
    match kind {
        Second::Nothing => {}
        Second::Job => {
            let group = format!("customer-{}", number % 100);
            enqueue_in(&mut transaction, Job::new(group, TYPE, &payload(number))).await?;
            return outbox.commit(transaction).await;
        }
        Second::Plain | Second::PlainAndNotify => {
            let row = json!({ "group": format!("customer-{}", number % 100), "type": TYPE,
                "id": "01890a5d-ac96-774b-bcce-b302099a8057", "payload": payload(number) });
            let insert =
                sqlx::query("INSERT INTO plain (job) VALUES ($1::text::jsonb)").bind(row.to_string());
            insert.execute(&mut *transaction).await?;
        }
    }
    if matches!(kind, Second::PlainAndNotify) {
        sqlx::raw_sql("NOTIFY plain").execute(&mut *transaction).await?;
    }
    Ok(transaction.commit().await?)
}

async fn insert_rate(outbox: &Outbox, rows: usize) -> f64 {
    let started = Instant::now();
    for batch in 0..rows / BATCH {
        let row = |number: usize| {
            let number = (batch * BATCH + number) as u64;
            json!({ "group": GROUP, "type": TYPE, "id": number.to_string(), "payload": payload(number) })
                .to_string()
        };
        let values: Vec<String> = (0..BATCH).map(row).collect();
        let mut transaction = outbox.begin().await.expect("the database replies");
        sqlx::query("INSERT INTO plain (job) SELECT job::jsonb FROM unnest($1::text[]) AS new(job)")
            .bind(values)
            .execute(&mut *transaction)
            .await
            .expect("the rows are valid");
        transaction.commit().await.expect("the database replies");
    }
    rows as f64 / started.elapsed().as_secs_f64()
}

async fn relay_rate(outbox: &Outbox, fairlane: &Fairlane, rows: usize) -> f64 {
    for batch in 0..rows / BATCH {
        let jobs = (0..BATCH).map(|number| {
            let number = (batch * BATCH + number) as u64;
            Job::new(format!("customer-{}", number % 100), TYPE, &payload(number)).id(number.to_string())
        });
        let mut transaction = outbox.begin().await.expect("the database replies");
        enqueue_all_in(&mut transaction, jobs).await.expect("the jobs are valid");
        transaction.commit().await.expect("the database replies");
    }
    let settings = RelaySettings { reconcile_interval: None, ..RelaySettings::default() };
    let relay = Relay::new(outbox, fairlane, settings);
    let started = Instant::now();
    let relayed = relay.drain().await.expect("both reply");
    relayed.passed as f64 / started.elapsed().as_secs_f64()
}

/// The times of one NOTIFY, of one round trip to Redis, and of a job from its commit to its start.
async fn start_times(
    postgres: &PostgresServer,
    redis: &RedisServer,
    outbox: &Outbox,
    fairlane: &Fairlane,
    jobs: usize,
) -> [f64; 3] {
    let mut listener = PgListener::connect(&postgres.url()).await.expect("the database replies");
    listener.listen("hop").await.expect("the database replies");
    let client = redis::Client::open(redis.url()).expect("a valid address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("Redis replies");
    let (starts, mut started) = tokio::sync::mpsc::unbounded_channel::<Instant>();
    let worker = fairlane.worker().process(TYPE, move |_: serde_json::Value, _: Context| {
        let _ = starts.send(Instant::now());
        async {}
    });
    let pool = outbox.mirror(worker, fairlane).start().expect("the settings are valid");
    let settings = RelaySettings { reconcile_interval: None, ..RelaySettings::default() };
    let relay = Relay::new(outbox, fairlane, settings);
    let relaying = tokio::spawn(async move { relay.run(std::future::pending()).await });
    let mut times = [const { Vec::new() }; 3];
    let ms = |since: Instant| since.elapsed().as_secs_f64() * 1000.0;
    for number in 0..jobs {
        let sent = Instant::now();
        sqlx::raw_sql("NOTIFY hop").execute(outbox.pool()).await.expect("the database replies");
        listener.recv().await.expect("the message arrives");
        times[0].push(ms(sent));
        let sent = Instant::now();
        let () = redis::cmd("PING").query_async(&mut connection).await.expect("Redis replies");
        times[1].push(ms(sent));
        let mut transaction = outbox.begin().await.expect("the database replies");
        let job = Job::new(GROUP, TYPE, &number).id(format!("start-{number}"));
        enqueue_in(&mut transaction, job).await.expect("the job is valid");
        outbox.commit(transaction).await.expect("the database replies");
        let committed = Instant::now();
        let start = started.recv().await.expect("the job starts");
        times[2].push(start.saturating_duration_since(committed).as_secs_f64() * 1000.0);
        // Waits, so that the next job finds an idle relay and an idle worker.
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    relaying.abort();
    pool.stop().await;
    times.map(median)
}
