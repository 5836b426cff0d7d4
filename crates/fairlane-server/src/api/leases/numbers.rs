//! Under which numbers a worker's requests reach the engine, which answers the newest number of a worker again and
//! refuses older ones.
//!
//! A long poll leases several times, and each lease needs a number above the last: one that found nothing would
//! find nothing again. So a client's number stands for a row of engine numbers, one for each try. Whoever repeats it
//! is told the newest try of the row, asks for that again, and gets what that leased.
//! Requests without a number lease as a worker of this process alone, under numbers that it gives out once: nobody
//! else, be it another server or the worker's own numbers, can ever use the same one and be told the same jobs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fairlane_core::limits::INTEGER_MAX;
use fairlane_core::queue::{Lease, Leased};
use fairlane_core::{RequestNumber, WorkerId};
use fairlane_engine::{Engine, EngineError};
use tokio::time::Instant;
use uuid::Uuid;

use super::handed::Handed;
use super::superseded;
use crate::guard::on_account;
use crate::problem::{Problem, ProblemKind};

/// Engine numbers of one client's number. A poll that wakes this often in vain ends early.
pub(super) const TRIES_MAX: u64 = 1 << 10;
/// Largest number of a client; milliseconds since 1970 are well below it.
pub(super) const REQUEST_MAX: u64 = INTEGER_MAX / TRIES_MAX - 1;
/// How often a lease is sent again under its number when no answer came.
const REPEATS_MAX: u32 = 2;
/// Before it is sent again.
const REPEAT_PAUSE: Duration = Duration::from_millis(100);

/// What one lease found.
pub(super) struct Tried {
    pub jobs: Handed,
    pub wake_at: Option<Instant>,
}

/// How the leases of one request are numbered.
pub(super) enum Numbers {
    /// By the client.
    Given { request: u64, next: u64 },
    /// By the server.
    Own,
}

impl Numbers {
    pub fn new(request: Option<u64>) -> Self {
        match request {
            Some(request) => Self::Given { request, next: 0 },
            None => Self::Own,
        }
    }

    /// Whether there is no number left.
    pub fn are_used_up(&self) -> bool {
        matches!(self, Self::Given { next, .. } if *next >= TRIES_MAX)
    }

    /// Leases once.
    pub async fn lease(&mut self, engine: &Arc<dyn Engine>, command: Lease) -> Result<Tried, Problem> {
        match self {
            Self::Given { request, next } => given(engine, command, *request, next).await,
            Self::Own => {
                // In a task, so that it is seen through, and its jobs handed back, if the client goes away meanwhile.
                let leasing = tokio::spawn(on_account(own(engine.clone(), command)));
                leasing.await.unwrap_or_else(|error| {
                    Err(ProblemKind::Broken.because(format!("a lease broke off: {error}")))
                })
            }
        }
    }
}

/// Leases under the client's number, or asks again for what it got before.
async fn given(
    engine: &Arc<dyn Engine>,
    mut command: Lease,
    request: u64,
    next: &mut u64,
) -> Result<Tried, Problem> {
    loop {
        command.request = RequestNumber(request * TRIES_MAX + *next);
        match answered(engine, &command).await? {
            Leased::Jobs { jobs, wake_in_us } => {
                *next += 1;
                let wake_at = wake_in_us.map(from_now);
                // Never handed back: whoever repeats the number may have them already.
                return Ok(Tried { jobs: Handed::new(None, jobs), wake_at });
            }
            Leased::Superseded { newest }
                if newest.0 / TRIES_MAX == request && newest.0 % TRIES_MAX > *next =>
            {
                *next = newest.0 % TRIES_MAX;
            }
            Leased::Superseded { newest } => return Err(superseded(newest.0 / TRIES_MAX)),
        }
    }
}

/// Leases under a number that nobody has used.
async fn own(engine: Arc<dyn Engine>, mut command: Lease) -> Result<Tried, Problem> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    command.worker = of_this_process(&command.worker);
    loop {
        command.request = RequestNumber(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        match answered(&engine, &command).await? {
            Leased::Jobs { jobs, wake_in_us } => {
                let wake_at = wake_in_us.map(from_now);
                return Ok(Tried { jobs: Handed::new(Some(engine), jobs), wake_at });
            }
            // Another request of the worker was faster.
            Leased::Superseded { newest } if newest.0 <= LAST.load(Ordering::Relaxed) => {}
            // No request of this process had that number: going on below it would never end.
            Leased::Superseded { newest } => return Err(superseded(newest.0)),
        }
    }
}

fn from_now(us: u64) -> Instant {
    Instant::now() + Duration::from_micros(us)
}

/// The worker as this process alone calls it.
fn of_this_process(worker: &WorkerId) -> WorkerId {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    worker.of_process(*PROCESS.get_or_init(|| Uuid::now_v7().as_u64_pair().1))
}

/// Sends a lease, and again under its number if no answer came: it may have leased jobs.
async fn answered(engine: &Arc<dyn Engine>, command: &Lease) -> Result<Leased, EngineError> {
    let mut repeats = 0;
    loop {
        match engine.lease(command.clone()).await {
            Err(error) if error.is_retryable() && repeats < REPEATS_MAX => {
                repeats += 1;
                tokio::time::sleep(REPEAT_PAUSE).await;
            }
            answer => return answer,
        }
    }
}
