//! `jobs-N`: whether a job costs the same among a thousand and among a million.

use super::drain::{Shape, measure_shape};
use super::ground::Ground;
use super::plan::{BATCH_JOBS, GROUPS};
use super::result::BenchResult;
use crate::failure::Failure;

/// Fewer jobs than this are filled in and drained several times, to measure more than a moment.
const JOBS_MIN: usize = 20_000;
const TURNS: usize = 5;

/// Drains so many jobs of 100 groups.
pub async fn measure(ground: &Ground, jobs: usize) -> Result<BenchResult, Failure> {
    let (fills, turns) = if jobs < JOBS_MIN { (JOBS_MIN.div_ceil(jobs).min(15), 1) } else { (1, TURNS) };
    // A thousand jobs are ten for each of the groups.
    let batch_jobs = BATCH_JOBS.min(jobs / GROUPS);
    measure_shape(ground, &Shape { groups: GROUPS, jobs, batch_jobs, turns, fills }).await
}
