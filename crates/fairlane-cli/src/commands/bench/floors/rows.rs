//! The floor in a directory: the rows that the queue writes for the jobs, in the same number of
//! transactions and in the order in which the queue would serve them.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fairlane_core::queue::NewJob;
use rusqlite::{Connection, params};
use rustc_hash::FxHashMap;

use crate::failure::Failure;

/// Jobs of one group per turn, as in the queue.
const TURN_JOBS: usize = 8;

const TABLES: &str = "
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE jobs (number INTEGER PRIMARY KEY, group_id TEXT, id TEXT, type_id TEXT, level TEXT,
    cost INTEGER, created_at INTEGER, payload BLOB);
CREATE TABLE progress (number INTEGER PRIMARY KEY, place TEXT, position INTEGER, due_at INTEGER, fence INTEGER,
    batch INTEGER, worker TEXT, attempts INTEGER, throttles INTEGER, losses INTEGER, settled_fence INTEGER,
    settled_at INTEGER, last_worker TEXT, note BLOB);";

/// A SQLite file with two tables.
pub struct RowFloor {
    connection: Connection,
    next: u64,
    groups: FxHashMap<String, VecDeque<u64>>,
    turns: VecDeque<String>,
}

impl RowFloor {
    /// Creates a file in this folder.
    pub fn open(folder: &Path) -> Result<Arc<Mutex<Self>>, Failure> {
        let connection = Connection::open(folder.join("floor.db")).map_err(broken)?;
        connection.execute_batch(TABLES).map_err(broken)?;
        let floor = Self { connection, next: 0, groups: FxHashMap::default(), turns: VecDeque::new() };
        Ok(Arc::new(Mutex::new(floor)))
    }

    /// Writes a row for each job.
    pub fn enqueue(&mut self, jobs: &[NewJob]) -> Result<(), Failure> {
        let first = self.next;
        self.next += jobs.len() as u64;
        for (job, number) in jobs.iter().zip(first..) {
            let group = job.job.group.escaped();
            if !self.groups.contains_key(group) {
                self.turns.push_back(group.to_owned());
            }
            self.groups.entry(group.to_owned()).or_default().push_back(number);
        }
        self.transact(|connection| {
            let sql = "INSERT INTO jobs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let mut insert = connection.prepare_cached(sql)?;
            for (job, number) in jobs.iter().zip(first..) {
                let (group, id) = (job.job.group.escaped(), job.job.id.escaped());
                let fields =
                    params![number, group, id, job.type_id.escaped(), "normal", 1, number, &*job.payload];
                insert.execute(fields)?;
            }
            Ok(())
        })
    }

    /// Writes a row for the lease of each job, and replaces it by a row for its end.
    pub fn pop_and_acknowledge(&mut self, jobs_max: usize) -> Result<usize, Failure> {
        let numbers = self.pop(jobs_max);
        self.transact(|connection| {
            let sql =
                "INSERT INTO progress (number, place, fence, batch, worker) VALUES (?1, ?2, ?3, ?3, ?4)";
            let mut insert = connection.prepare_cached(sql)?;
            for number in &numbers {
                insert.execute(params![number, "in_flight", 1_700_000_000_000_000_u64, "caller-1"])?;
            }
            Ok(())
        })?;
        self.transact(|connection| {
            let sql =
                "INSERT OR REPLACE INTO progress (number, place, attempts, throttles, losses, settled_fence,
                settled_at, last_worker, note) VALUES (?1, ?2, 1, 0, 0, ?3, ?3, ?4, x'')";
            let mut replace = connection.prepare_cached(sql)?;
            for number in &numbers {
                replace.execute(params![number, "completed", 1_700_000_000_000_000_u64, "caller-1"])?;
            }
            Ok(())
        })?;
        Ok(numbers.len())
    }

    fn pop(&mut self, jobs_max: usize) -> Vec<u64> {
        let mut popped = Vec::with_capacity(jobs_max);
        while popped.len() < jobs_max
            && let Some(group) = self.turns.pop_front()
        {
            let Some(waiting) = self.groups.get_mut(&group) else { continue };
            let count = TURN_JOBS.min(jobs_max - popped.len()).min(waiting.len());
            popped.extend(waiting.drain(..count));
            if waiting.is_empty() {
                self.groups.remove(&group);
            } else {
                self.turns.push_back(group);
            }
        }
        popped.sort_unstable();
        popped
    }

    fn transact(&self, write: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<(), Failure> {
        let connection = &self.connection;
        connection.execute_batch("BEGIN IMMEDIATE").map_err(broken)?;
        write(connection).map_err(broken)?;
        connection.execute_batch("COMMIT").map_err(broken)
    }
}

fn broken(error: rusqlite::Error) -> Failure {
    Failure::broken(format!("the file of the floor: {error}"))
}
