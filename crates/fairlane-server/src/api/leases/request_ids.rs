//! The numbers under which a worker's requests reach the engine. The engine repeats the reply to
//! the latest number of a worker and refuses lower ones.
//!
//! A long poll leases several times, and each lease needs a number above the last: a lease that
//! found nothing would find nothing again. So a number of a client stands for a range of engine
//! numbers, one for each attempt. If the client repeats it, the engine names the latest attempt of
//! the range, and the server repeats that attempt and gets the jobs it leased. Requests without a
//! number lease as a worker of this process alone, under numbers that it uses once: neither another
//! server nor the worker's own numbers can ever repeat one and get the same jobs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fairlane_core::limits::INTEGER_MAX;
use fairlane_core::queue::{Lease, Leased};
use fairlane_core::{RequestNumber, WorkerId};
use fairlane_engine::{Engine, EngineError};
use tokio::time::Instant;
use uuid::Uuid;

use super::release_on_drop::ReleaseOnDrop;
use super::superseded;
use crate::problem::{Problem, ProblemKind};
use crate::quota::with_request_quota;

/// Engine numbers per number of a client. A long poll that leases this often without success ends
/// early.
pub(super) const ATTEMPTS_MAX: u64 = 1 << 10;
/// The largest number of a client; milliseconds since 1970 are well below it.
pub(super) const REQUEST_MAX: u64 = INTEGER_MAX / ATTEMPTS_MAX - 1;
/// How often a lease is repeated under its number when the engine did not reply.
const REPEATS_MAX: u32 = 2;
/// The pause before a lease is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(100);

/// The result of one lease.
pub(super) struct LeaseAttempt {
    pub jobs: ReleaseOnDrop,
    pub wake_at: Option<Instant>,
}

/// How the leases of one request are numbered.
pub(super) enum RequestIds {
    /// By the client: its number, and the next attempt in its range.
    Numbered { request: u64, next: u64 },
    /// By the server.
    Anonymous,
}

impl RequestIds {
    pub fn new(request: Option<u64>) -> Self {
        match request {
            Some(request) => Self::Numbered { request, next: 0 },
            None => Self::Anonymous,
        }
    }

    /// Whether no number is left.
    pub fn are_used_up(&self) -> bool {
        matches!(self, Self::Numbered { next, .. } if *next >= ATTEMPTS_MAX)
    }

    /// Leases once.
    pub async fn lease(&mut self, engine: &Arc<dyn Engine>, lease: Lease) -> Result<LeaseAttempt, Problem> {
        match self {
            Self::Numbered { request, next } => lease_numbered(engine, lease, *request, next).await,
            Self::Anonymous => {
                // In a task, so that it completes, and its jobs are released, if the client
                // disconnects meanwhile.
                let leasing = tokio::spawn(with_request_quota(lease_anonymous(engine.clone(), lease)));
                leasing.await.unwrap_or_else(|error| {
                    Err(ProblemKind::Broken
                        .because(format!("a lease was aborted: {error}; send the request again")))
                })
            }
        }
    }
}

/// Leases under the client's number, or repeats its latest attempt.
async fn lease_numbered(
    engine: &Arc<dyn Engine>,
    mut lease: Lease,
    request: u64,
    next: &mut u64,
) -> Result<LeaseAttempt, Problem> {
    loop {
        lease.request = RequestNumber(request * ATTEMPTS_MAX + *next);
        match call_repeatedly(engine, &lease).await? {
            Leased::Jobs { jobs, wake_in_us } => {
                *next += 1;
                let wake_at = wake_in_us.map(from_now);
                // Never released: a client that repeats the number may have the jobs already.
                return Ok(LeaseAttempt { jobs: ReleaseOnDrop::new(None, jobs), wake_at });
            }
            Leased::Superseded { newest }
                if newest.0 / ATTEMPTS_MAX == request && newest.0 % ATTEMPTS_MAX > *next =>
            {
                *next = newest.0 % ATTEMPTS_MAX;
            }
            Leased::Superseded { newest } => return Err(superseded(newest.0 / ATTEMPTS_MAX)),
        }
    }
}

/// Leases under a number that was never used.
async fn lease_anonymous(engine: Arc<dyn Engine>, mut lease: Lease) -> Result<LeaseAttempt, Problem> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    lease.worker = of_this_process(&lease.worker);
    loop {
        lease.request = RequestNumber(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        match call_repeatedly(&engine, &lease).await? {
            Leased::Jobs { jobs, wake_in_us } => {
                let wake_at = wake_in_us.map(from_now);
                return Ok(LeaseAttempt { jobs: ReleaseOnDrop::new(Some(engine), jobs), wake_at });
            }
            // A concurrent request of the worker used a higher number first.
            Leased::Superseded { newest } if newest.0 <= LAST.load(Ordering::Relaxed) => {}
            // No request of this process had that number: retrying below it would never end.
            Leased::Superseded { newest } => return Err(superseded(newest.0)),
        }
    }
}

fn from_now(us: u64) -> Instant {
    Instant::now() + Duration::from_micros(us)
}

/// The worker with the name that only this process uses for it.
fn of_this_process(worker: &WorkerId) -> WorkerId {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    worker.of_process(*PROCESS.get_or_init(|| Uuid::now_v7().as_u64_pair().1))
}

/// Sends a lease, and repeats it under its number if the engine did not reply: it may have leased
/// jobs.
async fn call_repeatedly(engine: &Arc<dyn Engine>, lease: &Lease) -> Result<Leased, EngineError> {
    let mut repeats = 0;
    loop {
        match engine.call(lease.clone()).await {
            Err(error) if error.is_retryable() && repeats < REPEATS_MAX => {
                repeats += 1;
                tokio::time::sleep(REPEAT_PAUSE).await;
            }
            reply => return reply,
        }
    }
}
