//! The state of jobs in the database, kept by the workers that run them.
//!
//! - `mirror/writer.rs`: writes of concurrent attempts, in batches. `mirror/rows.rs`: the statements.
//!
//! Invariant: the database is written before the queue, and only by the youngest lease. A worker
//! that dies between the two writes leaves an end in the database that the queue lacks. If it is a
//! success, the next lease settles the job without running it; after a failure the job runs again.
//! So each job succeeds at most once in the database, and none stays running.

pub(crate) mod rows;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use fairlane::{Context, Engine, Event, Fairlane, JobRef, Middleware, Next, Outcome, Worker};
use fairlane_core::queue::{InspectJob, Verdict};
use fairlane_worker::{BoxFuture, CALLBACK_TYPE, CancelReason};
use serde::Serialize;
use sqlx::Row;
use tokio::sync::mpsc;

use crate::encoding::{error_to_json, result_from_json, result_to_json};
use crate::error::Error;
use crate::relay::TARGET;
use crate::sql::{Database, sql};
use rows::{BeginRow, StateRow, Status};
use writer::{Refused, Write, Writer, Written};

/// How long a write may still take after its attempt was requested to stop.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// Most attempts whose new state in the queue waits to be read. Further ones are left to the
/// reconciler.
const SYNCS_MAX: usize = 10_000;

/// A job in the mirror.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MirroredJob {
    /// Its group.
    pub group: String,
    /// Its id within the group.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub job_type: String,
    /// `QUEUED`, `RUNNING`, `SUCCEEDED` or `FAILED`.
    pub status: String,
    /// Attempts so far, the running one included.
    pub attempts: i32,
    /// The result, if it has succeeded.
    pub result: Option<serde_json::Value>,
    /// The code and message of its latest error.
    pub error: Option<serde_json::Value>,
    /// When its transaction began.
    pub queued_at_ms: i64,
    /// When its latest attempt started.
    pub started_at_ms: Option<i64>,
    /// When it ended.
    pub ended_at_ms: Option<i64>,
}

const READ: &str = "\
SELECT type, status, attempts, result::text AS result, error::text AS error,
    (extract(epoch FROM queued_at) * 1000)::bigint AS queued_at,
    (extract(epoch FROM started_at) * 1000)::bigint AS started_at,
    (extract(epoch FROM ended_at) * 1000)::bigint AS ended_at
FROM fairlane_jobs WHERE group_id = $1 AND id = $2 LIMIT 1";

pub(crate) async fn read(database: &Database, group: &str, id: &str) -> Result<Option<MirroredJob>, Error> {
    let mut transaction = database.begin().await?;
    let found = sql(READ).bind(group.to_owned()).bind(id.to_owned()).fetch_optional(transaction.connection());
    let row = database.in_time(found).await?;
    transaction.commit().await?;
    let json = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
    Ok(row.map(|row| MirroredJob {
        group: group.to_owned(),
        id: id.to_owned(),
        job_type: row.get("type"),
        status: row.get("status"),
        attempts: row.get("attempts"),
        result: json(row.get("result")),
        error: json(row.get("error")),
        queued_at_ms: row.get("queued_at"),
        started_at_ms: row.get("started_at"),
        ended_at_ms: row.get("ended_at"),
    }))
}

/// Adds the mirror to a worker.
pub(crate) fn attach(database: Database, worker: Worker, fairlane: &Fairlane) -> Worker {
    let writer = Arc::new(Writer::start(database));
    let (syncs, requests) = mpsc::channel(SYNCS_MAX);
    tokio::spawn(sync_all(fairlane.engine().clone(), writer.clone(), requests));
    worker.middleware(Layer { writer }).on_event(move |event| {
        if let Event::Settled { job, type_id, outcome, verdict: Verdict::Applied, .. } = event
            && !matches!(outcome, Outcome::Done { .. } | Outcome::Failed(_))
            && type_id.unescaped() != CALLBACK_TYPE
        {
            // If the channel is full, the reconciler repairs the state later.
            let _ = syncs.try_send(job.clone());
        }
    })
}

/// The middleware around every attempt: writes RUNNING before it, and its end after it.
struct Layer {
    writer: Arc<Writer>,
}

impl Middleware for Layer {
    fn around(&self, job: Context, next: Next) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            if job.type_id().unescaped() == CALLBACK_TYPE {
                return next.run(job).await;
            }
            match self.write(&job, Write::Begin(begin_row(&job))).await {
                Ok(Written::Done) => {}
                Ok(Written::Ended { result }) => {
                    return Outcome::Done { result: result_from_json(result.as_deref()) };
                }
                Ok(Written::Superseded) => {
                    return Outcome::retry("superseded", "a younger lease of this job has begun");
                }
                Err(NotWritten::Refused(error)) => return Outcome::retry("mirror", error.0),
                Err(NotWritten::Stopped) => return Outcome::Released,
            }
            // As the worker settles it, so that queue and database agree.
            let outcome = next.run(job.clone()).await.bounded();
            if runs_again(&job, &outcome) {
                return outcome;
            }
            let Some(row) = end_row(&job, &outcome) else { return outcome };
            match self.write(&job, Write::State(row)).await {
                Ok(_) => outcome,
                Err(NotWritten::Refused(error)) => Outcome::retry("mirror", error.0),
                Err(NotWritten::Stopped) => Outcome::Released,
            }
        })
    }
}

/// Why nothing was written.
enum NotWritten {
    /// The database refused the write.
    Refused(Refused),
    /// The attempt must stop, and the database does not reply.
    Stopped,
}

impl Layer {
    /// Writes to the database, and waits for it while the attempt may continue.
    async fn write(&self, job: &Context, write: Write) -> Result<Written, NotWritten> {
        let stopped = async {
            job.cancelled().await;
            tokio::time::sleep(LAST_WRITE_TIMEOUT).await;
        };
        tokio::select! {
            biased;
            written = self.writer.write(write) => written.map_err(NotWritten::Refused),
            () = stopped => Err(NotWritten::Stopped),
        }
    }
}

fn begin_row(job: &Context) -> BeginRow {
    BeginRow {
        job: job.job().clone(),
        job_type: job.type_id().to_string(),
        fence: job.fence().0 as i64,
        attempt: job.attempt() as i32,
    }
}

/// Whether the processor gave up because its attempt was requested to stop, and not its job. The worker
/// then hands the job back or retries it, or its next lease runs already.
fn runs_again(job: &Context, outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Cancelled(_))
        && job.cancel_reason().is_some_and(|reason| reason != CancelReason::Cancelled)
}

/// The row for the end of a job; `None` if the job may continue after this outcome.
fn end_row(job: &Context, outcome: &Outcome) -> Option<StateRow> {
    let (status, result, error) = match outcome {
        Outcome::Done { result } => (Status::Succeeded, result_to_json(result), None),
        Outcome::Failed(problem) | Outcome::Cancelled(problem) => {
            (Status::Failed, None, Some(error_to_json(&problem.code, &problem.message).to_string()))
        }
        Outcome::Retry { .. } | Outcome::Throttled { .. } | Outcome::Released => return None,
    };
    let (fence, attempts) = (job.fence().0 as i64, job.attempt() as i32);
    let (job, job_type) = (job.job().clone(), job.type_id().to_string());
    Some(StateRow { job, job_type, fence, attempts, status, result, error })
}

/// Copies the state of jobs after attempts that did not end them: the queue decides whether a job
/// is retried or dead.
async fn sync_all(engine: Arc<dyn Engine>, writer: Arc<Writer>, mut requests: mpsc::Receiver<JobRef>) {
    while let Some(job) = requests.recv().await {
        match engine.call(InspectJob { job: job.clone() }).await {
            Ok(Some(view)) => {
                if let Some(row) = StateRow::of_view(&view) {
                    // If the write fails, the reconciler repairs the state later.
                    let _ = writer.write(Write::State(row)).await;
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(target: TARGET, %error, "a job's state is left to the reconciler");
            }
        }
    }
}
