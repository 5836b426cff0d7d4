//! `groups-N`: whether the cost of a job depends on the number of groups.

use super::drain::{Shape, measure_shape};
use super::ground::Ground;
use super::result::BenchResult;
use crate::failure::Failure;

/// Jobs of each group, enqueued in one batch.
const GROUP_JOBS: usize = 64;
/// Fewer jobs than this are filled and drained several times, so that a measurement takes long
/// enough.
const JOBS_MIN: usize = 20_000;
const TURNS: usize = 5;

/// Drains groups of 64 jobs each.
pub async fn measure(ground: &Ground, groups: usize) -> Result<BenchResult, Failure> {
    let jobs = groups * GROUP_JOBS;
    let (fills, turns) = if jobs < JOBS_MIN { (JOBS_MIN.div_ceil(jobs).min(15), 1) } else { (1, TURNS) };
    let shape = Shape { groups, jobs, batch_jobs: GROUP_JOBS, turns, fills };
    measure_shape(ground, &shape).await
}
