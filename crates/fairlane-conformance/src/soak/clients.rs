//! Producers and workers. Each call may be dropped half way and is then repeated, as after a crash
//! of the code that awaited it; this must have no visible effect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::queue::*;
use fairlane_core::{Level, WorkerId};
use fairlane_engine::{Engine, EngineError, Leaser};

use super::{Ledger, POLL, types, until_answered};
use crate::dice::Dice;
use crate::subject::{job, trace_of};

const GROUPS: u64 = 5;
const BATCH_MAX: u64 = 20;
/// Producers pause above this many unfinished jobs.
const UNFINISHED_MAX: usize = 1500;
const LEASE: Duration = Duration::from_secs(30);
/// One call in this many is dropped before its reply.
const DROPPED_ONE_IN: u64 = 10;
/// One job in this many is abandoned, where workers abandon jobs.
const ABANDONED_ONE_IN: u64 = 400;

/// Drops one call in [`DROPPED_ONE_IN`] after a short time; `None` if it was dropped.
async fn perhaps_dropped<T>(dice: &mut Dice, ledger: &Ledger, call: impl Future<Output = T>) -> Option<T> {
    if !dice.one_in(DROPPED_ONE_IN) {
        return Some(call.await);
    }
    let timeout = Duration::from_micros(dice.below(3000));
    let reply = tokio::time::timeout(timeout, call).await.ok();
    if reply.is_none() {
        ledger.drop_one();
    }
    reply
}

fn panic_unless_retryable(error: &EngineError) {
    assert!(error.is_retryable(), "an error that no injected fault causes: {error}");
}

/// Enqueues until `end`, and each batch until it is acknowledged.
pub(super) async fn produce(
    engine: Arc<dyn Engine>,
    ledger: Arc<Ledger>,
    mut dice: Dice,
    producer: u64,
    end: Instant,
) {
    let mut made = 0;
    while Instant::now() < end {
        if ledger.unfinished() > UNFINISHED_MAX {
            tokio::time::sleep(POLL).await;
            continue;
        }
        let mut jobs = Vec::new();
        for _ in 0..1 + dice.below(BATCH_MAX) {
            made += 1;
            let new = job(&format!("g{}", dice.below(GROUPS)), &format!("{producer}-{made}"));
            jobs.push(NewJob {
                type_id: dice.pick(&types()),
                level: dice.pick(&Level::ALL),
                delay_ms: dice.below(4) / 3 * dice.below(50),
                trace: trace_of(&new.job),
                ..new
            });
        }
        let command = Enqueue { jobs };
        loop {
            match perhaps_dropped(&mut dice, &ledger, engine.call(command.clone())).await {
                Some(Ok(reply)) => {
                    let refused = |receipt: &JobReceipt| matches!(receipt, JobReceipt::Refused { .. });
                    assert!(!reply.receipts.iter().any(refused), "no limit is near");
                    break;
                }
                Some(Err(error)) => {
                    panic_unless_retryable(&error);
                    tokio::time::sleep(POLL / 10).await;
                }
                None => {}
            }
        }
        for new in command.jobs {
            ledger.acknowledge(new.job);
        }
    }
}

/// Leases and settles jobs without working on them, until aborted.
pub(super) async fn work(
    engine: Arc<dyn Engine>,
    ledger: Arc<Ledger>,
    mut dice: Dice,
    number: u64,
    abandon: bool,
    end: Instant,
) {
    let worker = WorkerId::new(format!("worker {number}")).expect("a valid worker id");
    let mut leaser = Leaser::new(engine.clone(), worker);
    let types = types();
    loop {
        let jobs_max = 1 + dice.below(10) as usize;
        let lease_ms = LEASE.as_millis() as u64;
        let leased = perhaps_dropped(&mut dice, &ledger, leaser.lease(&types, jobs_max, lease_ms)).await;
        match leased {
            Some(Ok(batch)) if batch.jobs.is_empty() => {
                // A wait that fails ends early, which does no harm.
                let _ = engine.wait(&types, POLL).await;
            }
            Some(Ok(batch)) => {
                for job in &batch.jobs {
                    ledger.leased(job, LEASE);
                }
                let abandons = abandon && Instant::now() < end;
                for job in batch.jobs {
                    if abandons && dice.one_in(ABANDONED_ONE_IN) {
                        ledger.ending(&job);
                    } else {
                        settle(&engine, &ledger, &mut dice, job).await;
                    }
                }
            }
            Some(Err(error)) => {
                panic_unless_retryable(&error);
                tokio::time::sleep(POLL / 10).await;
            }
            None => {}
        }
    }
}

/// Settles a job, and repeats the settlement until it is answered.
async fn settle(engine: &Arc<dyn Engine>, ledger: &Ledger, dice: &mut Dice, leased: LeasedJob) {
    let note: Arc<[u8]> = Arc::from(&b"done"[..]);
    let (outcome, terminal) = match dice.below(12) {
        0 => (Outcome::Retry { delay_ms: dice.below(30), reason: note }, false),
        1 => (Outcome::Released, false),
        2 => (Outcome::Failed { reason: note }, true),
        _ => (Outcome::Succeeded { result: note }, true),
    };
    let settlement = Settlement { job: leased.job.clone(), fence: leased.fence, outcome };
    let command = Settle { settlements: vec![settlement] };
    ledger.ending(&leased);
    for attempt in 0.. {
        match perhaps_dropped(dice, ledger, engine.call(command.clone())).await {
            Some(Ok(reply)) => {
                // A job that was retried and settled by another worker meanwhile knows only the
                // newer settlement.
                let overtaken = attempt > 0 && !terminal && reply.verdicts[0] == Verdict::Stale;
                let verdict = if overtaken { Verdict::Applied } else { reply.verdicts[0] };
                return ledger.settled(&leased, terminal, verdict);
            }
            Some(Err(error)) => {
                panic_unless_retryable(&error);
                tokio::time::sleep(POLL / 10).await;
            }
            None => {}
        }
    }
}

/// Reclaims abandoned leases each second, until aborted.
pub(super) async fn reclaim(engine: Arc<dyn Engine>) {
    loop {
        until_answered(|| engine.call(Reclaim { jobs_max: 100 })).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
