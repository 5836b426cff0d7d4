//! `jobs-N`: whether the cost of a job depends on the number of jobs.

use super::drain::{Shape, measure_shape};
use super::ground::Ground;
use super::plan::{BATCH_JOBS, GROUPS};
use super::result::BenchResult;
use crate::failure::Failure;

/// Fewer jobs than this are filled and drained several times, so that a measurement takes long
/// enough.
const JOBS_MIN: usize = 20_000;
const TURNS: usize = 5;

/// Jobs per group at least: a smaller group is empty after one or two turns, which are not full.
const GROUP_JOBS_MIN: usize = 64;

/// Drains jobs of 100 groups, or of fewer groups if each would have too few jobs.
pub async fn measure(ground: &Ground, jobs: usize) -> Result<BenchResult, Failure> {
    let (fills, turns) = if jobs < JOBS_MIN { (JOBS_MIN.div_ceil(jobs).min(15), 1) } else { (1, TURNS) };
    let groups = GROUPS.min(jobs / GROUP_JOBS_MIN).max(1);
    let batch_jobs = BATCH_JOBS.min(jobs / groups);
    measure_shape(ground, &Shape { groups, jobs, batch_jobs, turns, fills }).await
}
