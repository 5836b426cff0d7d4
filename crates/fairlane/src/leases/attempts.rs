//! Leases for the clients of a server, under the numbers by which the engine knows their requests.
//! The engine repeats the reply to the latest number of a worker and refuses lower ones.
//!
//! A long poll leases several times, and each lease needs a number above the last: a lease that
//! found nothing would find nothing again. So a number of a client stands for a range of engine
//! numbers, one for each attempt. If the client repeats it, the engine names the latest attempt of
//! the range, and the server repeats that attempt and gets the jobs it leased.
//!
//! Requests without a number lease under numbers that are used once, as a worker of this process
//! alone, and never two at a time as the same one: neither another server, nor the worker's own
//! numbers, nor a concurrent request can get the same jobs, or prevent that a lost reply is repeated.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use fairlane_core::limits::INTEGER_MAX;
use fairlane_core::numbers::within;
use fairlane_core::queue::{Lease, Leased};
use fairlane_core::{RequestNumber, TypeId, WorkerId};
use fairlane_engine::EngineError;
use uuid::Uuid;

use super::{Leases, ReleaseOnDrop};
use crate::error::Error;

/// Engine numbers per number of a client. A long poll that leases this often without success ends
/// early.
const ATTEMPTS_MAX: u64 = 1 << 10;
/// How often a lease is repeated under its number when the engine did not reply.
const REPEATS_MAX: u32 = 2;
/// The pause before a lease is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(100);

/// A request for jobs, of a worker that is a client of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The worker.
    pub worker: WorkerId,
    /// The types of the jobs to lease.
    pub types: Vec<TypeId>,
    /// The maximum number of jobs to lease.
    pub jobs_max: usize,
    /// The length of the leases.
    pub length: Duration,
    /// The worker's number for this request, larger than its last one, or the same if it missed the
    /// response; `None` if the worker does not number its requests.
    pub number: Option<u64>,
}

impl LeaseRequest {
    /// The largest number of a client; milliseconds since 1970 are well below it.
    pub const NUMBER_MAX: u64 = INTEGER_MAX / ATTEMPTS_MAX - 1;
}

/// The leases of one request, made with [`Leases::attempts`].
#[derive(Clone)]
pub struct LeaseAttempts {
    leases: Leases,
    lease: Lease,
    numbers: Numbers,
    /// Without a number of the client: what its worker is distinguished by.
    _slot: Option<Arc<AnonymousSlot>>,
}

/// The result of one lease.
pub struct LeaseAttempt {
    /// The jobs. Without a number of the client they are released unless they are taken.
    pub jobs: ReleaseOnDrop,
    /// When to lease again, if no wake-up arrives before.
    pub wake_at: Option<Instant>,
}

/// How the leases of one request are numbered.
#[derive(Clone, Copy)]
enum Numbers {
    /// By the client: its number, and the next attempt in its range.
    Client { number: u64, next: u64 },
    /// By this process.
    Anonymous,
}

impl LeaseAttempts {
    pub(super) fn new(leases: Leases, request: LeaseRequest) -> Result<Self, Error> {
        let LeaseRequest { worker, types, jobs_max, length, number } = request;
        let (worker, numbers, slot) = match number {
            Some(number) => {
                within("a request number", number, 1, LeaseRequest::NUMBER_MAX)?;
                (worker, Numbers::Client { number, next: 0 }, None)
            }
            None => {
                let slot = AnonymousSlot::take(worker);
                (slot.engine_worker(), Numbers::Anonymous, Some(Arc::new(slot)))
            }
        };
        let (request, lease_ms) = (RequestNumber(0), length.as_millis() as u64);
        Ok(Self { leases, lease: Lease { worker, request, types, jobs_max, lease_ms }, numbers, _slot: slot })
    }

    /// Whether no number is left: the request then ends.
    pub fn are_used_up(&self) -> bool {
        matches!(self.numbers, Numbers::Client { next, .. } if next >= ATTEMPTS_MAX)
    }

    /// Waits for a wake-up of the types, and returns whether one arrived.
    pub async fn wait(&self, at_most: Duration) -> Result<bool, Error> {
        Ok(self.leases.engine.wait(&self.lease.types, at_most).await?)
    }

    /// Leases once. A client that repeats its number gets the jobs of its latest attempt; without a
    /// number, run this as a task: it then completes, and releases its jobs, if the client is gone.
    pub async fn lease(&mut self) -> Result<LeaseAttempt, Error> {
        match self.numbers {
            Numbers::Client { number, next } => self.lease_numbered(number, next).await,
            Numbers::Anonymous => self.lease_anonymous().await,
        }
    }

    /// Leases under the client's number, or repeats its latest attempt.
    async fn lease_numbered(&mut self, number: u64, mut next: u64) -> Result<LeaseAttempt, Error> {
        loop {
            match self.lease_under(number * ATTEMPTS_MAX + next).await? {
                Leased::Jobs { jobs, wake_in_us } => {
                    self.numbers = Numbers::Client { number, next: next + 1 };
                    // Never released: a client that repeats the number may have the jobs already.
                    let jobs = ReleaseOnDrop::new(None, jobs);
                    return Ok(LeaseAttempt { jobs, wake_at: wake_in_us.map(from_now) });
                }
                Leased::Superseded { newest }
                    if newest.0 / ATTEMPTS_MAX == number && newest.0 % ATTEMPTS_MAX > next =>
                {
                    next = newest.0 % ATTEMPTS_MAX;
                }
                Leased::Superseded { newest } => {
                    return Err(Error::Superseded { latest: newest.0 / ATTEMPTS_MAX });
                }
            }
        }
    }

    /// Leases under a number that was never used.
    async fn lease_anonymous(&self) -> Result<LeaseAttempt, Error> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        loop {
            match self.lease_under(LAST.fetch_add(1, Ordering::Relaxed) + 1).await? {
                Leased::Jobs { jobs, wake_in_us } => {
                    let jobs = ReleaseOnDrop::new(Some(self.leases.clone()), jobs);
                    return Ok(LeaseAttempt { jobs, wake_at: wake_in_us.map(from_now) });
                }
                // Names of workers that were truncated may be equal.
                Leased::Superseded { newest } if newest.0 <= LAST.load(Ordering::Relaxed) => {}
                // No request of this process had that number: retrying below it would never end.
                Leased::Superseded { newest } => return Err(Error::Superseded { latest: newest.0 }),
            }
        }
    }

    /// Sends a lease, and repeats it under its number if the engine did not reply: it may have leased
    /// jobs.
    async fn lease_under(&self, number: u64) -> Result<Leased, EngineError> {
        let lease = Lease { request: RequestNumber(number), ..self.lease.clone() };
        let mut repeats = 0;
        loop {
            match self.leases.engine.call(lease.clone()).await {
                Err(error) if error.is_retryable() && repeats < REPEATS_MAX => {
                    repeats += 1;
                    tokio::time::sleep(REPEAT_PAUSE).await;
                }
                reply => return reply,
            }
        }
    }
}

fn from_now(us: u64) -> Instant {
    Instant::now() + Duration::from_micros(us)
}

/// The slots of the workers with anonymous requests in progress. A worker has as many as it has such
/// requests at once, so that the engine does not get to know a new worker with each request.
static SLOTS: LazyLock<Mutex<HashMap<WorkerId, BTreeSet<u64>>>> = LazyLock::new(Mutex::default);

/// The smallest number that no other anonymous request of a worker has now.
struct AnonymousSlot {
    worker: WorkerId,
    number: u64,
}

impl AnonymousSlot {
    fn take(worker: WorkerId) -> Self {
        let mut slots = Self::all();
        let taken = slots.entry(worker.clone()).or_default();
        let number = (0..).find(|number| taken.insert(*number)).expect("a set does not have all numbers");
        Self { worker, number }
    }

    /// A worker of the engine that only this request uses until it ends.
    fn engine_worker(&self) -> WorkerId {
        static PROCESS: OnceLock<u64> = OnceLock::new();
        let process = PROCESS.get_or_init(|| Uuid::now_v7().as_u64_pair().1);
        self.worker.of_process(process.wrapping_add(self.number))
    }

    fn all() -> MutexGuard<'static, HashMap<WorkerId, BTreeSet<u64>>> {
        SLOTS.lock().expect("nothing panics while it holds the slots")
    }
}

impl Drop for AnonymousSlot {
    fn drop(&mut self) {
        let mut slots = Self::all();
        let Some(taken) = slots.get_mut(&self.worker) else { return };
        taken.remove(&self.number);
        if taken.is_empty() {
            slots.remove(&self.worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use fairlane_core::Command;
    use fairlane_core::queue::{self, Settings};
    use fairlane_engine::{Clock, EmbeddedEngine, Engine, Hooks, layer};
    use tokio::sync::Notify;

    use super::*;
    use crate::job::Job;

    /// An engine with four jobs that loses the reply to its first lease, and then notifies.
    async fn losing_a_reply() -> (Arc<dyn Engine>, Arc<Notify>) {
        let (lost, is_lost) = (Arc::new(Notify::new()), AtomicBool::new(false));
        let notify = lost.clone();
        let hooks = Hooks::default().submit(move |inner, command: Command| {
            let is_lease = matches!(command, Command::Queue(queue::Command::Lease(_)));
            let loses = is_lease && !is_lost.swap(true, Ordering::SeqCst);
            let notify = notify.clone();
            Box::pin(async move {
                let reply = inner.submit(command).await;
                if !loses {
                    return reply;
                }
                notify.notify_one();
                Err(EngineError::Unavailable { engine: "test", reason: "the reply is lost".into() })
            })
        });
        let engine: Arc<dyn Engine> =
            Arc::new(EmbeddedEngine::new(Settings::default(), Clock::System).unwrap());
        let jobs = (0..4).map(|id| Job::new("g", "t", &1).id(id.to_string()).into_command(None).unwrap());
        engine.enqueue_all(jobs).await.unwrap();
        (layer(engine, hooks), lost)
    }

    #[tokio::test]
    async fn a_lost_reply_is_received_again_although_another_request_of_the_worker_came_after_it() {
        let (engine, lost) = losing_a_reply().await;
        let leases = Leases::new(engine);
        let (worker, types) = (WorkerId::new("w").unwrap(), vec![TypeId::new("t").unwrap()]);
        let length = Duration::from_secs(60);
        let request = LeaseRequest { worker, types, jobs_max: 2, length, number: None };
        let [mut first, mut second] = [0; 2].map(|_| leases.attempts(request.clone()).unwrap());
        let (first, second) = tokio::join!(first.lease(), async {
            lost.notified().await;
            second.lease().await
        });
        let [first, second] = [first, second].map(|attempt| attempt.unwrap().jobs.take().len());
        assert_eq!((first, second), (2, 2));
    }

    #[tokio::test]
    async fn a_request_uses_the_engine_worker_of_one_that_has_ended() {
        let leases = Leases::new(Arc::new(EmbeddedEngine::new(Settings::default(), Clock::System).unwrap()));
        let request = || LeaseRequest {
            worker: WorkerId::new("reused").unwrap(),
            types: vec![TypeId::new("t").unwrap()],
            jobs_max: 1,
            length: Duration::from_secs(60),
            number: None,
        };
        let worker_of = |attempts: &LeaseAttempts| attempts.lease.worker.clone();
        let (first, second) = (leases.attempts(request()).unwrap(), leases.attempts(request()).unwrap());
        assert_ne!(worker_of(&first), worker_of(&second));
        let (ended, clone) = (worker_of(&first), first.clone());
        drop(first);
        assert_ne!(worker_of(&leases.attempts(request()).unwrap()), ended, "a clone still leases");
        drop(clone);
        assert_eq!(worker_of(&leases.attempts(request()).unwrap()), ended);
    }
}
