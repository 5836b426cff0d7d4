//! The outbox of a PostgreSQL database.

use serde::Serialize;

use super::Time;

/// Jobs of an outbox are counted up to this number, so that a view of a large one is as fast as any
/// other.
pub const OUTBOX_COUNTED_MAX: u64 = 10_000;

/// The outbox, the jobs that came through it, and the transactions that hold jobs back.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Outbox))]
pub struct OutboxView {
    /// Why committed jobs wait, or that none waits.
    #[cfg_attr(feature = "openapi", schema(example = "No job waits in the outbox."))]
    pub explanation: String,
    /// Jobs that wait in the outbox.
    #[serde(flatten)]
    pub status: OutboxStatus,
    /// Relays that listen for commits.
    pub relays: u64,
    /// Jobs in the mirror by status.
    pub mirror: MirrorCounts,
    /// Open transactions that have written, the oldest first; 10 at most.
    pub holders: Vec<HorizonHolder>,
    /// The jobs that failed last, the newest first; 50 at most.
    pub failed: Vec<OutboxFailureView>,
}

/// Jobs that wait in the outbox.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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

/// Jobs in the mirror by status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MirrorCounts {
    /// Jobs that wait for a worker, among the 10,000 oldest that have not ended.
    pub queued: u64,
    /// Jobs that run, among the same.
    pub running: u64,
    /// Jobs that have succeeded, among the 10,000 that ended last.
    pub succeeded: u64,
    /// Jobs that have failed, among the same.
    pub failed: u64,
}

/// An open transaction that has written. Jobs committed after its first write wait for its end, so
/// that no job overtakes another.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
    /// When it began; `None` if the user may not see it.
    pub since: Option<Time>,
    /// How long it has been open, in seconds.
    pub age_seconds: f64,
    /// Its latest statement, truncated. Over HTTP it is empty for keys that may not operate.
    pub query: String,
}

impl HorizonHolder {
    /// The statement that ends the transaction, if its name is known.
    pub fn ending(&self) -> Option<String> {
        match (&self.prepared, self.pid) {
            (Some(name), _) => Some(format!("ROLLBACK PREPARED '{}'", name.replace('\'', "''"))),
            (None, Some(pid)) => Some(format!("SELECT pg_terminate_backend({pid})")),
            (None, None) => None,
        }
    }
}

/// A job that has failed, as the mirror has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = OutboxFailure))]
pub struct OutboxFailureView {
    /// Its group.
    pub group: String,
    /// Its id within the group.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub job_type: String,
    /// Attempts so far.
    pub attempts: u32,
    /// The code of its error; `invalid_job` and `conflict` are jobs that never were in the queue.
    pub code: String,
    /// The message of its error, truncated to 500 characters.
    pub message: String,
    /// Its payload as JSON text, truncated to 1,000 characters; absent if the mirror does not have
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// When it ended.
    pub ended_at: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_ended_by_its_process_or_by_its_name() {
        let holder = |pid: Option<i32>, prepared: Option<&str>| HorizonHolder {
            pid,
            prepared: prepared.map(str::to_owned),
            database: "shop".into(),
            user: "app".into(),
            application: String::new(),
            state: "idle in transaction".into(),
            since: None,
            age_seconds: 1.0,
            query: String::new(),
        };
        assert_eq!(holder(Some(7), None).ending().unwrap(), "SELECT pg_terminate_backend(7)");
        assert_eq!(holder(None, Some("it's")).ending().unwrap(), "ROLLBACK PREPARED 'it''s'");
        assert_eq!(holder(None, None).ending(), None);
    }
}
