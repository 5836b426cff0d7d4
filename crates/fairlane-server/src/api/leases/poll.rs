//! Asks the engine until there is a job, the time is over, or the server stops.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlane_core::limits::TIMER_BACKSTOP_MS;
use fairlane_core::queue::{Lease, LeasedJob};
use fairlane_core::{RequestNumber, TypeId, WorkerId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::numbers::{Numbers, Tried};
use super::superseded;
use crate::app::Shared;
use crate::problem::Problem;

/// Shortest wait for a time that has passed; doubled while nothing comes of it.
const TIMED_WAIT_MIN: Duration = Duration::from_millis(1);
/// How often all polls together ask in a second when nothing wakes them.
const UNWOKEN_ASKS_EACH_SECOND: u64 = 1000;

/// What a request asks for, checked.
pub(super) struct Asked {
    pub worker: WorkerId,
    pub types: Vec<TypeId>,
    pub jobs_max: usize,
    pub lease_ms: u64,
    pub wait: Duration,
    pub request: Option<u64>,
}

/// What it gets.
pub(super) struct Found {
    pub jobs: Vec<LeasedJob>,
    pub wake_at: Option<Instant>,
}

/// The requests that wait at the moment.
#[derive(Default)]
pub(crate) struct Polls {
    waiting: AtomicU64,
    entered: AtomicU64,
    /// The newest numbered one of each worker.
    numbered: Mutex<HashMap<WorkerId, Entry>>,
}

struct Entry {
    order: u64,
    request: u64,
    ended: CancellationToken,
}

/// Asks until there is something.
pub(super) async fn poll(app: &Shared, asked: Asked) -> Result<Found, Problem> {
    let place = app.polls.enter(&asked)?;
    let deadline = Instant::now() + asked.wait;
    let mut numbers = Numbers::new(asked.request);
    let mut vain = 0;
    loop {
        let Tried { jobs, wake_at } = numbers.lease(app.engine(), command(&asked)).await?;
        let jobs = jobs.take();
        let left = deadline.saturating_duration_since(Instant::now());
        let over = left.is_zero() || numbers.are_used_up() || app.stopping.is_cancelled();
        if !jobs.is_empty() || over || place.ended.is_cancelled() {
            return Ok(Found { jobs, wake_at });
        }
        let at_most = left.min(pause(wake_at, vain, app.polls.waiting.load(Ordering::Relaxed)));
        tokio::select! {
            woken = app.engine().wait(&asked.types, at_most) => {
                vain = if woken? { 0 } else { vain + 1 };
            }
            () = app.stopping.cancelled() => return Ok(Found { jobs, wake_at }),
            () = place.ended.cancelled() => return Ok(Found { jobs, wake_at }),
        }
    }
}

fn command(asked: &Asked) -> Lease {
    Lease {
        worker: asked.worker.clone(),
        request: RequestNumber(0),
        types: asked.types.clone(),
        jobs_max: asked.jobs_max,
        lease_ms: asked.lease_ms,
    }
}

/// How long to wait for a push before asking again without one.
fn pause(wake_at: Option<Instant>, vain: u32, polls: u64) -> Duration {
    // Whoever was told when work comes may be gone by then, so all ask again now and again: the more there are, the
    // less often each has to.
    let backstop = Duration::from_millis(TIMER_BACKSTOP_MS * polls.div_ceil(UNWOKEN_ASKS_EACH_SECOND).max(1));
    let Some(wake_at) = wake_at else { return backstop };
    let least = TIMED_WAIT_MIN * (1 << vain.min(7));
    wake_at.saturating_duration_since(Instant::now()).clamp(least, backstop)
}

/// One request that may wait; leaves when dropped.
struct Place<'a> {
    polls: &'a Polls,
    ended: CancellationToken,
    numbered: Option<(WorkerId, u64)>,
}

impl Polls {
    /// A numbered request takes the place of the worker's last one: that one's client has given it up, even if its
    /// connection does not show it, and must not lease jobs that nobody will see.
    fn enter(&self, asked: &Asked) -> Result<Place<'_>, Problem> {
        let ended = CancellationToken::new();
        let numbered = match asked.request {
            Some(request) => {
                let order = self.entered.fetch_add(1, Ordering::Relaxed);
                self.replace(&asked.worker, Entry { order, request, ended: ended.clone() })?;
                Some((asked.worker.clone(), order))
            }
            None => None,
        };
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Ok(Place { polls: self, ended, numbered })
    }

    fn replace(&self, worker: &WorkerId, entry: Entry) -> Result<(), Problem> {
        let mut numbered = self.numbered.lock().expect("nothing panics while it is held");
        if let Some(last) = numbered.get(worker) {
            if last.request > entry.request {
                return Err(superseded(last.request));
            }
            last.ended.cancel();
        }
        numbered.insert(worker.clone(), entry);
        Ok(())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.polls.waiting.fetch_sub(1, Ordering::Relaxed);
        let Some((worker, order)) = &self.numbered else { return };
        let mut numbered = self.polls.numbered.lock().expect("nothing panics while it is held");
        if numbered.get(worker).is_some_and(|entry| entry.order == *order) {
            numbered.remove(worker);
        }
    }
}
