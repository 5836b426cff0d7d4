//! The process that is killed: producers and workers on one data directory.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use fairlane_core::queue::*;
use fairlane_core::{Level, WorkerId};
use fairlane_engine::{DirectoryOptions, EmbeddedEngine, Engine, Leaser};

use crate::dice::Dice;
use crate::subject::{group_id, group_seats, job, per_second, trace_of, type_id};

const GROUPS: u64 = 7;
const BATCH_MAX: u64 = 30;
const LEASE_MS: u64 = 300;
/// Producers pause above this many unfinished jobs.
const BACKLOG_MAX: u64 = 3000;
/// One batch in this many is abandoned.
const ABANDONED_ONE_IN: u64 = 10;

/// Works on the directory until killed, and prints every acknowledgement.
pub async fn run_victim(folder: &Path, number: u64) {
    let engine = EmbeddedEngine::open(folder, DirectoryOptions::default()).expect("the directory is free");
    let engine: Arc<dyn Engine> = Arc::new(engine);
    let seats = SetGroup { group: group_id("g0"), patch: group_seats(3), reset_congestion: false };
    engine.call(seats).await.expect("the disk works");
    let settings = Settings { max_retry_count: 10_000, max_loss_count: 10_000, ..Settings::default() };
    engine.call(SetQueue { settings }).await.expect("the disk works");
    let patch = TypePatch { rate: Some(Some(per_second(2000, 50))), ..TypePatch::default() };
    engine.call(SetType { type_id: type_id("limited"), patch }).await.expect("the disk works");
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..3 {
        clients.spawn(produce(engine.clone(), Dice::new(number * 10 + client), format!("{number}-{client}")));
        clients.spawn(work(engine.clone(), Dice::new(number * 20 + client), format!("{number}-{client}")));
    }
    clients.spawn(reclaim(engine));
    clients.join_next().await.expect("there are clients").expect("only the kill ends a client");
}

fn print_line(verb: &str, job: &JobRef, fence: u64) {
    // A line that cannot be written counts as not printed.
    let _ = writeln!(std::io::stdout(), "{verb} {} {} {fence} .", job.group, job.id);
}

async fn produce(engine: Arc<dyn Engine>, mut dice: Dice, name: String) {
    let types = [type_id("plain"), type_id("limited")];
    for made in 0.. {
        let mut jobs = Vec::new();
        for index in 0..1 + dice.below(BATCH_MAX) {
            let new = job(&format!("g{}", dice.below(GROUPS)), &format!("{name}-{made}-{index}"));
            jobs.push(NewJob {
                type_id: dice.pick(&types),
                level: dice.pick(&Level::ALL),
                delay_ms: dice.below(4) / 3 * dice.below(50),
                trace: trace_of(&new.job),
                ..new
            });
        }
        let enqueued = engine.call(Enqueue { jobs: jobs.clone() }).await.expect("the disk works");
        for (job, receipt) in jobs.iter().zip(enqueued.receipts) {
            assert_eq!(receipt, JobReceipt::Created);
            print_line("enqueued", &job.job, 0);
        }
        while backlog(&engine).await > BACKLOG_MAX {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

async fn backlog(engine: &Arc<dyn Engine>) -> u64 {
    engine.call(InspectQueue).await.expect("the engine runs").backlog
}

async fn work(engine: Arc<dyn Engine>, mut dice: Dice, name: String) {
    let types = [type_id("plain"), type_id("limited")];
    let mut leaser = Leaser::new(engine.clone(), WorkerId::new(name).expect("a valid worker id"));
    loop {
        let jobs_max = 1 + dice.below(BATCH_MAX) as usize;
        let leased = leaser.lease(&types, jobs_max, LEASE_MS).await.expect("the disk works").jobs;
        if leased.is_empty() {
            engine.wait(&types, std::time::Duration::from_millis(5)).await.expect("the engine runs");
        }
        for job in &leased {
            print_line("leased", &job.job, job.fence.0);
        }
        if dice.one_in(ABANDONED_ONE_IN) {
            continue;
        }
        let ends: Vec<(LeasedJob, Outcome, bool)> =
            leased.into_iter().map(|job| end(&mut dice, job)).collect();
        let settlements = ends.iter().map(|(job, outcome, _)| Settlement {
            job: job.job.clone(),
            fence: job.fence,
            outcome: outcome.clone(),
        });
        let settled = engine.call(Settle { settlements: settlements.collect() }).await;
        for ((job, _, terminal), verdict) in ends.iter().zip(settled.expect("the disk works").verdicts) {
            // A lease may have run out meanwhile; then another worker has its job.
            if *terminal && verdict == Verdict::Applied {
                print_line("ended", &job.job, job.fence.0);
            }
        }
    }
}

fn end(dice: &mut Dice, job: LeasedJob) -> (LeasedJob, Outcome, bool) {
    let note: Arc<[u8]> = Arc::from(&b"note"[..]);
    let (outcome, terminal) = match dice.below(10) {
        0 => (Outcome::Released, false),
        1 => (Outcome::Retry { delay_ms: dice.below(20), reason: note }, false),
        2 => (Outcome::Failed { reason: note }, true),
        _ => (Outcome::Succeeded { result: note }, true),
    };
    (job, outcome, terminal)
}

async fn reclaim(engine: Arc<dyn Engine>) {
    loop {
        engine.call(Reclaim { jobs_max: 100 }).await.expect("the disk works");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
