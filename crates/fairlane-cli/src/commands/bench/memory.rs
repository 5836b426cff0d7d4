//! `memory`: the memory of a waiting job in addition to its payload.

use super::ground::Ground;
use super::plan::{BATCH_JOBS, GROUPS};
use super::result::BenchResult;
use super::rounds::ratio;
use super::workload::{PAYLOAD_BYTES, Workload};
use crate::failure::Failure;

/// Fills queue and floor one after the other, and reads the server's memory usage.
pub async fn measure(ground: &Ground, jobs: usize) -> Result<BenchResult, Failure> {
    let server = ground.server.as_ref().expect("the plan has this benchmark on Redis only");
    let workload = Workload::new(GROUPS);
    // Lets the buffers of the connections grow before the first reading.
    ground.fill(&workload, BATCH_JOBS, BATCH_JOBS).await?;
    ground.fill_floor(&workload, BATCH_JOBS, BATCH_JOBS).await?;
    let empty_bytes = server.used_memory_bytes().await?;
    ground.fill(&workload, jobs, BATCH_JOBS).await?;
    let ours_bytes = server.used_memory_bytes().await?;
    ground.fill_floor(&workload, jobs, BATCH_JOBS).await?;
    let both_bytes = server.used_memory_bytes().await?;
    let beyond_payload =
        |from: u64, to: u64| Some(to.saturating_sub(from) as f64 / jobs as f64 - PAYLOAD_BYTES as f64);
    let bytes_per_job = beyond_payload(empty_bytes, ours_bytes);
    let floor_bytes_per_job = beyond_payload(ours_bytes, both_bytes);
    let floor_ratio = ratio(floor_bytes_per_job, bytes_per_job);
    Ok(BenchResult {
        groups: GROUPS,
        jobs,
        bytes_per_job,
        floor_bytes_per_job,
        floor_ratio,
        ..BenchResult::default()
    })
}
