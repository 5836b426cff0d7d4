//! `drain`: leases and settles jobs in batches, without work in between.

use super::enqueue::push_to_list;
use super::floors::{Floor, ScriptFloor};
use super::ground::{Ground, side_by_side};
use super::plan::{BATCH_JOBS, CALLERS, GROUPS};
use super::result::BenchResult;
use super::rounds::{Rounds, compare};
use super::workload::Workload;
use crate::failure::Failure;

/// The size of a drain.
pub struct Shape {
    /// The number of groups.
    pub groups: usize,
    /// Jobs in the queue after each fill.
    pub jobs: usize,
    /// Jobs per enqueue, all of one group.
    pub batch_jobs: usize,
    /// Turns in which one fill is drained.
    pub turns: usize,
    /// How often the queue is filled.
    pub fills: usize,
}

/// Queue, floor and plain list take turns, with the same number of jobs each.
pub async fn measure(ground: &Ground, rounds: usize, jobs: usize) -> Result<BenchResult, Failure> {
    let shape =
        Shape { groups: GROUPS, jobs: rounds * jobs, batch_jobs: BATCH_JOBS, turns: rounds, fills: 1 };
    let mut result = measure_shape(ground, &shape).await?;
    if let Floor::Scripts(scripts) = &ground.floor {
        let mut list = Rounds::default();
        let batches = Workload::new(GROUPS).batches(rounds * jobs, BATCH_JOBS).collect();
        push_to_list(scripts, batches).await?;
        for _ in 0..rounds {
            list.measure(ground.server.as_ref(), jobs, pop_from_list(scripts, jobs)).await?;
        }
        result.list_per_second = list.jobs_per_second();
        result.list_us_per_job = list.per_job(|spent| spent.list_us as f64);
    }
    Ok(result)
}

/// Fills queue and floor, and drains them in turns.
pub async fn measure_shape(ground: &Ground, shape: &Shape) -> Result<BenchResult, Failure> {
    let workload = Workload::new(shape.groups);
    let server = ground.server.as_ref();
    let (mut ours, mut floor) = (Rounds::default(), Rounds::default());
    // Runs every script once before the first turn, so that no turn has to load it.
    ground.fill(&workload, BATCH_JOBS, BATCH_JOBS).await?;
    ground.fill_floor(&workload, BATCH_JOBS, BATCH_JOBS).await?;
    ground.drain(&workload.type_id, BATCH_JOBS).await?;
    ground.drain_floor(BATCH_JOBS).await?;
    for _ in 0..shape.fills {
        ground.fill(&workload, shape.jobs, shape.batch_jobs).await?;
        ground.fill_floor(&workload, shape.jobs, shape.batch_jobs).await?;
        let mut left = shape.jobs;
        for turn in 0..shape.turns {
            let jobs = left / (shape.turns - turn);
            left -= jobs;
            floor.measure(server, jobs, ground.drain_floor(jobs)).await?;
            ours.measure(server, jobs, ground.drain(&workload.type_id, jobs)).await?;
        }
    }
    Ok(compare(shape.groups, &ours, &floor))
}

async fn pop_from_list(scripts: &ScriptFloor, jobs: usize) -> Result<(), Failure> {
    let batches = jobs / BATCH_JOBS;
    let callers = (0..CALLERS).map(|caller| {
        let scripts = scripts.clone();
        async move {
            for _ in (caller..batches).step_by(CALLERS) {
                scripts.pop_from_list(BATCH_JOBS).await?;
            }
            Ok(())
        }
    });
    side_by_side(callers).await
}
