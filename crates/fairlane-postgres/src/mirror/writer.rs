//! Writes of concurrent attempts, in batches that gather while the previous one is in flight.
//! Beginnings of leases have their own queue, because unlike ends they do not wait for the disk.
//!
//! While the database does not reply, a write is retried for as long as an attempt waits for it. A
//! batch that the database refuses is written one by one, so that one attempt does not fail the
//! others.

use std::collections::HashSet;
use std::sync::Arc;

use fairlane_engine::Backoff;
use tokio::sync::{mpsc, oneshot};

use super::rows::{self, BeginRow, Begun, StateRow};
use crate::error::Error;
use crate::relay::TARGET;
use crate::sql::{Database, WarmConnections};

/// Most writes in one transaction.
const BATCH_MAX: usize = 200;
/// Most writes that wait for the one in flight; further ones wait for room.
const WAITING_MAX: usize = 1000;

/// One write.
pub(super) enum Write {
    Begin(BeginRow),
    State(StateRow),
}

/// The result of a write.
#[derive(Debug, Clone)]
pub(super) enum Written {
    Done,
    /// The job has succeeded before.
    Ended {
        result: Option<String>,
    },
    /// A younger lease of the job has begun.
    Superseded,
}

/// The database refused a write, and a retry would not help.
#[derive(Debug, Clone)]
pub(super) struct Refused(pub String);

struct Request {
    write: Write,
    reply: oneshot::Sender<Result<Written, Refused>>,
}

/// Two tasks that write.
pub(super) struct Writer {
    begins: mpsc::Sender<Request>,
    states: mpsc::Sender<Request>,
}

impl Writer {
    pub fn start(database: Database) -> Self {
        let start = |database: Database| {
            let (requests, waiting) = mpsc::channel(WAITING_MAX);
            tokio::spawn(write_all(WarmConnections::new(database), waiting));
            requests
        };
        Self { begins: start(database.clone()), states: start(database) }
    }

    /// Adds the write to the next batch, and waits for it. Dropping the future cancels the write,
    /// unless it is in flight.
    pub async fn write(&self, write: Write) -> Result<Written, Refused> {
        let (reply, written) = oneshot::channel();
        let stopped = || Refused("the mirror has stopped".to_owned());
        let requests = if matches!(write, Write::Begin(_)) { &self.begins } else { &self.states };
        requests.send(Request { write, reply }).await.map_err(|_| stopped())?;
        written.await.map_err(|_| stopped())?
    }
}

async fn write_all(warm: Arc<WarmConnections>, mut waiting: mpsc::Receiver<Request>) {
    let mut gathered = Vec::new();
    while waiting.recv_many(&mut gathered, BATCH_MAX).await > 0 {
        while !gathered.is_empty() {
            let batch = next_batch(&mut gathered);
            write_batch(&warm, batch).await;
        }
    }
}

/// The first writes, each job at most once.
fn next_batch(gathered: &mut Vec<Request>) -> Vec<Request> {
    let mut jobs = HashSet::new();
    let job = |request: &Request| match &request.write {
        Write::Begin(row) => row.job.clone(),
        Write::State(row) => row.job.clone(),
    };
    let count = gathered.iter().take_while(|request| jobs.insert(job(request))).count();
    let rest = gathered.split_off(count);
    std::mem::replace(gathered, rest)
}

async fn write_batch(warm: &Arc<WarmConnections>, batch: Vec<Request>) {
    let (mut batch, mut backoff) = (batch, Backoff::default());
    loop {
        batch.retain(|request| !request.reply.is_closed());
        if batch.is_empty() {
            return;
        }
        match try_write(warm, &batch).await {
            Ok(written) => {
                for (request, written) in batch.into_iter().zip(written) {
                    let _ = request.reply.send(Ok(written));
                }
                return;
            }
            Err(error) if is_refusal(&error) && batch.len() > 1 => {
                for request in batch {
                    Box::pin(write_batch(warm, vec![request])).await;
                }
                return;
            }
            Err(error) if is_refusal(&error) => {
                tracing::warn!(target: TARGET, %error, "the database refuses the state of a job");
                for request in batch {
                    let _ = request.reply.send(Err(Refused(error.to_string())));
                }
                return;
            }
            Err(error) => {
                tracing::warn!(target: TARGET, %error, "the states of jobs cannot be written; the worker tries again");
                backoff.sleep().await;
            }
        }
    }
}

/// Whether the database refused the statement because of the job. Errors of connections, resources and
/// deadlocks, of servers that start or stop, and of a missing right or migration are not refusals: the
/// same job can be written later.
fn is_refusal(error: &Error) -> bool {
    let Error::Database(sqlx::Error::Database(database)) = error else { return false };
    let code = database.code().unwrap_or_default();
    !["08", "25", "40", "42", "53", "55", "57", "58"].iter().any(|class| code.starts_with(class))
}

async fn try_write(warm: &Arc<WarmConnections>, batch: &[Request]) -> Result<Vec<Written>, Error> {
    let (mut begins, mut states) = (Vec::new(), Vec::new());
    for request in batch {
        match &request.write {
            Write::Begin(row) => begins.push(row.clone()),
            Write::State(row) => states.push(row.clone()),
        }
    }
    let mut begun = Vec::new();
    if !begins.is_empty() {
        begun = rows::begin(warm, &begins).await?;
    }
    if !states.is_empty() {
        let mut transaction = warm.database().begin().await?;
        warm.database().in_time(rows::write_states(transaction.connection(), &states)).await?;
        transaction.commit().await?;
    }
    let mut begun = begun.into_iter();
    let written = batch.iter().map(|request| match &request.write {
        Write::State(_) => Written::Done,
        Write::Begin(_) => match begun.next() {
            Some(Begun::Running) => Written::Done,
            Some(Begun::Ended { result }) => Written::Ended { result },
            Some(Begun::Superseded) | None => Written::Superseded,
        },
    });
    Ok(written.collect())
}
