//! Batches of rows: read from a shard in the order of commits, and moved to the mirror.
//!
//! Ids of rows are drawn before the commit, so a row with a smaller id can appear after one with a
//! larger id. A row is read only when every transaction that began to write before its own has
//! ended; then no row before it can appear any more. Reading takes no lock on rows: that would give
//! the relay's transaction an id, and make relays wait for each other.

use fairlane::NdjsonReader;
use fairlane_core::queue::NewJob;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, PgPool, Row};

use super::send::RowEnd;
use super::{Order, Relayed};
use crate::encoding::{error_to_json, without_nul};
use crate::error::Error;
use crate::sql::{LOCKS, sql};

/// Most rows in one batch.
const BATCH_ROWS: i64 = 500;
/// A batch ends when its jobs have this many bytes as JSON.
const BATCH_BYTES: i64 = 8 * 1024 * 1024;

/// One simple query: a single round trip, also behind PgBouncer.
const SHARDS_WITH_ROWS: &str = "\
SELECT shard::smallint AS shard FROM generate_series(0, 15) AS shards(shard)
WHERE EXISTS (SELECT FROM fairlane_outbox o WHERE o.shard = shards.shard::smallint)";

const LOCK: &str = "\
SELECT CASE WHEN $3 THEN pg_try_advisory_xact_lock($1, $2) ELSE true END AS locked,
    set_config('enable_bitmapscan', 'off', true), set_config('enable_sort', 'off', true),
    set_config('enable_seqscan', 'off', true)";

/// A batch that is sent again later than a minute after its commit is compared with the mirror
/// first: the queue forgets the ids of ended jobs after a while. Rows at or above the end of the
/// snapshot come from the dump of another server.
const READ_IN_ORDER: &str = "\
SELECT * FROM (
    SELECT picked.*, sum(octet_length(picked.job)) OVER (ROWS UNBOUNDED PRECEDING)
        - octet_length(picked.job) AS bytes_before
    FROM (
        (SELECT o.xid::text AS xid_text, o.id, o.job->>'group' AS group_id, (o.job - 'group')::text AS job,
            CASE WHEN o.created_at < now() - interval '1 minute' THEN EXISTS (
                SELECT FROM fairlane_mirror m
                WHERE m.group_id = o.job->>'group' AND m.id = coalesce(o.job->>'id', o.xid || '-' || o.id)
                    AND m.ended_at IS NOT NULL
            ) ELSE false END AS has_ended
        FROM fairlane_outbox o
        WHERE o.shard = $1 AND o.xid < pg_snapshot_xmin(pg_current_snapshot())
            AND NOT o.job->>'group' = ANY($2)
        ORDER BY o.xid, o.id LIMIT $3)
        UNION ALL
        (SELECT o.xid::text, o.id, o.job->>'group', (o.job - 'group')::text, EXISTS (
            SELECT FROM fairlane_mirror m
            WHERE m.group_id = o.job->>'group' AND m.id = coalesce(o.job->>'id', o.xid || '-' || o.id)
                AND m.ended_at IS NOT NULL
        )
        FROM fairlane_outbox o
        WHERE o.shard = $1 AND o.xid >= pg_snapshot_xmax(pg_current_snapshot())
            AND NOT o.job->>'group' = ANY($2)
        ORDER BY o.xid, o.id LIMIT $3)
        LIMIT $3
    ) AS picked
) AS bounded
WHERE bytes_before < $4";

const READ_UNORDERED: &str = "\
SELECT o.xid::text AS xid_text, o.id, o.job->>'group' AS group_id, (o.job - 'group')::text AS job,
    o.created_at < now() - interval '1 minute' AND EXISTS (
        SELECT FROM fairlane_mirror m
        WHERE m.group_id = o.job->>'group' AND m.id = coalesce(o.job->>'id', o.xid || '-' || o.id)
            AND m.ended_at IS NOT NULL
    ) AS has_ended
FROM fairlane_outbox o
WHERE o.shard = $1 AND NOT o.job->>'group' = ANY($2)
ORDER BY o.xid, o.id LIMIT $3
FOR UPDATE OF o SKIP LOCKED";

/// A worker may have begun a job already; then its row in the mirror gets the job.
const MOVE: &str = "\
WITH gone AS (
    DELETE FROM fairlane_outbox o
    USING unnest($2::text[], $3::bigint[], $4::text[], $5::text[]) AS done(xid, id, error, name)
    WHERE o.shard = $1 AND o.xid = done.xid::xid8 AND o.id = done.id
    RETURNING o.xid, o.id, o.job, o.created_at, done.error, coalesce(
        done.name, o.job->>'id', o.xid || '-' || o.id
    ) AS name
), first AS (
    SELECT DISTINCT ON (job->>'group', name) * FROM gone ORDER BY job->>'group', name, xid, id
)
INSERT INTO fairlane_mirror AS m (group_id, id, type, status, job, error, queued_at, ended_at)
SELECT job->>'group', name, job->>'type', CASE WHEN error IS NULL THEN 'QUEUED' ELSE 'FAILED' END,
    job, error::jsonb, created_at, CASE WHEN error IS NOT NULL THEN now() END
FROM first ORDER BY xid, id
ON CONFLICT (group_id, id) DO UPDATE SET job = EXCLUDED.job, queued_at = EXCLUDED.queued_at
WHERE m.job IS NULL";

/// A committed job that waits in the outbox.
pub(super) struct OutboxRow {
    pub xid: String,
    pub id: i64,
    pub group: String,
    /// The job; or why it can never be enqueued.
    pub job: Result<NewJob, String>,
    /// Whether the mirror says that it has ended: it was sent before.
    pub has_ended: bool,
}

impl OutboxRow {
    /// A name that no other row has, for a job without an id.
    pub fn key(&self) -> String {
        format!("{}-{}", self.xid, self.id)
    }
}

/// The shards that have rows.
pub(super) async fn shards_with_rows(pool: &PgPool) -> Result<Vec<i16>, Error> {
    let rows = sqlx::raw_sql(SHARDS_WITH_ROWS).fetch_all(pool).await?;
    Ok(rows.iter().map(|row| row.get("shard")).collect())
}

/// Takes a shard until the end of the transaction; false if another relay has it. This is a
/// statement of its own, so that the next one sees what that relay has deleted.
///
/// It also makes the next one walk the index. Where statistics are old, as in a table that fills and
/// empties all the time, PostgreSQL would read and sort all rows of a shard to find the first ones.
pub(super) async fn lock_shard(
    transaction: &mut PgConnection,
    shard: i16,
    order: Order,
) -> Result<bool, Error> {
    let locked = sql(LOCK).bind(LOCKS).bind(i32::from(shard)).bind(order == Order::Group);
    Ok(locked.fetch_one(transaction).await?.get("locked"))
}

/// The next rows of a shard, without those of groups that are full.
pub(super) async fn read(
    transaction: &mut PgConnection,
    shard: i16,
    order: Order,
    full_groups: &[String],
) -> Result<Vec<OutboxRow>, Error> {
    let query = match order {
        Order::Group => sql(READ_IN_ORDER).bind(shard).bind(full_groups).bind(BATCH_ROWS).bind(BATCH_BYTES),
        Order::None => sql(READ_UNORDERED).bind(shard).bind(full_groups).bind(BATCH_ROWS),
    };
    let mut rows = Vec::new();
    for row in query.fetch_all(transaction).await? {
        rows.push(read_row(&row).await);
    }
    Ok(rows)
}

async fn read_row(row: &PgRow) -> OutboxRow {
    let (xid, id): (String, i64) = (row.get("xid_text"), row.get("id"));
    let (group, text): (String, String) = (row.get("group_id"), row.get("job"));
    let job = parse(&group, &text, || format!("{xid}-{id}")).await;
    OutboxRow { xid, id, group, job, has_ended: row.get("has_ended") }
}

/// The job of a row, in the form of a line of jobs; `key` makes the id of a job without one.
pub(crate) async fn parse(group: &str, text: &str, key: impl FnOnce() -> String) -> Result<NewJob, String> {
    let reason = |error: fairlane::Error| match error {
        fairlane::Error::Line { reason, .. } | fairlane::Error::Job { reason, .. } => reason,
        other => other.to_string(),
    };
    let job = NdjsonReader::new(group, text.as_bytes()).next().await.map_err(reason)?;
    let job = job.ok_or_else(|| "it is empty".to_owned())?;
    let job = if job.given_id().is_some() { job } else { job.id(key()) };
    job.into_command(None).map_err(reason)
}

/// Deletes the rows that have an end, and adds them to the mirror.
pub(super) async fn move_to_mirror(
    transaction: &mut PgConnection,
    shard: i16,
    rows: &[OutboxRow],
    ends: &[RowEnd],
) -> Result<Relayed, Error> {
    let mut relayed = Relayed::default();
    let (mut xids, mut ids, mut errors, mut names) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (row, end) in rows.iter().zip(ends) {
        let (error, name) = match end {
            RowEnd::Kept => {
                relayed.kept += 1;
                continue;
            }
            RowEnd::Passed => {
                relayed.passed += 1;
                (None, None)
            }
            RowEnd::Invalid(message) => {
                relayed.failed += 1;
                (Some(error_to_json("invalid_job", message)), None)
            }
            RowEnd::Conflict(message) => {
                relayed.failed += 1;
                (Some(error_to_json("conflict", message)), Some(row.key()))
            }
        };
        xids.push(row.xid.clone());
        ids.push(row.id);
        errors.push(error);
        names.push(name.map(|name| without_nul(&name)));
    }
    if !ids.is_empty() {
        let moved = sql(MOVE).bind(shard).bind(xids).bind(ids).bind(errors).bind(names);
        moved.execute(transaction).await?;
    }
    Ok(relayed)
}
