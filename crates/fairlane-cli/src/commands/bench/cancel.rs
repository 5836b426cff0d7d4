//! `cancel-N`: the cost of cancelling a bulk action of N jobs, and its effect on another group.
//!
//! Sweeps the jobs of the bulk action as the janitor does, while it leases and settles jobs of
//! another group batch by batch. The floor is the same leases before the cancellation.

use std::time::{Duration, Instant};

use fairlane_core::limits::SWEEP_JOBS_MAX;
use fairlane_core::queue::{BulkRef, CancelBulk, NewJob, OpenBulk, Sweep};
use fairlane_core::{BulkId, TypeId, WorkerId};
use fairlane_engine::Leaser;

use super::ground::{Ground, lease_and_settle};
use super::plan::BATCH_JOBS;
use super::result::BenchResult;
use super::rounds::ratio;
use super::workload::Workload;
use crate::failure::Failure;
use crate::percentiles::percentile;

/// Leases of the other group before the cancellation.
const CALM_LEASES: usize = 200;
/// Jobs of each of the other group's leases.
const LEASE_JOBS: usize = 10;

/// Cancels a bulk action of `jobs` jobs and sweeps it.
pub async fn measure(ground: &Ground, jobs: usize) -> Result<BenchResult, Failure> {
    let workload = Workload::new(2);
    let bulk = BulkRef {
        group: workload.groups[0].clone(),
        id: BulkId::new("cancelled").expect("a plain word is a name"),
    };
    let open = OpenBulk { bulk: bulk.clone(), deadline_ms: None, failures_max: None, payload: [].into() };
    ground.own.engine.call(open).await?;
    let in_bulk = |job: NewJob| NewJob { bulk: Some(bulk.id.clone()), ..job };
    let batches = (0..jobs.div_ceil(BATCH_JOBS)).map(|_| workload.batch(0, BATCH_JOBS));
    ground.enqueue(batches.map(|batch| batch.into_iter().map(in_bulk).collect()).collect()).await?;
    let others = jobs.div_ceil(SWEEP_JOBS_MAX) + CALM_LEASES + 1;
    let batches = (0..(others * LEASE_JOBS).div_ceil(BATCH_JOBS)).map(|_| other_batch(&workload));
    ground.enqueue(batches.collect()).await?;
    let mut other = OtherGroup::new(ground);
    for _ in 0..CALM_LEASES {
        let took = other.lease(ground).await?;
        other.calm.push(took);
    }
    let started = Instant::now();
    ground.own.engine.call(CancelBulk { bulk }).await?;
    let answered = started.elapsed();
    let before = match &ground.server {
        Some(server) => Some(server.read().await?),
        None => None,
    };
    let started = Instant::now();
    loop {
        let swept = ground.own.engine.call(Sweep { jobs_max: SWEEP_JOBS_MAX }).await?;
        let took = other.lease(ground).await?;
        other.during.push(took);
        if !swept.more {
            break;
        }
    }
    let mut result = other.result(jobs, answered, started.elapsed());
    if let (Some(server), Some(before)) = (&ground.server, before) {
        let spent = server.read().await?.since(&before);
        result.script_p999_ms = spent.script_times.per_mille_us(999).map(|us| us as f64 / 1000.0);
    }
    Ok(result)
}

/// Jobs of the other group, with a separate type, so that only the store is shared.
fn other_batch(workload: &Workload) -> Vec<NewJob> {
    let type_id = other_type();
    workload.batch(1, BATCH_JOBS).into_iter().map(|job| NewJob { type_id: type_id.clone(), ..job }).collect()
}

fn other_type() -> TypeId {
    TypeId::new("other").expect("a plain word is a name")
}

/// The group that is not cancelled, and the durations of its leases.
struct OtherGroup {
    leaser: Leaser,
    calm: Vec<Duration>,
    during: Vec<Duration>,
}

impl OtherGroup {
    fn new(ground: &Ground) -> Self {
        let worker = WorkerId::new("other").expect("a plain word is a name");
        let leaser = Leaser::new(ground.own.engine.clone(), worker);
        Self { leaser, calm: Vec::new(), during: Vec::new() }
    }

    async fn lease(&mut self, ground: &Ground) -> Result<Duration, Failure> {
        let started = Instant::now();
        lease_and_settle(&ground.own.engine, &mut self.leaser, &other_type(), LEASE_JOBS).await?;
        Ok(started.elapsed())
    }

    fn result(self, jobs: usize, answered: Duration, swept: Duration) -> BenchResult {
        let at = |times: &[Duration], per_mille: usize| {
            let mut us: Vec<u64> = times.iter().map(|time| time.as_micros() as u64).collect();
            percentile(&mut us, per_mille).map(|us| us as f64)
        };
        let (calm, during) = (&self.calm, &self.during);
        let (ours, floor) = (at(during, 500), at(calm, 500));
        BenchResult {
            groups: 2,
            jobs,
            cancel_ms: Some(answered.as_secs_f64() * 1000.0),
            jobs_per_second: Some(jobs as f64 / swept.as_secs_f64()),
            latency_p50_us: ours,
            latency_p99_us: at(during, 990),
            floor_latency_p50_us: floor,
            floor_latency_p99_us: at(calm, 990),
            floor_ratio: ratio(floor, ours),
            ..BenchResult::default()
        }
    }
}
