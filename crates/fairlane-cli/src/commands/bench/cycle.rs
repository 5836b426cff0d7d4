//! `cycle`: enqueue, lease and settle, each durable before its reply.

use super::ground::Ground;
use super::plan::{BATCH_JOBS, GROUPS};
use super::result::BenchResult;
use super::rounds::{Rounds, compare};
use super::workload::Workload;
use crate::failure::Failure;

/// Queue and floor take turns, with the same number of jobs each.
pub async fn measure(ground: &Ground, rounds: usize, jobs: usize) -> Result<BenchResult, Failure> {
    let workload = Workload::new(GROUPS);
    let (mut ours, mut floor) = (Rounds::default(), Rounds::default());
    for _ in 0..rounds {
        let batches = || workload.batches(jobs, BATCH_JOBS).collect::<Vec<_>>();
        let (ours_batches, floor_batches) = (batches(), batches());
        let floor_turn = async {
            ground.enqueue_floor(floor_batches).await?;
            ground.drain_floor(jobs).await
        };
        floor.measure(None, jobs, floor_turn).await?;
        let our_turn = async {
            ground.enqueue(ours_batches).await?;
            ground.drain(&workload.type_id, jobs).await
        };
        ours.measure(None, jobs, our_turn).await?;
    }
    Ok(compare(GROUPS, &ours, &floor))
}
