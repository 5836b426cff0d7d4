//! Creates and upgrades the tables of the outbox, step by step.
//!
//! A step runs in one transaction under a lock that ends with it, so that it works behind PgBouncer
//! and any number of processes may migrate concurrently. Steps are never changed, only added.
//!
//! A step may wait for a lock of a table, and every producer then waits behind it. So it waits briefly
//! and gives way before it tries again.

use std::time::{Duration, Instant};

use fairlane_core::limits::NAME_BYTES_MAX;
use fairlane_engine::Backoff;
use sqlx::{PgPool, Row};

use crate::error::Error;
use crate::relay::TARGET;
use crate::sql::{LOCKS, sql};

/// The steps, in order.
const STEPS: [&str; 7] = [
    include_str!("schema/001_outbox_and_mirror.sql"),
    include_str!("schema/002_functions.sql"),
    include_str!("schema/003_failed_jobs.sql"),
    include_str!("schema/004_cheaper_statements.sql"),
    include_str!("schema/005_steady_plans.sql"),
    include_str!("schema/006_fewer_steps.sql"),
    include_str!("schema/007_no_row_stops_others.sql"),
];

// The functions of the steps compare names with this number.
const _: () = assert!(NAME_BYTES_MAX == 128);

/// The number of the migration lock among the advisory locks of the outbox.
const MIGRATION_LOCK: i32 = -1;

/// Bounds how long a statement waits for a lock, and producers behind it.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = 1000";
/// The pauses in which producers go on.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(5));
/// How long a migration tries.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(120);

/// The transactions that have locks of the tables, oldest first, in words.
const HOLDERS: &str = "\
SELECT coalesce(string_agg(holder, '; ' ORDER BY xact_start), 'they have just ended') AS holders FROM (
    SELECT DISTINCT coalesce('process ' || a.pid || ' of ' || coalesce(a.usename, '') || ' (' ||
        coalesce(nullif(a.application_name, ''), 'no application name') || ', ' || coalesce(a.state, 'hidden') || '): ' ||
        left(a.query, 100), 'a prepared transaction') AS holder, a.xact_start
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.relation IN (to_regclass('fairlane_outbox'), to_regclass('fairlane_mirror'))
        AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
    ORDER BY a.xact_start LIMIT 5
) AS oldest";

/// Brings the tables up to date; returns the number of steps that were missing. Waits for
/// transactions that have locks of the tables, for a bounded time.
pub(crate) async fn migrate(pool: &PgPool) -> Result<usize, Error> {
    let (began, mut pauses) = (Instant::now(), PAUSES);
    loop {
        match try_migrate(pool).await {
            Err(error) if is_locked(&error) => {
                let row = sqlx::raw_sql(HOLDERS).fetch_one(pool).await?;
                let holders: String = row.get("holders");
                if began.elapsed() > LOCK_WAIT_MAX {
                    return Err(Error::TablesInUse { holders });
                }
                tracing::warn!(target: TARGET, holders, "the migration waits for transactions that use the tables");
                pauses.sleep().await;
            }
            done => return done,
        }
    }
}

/// Whether a lock was not free in time, or two transactions waited for each other.
fn is_locked(error: &Error) -> bool {
    let Error::Database(sqlx::Error::Database(database)) = error else { return false };
    database.code().is_some_and(|code| code == "55P03" || code == "40P01")
}

async fn try_migrate(pool: &PgPool) -> Result<usize, Error> {
    let mut transaction = pool.begin().await?;
    sqlx::raw_sql(LOCK_TIMEOUT).execute(&mut *transaction).await?;
    sql("SELECT pg_advisory_xact_lock($1, $2)")
        .bind(LOCKS)
        .bind(MIGRATION_LOCK)
        .execute(&mut *transaction)
        .await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS fairlane_schema \
         (step integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())",
    )
    .execute(&mut *transaction)
    .await?;
    let applied = sql("SELECT step FROM fairlane_schema").fetch_all(&mut *transaction).await?.len();
    if applied > STEPS.len() {
        return Err(Error::NewerSchema { applied, known: STEPS.len() });
    }
    for (index, step) in STEPS.iter().enumerate().skip(applied) {
        sqlx::raw_sql(*step).execute(&mut *transaction).await?;
        sql("INSERT INTO fairlane_schema (step) VALUES ($1)")
            .bind(index as i32 + 1)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(STEPS.len() - applied)
}
