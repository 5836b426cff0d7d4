//! Batches of rows: read from a shard in the order of commits, and moved to the mirror.
//!
//! Ids of rows are drawn before the commit, so a row with a smaller id can appear after one with a
//! larger id. A row is read only when every transaction that began to write before its own has
//! ended; then no row before it can appear any more. Reading takes no lock on rows: that would give
//! the relay's transaction an id, and make relays wait for each other.

use std::collections::HashSet;
use std::sync::Arc;

use fairlane::{JobRef, NdjsonReader};
use fairlane_core::queue::NewJob;
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::postgres::PgRow;

use super::send::RowEnd;
use super::{Order, Relayed};
use crate::encoding::{error_to_json, without_nul};
use crate::error::Error;
use crate::sql::{BareTransaction, WarmConnections, json_literal, texts_literal};

/// Most rows in one batch.
const BATCH_ROWS: usize = 500;
/// A batch ends when its jobs have this many bytes as JSON.
const BATCH_BYTES: i64 = 8 * 1024 * 1024;

/// A committed row of the outbox.
pub(super) struct OutboxRow {
    pub xid: String,
    pub id: i64,
    pub group: String,
    /// The job, or the reason why it can never be enqueued.
    pub job: Result<NewJob, String>,
    /// Whether the job has ended according to the mirror, because it was passed on before.
    pub has_ended: bool,
}

impl OutboxRow {
    /// A unique name, used as the id of a job without one.
    pub fn key(&self) -> String {
        format!("{}-{}", self.xid, self.id)
    }
}

/// A shard that this relay owns until the end of a transaction.
pub(super) struct Shard {
    number: i16,
    /// Its next rows, without those of groups that are full.
    found: Vec<PgRow>,
    transaction: BareTransaction,
}

/// The result of a claim.
pub(super) struct Claim {
    /// The shard that was taken, if it has rows that can be passed on now.
    pub shard: Option<Shard>,
    /// The shard after which to claim next; `None` if no later one has rows.
    pub next_after: Option<i16>,
    /// Whether any shard has rows, including shards of other relays.
    pub has_rows: bool,
}

/// Claims the next shard above `after` that has rows and that no other relay owns, and reads its
/// rows.
pub(super) async fn claim(
    warm: &Arc<WarmConnections>,
    after: i16,
    order: Order,
    full_groups: &[String],
) -> Result<Claim, Error> {
    let (in_order, full_groups) = (order == Order::Group, texts_literal(full_groups));
    let claim = format!(
        "SELECT * FROM fairlane_outbox_claim({after}, {in_order}, {full_groups}, {BATCH_ROWS}, {BATCH_BYTES})"
    );
    let (transaction, found) = BareTransaction::begin(warm, &claim).await?;
    let first = found.first().ok_or(sqlx::Error::RowNotFound)?;
    let taken: Option<i16> = first.get("shard");
    let next_after = taken.filter(|_| first.get("more"));
    let has_rows = first.get("waiting");
    let found: Vec<PgRow> = found.into_iter().skip(1).collect();
    let shard = match taken {
        Some(number) if !found.is_empty() => Some(Shard { number, found, transaction }),
        _ => {
            transaction.end("ROLLBACK").await?;
            None
        }
    };
    Ok(Claim { shard, next_after, has_rows })
}

async fn read_row(row: &PgRow) -> OutboxRow {
    let (xid, id): (String, i64) = (row.get("xid"), row.get("id"));
    let (group, text): (String, String) = (row.get("group_id"), row.get("job"));
    let job = parse(&group, &text, || format!("{xid}-{id}")).await;
    OutboxRow { xid, id, group, job, has_ended: row.get("has_ended") }
}

/// Parses the job of a row, which has the form of a line of NDJSON; `key` makes the id of a job
/// without one.
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

/// The names of rows whose ids belong to other jobs, from the reply to a move.
fn conflicts(reply: Option<&PgRow>) -> Result<HashSet<String>, Error> {
    let json: Option<String> = reply.map(|row| row.try_get(0)).transpose()?.flatten();
    let Some(json) = json else { return Ok(HashSet::new()) };
    let conflicts: Vec<RowName> =
        serde_json::from_str(&json).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(conflicts.into_iter().map(|RowName { xid, id }| format!("{xid}-{id}")).collect())
}

/// The primary key of a row, within its shard.
#[derive(Deserialize)]
struct RowName {
    xid: String,
    id: i64,
}

impl Shard {
    /// Whether the shard may have more rows that can be passed on now.
    pub fn is_full(&self) -> bool {
        self.found.len() == BATCH_ROWS
    }

    /// The rows, parsed.
    pub async fn rows(&self) -> Vec<OutboxRow> {
        let mut rows = Vec::with_capacity(self.found.len());
        for row in &self.found {
            rows.push(read_row(row).await);
        }
        rows
    }

    /// Moves the rows that are done to the mirror, and commits. Also returns the jobs that the queue has
    /// taken although their ids belong to ended jobs of the mirror.
    pub async fn commit(
        self,
        rows: &[OutboxRow],
        ends: &[RowEnd],
    ) -> Result<(Relayed, HashSet<JobRef>), Error> {
        let (mut relayed, mut done) = (Relayed::default(), Vec::new());
        for (row, end) in rows.iter().zip(ends) {
            let mut moved = json!({ "xid": row.xid, "id": row.id });
            match end {
                RowEnd::Kept => {
                    relayed.kept += 1;
                    continue;
                }
                RowEnd::Passed => relayed.passed += 1,
                RowEnd::Invalid(message) => {
                    relayed.failed += 1;
                    moved["error"] = error_to_json("invalid_job", message);
                }
                RowEnd::Conflict(message) => {
                    relayed.failed += 1;
                    moved["error"] = error_to_json("conflict", message);
                    moved["name"] = without_nul(&row.key()).into();
                }
            }
            done.push((row.xid.parse::<u64>().unwrap_or_default(), row.id, moved));
        }
        // The function reads the rows from the first to the last.
        done.sort_by_key(|(xid, id, _)| (*xid, *id));
        let done: Vec<Value> = done.into_iter().map(|(_, _, moved)| moved).collect();
        if done.is_empty() {
            self.transaction.end("ROLLBACK").await?;
            return Ok((relayed, HashSet::new()));
        }
        let done = json_literal(&Value::Array(done));
        // The operator turns JSON into text, and is undefined for the function of older tables.
        let end =
            format!("SELECT fairlane_outbox_move({}::smallint, {done}) #>> '{{}}'; COMMIT", self.number);
        let found = self.transaction.end(&end).await?;
        let conflicts = conflicts(found.first())?;
        relayed.passed -= conflicts.len() as u64;
        relayed.failed += conflicts.len() as u64;
        let taken = rows.iter().filter(|row| !row.has_ended && conflicts.contains(&row.key()));
        let taken = taken.filter_map(|row| Some(row.job.as_ref().ok()?.job.clone())).collect();
        Ok((relayed, taken))
    }
}
