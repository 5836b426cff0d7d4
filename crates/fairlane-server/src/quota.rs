//! Quotas: the cost of the work that a request causes, so that a batch, a list or a stream costs
//! its key more than a single job.
//!
//! - `quota/gcra.rs`: the rate limiter of a key.
//!
//! Admission of a request pays for its first [`REQUEST_JOBS`] jobs. Commands to the engine count
//! against that, and the rest is charged to the key's quota as the request proceeds. A request
//! without a quota (no key, or a key without a rate) is charged nothing.
//!
//! Invariant: a request runs within its quota as a task-local value, so handlers pass nothing on.

mod gcra;

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::Rate;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::access::Pace;
use gcra::{Gcra, REQUEST_JOBS};

/// Bytes of a body that cost as much as one job.
const JOB_BYTES: usize = 2048;
/// Lines of a stream that cost as much as one job, whatever they contain.
const JOB_LINES: usize = 8;
/// The longest wait for one charge; the rest is left to later requests of the key.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest wait of a brief request for all its charges together.
const BRIEF_WAIT_MAX: Duration = Duration::from_secs(10);

tokio::task_local! {
    static REQUEST_QUOTA: RequestQuota;
}

/// The quota that all requests of one key share.
pub(crate) struct KeyQuota {
    gcra: Gcra,
    /// Held while a large body is parsed: parsing occupies a processor, so a key parses one at a
    /// time.
    parsing: Arc<Semaphore>,
}

impl KeyQuota {
    pub fn new(rate: Rate) -> Self {
        Self { gcra: Gcra::new(rate), parsing: Arc::new(Semaphore::new(1)) }
    }

    /// Admits one request and returns how long it waits before it proceeds. An error is how long
    /// until a request could be admitted.
    pub fn admit(&self) -> Result<Duration, Duration> {
        self.gcra.admit(self.gcra.now())
    }
}

/// The quota of one request.
pub(crate) struct RequestQuota {
    key: Arc<KeyQuota>,
    /// Jobs that are paid for and not used yet.
    prepaid_jobs: Cell<u64>,
    /// How long the request may still wait.
    wait_left: Cell<Duration>,
    parsing: Cell<Option<OwnedSemaphorePermit>>,
}

impl RequestQuota {
    /// The quota of a request that was admitted.
    pub fn new(key: Arc<KeyQuota>, pace: Pace) -> Self {
        let wait_left = if pace == Pace::Brief { BRIEF_WAIT_MAX } else { Duration::MAX };
        Self {
            key,
            prepaid_jobs: Cell::new(REQUEST_JOBS),
            wait_left: Cell::new(wait_left),
            parsing: Cell::new(None),
        }
    }

    /// Runs a request within its quota.
    pub async fn scope<F: Future>(quota: Option<Self>, request: F) -> F::Output {
        match quota {
            Some(quota) => REQUEST_QUOTA.scope(quota, request).await,
            None => request.await,
        }
    }

    /// Runs one poll of a streamed response; everything it does is charged to the key.
    pub fn scope_poll<T>(key: &Arc<KeyQuota>, poll: impl FnOnce() -> T) -> T {
        let quota = Self::new(key.clone(), Pace::Stream);
        quota.prepaid_jobs.set(0);
        REQUEST_QUOTA.sync_scope(quota, poll)
    }

    fn charge(&self, jobs: u64) -> Duration {
        let prepaid = self.prepaid_jobs.get();
        self.prepaid_jobs.set(prepaid.saturating_sub(jobs));
        let unpaid = jobs.saturating_sub(prepaid);
        if unpaid == 0 {
            return Duration::ZERO;
        }
        let (gcra, wait_left) = (&self.key.gcra, self.wait_left.get());
        let wait = gcra.charge(unpaid, gcra.now()).min(WAIT_MAX).min(wait_left);
        self.wait_left.set(wait_left - wait);
        wait
    }
}

/// Charges the request for work worth this many jobs, and returns how long it must wait before the
/// work.
pub(crate) fn charge(jobs: u64) -> Duration {
    REQUEST_QUOTA.try_with(|quota| quota.charge(jobs)).unwrap_or_default()
}

/// Charges the request for work worth this many jobs, and waits until it may proceed or the server
/// stops.
pub(crate) async fn charge_and_wait(jobs: u64, stopping: &CancellationToken) {
    let wait = charge(jobs);
    if !wait.is_zero() {
        stopping.run_until_cancelled(tokio::time::sleep(wait)).await;
    }
}

/// Releases the key's permit to parse a large body, because that of this request is parsed.
pub(crate) fn end_parsing() {
    let _ = REQUEST_QUOTA.try_with(|quota| quota.parsing.take());
}

/// Moves the quota of the current request into work that runs as a task of its own.
pub(crate) fn with_request_quota<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let quota = REQUEST_QUOTA.try_with(|quota| {
        quota.parsing.take();
        RequestQuota {
            key: quota.key.clone(),
            prepaid_jobs: Cell::new(quota.prepaid_jobs.take()),
            wait_left: Cell::new(quota.wait_left.get()),
            parsing: Cell::new(None),
        }
    });
    RequestQuota::scope(quota.ok(), work)
}

/// Charges the request for a large body that is about to be parsed, and waits until its key may
/// parse it.
pub(crate) async fn charge_body(bytes: usize, stopping: &CancellationToken) {
    charge_and_wait((bytes / JOB_BYTES) as u64, stopping).await;
    let Ok(parsing) = REQUEST_QUOTA.try_with(|quota| quota.key.parsing.clone()) else { return };
    // The semaphore is never closed.
    let permit = parsing.acquire_owned().await.ok();
    let _ = REQUEST_QUOTA.try_with(|quota| quota.parsing.set(permit));
}

/// Counts the bytes and lines of a stream that have arrived and are not charged yet.
#[derive(Default)]
pub(crate) struct StreamMeter {
    bytes: usize,
    lines: usize,
}

impl StreamMeter {
    /// Charges the request for another chunk, and returns how long to wait before the next one.
    pub fn charge(&mut self, chunk: &[u8]) -> Duration {
        self.bytes += chunk.len();
        self.lines += chunk.iter().filter(|byte| **byte == b'\n').count();
        let jobs = self.bytes / JOB_BYTES + self.lines / JOB_LINES;
        (self.bytes, self.lines) = (self.bytes % JOB_BYTES, self.lines % JOB_LINES);
        charge(jobs as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};

    use tokio::sync::oneshot;

    use super::*;

    fn key_quota() -> Arc<KeyQuota> {
        Arc::new(KeyQuota::new(Rate::new(1, 1000, Some(20)).unwrap()))
    }

    fn request_quota(key: &Arc<KeyQuota>) -> Option<RequestQuota> {
        Some(RequestQuota::new(key.clone(), Pace::Brief))
    }

    async fn is_done<F: Future>(future: Pin<&mut F>) -> bool {
        tokio::select! {
            biased;
            _ = future => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn large_bodies_of_one_key_are_parsed_one_at_a_time() {
        let (key, other, stopping) = (key_quota(), key_quota(), CancellationToken::new());
        let (done, is_parsed) = oneshot::channel();
        let mut first = pin!(RequestQuota::scope(request_quota(&key), async {
            charge_body(0, &stopping).await;
            is_parsed.await.unwrap();
            end_parsing();
            std::future::pending::<()>().await;
        }));
        let mut second = pin!(RequestQuota::scope(request_quota(&key), charge_body(0, &stopping)));
        assert!(!is_done(first.as_mut()).await && !is_done(second.as_mut()).await);
        assert!(is_done(pin!(RequestQuota::scope(request_quota(&other), charge_body(0, &stopping)))).await);
        done.send(()).unwrap();
        assert!(!is_done(first.as_mut()).await && is_done(second.as_mut()).await);
    }

    #[tokio::test]
    async fn a_request_has_prepaid_jobs_and_a_brief_one_waits_for_a_bounded_time() {
        let key = key_quota();
        let waits = async {
            assert_eq!(charge(REQUEST_JOBS), Duration::ZERO);
            let waits = (0..6).map(|_| charge(100 * REQUEST_JOBS).as_secs());
            waits.collect::<Vec<u64>>()
        };
        assert_eq!(RequestQuota::scope(request_quota(&key), waits).await, [0, 5, 5, 0, 0, 0]);
        assert!(key.admit().unwrap_err() > Duration::from_secs(500));
        assert_eq!(charge(1_000_000), Duration::ZERO, "a request without a quota is charged nothing");
    }
}
