//! Leases jobs: no more than there are free slots. Waits for a wake-up when there are none.
//!
//! Invariant: a lease request gets its reply before the worker stops, if the engine replies at all;
//! its jobs run or are handed back. A wait goes on while slots of other classes change. Ending a
//! wait early costs an engine behind a server a connection, and may lose a wake-up in transit.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::TypeId;
use fairlane_core::limits::{ADMIT_JOBS_MAX, TIMER_BACKSTOP_MS};
use fairlane_core::queue::{Admit, Destination};
use fairlane_engine::{Backoff, Batch, EngineError, Leaser, lease_pause};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::gather::gather;
use super::slots::Room;
use super::{Shared, attempt};

/// How long an empty class is not requested again while others have work.
const EMPTY_PAUSE: Duration = Duration::from_millis(50);
/// Shortest lease whose request may wait in the engine, for [`TIMER_BACKSTOP_MS`] at most.
const WAITING_LEASE_MS_MIN: u64 = 8 * TIMER_BACKSTOP_MS;
/// Most concurrent waits: one that goes on, and one for classes that joined since.
const WAITS_MAX: usize = 2;

pub(crate) struct Fetcher {
    shared: Arc<Shared>,
    leaser: Leaser,
    backoff: Backoff,
    /// The class that is requested next.
    turn: usize,
    /// The state of each class.
    classes: Vec<Class>,
    /// Running waits for wake-ups; each resolves to whether one came.
    waits: JoinSet<Result<bool, EngineError>>,
    /// Consecutive waits that yielded nothing.
    empty_waits: u32,
}

#[derive(Default)]
struct Class {
    /// When a lease last returned no job; the class is not requested again right away.
    empty: Option<Instant>,
    /// The next time at which a job may be available.
    wake_at: Option<Instant>,
    /// The running wait that covers this class, and perhaps others.
    wait: Option<AbortHandle>,
}

/// What the fetcher does next.
enum Turn {
    Lease(Room),
    /// Every class with room was found empty.
    Wait,
    /// No class has room.
    Full,
}

/// What ended a turn.
enum TurnEnd {
    /// The engine replied.
    EngineReply,
    /// A slot was freed, the worker stops, or the fetcher aborted a wait.
    Interrupted,
}

/// The result of a wait: whether a wake-up ended it.
type Joined = Result<(Id, Result<bool, EngineError>), JoinError>;

/// What one lease request returned.
enum Fetched {
    Jobs,
    /// No jobs; request again at this time.
    Empty(Option<Instant>),
}

impl Fetcher {
    pub fn new(shared: Arc<Shared>) -> Self {
        let leaser = Leaser::new(shared.engine.clone(), shared.worker.clone());
        let classes = (0..shared.slots.classes()).map(|_| Class::default()).collect();
        let (backoff, waits) = (Backoff::default(), JoinSet::new());
        Self { shared, leaser, backoff, turn: 0, classes, waits, empty_waits: 0 }
    }

    /// Leases jobs until the worker stops.
    pub async fn run(mut self) {
        let stopping = self.shared.stopping.clone();
        while !stopping.is_cancelled() {
            match self.take_turn().await {
                Ok(TurnEnd::EngineReply) => {
                    self.shared.outage.replied();
                    self.backoff.reset();
                }
                Ok(TurnEnd::Interrupted) => {}
                Err(error) => {
                    self.shared.outage.failed("asking for jobs", &error);
                    stopping.run_until_cancelled(self.backoff.sleep()).await;
                }
            }
        }
        self.waits.abort_all();
        self.hand_back_unseen().await;
        self.shared.fetched.cancel();
    }

    async fn take_turn(&mut self) -> Result<TurnEnd, EngineError> {
        // Also while other classes have so much work that the fetcher never waits.
        while let Some(joined) = self.waits.try_join_next_with_id() {
            self.finish_wait(joined)?;
        }
        match self.next_class() {
            Turn::Lease(room) => self.fetch(self.gathered(room).await).await.map(|()| TurnEnd::EngineReply),
            Turn::Wait => match self.room_to_wait_with().await? {
                Some(room) => self.lease_when_woken(room).await,
                None => self.wait().await,
            },
            Turn::Full => {
                self.abort_waits_of_full_classes();
                tokio::select! {
                    _ = self.shared.stopping.cancelled() => {}
                    _ = self.shared.slots.freed() => {}
                }
                Ok(TurnEnd::Interrupted)
            }
        }
    }

    /// The next class in turn that has room, has no running wait, and was not just found empty.
    fn next_class(&self) -> Turn {
        let classes = self.classes.len();
        let mut open = false;
        for class in (0..classes).map(|step| (self.turn + step) % classes) {
            let jobs = self.shared.slots.room(class);
            open |= jobs > 0;
            let Class { empty, wait, .. } = &self.classes[class];
            let may_have_jobs = wait.is_none() && empty.is_none_or(|since| since.elapsed() >= EMPTY_PAUSE);
            if jobs > 0 && may_have_jobs {
                return Turn::Lease(Room { class, jobs });
            }
        }
        if open { Turn::Wait } else { Turn::Full }
    }

    /// The room of a class once jobs that are about to end have ended. An idle worker does not
    /// wait, nor does one that has room for a whole batch: its jobs are leased while others run.
    async fn gathered(&self, Room { class, jobs }: Room) -> Room {
        let slots = &self.shared.slots;
        if slots.in_use() == 0 || jobs >= self.shared.settings.fetch_batch_size {
            return Room { class, jobs };
        }
        gather(|| slots.room(class)).await;
        Room { class, jobs: slots.room(class) }
    }

    /// Leases jobs of one class.
    async fn fetch(&mut self, room: Room) -> Result<(), EngineError> {
        self.turn = room.class + 1;
        let jobs_max = room.jobs.min(self.shared.settings.fetch_batch_size);
        let mut wake_at = match self.lease(room.class, jobs_max).await? {
            Fetched::Jobs => return Ok(()),
            Fetched::Empty(wake_at) => wake_at,
        };
        if self.shared.is_classic().await? && self.admit().await? {
            match self.lease(room.class, jobs_max).await? {
                Fetched::Jobs => return Ok(()),
                Fetched::Empty(later) => wake_at = later,
            }
        }
        let class = &mut self.classes[room.class];
        (class.empty, class.wake_at) = (Some(Instant::now()), wake_at);
        Ok(())
    }

    async fn lease(&mut self, class: usize, jobs_max: usize) -> Result<Fetched, EngineError> {
        let types = self.shared.slots.types(class);
        let batch = self.leaser.lease(types, jobs_max, self.shared.lease_ms()).await?;
        Ok(self.start(class, batch))
    }

    /// Starts an attempt at each job of a batch.
    fn start(&mut self, class: usize, batch: Batch) -> Fetched {
        if batch.jobs.is_empty() {
            return Fetched::Empty(batch.wake_at);
        }
        for job in &batch.jobs {
            if let Some(bulk) = &job.bulk {
                self.shared.seen_bulks.add(&job.job.group, bulk);
            }
        }
        attempt::start_all(&self.shared, batch.jobs, batch.asked);
        (self.classes[class].empty, self.empty_waits) = (None, 0);
        Fetched::Jobs
    }

    /// The room of a worker that leases all its types together, if its lease request can wait in the
    /// engine. Slots that are freed during the wait do not add to it. A store's timers may be coarse,
    /// so it does not wait there for a time. The wait counts towards the length of the leases, so
    /// these must be much longer. `classic` has to admit jobs before they can be leased.
    async fn room_to_wait_with(&self) -> Result<Option<Room>, EngineError> {
        let shared = &self.shared;
        let [Class { wake_at: None, wait: None, .. }] = &self.classes[..] else { return Ok(None) };
        if shared.lease_ms() < WAITING_LEASE_MS_MIN || shared.is_classic().await? {
            return Ok(None);
        }
        let jobs = shared.slots.room(0).min(shared.settings.fetch_batch_size);
        Ok((jobs > 0).then_some(Room { class: 0, jobs }))
    }

    /// Lets a lease request wait in the engine until a wake-up, the backstop or the stop.
    async fn lease_when_woken(&mut self, Room { class, jobs }: Room) -> Result<TurnEnd, EngineError> {
        let at_most = self.wait_at_most(&[class]);
        self.empty_waits = self.empty_waits.saturating_add(1);
        let shared = self.shared.clone();
        let lease = self.leaser.lease_when_woken(shared.slots.types(class), jobs, shared.lease_ms(), at_most);
        let Some(batch) = shared.stopping.run_until_cancelled(lease).await else {
            return Ok(TurnEnd::Interrupted);
        };
        if let Fetched::Empty(wake_at) = self.start(class, batch?) {
            if wake_at.is_some() {
                // A time that was not known before the wait, such as that of a delayed job.
                self.empty_waits = 0;
            }
            let class = &mut self.classes[class];
            (class.empty, class.wake_at) = (Some(Instant::now()), wake_at);
        }
        Ok(TurnEnd::EngineReply)
    }

    /// `classic`: admits waiting jobs at once instead of at the loop's next round.
    async fn admit(&self) -> Result<bool, EngineError> {
        let admitted = self.shared.engine.call(Admit { jobs_max: ADMIT_JOBS_MAX }).await?;
        Ok(admitted.admissions.iter().any(|admission| admission.destination == Destination::Ready))
    }

    /// Waits for a wake-up, a time, a freed slot or the stop.
    async fn wait(&mut self) -> Result<TurnEnd, EngineError> {
        self.abort_waits_of_full_classes();
        self.begin_wait();
        let some_full = (0..self.classes.len()).any(|class| self.shared.slots.room(class) == 0);
        tokio::select! {
            Some(joined) = self.waits.join_next_with_id() => self.finish_wait(joined),
            _ = self.shared.slots.freed(), if some_full => Ok(TurnEnd::Interrupted),
            _ = self.shared.stopping.cancelled() => Ok(TurnEnd::Interrupted),
        }
    }

    /// A class without room must not consume a wake-up that another worker could use.
    fn abort_waits_of_full_classes(&mut self) {
        for class in 0..self.classes.len() {
            if self.shared.slots.room(class) > 0 {
                continue;
            }
            if let Some(wait) = self.classes[class].wait.clone() {
                wait.abort();
                self.forget(wait.id());
            }
        }
    }

    /// Resets the classes that a wait covered, so that they are requested again.
    fn forget(&mut self, wait: Id) {
        for class in &mut self.classes {
            if class.wait.as_ref().is_some_and(|other| other.id() == wait) {
                *class = Class::default();
            }
        }
    }

    /// Starts a wait for all classes that have room and no wait. Beyond the limit, all waits are
    /// merged into one.
    fn begin_wait(&mut self) {
        let is_uncovered = |fetcher: &Self, class: usize| {
            fetcher.classes[class].wait.is_none() && fetcher.shared.slots.room(class) > 0
        };
        if !(0..self.classes.len()).any(|class| is_uncovered(self, class)) {
            return;
        }
        let running = self.classes.iter().filter_map(|class| class.wait.as_ref().map(AbortHandle::id));
        if running.collect::<HashSet<_>>().len() == WAITS_MAX {
            self.waits.abort_all();
            self.classes.iter_mut().for_each(|class| class.wait = None);
        }
        let uncovered: Vec<usize> =
            (0..self.classes.len()).filter(|class| is_uncovered(self, *class)).collect();
        let types = uncovered.iter().flat_map(|class| self.shared.slots.types(*class)).cloned();
        let types: Vec<TypeId> = types.collect();
        let at_most = self.wait_at_most(&uncovered);
        self.empty_waits = self.empty_waits.saturating_add(1);
        let engine = self.shared.engine.clone();
        let wait = self.waits.spawn(async move { engine.wait(&types, at_most).await });
        for class in uncovered {
            self.classes[class].wait = Some(wait.clone());
        }
    }

    /// Records the end of a wait, which ended by itself or was aborted.
    fn finish_wait(&mut self, joined: Joined) -> Result<TurnEnd, EngineError> {
        let (wait, woken) = match joined {
            Ok(joined) => joined,
            Err(error) => {
                self.forget(error.id());
                return Ok(TurnEnd::Interrupted);
            }
        };
        self.forget(wait);
        if woken? {
            self.empty_waits = 0;
        }
        Ok(TurnEnd::EngineReply)
    }

    fn wait_at_most(&self, classes: &[usize]) -> Duration {
        let backstop = Duration::from_millis(TIMER_BACKSTOP_MS);
        let first = classes.iter().filter_map(|class| self.classes[*class].wake_at).min();
        match first {
            Some(_) => lease_pause(first, self.empty_waits, backstop),
            None => self.shared.settings.worker_timeout.min(backstop),
        }
    }

    /// A request whose reply was lost may have leased jobs: repeats the request and hands them
    /// back.
    async fn hand_back_unseen(&mut self) {
        while self.leaser.has_missed() && !self.shared.stopped.is_cancelled() {
            match self.leaser.recover().await {
                Ok(batch) => attempt::hand_back(&self.shared, batch.jobs, batch.asked).await,
                Err(error) => {
                    self.shared.outage.failed("asking for jobs", &error);
                    let stopped = self.shared.stopped.clone();
                    stopped.run_until_cancelled(self.backoff.sleep()).await;
                }
            }
        }
    }
}
