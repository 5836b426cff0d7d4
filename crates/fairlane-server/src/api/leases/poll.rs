//! Long polls: leases until there is a job, the time is over, or the server stops.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlane_core::limits::TIMER_BACKSTOP_MS;
use fairlane_core::queue::{Lease, LeasedJob};
use fairlane_core::{RequestNumber, TypeId, WorkerId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::request_ids::{LeaseAttempt, RequestIds};
use super::superseded;
use crate::app::Shared;
use crate::problem::Problem;

/// The shortest wait for a time that has passed; doubled while leases find nothing.
const TIMED_WAIT_MIN: Duration = Duration::from_millis(1);
/// Limit on the leases per second that all polls together make without a wake-up.
const BACKSTOP_LEASES_PER_SECOND: u64 = 1000;

/// A valid request.
pub(super) struct PollRequest {
    pub worker: WorkerId,
    pub types: Vec<TypeId>,
    pub jobs_max: usize,
    pub lease_ms: u64,
    pub wait: Duration,
    pub request: Option<u64>,
}

/// The reply to a request.
pub(super) struct PollReply {
    pub jobs: Vec<LeasedJob>,
    pub wake_at: Option<Instant>,
}

/// The current long polls.
#[derive(Default)]
pub(crate) struct Polls {
    waiting: AtomicU64,
    registered: AtomicU64,
    /// The latest numbered poll of each worker.
    numbered: Mutex<HashMap<WorkerId, NumberedPoll>>,
}

struct NumberedPoll {
    order: u64,
    request: u64,
    ended: CancellationToken,
}

/// Leases repeatedly until there is a job.
pub(super) async fn poll(app: &Shared, request: &PollRequest) -> Result<PollReply, Problem> {
    let registration = app.polls.register(request)?;
    let deadline = Instant::now() + request.wait;
    let mut ids = RequestIds::new(request.request);
    let mut timeouts = 0;
    loop {
        let LeaseAttempt { jobs, wake_at } = ids.lease(app.engine(), lease(request)).await?;
        let jobs = jobs.take();
        let left = deadline.saturating_duration_since(Instant::now());
        let is_over = left.is_zero() || ids.are_used_up() || app.stopping.is_cancelled();
        if !jobs.is_empty() || is_over || registration.ended.is_cancelled() {
            return Ok(PollReply { jobs, wake_at });
        }
        let at_most = left.min(pause(wake_at, timeouts, app.polls.waiting.load(Ordering::Relaxed)));
        tokio::select! {
            woken = app.engine().wait(&request.types, at_most) => {
                timeouts = if woken? { 0 } else { timeouts + 1 };
            }
            () = app.stopping.cancelled() => return Ok(PollReply { jobs, wake_at }),
            () = registration.ended.cancelled() => return Ok(PollReply { jobs, wake_at }),
        }
    }
}

fn lease(request: &PollRequest) -> Lease {
    Lease {
        worker: request.worker.clone(),
        request: RequestNumber(0),
        types: request.types.clone(),
        jobs_max: request.jobs_max,
        lease_ms: request.lease_ms,
    }
}

/// How long to wait for a wake-up before the next lease.
fn pause(wake_at: Option<Instant>, timeouts: u32, polls: u64) -> Duration {
    // The poll that holds the timer for the next job may have ended by then, so all polls lease
    // again periodically: the more polls there are, the less often each of them.
    let backstop =
        Duration::from_millis(TIMER_BACKSTOP_MS * polls.div_ceil(BACKSTOP_LEASES_PER_SECOND).max(1));
    let Some(wake_at) = wake_at else { return backstop };
    let least = TIMED_WAIT_MIN * (1 << timeouts.min(7));
    wake_at.saturating_duration_since(Instant::now()).clamp(least, backstop)
}

/// A registered poll; unregistered when dropped.
struct Registration<'a> {
    polls: &'a Polls,
    ended: CancellationToken,
    numbered: Option<(WorkerId, u64)>,
}

impl Polls {
    /// Registers a poll. A numbered one ends the worker's last one: the client has abandoned that,
    /// even if its connection is still open, and it must not lease jobs that no client receives.
    fn register(&self, request: &PollRequest) -> Result<Registration<'_>, Problem> {
        let ended = CancellationToken::new();
        let numbered = match request.request {
            Some(number) => {
                let order = self.registered.fetch_add(1, Ordering::Relaxed);
                let poll = NumberedPoll { order, request: number, ended: ended.clone() };
                self.replace(&request.worker, poll)?;
                Some((request.worker.clone(), order))
            }
            None => None,
        };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Ok(Registration { polls: self, ended, numbered })
    }

    fn replace(&self, worker: &WorkerId, poll: NumberedPoll) -> Result<(), Problem> {
        let mut numbered = self.numbered.lock().expect("nothing panics while it is held");
        if let Some(last) = numbered.get(worker) {
            if last.request > poll.request {
                return Err(superseded(last.request));
            }
            last.ended.cancel();
        }
        numbered.insert(worker.clone(), poll);
        Ok(())
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.polls.waiting.fetch_sub(1, Ordering::Relaxed);
        let Some((worker, order)) = &self.numbered else { return };
        let mut numbered = self.polls.numbered.lock().expect("nothing panics while it is held");
        if numbered.get(worker).is_some_and(|poll| poll.order == *order) {
            numbered.remove(worker);
        }
    }
}
