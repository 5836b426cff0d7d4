//! Jobs removed from a directory without a machine: for a queue that is too large to be loaded.
//!
//! Invariant: the rows that are left make a sound queue. Discarded jobs that had not ended count as cancelled in their
//! bulk action, which is aggregated when they were its last. Left out on purpose: leased jobs, which a worker may still
//! settle, and bulk actions themselves.

use std::collections::HashSet;

use fairlane_core::{GroupId, Micros};
use rusqlite::{Connection, Result, params};

use super::{Disk, DiskError};

/// The state of a stored job that can be discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredState {
    /// Settled with success.
    Completed,
    /// Dead: failed for good, or out of attempts.
    Dead,
    /// Jobs that were cancelled.
    Cancelled,
    /// Must not run before a time.
    Waiting,
    /// Waits for its turn.
    Pending,
}

impl StoredState {
    /// Every state, finished ones first.
    pub const ALL: [Self; 5] = [Self::Completed, Self::Dead, Self::Cancelled, Self::Waiting, Self::Pending];

    /// The word of the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Waiting => "waiting",
            Self::Pending => "pending",
        }
    }
}

/// Which jobs to discard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// In one of these states.
    pub states: Vec<StoredState>,
    /// Of this group only.
    pub group: Option<GroupId>,
    /// Enqueued before this time only.
    pub enqueued_before: Option<Micros>,
}

/// Selected jobs of one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectedJobs {
    /// Their state.
    pub state: StoredState,
    /// How many.
    pub jobs: u64,
    /// Bytes of their payloads and notes.
    pub bytes: u64,
}

/// Numbers, group, bulk action, state and bytes of all jobs that are selected.
const SELECT: &str = "
CREATE TEMP TABLE discarded AS
SELECT * FROM (
    SELECT jobs.number, group_id, created_at,
        CASE WHEN progress.number IS NULL THEN jobs.bulk ELSE progress.bulk END AS bulk,
        CASE
            WHEN progress.cancelled = 1 OR place = 'cancelled' THEN 'cancelled'
            WHEN place = 'completed' THEN 'completed'
            WHEN place IN ('failed', 'failed_unlisted') THEN 'dead'
            WHEN place = 'waiting' THEN 'waiting'
            WHEN place IN ('in_flight', 'in_flight_cancelled') THEN 'leased'
            ELSE 'pending'
        END AS state,
        length(payload) + COALESCE(length(note), 0) AS bytes
    FROM jobs LEFT JOIN progress USING (number)
)
WHERE instr(?1, ' ' || state || ' ') AND group_id = COALESCE(?2, group_id) AND created_at < COALESCE(?3, created_at + 1)";

/// Removes the rows of the jobs, and counts those that had not ended as ended in their groups and bulk actions. A bulk
/// action whose last jobs were discarded is handed out for aggregation at the time ?1.
const REMOVE: [&str; 8] = [
    "DELETE FROM jobs WHERE number IN (SELECT number FROM discarded)",
    "DELETE FROM progress WHERE number IN (SELECT number FROM discarded)",
    "UPDATE groups SET done = done + ended.jobs FROM (
        SELECT group_id, count(*) AS jobs FROM discarded WHERE state IN ('waiting', 'pending') GROUP BY group_id
    ) AS ended WHERE name = ended.group_id",
    "UPDATE bulks SET cancelled = cancelled + ended.jobs FROM (
        SELECT bulk, count(*) AS jobs FROM discarded WHERE state IN ('waiting', 'pending') GROUP BY bulk
    ) AS ended WHERE number = ended.bulk",
    "UPDATE bulks SET state = 'AGGREGATING', course = 'run', take_at = ?1
        WHERE state IN ('CREATED', 'DISPATCHED', 'RUNNING') AND sealed = 1
            AND succeeded + failed + cancelled = total AND number IN (SELECT bulk FROM discarded)",
    "UPDATE bulks SET take_at = ?1
        WHERE state IN ('FAILED', 'CANCELLED') AND aggregated = 0 AND take_at IS NULL
            AND succeeded + failed + cancelled = total AND number IN (SELECT bulk FROM discarded)",
    // What is recorded of a group is forgotten when it has no unfinished job left.
    "CREATE TEMP TABLE idle AS
        SELECT DISTINCT group_id FROM discarded WHERE group_id NOT IN (
            SELECT group_id FROM jobs LEFT JOIN progress USING (number)
            WHERE COALESCE(progress.cancelled, 0) = 0
                AND COALESCE(place, 'lane') NOT IN ('completed', 'cancelled', 'failed', 'failed_unlisted')
        )",
    "UPDATE groups SET total = 0, done = 0, throttles = 0, throttles_since = 0, noted = 0, backoff_ms = 0
        WHERE name IN (SELECT group_id FROM idle)",
];

impl Disk {
    /// Counts the selected jobs, by state.
    pub fn selected(&self, selection: &Selection) -> Result<Vec<SelectedJobs>, DiskError> {
        let mut counted = Vec::new();
        // Nothing but a temporary table is written, and that is rolled back as well.
        let looked = self.connection.unchecked_transaction().and_then(|looking| {
            select(&looking, selection)?;
            counted = count(&looking)?;
            looking.rollback()
        });
        looked.map(|()| counted).map_err(|error| DiskError::of(error, &self.file()))
    }

    /// Removes the selected jobs, all or none; `now` is the time for what ends by it.
    pub fn discard(&mut self, selection: &Selection, now: Micros) -> Result<Vec<SelectedJobs>, DiskError> {
        let mut counted = Vec::new();
        let discarded = self.transact(|connection| {
            select(connection, selection)?;
            counted = count(connection)?;
            remove(connection, now)
        });
        discarded.map_err(|error| DiskError::of(error, &self.file()))?;
        while self.tidy()? {}
        Ok(counted)
    }
}

fn select(connection: &Connection, selection: &Selection) -> Result<()> {
    let states: String = selection.states.iter().map(|state| format!(" {} ", state.as_str())).collect();
    let group = selection.group.as_ref().map(ToString::to_string);
    let before = selection.enqueued_before.map(|at| at.0);
    connection.execute(SELECT, params![states, group, before]).map(drop)
}

fn count(connection: &Connection) -> Result<Vec<SelectedJobs>> {
    let sql = "SELECT count(*), COALESCE(sum(bytes), 0) FROM discarded WHERE state = ?1";
    let mut ask = connection.prepare(sql)?;
    let of_state = |state: StoredState| {
        ask.query_row([state.as_str()], |row| {
            Ok(SelectedJobs { state, jobs: row.get(0)?, bytes: row.get(1)? })
        })
    };
    let counted: Vec<SelectedJobs> = StoredState::ALL.into_iter().map(of_state).collect::<Result<_>>()?;
    Ok(counted.into_iter().filter(|selected| selected.jobs > 0).collect())
}

fn remove(connection: &Connection, now: Micros) -> Result<()> {
    for sql in REMOVE {
        let mut statement = connection.prepare(sql)?;
        if statement.parameter_count() > 0 {
            statement.execute([now.0])?
        } else {
            statement.execute([])?
        };
    }
    connection.execute_batch("DELETE FROM snapshots WHERE group_id IN (SELECT group_id FROM idle)")?;
    unlist_completed(connection)?;
    connection.execute_batch("DROP TABLE idle; DROP TABLE discarded")
}

/// Takes discarded jobs off the chunks of finished ones. Chunks are numbered without gaps up to the next one, which is
/// known by its number, so that those that are left move up.
fn unlist_completed(connection: &Connection) -> Result<()> {
    let mut numbers = connection.prepare("SELECT number FROM discarded")?;
    let discarded: HashSet<u64> = numbers.query_map([], |row| row.get(0))?.collect::<Result<_>>()?;
    let mut chunks =
        connection.prepare("SELECT chunk, completed_at, jobs FROM completed ORDER BY chunk DESC")?;
    let mut rows = chunks.query([])?;
    let (mut kept, mut next): (Vec<(u64, u64, String)>, Option<u64>) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        let (chunk, at, jobs): (u64, u64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let is_kept = |number: &&str| number.parse().map_or(true, |number| !discarded.contains(&number));
        let left: Vec<&str> = jobs.split(' ').filter(is_kept).collect();
        let number = *next.get_or_insert(chunk);
        if !left.is_empty() {
            kept.push((number, at, left.join(" ")));
            next = Some(number.saturating_sub(1));
        }
    }
    drop(rows);
    connection.execute_batch("DELETE FROM completed")?;
    let mut insert =
        connection.prepare("INSERT INTO completed (chunk, completed_at, jobs) VALUES (?1, ?2, ?3)")?;
    for (chunk, at, jobs) in kept {
        insert.execute(params![chunk, at, jobs])?;
    }
    Ok(())
}
