//! What a request spends beyond itself: a batch, a list or a stream costs its key more than a single job.
//!
//! A request has paid for [`REQUEST_JOBS`] jobs when it is let in. What it has the engine do counts against that, and
//! the rest is paid from its key's budget as it goes. A request that has no purse (no key, or one without a rate) pays
//! nothing.
//!
//! Invariant: whatever a request does is done within its purse, so nothing has to be handed through the handlers.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::budget::{Budget, REQUEST_JOBS};
use crate::access::Pace;

/// Bytes of a body that are worth a job.
const JOB_BYTES: usize = 2048;
/// Lines that are worth a job, whatever is in them.
const JOB_LINES: usize = 8;
/// Longest that something waits to be paid for, and all that a brief request does; the rest is owed by what comes next.
const WAIT_MAX: Duration = Duration::from_secs(5);
const BRIEF_WAIT_MAX: Duration = Duration::from_secs(10);

tokio::task_local! {
    static PURSE: Purse;
}

/// What all requests of one key spend.
pub(super) struct Spending {
    pub budget: Budget,
    /// Who takes a large body apart; that holds a processor, so it is one of a key at a time.
    parsing: Arc<Semaphore>,
}

impl Spending {
    pub fn new(budget: Budget) -> Self {
        Self { budget, parsing: Arc::new(Semaphore::new(1)) }
    }
}

/// What one request has left.
pub(super) struct Purse {
    of: Arc<Spending>,
    /// Jobs that are paid for.
    left: Cell<u64>,
    /// How long it may still wait.
    patience: Cell<Duration>,
    parsing: Cell<Option<OwnedSemaphorePermit>>,
}

impl Purse {
    /// That of a request which was let in.
    pub fn new(of: Arc<Spending>, pace: Pace) -> Self {
        let patience = if pace == Pace::Brief { BRIEF_WAIT_MAX } else { Duration::MAX };
        Self { of, left: Cell::new(REQUEST_JOBS), patience: Cell::new(patience), parsing: Cell::new(None) }
    }

    /// Runs what a request does.
    pub async fn run<F: Future>(purse: Option<Self>, request: F) -> F::Output {
        match purse {
            Some(purse) => PURSE.scope(purse, request).await,
            None => request.await,
        }
    }

    /// Runs a step of an answer that is written bit by bit.
    pub fn step<T>(of: &Arc<Spending>, step: impl FnOnce() -> T) -> T {
        let purse = Self::new(of.clone(), Pace::Stream);
        purse.left.set(0);
        PURSE.sync_scope(purse, step)
    }

    fn spend(&self, jobs: u64) -> Option<Owed> {
        let (left, missing) = (self.left.get().saturating_sub(jobs), jobs.saturating_sub(self.left.get()));
        self.left.set(left);
        (missing > 0).then(|| {
            let patience = self.patience.get();
            let wait = self.of.budget.owe(missing, self.of.budget.now()).min(WAIT_MAX).min(patience);
            self.patience.set(patience - wait);
            Owed { to: self.of.clone(), jobs: missing, wait }
        })
    }
}

/// What is not paid for yet.
pub(crate) struct Owed {
    to: Arc<Spending>,
    jobs: u64,
    /// How long to wait.
    pub wait: Duration,
}

impl Owed {
    /// Waits, but not longer than the server runs.
    pub async fn paid(&self, stopping: &CancellationToken) {
        if !self.wait.is_zero() {
            stopping.run_until_cancelled(tokio::time::sleep(self.wait)).await;
        }
    }

    /// So many jobs were not there.
    pub fn give_back(&self, jobs: u64) {
        self.to.budget.give_back(jobs.min(self.jobs));
    }
}

/// Spends so many jobs on a command to the engine; none: they are paid for.
pub(super) fn spend_on_command(jobs: u64) -> Option<Owed> {
    let spend = |purse: &Purse| {
        // What was to be taken apart is.
        purse.parsing.take();
        purse.spend(jobs)
    };
    PURSE.try_with(spend).ok().flatten()
}

/// Spends so many jobs on something else.
pub(crate) fn spend(jobs: u64) -> Option<Owed> {
    PURSE.try_with(|purse| purse.spend(jobs)).ok().flatten()
}

/// What a request has a task of its own do is spent by the request.
pub(crate) fn on_account<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let purse = PURSE.try_with(|purse| {
        purse.parsing.take();
        let (left, patience) = (purse.left.take(), purse.patience.get());
        let (left, patience) = (Cell::new(left), Cell::new(patience));
        Purse { of: purse.of.clone(), left, patience, parsing: Cell::new(None) }
    });
    Purse::run(purse.ok(), work)
}

/// A large body has come and is about to be taken apart.
pub(crate) async fn large_body(bytes: usize, stopping: &CancellationToken) {
    if let Some(owed) = spend((bytes / JOB_BYTES) as u64) {
        owed.paid(stopping).await;
    }
    let Ok(parsing) = PURSE.try_with(|purse| purse.of.parsing.clone()) else { return };
    // It is never closed.
    let place = parsing.acquire_owned().await.ok();
    let _ = PURSE.try_with(|purse| purse.parsing.set(place));
}

/// What of a stream has come and is not counted yet.
#[derive(Default)]
pub(crate) struct Uncounted {
    bytes: usize,
    lines: usize,
}

impl Uncounted {
    /// Spends what another piece is worth.
    pub fn spend(&mut self, piece: &[u8]) -> Option<Owed> {
        self.bytes += piece.len();
        self.lines += piece.iter().filter(|byte| **byte == b'\n').count();
        let jobs = self.bytes / JOB_BYTES + self.lines / JOB_LINES;
        (self.bytes, self.lines) = (self.bytes % JOB_BYTES, self.lines % JOB_LINES);
        if jobs == 0 { None } else { spend(jobs as u64) }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};

    use fairlane_core::Rate;
    use tokio::sync::oneshot;

    use super::*;

    fn of_a_key() -> Arc<Spending> {
        Arc::new(Spending::new(Budget::new(Rate::new(1, 1000, Some(20)).unwrap())))
    }

    fn purse(of: &Arc<Spending>) -> Option<Purse> {
        Some(Purse::new(of.clone(), Pace::Brief))
    }

    async fn is_done<F: Future>(future: Pin<&mut F>) -> bool {
        tokio::select! {
            biased;
            _ = future => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn large_bodies_of_one_key_are_taken_apart_one_at_a_time() {
        let (key, other, stopping) = (of_a_key(), of_a_key(), CancellationToken::new());
        let (done, is_read) = oneshot::channel();
        let mut first = pin!(Purse::run(purse(&key), async {
            large_body(0, &stopping).await;
            is_read.await.unwrap();
            spend_on_command(1);
            std::future::pending::<()>().await;
        }));
        let mut second = pin!(Purse::run(purse(&key), large_body(0, &stopping)));
        assert!(!is_done(first.as_mut()).await && !is_done(second.as_mut()).await);
        assert!(is_done(pin!(Purse::run(purse(&other), large_body(0, &stopping)))).await);
        done.send(()).unwrap();
        assert!(!is_done(first.as_mut()).await && is_done(second.as_mut()).await);
    }

    #[tokio::test]
    async fn a_request_has_paid_for_some_jobs_and_a_brief_one_does_not_wait_for_ever() {
        let key = of_a_key();
        let waits = async {
            assert!(spend(REQUEST_JOBS).is_none());
            let waits = (0..6).map(|_| spend(100 * REQUEST_JOBS).unwrap().wait.as_secs());
            waits.collect::<Vec<u64>>()
        };
        assert_eq!(Purse::run(purse(&key), waits).await, [0, 5, 5, 0, 0, 0]);
        assert!(key.budget.take(key.budget.now()).unwrap_err() > Duration::from_secs(500));
        assert!(spend(1_000_000).is_none(), "who has no purse pays nothing");
    }
}
