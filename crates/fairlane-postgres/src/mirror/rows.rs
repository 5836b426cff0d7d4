//! The statements of the mirror.

use std::collections::HashMap;
use std::sync::Arc;

use fairlane::{JobRef, JobState, JobView, Problem};
use serde::Deserialize;
use serde_json::json;
use sqlx::{PgConnection, Row};

use crate::encoding::{error_to_json, result_to_json};
use crate::error::Error;
use crate::sql::{WarmConnections, json_literal, sql};

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Queued,
    Succeeded,
    Failed,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "QUEUED",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
        }
    }
}

/// A lease that begins.
#[derive(Debug, Clone)]
pub(crate) struct BeginRow {
    pub job: JobRef,
    pub job_type: String,
    pub fence: i64,
    pub attempt: i32,
}

/// A state that is not running.
#[derive(Debug, Clone)]
pub(crate) struct StateRow {
    pub job: JobRef,
    pub job_type: String,
    pub fence: i64,
    pub attempts: i32,
    pub status: Status,
    pub result: Option<String>,
    pub error: Option<String>,
}

impl StateRow {
    /// The state of a job in the queue; `None` while it runs.
    pub fn of_view(view: &JobView) -> Option<Self> {
        let status = match view.state {
            JobState::Processing => return None,
            JobState::Completed => Status::Succeeded,
            JobState::Failed | JobState::Cancelled => Status::Failed,
            JobState::Pending | JobState::Waiting | JobState::Ready => Status::Queued,
        };
        let (result, error) = match status {
            Status::Succeeded => (result_to_json(&view.note), None),
            Status::Failed if view.note.is_empty() => {
                (None, Some(error_to_json("cancelled", "").to_string()))
            }
            Status::Queued if view.note.is_empty() => (None, None),
            Status::Queued | Status::Failed => {
                let problem = Problem::from_bytes(&view.note);
                (None, Some(error_to_json(&problem.code, &problem.message).to_string()))
            }
        };
        let fence = view.fence.map_or(0, |fence| fence.0 as i64);
        let (job, job_type) = (view.job.clone(), view.type_id.to_string());
        Some(Self { job, job_type, fence, attempts: view.attempts as i32, status, result, error })
    }
}

/// The result of marking a job as running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The job is RUNNING under this lease.
    Running,
    /// The job has succeeded before.
    Ended { result: Option<String> },
    /// A younger lease has begun.
    Superseded,
}

/// A job that could not be marked as running.
#[derive(Deserialize)]
struct NotBegun {
    group_id: String,
    id: String,
    /// Whether it has succeeded; otherwise a younger lease has begun.
    ended: bool,
    result: Option<String>,
}

/// Writes states, and adds missing rows: a crash of PostgreSQL may have undone that a relay passed
/// the job on, or that its lease began. The relay passes the job on again, and finds its end.
const STATE: &str = "\
INSERT INTO fairlane_mirror AS m (group_id, id, type, fence, attempts, status, result, error, ended_at)
SELECT group_id, id, type, fence, attempts, status, result::jsonb, error::jsonb,
    CASE WHEN status IN ('SUCCEEDED', 'FAILED') THEN now() END
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::integer[], $6::text[], $7::text[], $8::text[])
    AS new(group_id, id, type, fence, attempts, status, result, error)
ON CONFLICT (group_id, id) DO UPDATE
SET status = EXCLUDED.status, result = EXCLUDED.result, error = EXCLUDED.error, fence = EXCLUDED.fence,
    attempts = EXCLUDED.attempts, touched_at = now(), ended_at = EXCLUDED.ended_at
WHERE m.ended_at IS NULL AND m.fence <= EXCLUDED.fence";

fn keys<'a>(jobs: impl Iterator<Item = &'a JobRef> + Clone) -> (Vec<String>, Vec<String>) {
    (jobs.clone().map(|job| job.group.to_string()).collect(), jobs.map(|job| job.id.to_string()).collect())
}

/// Marks jobs as running, each at most once in a call.
pub(crate) async fn begin(warm: &Arc<WarmConnections>, rows: &[BeginRow]) -> Result<Vec<Begun>, Error> {
    let lease = |row: &BeginRow| {
        json!({ "group_id": row.job.group.to_string(), "id": row.job.id.to_string(), "type": row.job_type,
            "fence": row.fence, "attempts": row.attempt })
    };
    let leases = json_literal(&rows.iter().map(lease).collect());
    let found = warm.run(format!("SELECT fairlane_mirror_begin({leases})::text")).await?;
    let found: Option<String> = found.first().ok_or(sqlx::Error::RowNotFound)?.get(0);
    let others: Vec<NotBegun> = match found {
        Some(json) => serde_json::from_str(&json).map_err(|error| sqlx::Error::Decode(error.into()))?,
        None => Vec::new(),
    };
    let mut others: HashMap<(String, String), Begun> = others
        .into_iter()
        .map(|NotBegun { group_id, id, ended, result }| {
            let begun = if ended { Begun::Ended { result } } else { Begun::Superseded };
            ((group_id, id), begun)
        })
        .collect();
    let key = |job: &JobRef| (job.group.to_string(), job.id.to_string());
    Ok(rows.iter().map(|row| others.remove(&key(&row.job)).unwrap_or(Begun::Running)).collect())
}

/// Writes states, and returns how many were written. Jobs that have ended, or that have a younger
/// lease, stay as they are.
pub(crate) async fn write_states(connection: &mut PgConnection, rows: &[StateRow]) -> Result<u64, Error> {
    let (groups, ids) = keys(rows.iter().map(|row| &row.job));
    let done = sql(STATE)
        .bind(groups)
        .bind(ids)
        .bind(rows.iter().map(|row| row.job_type.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.fence).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.attempts).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.status.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.result.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.error.clone()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}
