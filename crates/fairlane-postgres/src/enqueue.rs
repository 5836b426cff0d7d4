//! Jobs added in a transaction of the application.

use fairlane::{Error as QueueError, Job, JobRef};
use sqlx::{Connection, PgConnection};

use crate::encoding::job_to_json;
use crate::error::Error;

/// Most jobs that one statement adds; more are added by several statements.
pub const ENQUEUE_JOBS_MAX: usize = 500;
/// Most payload bytes of one statement, unless a single payload is larger.
const STATEMENT_BYTES: usize = 4 * 1024 * 1024;

/// Adds a job in this transaction: it exists when the transaction commits, and never if it is
/// rolled back. Returns its group and id.
pub async fn enqueue_in(transaction: &mut PgConnection, job: Job) -> Result<JobRef, Error> {
    let new = job.into_command(None)?;
    insert(transaction, &job_to_json(&new).to_string()).await?;
    Ok(new.job)
}

/// Adds any number of jobs in this transaction, in order. Nothing is added if one of them is
/// invalid.
pub async fn enqueue_all_in(
    transaction: &mut PgConnection,
    jobs: impl IntoIterator<Item = Job>,
) -> Result<Vec<JobRef>, Error> {
    let jobs: Result<Vec<_>, QueueError> = jobs.into_iter().map(|job| job.into_command(None)).collect();
    let jobs = jobs?;
    let mut rest = jobs.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |new: &&fairlane_core::queue::NewJob| {
            bytes += new.payload.len();
            bytes <= STATEMENT_BYTES
        };
        let count = rest.iter().take(ENQUEUE_JOBS_MAX).take_while(fits).count().max(1);
        let (step, later) = rest.split_at(count);
        let rows: Vec<String> = step.iter().map(|new| job_to_json(new).to_string()).collect();
        let named = uses_named_statements(transaction);
        sqlx::query(
            "INSERT INTO fairlane_outbox (job) SELECT job::jsonb FROM unnest($1::text[]) AS new(job)",
        )
        .persistent(named)
        .bind(rows)
        .execute(&mut *transaction)
        .await?;
        rest = later;
    }
    Ok(jobs.into_iter().map(|new| new.job).collect())
}

async fn insert(transaction: &mut PgConnection, job: &str) -> Result<(), Error> {
    let named = uses_named_statements(transaction);
    sqlx::query("INSERT INTO fairlane_outbox (job) VALUES ($1::text::jsonb)")
        .persistent(named)
        .bind(job)
        .execute(transaction)
        .await?;
    Ok(())
}

/// Whether the application uses named statements on this connection. They save a round trip, but do
/// not work behind an old PgBouncer, so this crate uses them only if the application does.
fn uses_named_statements(connection: &PgConnection) -> bool {
    connection.cached_statements_size() > 0
}
