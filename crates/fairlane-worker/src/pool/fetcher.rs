//! Takes jobs: no more than there are free slots, and waits for a push when there is nothing to take.
//!
//! Invariant: a lease that was asked for is answered before the worker stops, if the engine answers at all;
//! its jobs run or are handed back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::Micros;
use fairlane_core::limits::{ADMIT_JOBS_MAX, TIMER_BACKSTOP_MS};
use fairlane_core::queue::{Admit, Destination};
use fairlane_engine::{Clock, EngineError, Leaser};

use super::outage::Pauses;
use super::slots::Room;
use super::{Shared, attempt};

/// Shortest wait for one that has passed by our clock; doubled while nothing comes of it.
const TIMED_WAIT_MIN: Duration = Duration::from_millis(1);
/// A class that had nothing is not asked again for this long while others have work.
const EMPTY_PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Fetcher {
    shared: Arc<Shared>,
    leaser: Leaser,
    pauses: Pauses,
    /// The class whose turn it is.
    turn: usize,
    /// When each class last had nothing; it is left in peace for a moment.
    empty: Vec<Option<Instant>>,
    /// When the first of them may have something.
    wake_at: Option<Micros>,
    /// Waits that ended with nothing, in a row.
    vain: u32,
}

/// What is to be done next.
enum Turn {
    Ask(Room),
    /// Whoever has room had nothing.
    Wait,
    /// Nobody has room.
    Full,
}

/// What one lease gave.
enum Fetched {
    Some,
    /// Nothing; ask again then.
    None(Option<Micros>),
}

impl Fetcher {
    pub fn new(shared: Arc<Shared>) -> Self {
        let leaser = Leaser::new(shared.engine.clone(), shared.worker.clone());
        let (pauses, empty) = (Pauses::default(), vec![None; shared.slots.classes()]);
        Self { shared, leaser, pauses, turn: 0, empty, wake_at: None, vain: 0 }
    }

    /// Takes jobs until the worker stops.
    pub async fn run(mut self) {
        let stopping = self.shared.stopping.clone();
        while !stopping.is_cancelled() {
            let turn = match self.next_class() {
                Turn::Ask(room) => self.fetch(room).await,
                Turn::Wait => self.wait().await,
                Turn::Full => {
                    tokio::select! {
                        _ = stopping.cancelled() => break,
                        _ = self.shared.slots.freed() => continue,
                    }
                }
            };
            match turn {
                Ok(()) => {
                    self.shared.outage.over();
                    self.pauses.reset();
                }
                Err(error) => {
                    self.shared.outage.failed("asking for jobs", &error);
                    self.pauses.pause(&stopping).await;
                }
            }
        }
        self.hand_back_missed().await;
        self.shared.fetched.cancel();
    }

    /// The next class in turn that has room and was not found empty a moment ago.
    fn next_class(&self) -> Turn {
        let classes = self.shared.slots.classes();
        let mut open = false;
        for class in (0..classes).map(|step| (self.turn + step) % classes) {
            let jobs = self.shared.slots.room(class);
            open |= jobs > 0;
            if jobs > 0 && self.empty[class].is_none_or(|since| since.elapsed() >= EMPTY_PAUSE) {
                return Turn::Ask(Room { class, jobs });
            }
        }
        if open { Turn::Wait } else { Turn::Full }
    }

    /// Asks for jobs of one class.
    async fn fetch(&mut self, room: Room) -> Result<(), EngineError> {
        self.turn = room.class + 1;
        let jobs_max = room.jobs.min(self.shared.settings.fetch_batch_size);
        let mut wake_at = match self.lease(room.class, jobs_max).await? {
            Fetched::Some => return Ok(()),
            Fetched::None(wake_at) => wake_at,
        };
        if self.shared.is_classic().await? && self.admit().await? {
            match self.lease(room.class, jobs_max).await? {
                Fetched::Some => return Ok(()),
                Fetched::None(later) => wake_at = later,
            }
        }
        self.empty[room.class] = Some(Instant::now());
        self.wake_at = [self.wake_at, wake_at].into_iter().flatten().min();
        Ok(())
    }

    async fn lease(&mut self, class: usize, jobs_max: usize) -> Result<Fetched, EngineError> {
        let types = self.shared.slots.types(class);
        let batch = self.leaser.lease(types, jobs_max, self.shared.lease_ms()).await?;
        if batch.jobs.is_empty() {
            return Ok(Fetched::None(batch.wake_at));
        }
        for job in batch.jobs {
            if let Some(bulk) = &job.bulk {
                self.shared.bulks_met.meet(&job.job.group, bulk);
            }
            attempt::start(&self.shared, job, batch.asked);
        }
        (self.empty[class], self.wake_at, self.vain) = (None, None, 0);
        Ok(Fetched::Some)
    }

    /// `classic`: what was pushed into a lane is admitted at once instead of at the next round of the loop.
    async fn admit(&self) -> Result<bool, EngineError> {
        let admitted = self.shared.engine.admit(Admit { jobs_max: ADMIT_JOBS_MAX }).await?;
        Ok(admitted.admissions.iter().any(|admission| admission.destination == Destination::Ready))
    }

    /// Waits for a push, a time, a freed slot or the stop.
    async fn wait(&mut self) -> Result<(), EngineError> {
        let (open, types) = self.shared.slots.with_room();
        let some_full = open < self.shared.slots.classes();
        let at_most = self.wait_at_most();
        self.empty.fill(None);
        self.wake_at = None;
        self.vain = self.vain.saturating_add(1);
        tokio::select! {
            woken = self.shared.engine.wait(&types, at_most) => {
                if woken? {
                    self.vain = 0;
                }
                Ok(())
            }
            _ = self.shared.slots.freed(), if some_full => Ok(()),
            _ = self.shared.stopping.cancelled() => Ok(()),
        }
    }

    fn wait_at_most(&self) -> Duration {
        // Another worker may hold the timer of a type and have died, or have no slot when it comes.
        let backstop = Duration::from_millis(TIMER_BACKSTOP_MS);
        let Some(wake_at) = self.wake_at else { return self.shared.settings.worker_timeout.min(backstop) };
        let least = TIMED_WAIT_MIN * (1 << self.vain.min(7));
        Duration::from_micros(wake_at.since(Clock::System.now())).clamp(least, backstop)
    }

    /// A request whose answer was missed may hold jobs: they are asked for once more and handed back.
    async fn hand_back_missed(&mut self) {
        while self.leaser.has_missed() && !self.shared.stopped.is_cancelled() {
            match self.leaser.recover().await {
                Ok(batch) => {
                    for job in batch.jobs {
                        attempt::hand_back(&self.shared, job, batch.asked).await;
                    }
                }
                Err(error) => {
                    self.shared.outage.failed("asking for jobs", &error);
                    self.pauses.pause(&self.shared.stopped.clone()).await;
                }
            }
        }
    }
}
