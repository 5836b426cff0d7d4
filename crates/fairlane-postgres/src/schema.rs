//! Creates and upgrades the tables of the outbox, step by step.
//!
//! A step runs in one transaction under a lock that ends with it, so that it works behind PgBouncer
//! and any number of processes may migrate concurrently. Steps are never changed, only added.

use fairlane_core::limits::NAME_BYTES_MAX;
use sqlx::PgPool;

use crate::error::Error;
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

/// Brings the tables up to date; returns the number of steps that were missing.
pub(crate) async fn migrate(pool: &PgPool) -> Result<usize, Error> {
    let mut transaction = pool.begin().await?;
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
