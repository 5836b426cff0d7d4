//! `restart`: opening a directory full of waiting jobs, and what they take there and in memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fairlane_core::queue::{Inspect, Inspected};
use fairlane_engine::{DirectoryOptions, Durability, EmbeddedEngine, Engine};

use super::ground::Ground;
use super::plan::{BATCH_JOBS, GROUPS};
use super::result::BenchResult;
use super::workload::{PAYLOAD_BYTES, Workload};
use crate::failure::Failure;

const PAGE_BYTES: u64 = 4096;

/// Fills a directory of its own inside the ground's, closes it and opens it again.
pub async fn measure(ground: &Ground, jobs: usize) -> Result<BenchResult, Failure> {
    let folder =
        ground.own.folder().expect("the plan has this benchmark in directories only").join("restart");
    let workload = Workload::new(GROUPS);
    let empty_bytes = resident_bytes();
    // Filling is not what is measured: nothing waits for the disk.
    let engine: Arc<dyn Engine> = Arc::new(open(&folder, Durability::Interval)?);
    for mut batch in workload.batches(jobs, BATCH_JOBS) {
        // The workload's jobs share one payload; these are to take the memory they would have.
        batch.iter_mut().for_each(|job| job.payload = Arc::from(&*job.payload));
        engine.enqueue_all(batch).await?;
    }
    let full_bytes = resident_bytes();
    drop(engine);
    let disk_bytes = folder_bytes(&folder)?;
    let started = Instant::now();
    let engine: Arc<dyn Engine> = Arc::new(open(&folder, Durability::Commit)?);
    let restart_seconds = started.elapsed().as_secs_f64();
    let found = engine.inspect(Inspect::Whole).await?;
    if !matches!(found, Inspected::Whole(whole) if whole.backlog == jobs as u64) {
        return Err(Failure::broken("a directory was opened with fewer jobs than were put in"));
    }
    let beyond_payload = |bytes: u64| bytes as f64 / jobs as f64 - PAYLOAD_BYTES as f64;
    let resident = full_bytes.zip(empty_bytes).map(|(full, empty)| full.saturating_sub(empty));
    Ok(BenchResult {
        groups: GROUPS,
        jobs,
        bytes_per_job: Some(beyond_payload(disk_bytes)),
        resident_bytes_per_job: resident.map(beyond_payload),
        restart_seconds: Some(restart_seconds),
        ..BenchResult::default()
    })
}

fn open(folder: &Path, durability: Durability) -> Result<EmbeddedEngine, Failure> {
    let options = DirectoryOptions { durability, reserve_bytes: 0, ..Default::default() };
    Ok(EmbeddedEngine::open(folder, options)?)
}

fn folder_bytes(folder: &Path) -> Result<u64, Failure> {
    let unread = |error| Failure::broken(format!("{} cannot be read: {error}", folder.display()));
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(unread)? {
        bytes += entry.and_then(|entry| entry.metadata()).map_err(unread)?.len();
    }
    Ok(bytes)
}

/// What this process has in memory, where the system says so.
fn resident_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split_whitespace().nth(1)?.parse::<u64>().ok()? * PAGE_BYTES)
}
