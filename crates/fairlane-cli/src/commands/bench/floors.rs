//! Floors: minimal queues for comparison.
//!
//! A floor accepts each id once, leases jobs and forgets them when they are acknowledged. Left out
//! on purpose, because these features are what the queue costs more for: groups and their fair
//! order, limits, retries, retention, wake-ups, and idempotency.

mod plain;
mod rows;
mod scripts;

use std::sync::{Arc, Mutex, MutexGuard};

use fairlane_core::queue::NewJob;

use crate::failure::Failure;
pub use plain::PlainQueue;
pub use rows::RowFloor;
pub use scripts::ScriptFloor;

/// The implementation that the queue is compared with.
#[derive(Clone)]
pub enum Floor {
    /// On Redis: three short scripts.
    Scripts(ScriptFloor),
    /// In memory: a queue, a set and a map.
    Plain(Arc<Mutex<PlainQueue>>),
    /// In a directory: only the rows of the jobs, written to SQLite.
    Rows(Arc<Mutex<RowFloor>>),
}

impl Floor {
    /// The floor in this process.
    pub fn plain() -> Self {
        Self::Plain(Arc::default())
    }

    /// Adds a batch.
    pub async fn enqueue(&self, jobs: &[NewJob]) -> Result<(), Failure> {
        match self {
            Self::Scripts(scripts) => scripts.enqueue(jobs).await,
            Self::Plain(queue) => {
                lock(queue).enqueue(jobs);
                Ok(())
            }
            Self::Rows(rows) => lock(rows).enqueue(jobs),
        }
    }

    /// Leases and acknowledges up to `jobs_max` jobs; returns their number.
    pub async fn pop_and_acknowledge(&self, jobs_max: usize) -> Result<usize, Failure> {
        match self {
            Self::Scripts(scripts) => scripts.pop_and_acknowledge(jobs_max).await,
            Self::Plain(queue) => {
                let jobs = lock(queue).pop(jobs_max);
                lock(queue).acknowledge(&jobs);
                Ok(jobs.len())
            }
            Self::Rows(rows) => lock(rows).pop_and_acknowledge(jobs_max),
        }
    }
}

fn lock<T>(queue: &Mutex<T>) -> MutexGuard<'_, T> {
    queue.lock().expect("no holder panics")
}
