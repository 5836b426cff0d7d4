//! Leases jobs, runs them side by side and settles them.
//!
//! Invariant: never more jobs in hand than slots, so that nothing is leased that cannot start at once.
//! Settlements gather only while the one before is on its way, so batches cost no time. When told to
//! stop it asks for nothing new and ends once all in hand is settled.
//! Left out on purpose: heartbeats and taking back lost leases; jobs here are far shorter than a lease.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::limits::{LEASE_JOBS_MAX, SETTLE_JOBS_MAX};
use fairlane_core::queue::{JobRef, LeasedJob, Outcome, Settle, Settlement, Verdict};
use fairlane_core::{Micros, TypeId, WorkerId};
use fairlane_engine::{Clock, Engine, EngineError, Leaser};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

/// Longest wait for a wake-up, in case one was lost.
const BACKSTOP: Duration = Duration::from_secs(1);
/// Shortest wait for a given time, in case the store's clock is ahead of ours.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// What is done with jobs.
pub trait Processor: Send + Sync + 'static {
    /// Works on one job.
    fn process(&self, job: &LeasedJob) -> impl Future<Output = Outcome> + Send;

    /// Hears what became of a settlement.
    fn settled(&self, job: &JobRef, verdict: Verdict);
}

/// How to work.
pub struct Options {
    /// On jobs of these types.
    pub types: Vec<TypeId>,
    /// On this many at once.
    pub slots: usize,
    /// With leases of this length.
    pub lease_ms: u64,
}

/// Works until told to stop.
pub async fn work(
    engine: Arc<dyn Engine>,
    worker: WorkerId,
    options: Options,
    processor: Arc<impl Processor>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), EngineError> {
    let slots = Arc::new(Semaphore::new(options.slots));
    let (ended, endings) = mpsc::channel(options.slots);
    let settler = tokio::spawn(settle_all(engine.clone(), endings, processor.clone()));
    let mut leaser = Leaser::new(engine.clone(), worker);
    while let Some(free) = free_slots(&slots, &mut stop).await {
        if ended.is_closed() {
            break;
        }
        let jobs_max = free.num_permits();
        let batch = leaser.lease(&options.types, jobs_max, options.lease_ms).await?;
        let idle = batch.jobs.is_empty();
        start_all(batch.jobs, free, &processor, &ended);
        if idle {
            tokio::select! {
                woken = engine.wait(&options.types, wait_at_most(batch.wake_at)) => { woken?; }
                _ = stop.changed() => break,
            }
        }
    }
    drop(ended);
    settler.await.expect("the settler does not panic")
}

/// All slots that are free, at least one, at most what one lease takes; `None` when told to stop.
async fn free_slots(
    slots: &Arc<Semaphore>,
    stop: &mut watch::Receiver<bool>,
) -> Option<OwnedSemaphorePermit> {
    let mut free = tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => return None,
        free = slots.clone().acquire_owned() => free.expect("the slots are never closed"),
    };
    let more = slots.available_permits().min(LEASE_JOBS_MAX - 1);
    if let Ok(others) = slots.clone().try_acquire_many_owned(more as u32) {
        free.merge(others);
    }
    Some(free)
}

/// Runs each job in a task of its own, which holds one slot until its settlement is on the way.
fn start_all(
    jobs: Vec<LeasedJob>,
    mut free: OwnedSemaphorePermit,
    processor: &Arc<impl Processor>,
    ended: &mpsc::Sender<Settlement>,
) {
    for job in jobs {
        // A batch asked for again after an error may be larger than the slots; it runs all the same.
        let slot = free.split(1);
        let (processor, ended) = (processor.clone(), ended.clone());
        tokio::spawn(async move {
            let outcome = processor.process(&job).await;
            let settlement = Settlement { job: job.job, fence: job.fence, outcome };
            // A settler that has gone has left its error; the lease then runs out.
            let _ = ended.send(settlement).await;
            drop(slot);
        });
    }
}

async fn settle_all(
    engine: Arc<dyn Engine>,
    mut endings: mpsc::Receiver<Settlement>,
    processor: Arc<impl Processor>,
) -> Result<(), EngineError> {
    let mut settlements = Vec::new();
    while endings.recv_many(&mut settlements, SETTLE_JOBS_MAX).await > 0 {
        let jobs: Vec<JobRef> = settlements.iter().map(|settlement| settlement.job.clone()).collect();
        let settle = Settle { settlements: std::mem::take(&mut settlements) };
        let settled = engine.settle(settle).await?;
        for (job, verdict) in jobs.iter().zip(settled.verdicts) {
            processor.settled(job, verdict);
        }
    }
    Ok(())
}

fn wait_at_most(wake_at: Option<Micros>) -> Duration {
    let Some(wake_at) = wake_at else { return BACKSTOP };
    Duration::from_micros(wake_at.since(Clock::System.now())).clamp(WAIT_MIN, BACKSTOP)
}
