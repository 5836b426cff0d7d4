//! Long polls: leases until there is a job, the time is over, or the server stops.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane::{Error, LeaseAttempt, LeaseAttempts, LeaseRequest, LeasedJob, WorkerId};
use fairlane_core::limits::TIMER_BACKSTOP_MS;
use fairlane_engine::lease_pause;
use tokio_util::sync::CancellationToken;

use crate::app::Shared;
use crate::problem::{Problem, ProblemKind};
use crate::quota::with_request_quota;

/// Limit on the leases per second that all polls together make without a wake-up.
const BACKSTOP_LEASES_PER_SECOND: u64 = 1000;

/// A valid request.
pub(super) struct PollRequest {
    pub lease: LeaseRequest,
    pub wait: Duration,
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
    let registration = app.polls.register(&request.lease)?;
    let deadline = Instant::now() + request.wait;
    let mut attempts = app.fairlane.leases().attempts(request.lease.clone())?;
    let mut timeouts = 0;
    loop {
        let LeaseAttempt { jobs, wake_at } = match request.lease.number {
            Some(_) => attempts.lease().await?,
            None => lease_in_task(&attempts).await?,
        };
        let jobs = jobs.take();
        let left = deadline.saturating_duration_since(Instant::now());
        let is_over = left.is_zero() || attempts.are_used_up() || app.stopping.is_cancelled();
        if !jobs.is_empty() || is_over || registration.ended.is_cancelled() {
            return Ok(PollReply { jobs, wake_at });
        }
        let backstop = backstop(app.polls.waiting.load(Ordering::Relaxed));
        let at_most = left.min(lease_pause(wake_at, timeouts, backstop));
        tokio::select! {
            woken = attempts.wait(at_most) => {
                // The first wait for a time is exact, however many waits without one came before.
                timeouts = if woken? || wake_at.is_none() { 0 } else { timeouts + 1 };
            }
            () = app.stopping.cancelled() => return Ok(PollReply { jobs, wake_at }),
            () = registration.ended.cancelled() => return Ok(PollReply { jobs, wake_at }),
        }
    }
}

/// Leases in a task, so that it completes, and its jobs are released, if the client disconnects
/// meanwhile.
async fn lease_in_task(attempts: &LeaseAttempts) -> Result<LeaseAttempt, Problem> {
    let mut attempts = attempts.clone();
    let leasing = tokio::spawn(with_request_quota(async move { attempts.lease().await }));
    match leasing.await {
        Ok(leased) => Ok(leased?),
        Err(error) => {
            Err(ProblemKind::Broken.because(format!("a lease was aborted: {error}; send the request again")))
        }
    }
}

/// The longest wait before the next lease. The poll that holds the timer for the next job may have
/// ended by then, so all polls lease again periodically: the more polls there are, the less often
/// each of them.
fn backstop(polls: u64) -> Duration {
    Duration::from_millis(TIMER_BACKSTOP_MS * polls.div_ceil(BACKSTOP_LEASES_PER_SECOND).max(1))
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
    fn register(&self, request: &LeaseRequest) -> Result<Registration<'_>, Problem> {
        let ended = CancellationToken::new();
        let numbered = match request.number {
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
                return Err(Error::Superseded { latest: last.request }.into());
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
