//! `jobs-N`: whether a job costs the same among a thousand and among a million.

use super::drain::{Shape, measure_shape};
use super::ground::Ground;
use super::plan::{BATCH_JOBS, GROUPS};
use super::result::BenchResult;
use crate::failure::Failure;

/// Fewer jobs than this are filled in and drained several times, to measure more than a moment.
const JOBS_MIN: usize = 20_000;
const TURNS: usize = 5;

/// A group with fewer jobs than this is empty after a visit or two, and its visits are not full ones.
const GROUP_JOBS_MIN: usize = 64;

/// Drains so many jobs of 100 groups, or of fewer where each would have only a handful.
pub async fn measure(ground: &Ground, jobs: usize) -> Result<BenchResult, Failure> {
    let (fills, turns) = if jobs < JOBS_MIN { (JOBS_MIN.div_ceil(jobs).min(15), 1) } else { (1, TURNS) };
    let groups = GROUPS.min(jobs / GROUP_JOBS_MIN).max(1);
    let batch_jobs = BATCH_JOBS.min(jobs / groups);
    measure_shape(ground, &Shape { groups, jobs, batch_jobs, turns, fills }).await
}
