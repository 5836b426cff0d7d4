//! `restart`: opens a directory full of waiting jobs, and measures their size on disk and in
//! memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fairlane_core::queue::InspectQueue;
use fairlane_engine::{DirectoryOptions, Durability, EmbeddedEngine, Engine};

use super::ground::Ground;
use super::plan::{BATCH_JOBS, GROUPS};
use super::result::BenchResult;
use super::workload::{PAYLOAD_BYTES, Workload};
use crate::failure::Failure;

const PAGE_BYTES: u64 = 4096;

/// Fills a new directory, closes it and opens it again.
pub async fn measure(ground: &Ground, jobs: usize) -> Result<BenchResult, Failure> {
    let folder =
        ground.own.folder().expect("the plan has this benchmark in directories only").join("restart");
    let workload = Workload::new(GROUPS);
    let empty_bytes = resident_bytes();
    // Filling is not measured, so it need not wait for the disk.
    let engine: Arc<dyn Engine> = Arc::new(open(&folder, Durability::Interval)?);
    for mut batch in workload.batches(jobs, BATCH_JOBS) {
        // The jobs of the workload share one payload; copies take the memory of separate payloads.
        batch.iter_mut().for_each(|job| job.payload = Arc::from(&*job.payload));
        engine.enqueue_all(batch).await?;
    }
    let full_bytes = resident_bytes();
    drop(engine);
    let disk_bytes = folder_bytes(&folder)?;
    let started = Instant::now();
    let engine: Arc<dyn Engine> = Arc::new(open(&folder, Durability::Commit)?);
    let restart_seconds = started.elapsed().as_secs_f64();
    if engine.call(InspectQueue).await?.backlog != jobs as u64 {
        return Err(Failure::broken("the opened directory does not contain all jobs"));
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
    let unreadable = |error| Failure::broken(format!("{} cannot be read: {error}", folder.display()));
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        bytes += entry.and_then(|entry| entry.metadata()).map_err(unreadable)?.len();
    }
    Ok(bytes)
}

/// The resident memory of this process in bytes, on systems with `/proc`.
fn resident_bytes() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split_whitespace().nth(1)?.parse::<u64>().ok()? * PAGE_BYTES)
}
