//! Runs a number of batches of 100 jobs through one operation of the machine, to
//! count instructions.
//!
//! `valgrind --tool=callgrind target/release/examples/operations lease 200`: the difference
//! between the counts for 200 and for 100 batches is the cost of 100 batches. `none` only
//! prepares the machine.

use std::sync::Arc;

use fairlane_core::queue::{
    Command, Enqueue, Extend, JobRef, Lease, Leased, LeasedJob, Machine, NewJob, Outcome, Reply, Settings,
    Settle, Settlement,
};
use fairlane_core::{GroupId, HashSeed, JobId, Micros, RequestNumber, TypeId, WorkerId};

const GROUPS: usize = 100;
const BATCH: usize = 100;
/// Batches prepared in every run, so that runs differ only in the operation.
const BATCHES: usize = 200;
const NOW: Micros = Micros(1_700_000_000_000_000);

fn batch(number: usize) -> Command {
    let group = GroupId::new(format!("group-{:06}", number % GROUPS)).expect("a number makes a name");
    let job = |index: usize| {
        NewJob::new(
            JobRef {
                group: group.clone(),
                id: JobId::new(format!("{:016}", number * BATCH + index)).expect("a number makes a name"),
            },
            TypeId::new("bench").expect("a plain word is a name"),
            Arc::from([b'x'; 200]),
        )
    };
    Command::Enqueue(Enqueue { jobs: (0..BATCH).map(job).collect() })
}

fn lease(machine: &mut Machine, number: usize) -> Vec<LeasedJob> {
    let command = Command::Lease(Lease {
        worker: WorkerId::new("worker").expect("a plain word is a name"),
        request: RequestNumber(number as u64 + 1),
        types: vec![TypeId::new("bench").expect("a plain word is a name")],
        jobs_max: BATCH,
        lease_ms: 60_000,
    });
    match machine.apply(command, NOW) {
        Reply::Lease(Leased::Jobs { jobs, .. }) => jobs,
        other => panic!("a lease was answered with {other:?}"),
    }
}

fn settle(jobs: &[LeasedJob]) -> Command {
    let result: Arc<[u8]> = Arc::from(&[][..]);
    let settlement = |job: &LeasedJob| Settlement {
        job: job.job.clone(),
        fence: job.fence,
        outcome: Outcome::Succeeded { result: result.clone() },
    };
    Command::Settle(Settle { settlements: jobs.iter().map(settlement).collect() })
}

fn extend(jobs: &[LeasedJob]) -> Command {
    let leases = jobs.iter().map(|job| (job.job.clone(), job.fence)).collect();
    Command::Extend(Extend { leases, lease_ms: 60_000 })
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let operation = arguments.next().unwrap_or_else(|| "none".into());
    let batches = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(BATCHES).min(BATCHES);
    let mut machine = Machine::new(Settings::default(), HashSeed::FIXED, NOW);
    let mut prepared: Vec<Command> = (0..BATCHES).map(batch).collect();
    if operation != "enqueue" {
        for command in prepared.drain(..) {
            machine.apply(command, NOW);
        }
    }
    if operation == "settle" || operation == "extend" {
        let leased: Vec<_> = (0..BATCHES).map(|number| lease(&mut machine, number)).collect();
        prepared = leased
            .iter()
            .map(|jobs| if operation == "settle" { settle(jobs) } else { extend(jobs) })
            .collect();
    }
    if operation == "lease" {
        for number in 0..batches {
            lease(&mut machine, number);
        }
    } else {
        for command in prepared.into_iter().take(batches) {
            machine.apply(command, NOW);
        }
    }
}
