//! The jobs of the service in PostgreSQL.
//!
//! Invariant: a job's row and its entry in the outbox are one transaction. What follows (the state of
//! the row, and the callback) is written by the trigger in `schema.sql`.

use fairlane_postgres::sqlx::postgres::PgRow;
use fairlane_postgres::sqlx::{self, Row};
use fairlane_postgres::{Error, Job, Outbox, enqueue_in};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::services::ExecutionBundle;

/// The type of the jobs that run prompts.
pub const PROMPT_TYPE: &str = "comfyui";
/// The type of the jobs that send callbacks.
pub const CALLBACK_TYPE: &str = "comfyui-callback";

/// The advisory lock of the migration.
const MIGRATION_LOCK: i64 = 0x636f_6d66_7900;

/// A job as a worker gets it: nothing else is needed to run it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueuedJob {
    /// The id of its row, which is not its id in the queue.
    pub id: i64,
    /// The service.
    pub service_type: String,
    /// The parameters with their defaults.
    pub parameters: Map<String, Value>,
    /// The workflow and its files.
    pub execution_bundle: ExecutionBundle,
    /// The URL that is called when the job has ended.
    pub callback_url: Option<String>,
}

/// A job that was checked and is to be stored.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id in the queue.
    pub queue_id: String,
    /// The customer.
    pub group: String,
    /// The service.
    pub service_type: String,
    /// The parameters with their defaults.
    pub parameters: Map<String, Value>,
    /// The workflow and its files.
    pub execution_bundle: ExecutionBundle,
    /// The URL that is called when the job has ended.
    pub callback_url: Option<String>,
    /// The key by which the client repeats its request.
    pub idempotency_key: Option<String>,
    /// A hash of what the client asked for.
    pub fingerprint: String,
}

/// What became of a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// It is stored under this id.
    Created(i64),
    /// The same request has stored it before, under this id.
    Existing(i64),
    /// Another request has used its idempotency key, for the job with this id.
    Differs(i64),
}

/// A job as its customer sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobView {
    /// Its id.
    pub job_id: i64,
    /// `queued`, `running`, `succeeded`, `failed` or `cancelled`.
    pub status: String,
    /// The service.
    pub service_type: String,
    /// The parameters with their defaults.
    pub parameters: Value,
    /// Attempts after the first one.
    pub retry_count: i32,
    /// The URL that is called when the job has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// `queued`, `running`, `succeeded` or `failed`, once the job has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_status: Option<String>,
    /// The files that the workflow has written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it failed, or why its last attempt did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// How far its running attempt is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Value>,
    /// When it was accepted, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// When its last attempt started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<i64>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
    /// The customer.
    #[serde(skip)]
    pub group: String,
    /// Its id in the queue.
    #[serde(skip)]
    pub queue_id: String,
}

impl JobView {
    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "succeeded" | "failed" | "cancelled")
    }
}

/// Makes the tables, unless they exist.
pub async fn migrate(outbox: &Outbox) -> Result<(), Error> {
    outbox.migrate().await?;
    let mut transaction = outbox.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(MIGRATION_LOCK).execute(&mut *transaction).await?;
    let made = sqlx::query("SELECT to_regclass('comfy_jobs') IS NOT NULL AS made");
    if !made.fetch_one(&mut *transaction).await?.get::<bool, _>("made") {
        sqlx::raw_sql(include_str!("schema.sql")).execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(())
}

const INSERT: &str = "\
INSERT INTO comfy_jobs
    (queue_id, group_id, service_type, parameters, execution_bundle, callback_url, idempotency_key, fingerprint)
VALUES ($1, $2, $3, $4::text::jsonb, $5::text::jsonb, $6, $7, $8)
ON CONFLICT (group_id, idempotency_key) DO NOTHING RETURNING id";

const FIND_BY_KEY: &str = "\
SELECT id, fingerprint FROM comfy_jobs WHERE group_id = $1 AND idempotency_key = $2";

/// Stores a job, and adds it to the outbox in the same transaction.
pub async fn insert(outbox: &Outbox, new: NewJob) -> Result<Inserted, Error> {
    let (parameters, bundle) = (json_text(&new.parameters), json_text(&new.execution_bundle));
    let mut transaction = outbox.begin().await?;
    let inserted = sqlx::query(INSERT)
        .bind(&new.queue_id)
        .bind(&new.group)
        .bind(&new.service_type)
        .bind(parameters)
        .bind(bundle)
        .bind(&new.callback_url)
        .bind(&new.idempotency_key)
        .bind(&new.fingerprint)
        .fetch_optional(&mut *transaction)
        .await?;
    let Some(row) = inserted else {
        let find = sqlx::query(FIND_BY_KEY).bind(&new.group).bind(&new.idempotency_key);
        let found = find.fetch_one(&mut *transaction).await?;
        transaction.rollback().await?;
        let is_same = found.get::<String, _>("fingerprint") == new.fingerprint;
        return Ok(if is_same {
            Inserted::Existing(found.get("id"))
        } else {
            Inserted::Differs(found.get("id"))
        });
    };
    let id: i64 = row.get("id");
    let NewJob { queue_id, group, service_type, parameters, execution_bundle, callback_url, .. } = new;
    let queued = QueuedJob { id, service_type, parameters, execution_bundle, callback_url };
    enqueue_in(&mut transaction, Job::new(group, PROMPT_TYPE, &queued).id(queue_id)).await?;
    outbox.commit(transaction).await?;
    Ok(Inserted::Created(id))
}

fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("maps with string keys are always JSON")
}

const READ: &str = "\
SELECT j.id, j.queue_id, j.group_id, j.service_type, j.parameters::text AS parameters, j.callback_url,
    lower(j.status) AS status, j.retry_count, j.result::text AS result, j.error::text AS error,
    (extract(epoch FROM j.created_at) * 1000)::bigint AS created_at,
    (extract(epoch FROM j.started_at) * 1000)::bigint AS started_at,
    (extract(epoch FROM j.ended_at) * 1000)::bigint AS ended_at,
    coalesce(
        (SELECT lower(c.status) FROM fairlane_mirror c
            WHERE c.group_id = j.group_id AND c.id = j.queue_id || '-' || lower(j.notified)),
        CASE WHEN j.notified IS NOT NULL THEN 'queued' END
    ) AS callback_status
FROM comfy_jobs j WHERE j.id = $1";

/// The job with this id.
pub async fn read(outbox: &Outbox, id: i64) -> Result<Option<JobView>, Error> {
    let row = sqlx::query(READ).bind(id).fetch_optional(outbox.pool()).await?;
    Ok(row.map(|row: PgRow| {
        let json = |name: &str| {
            let text: Option<String> = row.get(name);
            text.and_then(|text| serde_json::from_str(&text).ok())
        };
        JobView {
            job_id: row.get("id"),
            status: row.get("status"),
            service_type: row.get("service_type"),
            parameters: json("parameters").unwrap_or_default(),
            retry_count: row.get("retry_count"),
            callback_url: row.get("callback_url"),
            callback_status: row.get("callback_status"),
            result: json("result"),
            error: json("error"),
            progress: None,
            created_at_ms: row.get("created_at"),
            started_at_ms: row.get("started_at"),
            ended_at_ms: row.get("ended_at"),
            group: row.get("group_id"),
            queue_id: row.get("queue_id"),
        }
    }))
}
