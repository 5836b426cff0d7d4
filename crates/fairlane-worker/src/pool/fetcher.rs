//! Takes jobs: no more than there are free slots, and waits for a push when there is nothing to take.
//!
//! Invariant: a lease that was asked for is answered before the worker stops, if the engine answers at all;
//! its jobs run or are handed back. A wait goes on while others' slots come and go: to end one early costs an engine
//! behind a server a connection, and may cost the push that was on its way.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairlane_core::TypeId;
use fairlane_core::limits::{ADMIT_JOBS_MAX, TIMER_BACKSTOP_MS};
use fairlane_core::queue::{Admit, Destination};
use fairlane_engine::{EngineError, Leaser};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use super::gather::gather;
use super::outage::Pauses;
use super::slots::Room;
use super::{Shared, attempt};

/// Shortest wait for one that has passed by our clock; doubled while nothing comes of it.
const TIMED_WAIT_MIN: Duration = Duration::from_millis(1);
/// A class that had nothing is not asked again for this long while others have work.
const EMPTY_PAUSE: Duration = Duration::from_millis(50);
/// Waits at a time: one that goes on, and one for those that have joined since.
const WAITS_MAX: usize = 2;

pub(crate) struct Fetcher {
    shared: Arc<Shared>,
    leaser: Leaser,
    pauses: Pauses,
    /// The class whose turn it is.
    turn: usize,
    /// What is known of each class.
    classes: Vec<Class>,
    /// What some of them wait for; whether it came.
    waits: JoinSet<Result<bool, EngineError>>,
    /// Waits that ended with nothing, in a row.
    vain: u32,
}

#[derive(Default)]
struct Class {
    /// When it last had nothing; it is left in peace for a moment.
    empty: Option<Instant>,
    /// When it may have something.
    wake_at: Option<Instant>,
    /// A wait for it, and perhaps for others, is under way.
    wait: Option<AbortHandle>,
}

/// What is to be done next.
enum Turn {
    Ask(Room),
    /// Whoever has room had nothing.
    Wait,
    /// Nobody has room.
    Full,
}

/// Who ended a turn.
enum Heard {
    /// It answers.
    Engine,
    /// A slot was freed, the worker stops, or a wait was ended here.
    Nobody,
}

/// A wait that has ended, and whether by a push.
type Ended = Result<(Id, Result<bool, EngineError>), JoinError>;

/// What one lease gave.
enum Fetched {
    Some,
    /// Nothing; ask again then.
    None(Option<Instant>),
}

impl Fetcher {
    pub fn new(shared: Arc<Shared>) -> Self {
        let leaser = Leaser::new(shared.engine.clone(), shared.worker.clone());
        let classes = (0..shared.slots.classes()).map(|_| Class::default()).collect();
        let (pauses, waits) = (Pauses::default(), JoinSet::new());
        Self { shared, leaser, pauses, turn: 0, classes, waits, vain: 0 }
    }

    /// Takes jobs until the worker stops.
    pub async fn run(mut self) {
        let stopping = self.shared.stopping.clone();
        while !stopping.is_cancelled() {
            match self.take_turn().await {
                Ok(Heard::Engine) => {
                    self.shared.outage.over();
                    self.pauses.reset();
                }
                Ok(Heard::Nobody) => {}
                Err(error) => {
                    self.shared.outage.failed("asking for jobs", &error);
                    self.pauses.pause(&stopping).await;
                }
            }
        }
        self.waits.abort_all();
        self.hand_back_missed().await;
        self.shared.fetched.cancel();
    }

    async fn take_turn(&mut self) -> Result<Heard, EngineError> {
        // Also while others have so much work that nobody waits.
        while let Some(ended) = self.waits.try_join_next_with_id() {
            self.note(ended)?;
        }
        match self.next_class() {
            Turn::Ask(room) => self.fetch(self.gathered(room).await).await.map(|()| Heard::Engine),
            Turn::Wait => self.wait().await,
            Turn::Full => {
                self.end_waits_of_full();
                tokio::select! {
                    _ = self.shared.stopping.cancelled() => {}
                    _ = self.shared.slots.freed() => {}
                }
                Ok(Heard::Nobody)
            }
        }
    }

    /// The next class in turn that has room, is not waited for, and was not found empty a moment ago.
    fn next_class(&self) -> Turn {
        let classes = self.classes.len();
        let mut open = false;
        for class in (0..classes).map(|step| (self.turn + step) % classes) {
            let jobs = self.shared.slots.room(class);
            open |= jobs > 0;
            let Class { empty, wait, .. } = &self.classes[class];
            let may_have = wait.is_none() && empty.is_none_or(|since| since.elapsed() >= EMPTY_PAUSE);
            if jobs > 0 && may_have {
                return Turn::Ask(Room { class, jobs });
            }
        }
        if open { Turn::Wait } else { Turn::Full }
    }

    /// The room of a class once the jobs that are about to end have ended. An idle worker asks at once.
    async fn gathered(&self, Room { class, jobs }: Room) -> Room {
        let slots = &self.shared.slots;
        if slots.in_use() == 0 {
            return Room { class, jobs };
        }
        gather(|| slots.room(class)).await;
        Room { class, jobs: slots.room(class) }
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
        let class = &mut self.classes[room.class];
        (class.empty, class.wake_at) = (Some(Instant::now()), wake_at);
        Ok(())
    }

    async fn lease(&mut self, class: usize, jobs_max: usize) -> Result<Fetched, EngineError> {
        let types = self.shared.slots.types(class);
        let batch = self.leaser.lease(types, jobs_max, self.shared.lease_ms()).await?;
        if batch.jobs.is_empty() {
            return Ok(Fetched::None(batch.wake_at));
        }
        for job in &batch.jobs {
            if let Some(bulk) = &job.bulk {
                self.shared.bulks_met.meet(&job.job.group, bulk);
            }
        }
        attempt::start_all(&self.shared, batch.jobs, batch.asked);
        (self.classes[class].empty, self.vain) = (None, 0);
        Ok(Fetched::Some)
    }

    /// `classic`: what was pushed into a lane is admitted at once instead of at the next round of the loop.
    async fn admit(&self) -> Result<bool, EngineError> {
        let admitted = self.shared.engine.admit(Admit { jobs_max: ADMIT_JOBS_MAX }).await?;
        Ok(admitted.admissions.iter().any(|admission| admission.destination == Destination::Ready))
    }

    /// Waits for a push, a time, a freed slot or the stop.
    async fn wait(&mut self) -> Result<Heard, EngineError> {
        self.end_waits_of_full();
        self.begin_wait();
        let some_full = (0..self.classes.len()).any(|class| self.shared.slots.room(class) == 0);
        tokio::select! {
            Some(ended) = self.waits.join_next_with_id() => self.note(ended),
            _ = self.shared.slots.freed(), if some_full => Ok(Heard::Nobody),
            _ = self.shared.stopping.cancelled() => Ok(Heard::Nobody),
        }
    }

    /// Whoever has no room must not take a push from those who have.
    fn end_waits_of_full(&mut self) {
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

    /// Lets classes be asked again that a wait was for.
    fn forget(&mut self, wait: Id) {
        for class in &mut self.classes {
            if class.wait.as_ref().is_some_and(|other| other.id() == wait) {
                *class = Class::default();
            }
        }
    }

    /// Waits for all that have room and are not waited for yet; a third wait becomes one with those before it.
    fn begin_wait(&mut self) {
        let is_unheeded = |fetcher: &Self, class: usize| {
            fetcher.classes[class].wait.is_none() && fetcher.shared.slots.room(class) > 0
        };
        if !(0..self.classes.len()).any(|class| is_unheeded(self, class)) {
            return;
        }
        let under_way = self.classes.iter().filter_map(|class| class.wait.as_ref().map(AbortHandle::id));
        if under_way.collect::<HashSet<_>>().len() == WAITS_MAX {
            self.waits.abort_all();
            self.classes.iter_mut().for_each(|class| class.wait = None);
        }
        let unheeded: Vec<usize> =
            (0..self.classes.len()).filter(|class| is_unheeded(self, *class)).collect();
        let types = unheeded.iter().flat_map(|class| self.shared.slots.types(*class)).cloned();
        let types: Vec<TypeId> = types.collect();
        let at_most = self.wait_at_most(&unheeded);
        self.vain = self.vain.saturating_add(1);
        let engine = self.shared.engine.clone();
        let wait = self.waits.spawn(async move { engine.wait(&types, at_most).await });
        for class in unheeded {
            self.classes[class].wait = Some(wait.clone());
        }
    }

    /// A wait has ended, by itself or because it was ended here.
    fn note(&mut self, ended: Ended) -> Result<Heard, EngineError> {
        let (wait, woken) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                self.forget(error.id());
                return Ok(Heard::Nobody);
            }
        };
        self.forget(wait);
        if woken? {
            self.vain = 0;
        }
        Ok(Heard::Engine)
    }

    fn wait_at_most(&self, classes: &[usize]) -> Duration {
        // Another worker may hold the timer of a type and have died, or have no slot when it comes.
        let backstop = Duration::from_millis(TIMER_BACKSTOP_MS);
        let first = classes.iter().filter_map(|class| self.classes[*class].wake_at).min();
        let Some(wake_at) = first else { return self.shared.settings.worker_timeout.min(backstop) };
        let least = TIMED_WAIT_MIN * (1 << self.vain.min(7));
        wake_at.saturating_duration_since(Instant::now()).clamp(least, backstop)
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
