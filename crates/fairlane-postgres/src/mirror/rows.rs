//! The statements of the mirror.

use std::collections::HashSet;

use fairlane::{JobRef, JobState, JobView, Problem};
use sqlx::{PgConnection, Row};

use crate::encoding::{error_to_json, result_to_json};
use crate::error::Error;
use crate::sql::sql;

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
    pub fence: i64,
    pub attempts: i32,
    pub status: Status,
    pub result: Option<String>,
    pub error: Option<String>,
}

impl StateRow {
    /// The state of a job as the queue has it; `None` while it runs.
    pub fn of_view(view: &JobView) -> Option<Self> {
        let status = match view.state {
            JobState::Processing => return None,
            JobState::Completed => Status::Succeeded,
            JobState::Failed | JobState::Cancelled => Status::Failed,
            JobState::Pending | JobState::Waiting | JobState::Ready => Status::Queued,
        };
        let (result, error) = match status {
            Status::Succeeded => (result_to_json(&view.note), None),
            Status::Failed if view.note.is_empty() => (None, Some(error_to_json("cancelled", ""))),
            Status::Queued if view.note.is_empty() => (None, None),
            Status::Queued | Status::Failed => {
                let problem = Problem::from_bytes(&view.note);
                (None, Some(error_to_json(&problem.code, &problem.message)))
            }
        };
        let fence = view.fence.map_or(0, |fence| fence.0 as i64);
        Some(Self { job: view.job.clone(), fence, attempts: view.attempts as i32, status, result, error })
    }
}

/// What a lease finds when it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The job is RUNNING under this lease.
    Running,
    /// The job has succeeded before.
    Ended { result: Option<String> },
    /// A younger lease has begun.
    Superseded,
}

/// A job that failed in the database and is leased again was requeued, or its worker died before it
/// could settle: it runs again.
const BEGIN: &str = "\
INSERT INTO fairlane_mirror AS m (group_id, id, type, status, fence, attempts, started_at)
SELECT group_id, id, type, 'RUNNING', fence, attempts, now()
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::integer[])
    AS new(group_id, id, type, fence, attempts)
ON CONFLICT (group_id, id) DO UPDATE
SET status = 'RUNNING', fence = EXCLUDED.fence, attempts = EXCLUDED.attempts,
    started_at = now(), touched_at = now(), ended_at = NULL, error = NULL
WHERE m.status <> 'SUCCEEDED' AND m.fence <= EXCLUDED.fence
RETURNING group_id, id";

const FOUND: &str = "\
SELECT m.group_id, m.id, m.status, m.result::text AS result
FROM fairlane_mirror m
JOIN unnest($1::text[], $2::text[]) AS new(group_id, id) ON m.group_id = new.group_id AND m.id = new.id";

const STATE: &str = "\
UPDATE fairlane_mirror m
SET status = new.status, result = new.result::jsonb, error = new.error::jsonb, fence = new.fence,
    attempts = new.attempts, touched_at = now(),
    ended_at = CASE WHEN new.status IN ('SUCCEEDED', 'FAILED') THEN now() END
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::text[], $6::text[], $7::text[])
    AS new(group_id, id, fence, attempts, status, result, error)
WHERE m.group_id = new.group_id AND m.id = new.id AND m.ended_at IS NULL AND m.fence <= new.fence";

fn keys<'a>(jobs: impl Iterator<Item = &'a JobRef> + Clone) -> (Vec<String>, Vec<String>) {
    (jobs.clone().map(|job| job.group.to_string()).collect(), jobs.map(|job| job.id.to_string()).collect())
}

/// Marks jobs as running, each at most once in a call.
pub(crate) async fn begin(connection: &mut PgConnection, rows: &[BeginRow]) -> Result<Vec<Begun>, Error> {
    let (groups, ids) = keys(rows.iter().map(|row| &row.job));
    let begun = sql(BEGIN)
        .bind(groups)
        .bind(ids)
        .bind(rows.iter().map(|row| row.job_type.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.fence).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.attempt).collect::<Vec<_>>())
        .fetch_all(&mut *connection)
        .await?;
    let begun: HashSet<(String, String)> =
        begun.iter().map(|row| (row.get("group_id"), row.get("id"))).collect();
    let key = |job: &JobRef| (job.group.to_string(), job.id.to_string());
    let others = rows.iter().map(|row| &row.job).filter(|job| !begun.contains(&key(job)));
    let (groups, ids) = keys(others);
    let mut ended = std::collections::HashMap::new();
    if !ids.is_empty() {
        for row in sql(FOUND).bind(groups).bind(ids).fetch_all(connection).await? {
            if row.get::<String, _>("status") == Status::Succeeded.as_str() {
                ended.insert((row.get("group_id"), row.get("id")), row.get("result"));
            }
        }
    }
    let found = |row: &BeginRow| {
        let key: (String, String) = key(&row.job);
        match ended.get(&key) {
            _ if begun.contains(&key) => Begun::Running,
            Some(result) => Begun::Ended { result: Option::clone(result) },
            None => Begun::Superseded,
        }
    };
    Ok(rows.iter().map(found).collect())
}

/// Writes states; those of jobs that have ended, or that a younger lease has, are left as they are.
/// Returns how many were written.
pub(crate) async fn write_states(connection: &mut PgConnection, rows: &[StateRow]) -> Result<u64, Error> {
    let (groups, ids) = keys(rows.iter().map(|row| &row.job));
    let done = sql(STATE)
        .bind(groups)
        .bind(ids)
        .bind(rows.iter().map(|row| row.fence).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.attempts).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.status.as_str()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.result.clone()).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.error.clone()).collect::<Vec<_>>())
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}
