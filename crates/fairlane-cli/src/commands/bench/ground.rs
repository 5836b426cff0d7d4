//! The environment of a benchmark: a temporary engine, the server's counters, and the floor.
//!
//! The steps for queue and floor come in pairs: the same batches from the same number of callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlane_core::queue::{JobReceipt, LeasedJob, NewJob, Outcome, Settle, Settlement, Verdict};
use fairlane_core::{TypeId, WorkerId};
use fairlane_engine::{Engine, Leaser};
use tokio::task::JoinSet;

use super::floors::{Floor, RowFloor, ScriptFloor};
use super::plan::{BATCH_JOBS, CALLERS};
use super::server::Server;
use super::workload::Workload;
use crate::failure::Failure;
use crate::own_engine::{OwnEngine, connect};

const LEASE_MS: u64 = 60_000;

/// The environment of one benchmark.
pub struct Ground {
    /// The engine of the queue.
    pub own: OwnEngine,
    /// The counters of the Redis server, if there is one.
    pub server: Option<Server>,
    /// The implementation that the queue is compared with.
    pub floor: Floor,
    /// The address of queue and floor.
    pub url: String,
    callers: AtomicUsize,
}

impl Ground {
    /// Opens an empty queue and an empty floor at this address.
    pub async fn open(url: &str) -> Result<Self, Failure> {
        if url.starts_with("redis+cluster:") {
            return Err(Failure::bad_input("bench measures a single server; give one as redis://host:port"));
        }
        let own = OwnEngine::open(url, "bench").await?;
        let (server, floor) = match own.prefix() {
            Some(prefix) => {
                let scripts = ScriptFloor::new(connect(url).await?, prefix);
                (Some(Server::new(connect(url).await?)), Floor::Scripts(scripts))
            }
            None => match own.folder() {
                Some(folder) => (None, Floor::Rows(RowFloor::open(folder)?)),
                None => (None, Floor::plain()),
            },
        };
        Ok(Self { own, server, floor, url: url.to_owned(), callers: AtomicUsize::new(0) })
    }

    /// Removes all data of the benchmark.
    pub async fn clear(&self) -> Result<(), Failure> {
        self.own.clear().await
    }

    /// Fills the queue with jobs, one group per batch.
    pub async fn fill(&self, workload: &Workload, jobs: usize, batch_jobs: usize) -> Result<(), Failure> {
        self.enqueue(workload.batches(jobs, batch_jobs).collect()).await
    }

    /// Fills the floor in the same way.
    pub async fn fill_floor(
        &self,
        workload: &Workload,
        jobs: usize,
        batch_jobs: usize,
    ) -> Result<(), Failure> {
        self.enqueue_floor(workload.batches(jobs, batch_jobs).collect()).await
    }

    /// Enqueues batches from several concurrent callers.
    pub async fn enqueue(&self, batches: Vec<Vec<NewJob>>) -> Result<(), Failure> {
        let callers = divide(batches).map(|batches| {
            let engine = self.own.engine.clone();
            async move {
                for jobs in batches {
                    let enqueued = engine.enqueue_all(jobs).await?;
                    if enqueued.receipts.iter().any(|receipt| *receipt != JobReceipt::Created) {
                        return Err(Failure::broken("a new job was not accepted"));
                    }
                }
                Ok(())
            }
        });
        side_by_side(callers).await
    }

    /// Enqueues batches into the floor from the same number of callers.
    pub async fn enqueue_floor(&self, batches: Vec<Vec<NewJob>>) -> Result<(), Failure> {
        let callers = divide(batches).map(|batches| {
            let floor = self.floor.clone();
            async move {
                for jobs in batches {
                    floor.enqueue(&jobs).await?;
                }
                Ok(())
            }
        });
        side_by_side(callers).await
    }

    /// Leases and settles jobs in batches of 100 from several concurrent callers.
    pub async fn drain(&self, type_id: &TypeId, jobs: usize) -> Result<(), Failure> {
        let left = Arc::new(AtomicUsize::new(jobs));
        let callers = (0..CALLERS).map(|_| {
            let number = self.callers.fetch_add(1, Ordering::Relaxed);
            let worker = WorkerId::new(format!("caller-{number}")).expect("a number makes a name");
            let engine = self.own.engine.clone();
            let (left, type_id) = (left.clone(), type_id.clone());
            async move {
                let mut leaser = Leaser::new(engine.clone(), worker);
                while let Some(count) = claim(&left) {
                    lease_and_settle(&engine, &mut leaser, &type_id, count).await?;
                }
                Ok(())
            }
        });
        side_by_side(callers).await
    }

    /// Pops and acknowledges jobs of the floor in the same way.
    pub async fn drain_floor(&self, jobs: usize) -> Result<(), Failure> {
        let left = Arc::new(AtomicUsize::new(jobs));
        let callers = (0..CALLERS).map(|_| {
            let (floor, left) = (self.floor.clone(), left.clone());
            async move {
                while let Some(count) = claim(&left) {
                    if floor.pop_and_acknowledge(count).await? != count {
                        return Err(Failure::broken("the floor ran empty too early"));
                    }
                }
                Ok(())
            }
        });
        side_by_side(callers).await
    }
}

/// Leases one batch and settles it at once.
pub async fn lease_and_settle(
    engine: &Arc<dyn Engine>,
    leaser: &mut Leaser,
    type_id: &TypeId,
    jobs: usize,
) -> Result<(), Failure> {
    let batch = leaser.lease(std::slice::from_ref(type_id), jobs, LEASE_MS).await?;
    if batch.jobs.len() != jobs {
        return Err(Failure::broken(format!("a lease gave {} of {jobs} jobs", batch.jobs.len())));
    }
    let settlements = batch.jobs.into_iter().map(success).collect();
    let settled = engine.call(Settle { settlements }).await?;
    if settled.verdicts.iter().any(|verdict| *verdict != Verdict::Applied) {
        return Err(Failure::broken("a settlement in time was not applied"));
    }
    Ok(())
}

/// The settlement of a successful job without a result.
pub fn success(job: LeasedJob) -> Settlement {
    let outcome = Outcome::Succeeded { result: Arc::from(&[][..]) };
    Settlement { job: job.job, fence: job.fence, outcome }
}

/// Claims the next batch; returns its size, or none if nothing is left.
fn claim(left: &AtomicUsize) -> Option<usize> {
    let take = |left: usize| (left > 0).then(|| left - left.min(BATCH_JOBS));
    let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
    Some(before.min(BATCH_JOBS))
}

/// Distributes batches over the callers in turn.
pub fn divide(batches: Vec<Vec<NewJob>>) -> impl Iterator<Item = Vec<Vec<NewJob>>> {
    let mut callers: Vec<Vec<Vec<NewJob>>> = vec![Vec::new(); CALLERS];
    for (index, batch) in batches.into_iter().enumerate() {
        callers[index % CALLERS].push(batch);
    }
    callers.into_iter()
}

/// Runs callers concurrently; the first failure ends all.
pub async fn side_by_side<F>(callers: impl Iterator<Item = F>) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let mut running: JoinSet<Result<(), Failure>> = callers.collect();
    while let Some(ended) = running.join_next().await {
        ended.expect("a caller does not panic")?;
    }
    Ok(())
}
