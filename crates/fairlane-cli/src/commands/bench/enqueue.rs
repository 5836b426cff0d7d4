//! `enqueue`: adds jobs to the queue.

use super::floors::{Floor, ScriptFloor};
use super::ground::{Ground, divide, side_by_side};
use super::plan::{BATCH_JOBS, GROUPS, MIXED_JOBS};
use super::result::BenchResult;
use super::rounds::{Rounds, compare};
use super::workload::Workload;
use crate::failure::Failure;

/// Queue, floor and plain list take turns, with the same number of jobs each.
pub async fn measure(ground: &Ground, rounds: usize, jobs: usize) -> Result<BenchResult, Failure> {
    let workload = Workload::new(GROUPS);
    let server = ground.server.as_ref();
    let (mut ours, mut floor, mut list) = (Rounds::default(), Rounds::default(), Rounds::default());
    // Adds a batch to each before the first turn, so that no turn has to load a script.
    ground.fill(&workload, BATCH_JOBS, BATCH_JOBS).await?;
    ground.fill_floor(&workload, BATCH_JOBS, BATCH_JOBS).await?;
    for _ in 0..rounds {
        let batches = || workload.batches(jobs, BATCH_JOBS).collect::<Vec<_>>();
        floor.measure(server, jobs, ground.enqueue_floor(batches())).await?;
        ours.measure(server, jobs, ground.enqueue(batches())).await?;
        if let Floor::Scripts(scripts) = &ground.floor {
            list.measure(server, jobs, push_to_list(scripts, batches())).await?;
        }
    }
    let list_us_per_job = list.per_job(|spent| spent.list_us as f64);
    let list_per_second = list.jobs_per_second();
    Ok(BenchResult { list_per_second, list_us_per_job, ..compare(GROUPS, &ours, &floor) })
}

/// Jobs of many groups in turn. The floor, which has no groups, gets the same jobs in batches of 100.
pub async fn measure_mixed(
    ground: &Ground,
    groups: usize,
    rounds: usize,
    jobs: usize,
) -> Result<BenchResult, Failure> {
    let workload = Workload::new(groups);
    let server = ground.server.as_ref();
    let (mut ours, mut floor) = (Rounds::default(), Rounds::default());
    ground.fill(&workload, BATCH_JOBS, BATCH_JOBS).await?;
    ground.fill_floor(&workload, BATCH_JOBS, BATCH_JOBS).await?;
    for _ in 0..rounds {
        let batches = |size| workload.mixed_batches(jobs, size).collect::<Vec<_>>();
        floor.measure(server, jobs, ground.enqueue_floor(batches(BATCH_JOBS))).await?;
        ours.measure(server, jobs, ground.enqueue(batches(MIXED_JOBS))).await?;
    }
    Ok(compare(groups, &ours, &floor))
}

/// Fills the plain list from several concurrent callers.
pub async fn push_to_list(
    scripts: &ScriptFloor,
    batches: Vec<Vec<fairlane_core::queue::NewJob>>,
) -> Result<(), Failure> {
    let callers = divide(batches).map(|batches| {
        let scripts = scripts.clone();
        async move {
            for jobs in batches {
                scripts.push_to_list(&jobs).await?;
            }
            Ok(())
        }
    });
    side_by_side(callers).await
}
