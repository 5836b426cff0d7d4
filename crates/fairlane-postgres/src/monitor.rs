//! The state of an outbox for a dashboard, which polls it.
//!
//! Invariant: a reading takes one connection and a bounded time of the database, however many jobs
//! there are. A connection whose reading fails, or is dropped before its end, is not used again.

use fairlane::views::{MirrorCounts, OutboxFailureView, OutboxView, Time};
use fairlane_core::Micros;
use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{ConnectOptions, Connection, PgConnection, Row};
use tokio::sync::Mutex;

use crate::error::Error;
use crate::outbox::connect_options;
use crate::relay::APPLICATION;
use crate::sql::sql;
use crate::status::{COUNTED_MAX, explain, read_in};

/// Most failed jobs that are read.
const FAILED_MAX: i64 = 50;
/// Longest message of an error that is read, in characters.
const MESSAGE_CHARS_MAX: i32 = 500;
/// Longest payload that is read, in characters.
const PAYLOAD_CHARS_MAX: i32 = 1000;

/// Makes a reading read-only, and cancels its statements after three seconds.
const BOUNDS: &str = "SET TRANSACTION READ ONLY; SET LOCAL statement_timeout = 3000";

const COUNTS: &str = "\
SELECT * FROM (
    SELECT count(*) FILTER (WHERE status = 'QUEUED') AS queued,
        count(*) FILTER (WHERE status = 'RUNNING') AS running
    FROM (SELECT status FROM fairlane_mirror WHERE ended_at IS NULL ORDER BY number LIMIT $1) AS oldest
) AS open, (
    SELECT count(*) FILTER (WHERE status = 'SUCCEEDED') AS succeeded,
        count(*) FILTER (WHERE status = 'FAILED') AS failed
    FROM (SELECT status FROM fairlane_mirror WHERE ended_at IS NOT NULL ORDER BY ended_at DESC LIMIT $1) AS newest
) AS ended, (
    SELECT count(*) AS relays FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = $2
) AS listening";

const FAILED: &str = "\
SELECT group_id, id, type, attempts, coalesce(error->>'code', '') AS code,
    left(coalesce(error->>'message', ''), $2) AS message,
    left(coalesce(job->'payload', job->'payload_base64')::text, $3) AS payload,
    (extract(epoch FROM ended_at) * 1000000)::bigint AS ended_at
FROM fairlane_mirror WHERE ended_at IS NOT NULL AND error IS NOT NULL AND status = 'FAILED'
ORDER BY ended_at DESC LIMIT $1";

/// Reads the state of an outbox over one connection, which it opens when it is needed.
pub struct OutboxMonitor {
    options: PgConnectOptions,
    connection: Mutex<Option<PgConnection>>,
}

impl OutboxMonitor {
    /// A monitor of the outbox in the database at this address, which need not reply yet.
    pub fn new(url: &str) -> Result<Self, Error> {
        Ok(Self { options: connect_options(url)?, connection: Mutex::default() })
    }

    /// Reads the state once. The caller bounds the time for which it waits for a database that does
    /// not reply.
    pub async fn read(&self) -> Result<OutboxView, Error> {
        let mut kept = self.connection.lock().await;
        if let Some(mut connection) = kept.take() {
            match read(&mut connection).await {
                Ok(view) => {
                    *kept = Some(connection);
                    return Ok(view);
                }
                Err(error) if is_timeout(&error) => return Err(error),
                // The connection may have been lost since the last reading, so it is tried again.
                Err(_) => {}
            }
        }
        let mut connection = self.options.connect().await?;
        let view = read(&mut connection).await?;
        *kept = Some(connection);
        Ok(view)
    }
}

async fn read(connection: &mut PgConnection) -> Result<OutboxView, Error> {
    let mut transaction = connection.begin().await?;
    sqlx::raw_sql(BOUNDS).execute(&mut *transaction).await?;
    let (status, holders) = read_in(&mut transaction).await?;
    let counts = sql(COUNTS).bind(COUNTED_MAX).bind(APPLICATION).fetch_one(&mut *transaction).await?;
    let failed = sql(FAILED)
        .bind(FAILED_MAX)
        .bind(MESSAGE_CHARS_MAX)
        .bind(PAYLOAD_CHARS_MAX)
        .fetch_all(&mut *transaction)
        .await?;
    transaction.commit().await?;
    let count = |name: &str| counts.get::<i64, _>(name) as u64;
    Ok(OutboxView {
        explanation: explain(&status, &holders),
        status,
        relays: count("relays"),
        mirror: MirrorCounts {
            queued: count("queued"),
            running: count("running"),
            succeeded: count("succeeded"),
            failed: count("failed"),
        },
        holders,
        failed: failed.iter().map(failure).collect(),
    })
}

/// Whether the database cancelled a statement that took too long.
fn is_timeout(error: &Error) -> bool {
    let Error::Database(sqlx::Error::Database(database)) = error else { return false };
    database.code().is_some_and(|code| code == "57014")
}

fn failure(row: &PgRow) -> OutboxFailureView {
    OutboxFailureView {
        group: row.get("group_id"),
        id: row.get("id"),
        job_type: row.get("type"),
        attempts: row.get::<i32, _>("attempts") as u32,
        code: row.get("code"),
        message: row.get("message"),
        payload: row.get("payload"),
        ended_at: Time(Micros(row.get::<i64, _>("ended_at") as u64)),
    }
}
