//! Jobs that wait in the outbox, and the transactions that they wait for.

use serde::Serialize;
use sqlx::{PgPool, Row};

use crate::error::Error;
use crate::sql::{SHARDS, sql};

/// Rows are counted up to this number.
const COUNTED_MAX: i64 = 10_000;
/// Most transactions that are named.
const HOLDERS_MAX: i64 = 10;
/// Longest query text that is shown, in characters.
const QUERY_CHARS_MAX: i32 = 200;

/// Jobs that wait in the outbox.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutboxStatus {
    /// Committed jobs that no relay has passed on, counted up to 10,000.
    pub rows: u64,
    /// Of these, jobs that a relay may pass on now; the others wait for an open transaction.
    pub ready: u64,
    /// The age of the oldest of them, in seconds.
    pub lag_seconds: f64,
    /// The age of the oldest open transaction that has written, in seconds; 0 if there is none.
    pub horizon_age_seconds: f64,
    /// Jobs that have not ended, by the mirror, counted up to 10,000.
    pub open_jobs: u64,
}

/// An open transaction that has written. Jobs committed after its first write wait for its end, so
/// that no job overtakes another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HorizonHolder {
    /// The process of its connection; `None` for a prepared transaction.
    pub pid: Option<i32>,
    /// The name of a prepared transaction.
    pub prepared: Option<String>,
    /// Its database.
    pub database: String,
    /// Its user.
    pub user: String,
    /// The name that its application gave.
    pub application: String,
    /// The state of its connection, such as `idle in transaction`.
    pub state: String,
    /// How long it has been open, in seconds.
    pub age_seconds: f64,
    /// Its latest statement, truncated.
    pub query: String,
}

const STATUS: &str = "\
SELECT
    (SELECT count(*) FROM (SELECT FROM fairlane_outbox LIMIT $1) AS counted) AS rows,
    (SELECT count(*) FROM (
        SELECT FROM fairlane_outbox
        WHERE xid < pg_snapshot_xmin(pg_current_snapshot()) OR xid >= pg_snapshot_xmax(pg_current_snapshot())
        LIMIT $1
    ) AS counted) AS ready,
    coalesce((
        SELECT extract(epoch FROM clock_timestamp() - min(first.created_at))
        FROM generate_series(0, $2::smallint - 1) AS shards(shard),
        LATERAL (
            SELECT created_at FROM fairlane_outbox o WHERE o.shard = shards.shard::smallint
            ORDER BY xid, id LIMIT 1
        ) AS first
    ), 0)::double precision AS lag,
    (SELECT count(*) FROM (SELECT FROM fairlane_mirror WHERE ended_at IS NULL LIMIT $1) AS counted) AS open";

const HOLDERS: &str = "\
SELECT * FROM (
    SELECT pid, NULL AS prepared, coalesce(datname, '') AS database, coalesce(usename, '') AS usename,
        coalesce(application_name, '') AS application, coalesce(state, '') AS state, age(backend_xid) AS xid_age,
        coalesce(extract(epoch FROM clock_timestamp() - xact_start), 0)::double precision AS age,
        coalesce(left(query, $1), '') AS query
    FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
    UNION ALL
    SELECT NULL, gid, database::text, owner::text, '', 'prepared', age(transaction),
        extract(epoch FROM clock_timestamp() - prepared)::double precision, ''
    FROM pg_prepared_xacts
) AS holders
ORDER BY xid_age DESC LIMIT $2";

pub(crate) async fn read(pool: &PgPool) -> Result<OutboxStatus, Error> {
    let mut transaction = pool.begin().await?;
    let row = sql(STATUS).bind(COUNTED_MAX).bind(SHARDS).fetch_one(&mut *transaction).await?;
    transaction.commit().await?;
    let count = |name: &str| row.get::<i64, _>(name) as u64;
    let holders = horizon_holders(pool).await?;
    Ok(OutboxStatus {
        rows: count("rows"),
        ready: count("ready"),
        lag_seconds: row.get("lag"),
        horizon_age_seconds: holders.first().map_or(0.0, |holder| holder.age_seconds),
        open_jobs: count("open"),
    })
}

pub(crate) async fn horizon_holders(pool: &PgPool) -> Result<Vec<HorizonHolder>, Error> {
    let mut transaction = pool.begin().await?;
    let rows = sql(HOLDERS).bind(QUERY_CHARS_MAX).bind(HOLDERS_MAX).fetch_all(&mut *transaction).await?;
    transaction.commit().await?;
    let holder = |row: sqlx::postgres::PgRow| HorizonHolder {
        pid: row.get("pid"),
        prepared: row.get("prepared"),
        database: row.get("database"),
        user: row.get("usename"),
        application: row.get("application"),
        state: row.get("state"),
        age_seconds: row.get("age"),
        query: row.get("query"),
    };
    Ok(rows.into_iter().map(holder).collect())
}
