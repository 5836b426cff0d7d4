//! `core`: the state machine alone, on one thread, in virtual time.

use std::time::Instant;

use fairlane_core::queue::{Enqueue, Lease, Leased, Machine, Settings, Settle};
use fairlane_core::{HashSeed, Micros, RequestNumber, WorkerId};

use super::floors::PlainQueue;
use super::ground::success;
use super::plan::BATCH_JOBS;
use super::result::BenchResult;
use super::rounds::ratio;
use super::workload::Workload;
use crate::percentiles::median;

const START: Micros = Micros(1_700_000_000_000_000);
const LEASE_MS: u64 = 60_000;
const TURNS: usize = 5;

/// Drains a number of jobs of a number of groups in turns with the floor.
pub fn measure(groups: usize, jobs: usize) -> BenchResult {
    let workload = Workload::new(groups);
    let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, START);
    let mut floor = PlainQueue::default();
    for batch in workload.batches(jobs, BATCH_JOBS.min(jobs / groups)) {
        floor.enqueue(&batch);
        machine.call(Enqueue { jobs: batch }, START);
    }
    let batches = jobs / TURNS / BATCH_JOBS;
    let (mut ours_rates, mut floor_rates) = (Vec::new(), Vec::new());
    let mut step = 0;
    for _ in 0..TURNS {
        floor_rates.push(rate(batches, || {
            let popped = floor.pop(BATCH_JOBS);
            floor.acknowledge(&popped);
        }));
        ours_rates.push(rate(batches, || {
            step += 1;
            lease_and_settle(&mut machine, &workload, step);
        }));
    }
    let (jobs_per_second, floor_per_second) = (median(ours_rates), median(floor_rates));
    BenchResult {
        name: "core".into(),
        engine: "core",
        groups,
        jobs: batches * TURNS * BATCH_JOBS,
        jobs_per_second,
        floor_per_second,
        floor_ratio: ratio(jobs_per_second, floor_per_second),
        ..BenchResult::default()
    }
}

fn rate(batches: usize, mut batch: impl FnMut()) -> f64 {
    let started = Instant::now();
    (0..batches).for_each(|_| batch());
    (batches * BATCH_JOBS) as f64 / started.elapsed().as_secs_f64()
}

fn lease_and_settle(machine: &mut Machine, workload: &Workload, step: u64) {
    let now = START.plus_us(step);
    let lease = Lease {
        worker: WorkerId::new("core").expect("a plain word is a name"),
        request: RequestNumber(step),
        types: vec![workload.type_id.clone()],
        jobs_max: BATCH_JOBS,
        lease_ms: LEASE_MS,
    };
    let Leased::Jobs { jobs, .. } = machine.call(lease, now) else {
        unreachable!("the reply to a new request has jobs");
    };
    debug_assert_eq!(jobs.len(), BATCH_JOBS);
    let settlements = jobs.into_iter().map(success).collect();
    machine.call(Settle { settlements }, now);
}
