//! The outbox: what a transaction leaves to be done in the engine.
//!
//! Invariant: an effect is idempotent, and its row is deleted only after it has happened. Lanes do not
//! wait for each other: boards that fail delay no expiry of a hold.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::StoreError;

/// What a row has to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Effect {
    /// Enqueue a job.
    Job {
        /// The type of the job.
        job_type: String,
        /// The id of the job.
        id: String,
        /// The reservation that it is about.
        reservation: String,
        /// The attempt to pay that it is about; 0 if it is about the hold.
        attempt: u32,
        /// When it is to run, in milliseconds since the Unix epoch.
        run_at: u64,
    },
    /// Count a confirmed reservation.
    Confirmed {
        /// The reservation.
        reservation: String,
        /// Its schedule.
        schedule: String,
        /// When it was confirmed.
        at: u64,
    },
    /// Take a reservation out of the count.
    Cancelled {
        /// The reservation.
        reservation: String,
        /// When it was confirmed.
        at: u64,
    },
    /// Record how long a schedule took to sell out.
    SoldOut {
        /// The schedule.
        schedule: String,
        /// Milliseconds from its first confirmation to its last.
        duration_ms: u64,
        /// When its last seat was confirmed.
        at: u64,
    },
}

/// A queue of rows that are done in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Jobs for the queue.
    Jobs,
    /// Changes of the boards.
    Boards,
}

impl Lane {
    /// The lower-case name of the lane.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Boards => "boards",
        }
    }
}

impl Effect {
    fn lane(&self) -> Lane {
        match self {
            Self::Job { .. } => Lane::Jobs,
            Self::Confirmed { .. } | Self::Cancelled { .. } | Self::SoldOut { .. } => Lane::Boards,
        }
    }
}

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    /// The number of the row, in the order of commits.
    pub id: i64,
    /// What it has to do.
    pub effect: Effect,
}

/// Adds a row.
pub(super) fn add(connection: &Connection, effect: &Effect) -> Result<(), StoreError> {
    let body = serde_json::to_string(effect).expect("an effect is valid JSON");
    let mut insert = connection.prepare_cached("INSERT INTO outbox (lane, body) VALUES (?1, ?2)")?;
    insert.execute(params![effect.lane().as_str(), body])?;
    Ok(())
}

impl super::Store {
    /// The first rows of a lane, in order.
    pub async fn outbox(&self, lane: Lane, rows_max: usize) -> Result<Vec<OutboxRow>, StoreError> {
        self.read(move |connection| {
            let query = "SELECT id, body FROM outbox WHERE lane = ?1 ORDER BY id LIMIT ?2";
            let mut query = connection.prepare_cached(query)?;
            let mut rows = query.query(params![lane.as_str(), rows_max])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let body: String = row.get(1)?;
                let effect = serde_json::from_str(&body).map_err(|_| StoreError::Unknown(body))?;
                found.push(OutboxRow { id: row.get(0)?, effect });
            }
            Ok(found)
        })
        .await
    }

    /// Deletes rows of a lane that are done: all up to this one.
    pub async fn delete_outbox(&self, lane: Lane, last: i64) -> Result<(), StoreError> {
        self.write(move |connection| {
            let delete = "DELETE FROM outbox WHERE lane = ?1 AND id <= ?2";
            connection.execute(delete, params![lane.as_str(), last])?;
            Ok(())
        })
        .await
    }

    /// Number of rows that are not done.
    pub async fn outbox_len(&self) -> Result<u64, StoreError> {
        self.read(|connection| Ok(connection.query_row("SELECT count(*) FROM outbox", [], |row| row.get(0))?))
            .await
    }
}
