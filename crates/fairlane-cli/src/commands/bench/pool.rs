//! `pool-N`: what a worker with N slots adds to the cost of a job. The floor is the engine's own
//! drain.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlane_worker::{Context, Worker, WorkerSettings};
use tokio::sync::Notify;

use super::ground::Ground;
use super::plan::{BATCH_JOBS, GROUPS};
use super::result::BenchResult;
use super::rounds::{Rounds, compare, ratio};
use super::workload::Workload;
use crate::failure::Failure;

/// Worker and engine take turns, with the same number of jobs each. The processor does nothing.
pub async fn measure(
    ground: &Ground,
    rounds: usize,
    jobs: usize,
    slots: usize,
) -> Result<BenchResult, Failure> {
    let workload = Workload::new(GROUPS);
    let server = ground.server.as_ref();
    let (mut pool, mut engine) = (Rounds::default(), Rounds::default());
    for _ in 0..rounds {
        ground.fill(&workload, jobs, BATCH_JOBS).await?;
        engine.measure(server, jobs, ground.drain(&workload.type_id, jobs)).await?;
        ground.fill(&workload, jobs, BATCH_JOBS).await?;
        pool.measure(server, jobs, drain(ground, &workload, jobs, slots)).await?;
    }
    // Both sides run the same scripts, so elapsed time is compared, also on Redis.
    let floor_ratio = ratio(pool.jobs_per_second(), engine.jobs_per_second());
    Ok(BenchResult { floor_ratio, ..compare(GROUPS, &pool, &engine) })
}

async fn drain(ground: &Ground, workload: &Workload, jobs: usize, slots: usize) -> Result<(), Failure> {
    let (left, finished) = (Arc::new(AtomicUsize::new(jobs)), Arc::new(Notify::new()));
    let last = finished.clone();
    let mut settings = WorkerSettings { worker_count: slots, ..WorkerSettings::default() };
    // Two batches fit, so that one is leased while the other runs.
    settings.fetch_batch_size = settings.fetch_batch_size.max(slots / 2);
    let pool = Worker::new(ground.own.engine.clone())
        .name("bench")
        .settings(settings)
        .without_loops()
        .processor(workload.type_id.to_string(), move |_: Context| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                last.notify_one();
            }
            std::future::ready(())
        })
        .start()
        .map_err(|error| Failure::broken(error.to_string()))?;
    finished.notified().await;
    match pool.stop().await.left {
        0 => Ok(()),
        left => Err(Failure::broken(format!("the worker left {left} jobs unsettled"))),
    }
}
