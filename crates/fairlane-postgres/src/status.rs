//! Jobs that wait in the outbox, and the transactions that they wait for.

use std::time::Duration;

use fairlane::duration_text;
use fairlane::views::{HorizonHolder, OUTBOX_COUNTED_MAX, OutboxStatus, Time};
use fairlane_core::Micros;
use sqlx::{PgConnection, Row};

use crate::error::Error;
use crate::sql::{Database, SHARDS, sql};

/// Counting of rows stops at this number.
pub(crate) const COUNTED_MAX: i64 = OUTBOX_COUNTED_MAX as i64;
/// Most transactions that are listed.
const HOLDERS_MAX: i64 = 10;
/// Longest query text that is shown, in characters.
const QUERY_CHARS_MAX: i32 = 200;

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
        (extract(epoch FROM xact_start) * 1000000)::bigint AS since,
        coalesce(left(query, $1), '') AS query
    FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
    UNION ALL
    SELECT NULL, gid, database::text, owner::text, '', 'prepared', age(transaction),
        extract(epoch FROM clock_timestamp() - prepared)::double precision,
        (extract(epoch FROM prepared) * 1000000)::bigint, ''
    FROM pg_prepared_xacts
) AS holders
ORDER BY xid_age DESC LIMIT $2";

pub(crate) async fn read(database: &Database) -> Result<OutboxStatus, Error> {
    let mut transaction = database.begin().await?;
    let (status, _) = database.in_time(read_in(transaction.connection())).await?;
    transaction.commit().await?;
    Ok(status)
}

/// The status and the transactions that hold jobs back, read in this transaction.
pub(crate) async fn read_in(
    transaction: &mut PgConnection,
) -> Result<(OutboxStatus, Vec<HorizonHolder>), Error> {
    let row = sql(STATUS).bind(COUNTED_MAX).bind(SHARDS).fetch_one(&mut *transaction).await?;
    let count = |name: &str| row.get::<i64, _>(name) as u64;
    let holders = holders_in(transaction).await?;
    let status = OutboxStatus {
        rows: count("rows"),
        ready: count("ready"),
        lag_seconds: row.get("lag"),
        horizon_age_seconds: holders.first().map_or(0.0, |holder| holder.age_seconds),
        open_jobs: count("open"),
    };
    Ok((status, holders))
}

pub(crate) async fn horizon_holders(database: &Database) -> Result<Vec<HorizonHolder>, Error> {
    let mut transaction = database.begin().await?;
    let holders = database.in_time(holders_in(transaction.connection())).await?;
    transaction.commit().await?;
    Ok(holders)
}

async fn holders_in(transaction: &mut PgConnection) -> Result<Vec<HorizonHolder>, Error> {
    let rows = sql(HOLDERS).bind(QUERY_CHARS_MAX).bind(HOLDERS_MAX).fetch_all(transaction).await?;
    let holder = |row: sqlx::postgres::PgRow| HorizonHolder {
        pid: row.get("pid"),
        prepared: row.get("prepared"),
        database: row.get("database"),
        user: row.get("usename"),
        application: row.get("application"),
        state: row.get("state"),
        since: row.get::<Option<i64>, _>("since").map(|micros| Time(Micros(micros as u64))),
        age_seconds: row.get("age"),
        query: row.get("query"),
    };
    Ok(rows.into_iter().map(holder).collect())
}

/// Why committed jobs wait, or that none waits, in words.
pub fn explain(status: &OutboxStatus, holders: &[HorizonHolder]) -> String {
    match (status.rows, status.ready, holders) {
        (0, ..) => "No job waits in the outbox.".to_owned(),
        (rows, 0, [_, ..]) => format!(
            "{} {} for the end of an older transaction, so that no job overtakes another. End it, or run the relay \
             with --order none.",
            jobs(rows),
            if rows == 1 { "waits" } else { "wait" }
        ),
        (rows, 0, []) => format!(
            "{} waited for a transaction that has just ended, or that this user may not see; GRANT pg_monitor shows \
             all.",
            jobs(rows)
        ),
        (_, ready, _) => format!(
            "{} ready, the oldest for {}. Unless it goes down, no relay runs (fairlane outbox relay), its queue is \
             full or does not respond; its log says which.",
            jobs(ready),
            duration_text(Duration::from_millis((status.lag_seconds.max(0.0) * 1000.0) as u64))
        ),
    }
}

/// A number of jobs, of which at most 10,000 are counted.
fn jobs(count: u64) -> String {
    match count {
        1 => "1 job".to_owned(),
        count if count >= OUTBOX_COUNTED_MAX => "10,000 jobs or more".to_owned(),
        count if count >= 1000 => format!("{},{:03} jobs", count / 1000, count % 1000),
        count => format!("{count} jobs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_jobs_are_written_for_people() {
        assert_eq!(
            [1, 999, 1000, 9999, 10_000].map(jobs),
            ["1 job", "999 jobs", "1,000 jobs", "9,999 jobs", "10,000 jobs or more"]
        );
    }
}
