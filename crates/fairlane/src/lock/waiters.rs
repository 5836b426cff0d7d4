//! The waiters of one client: their signals, and the subscription that they share.
//!
//! While a client has waiters, one task is subscribed to their signals and keeps them alive in the
//! engine with less than three commands per slice. It runs on the runtime of the first waiter: a
//! runtime that is blocked could not use a lock either, so its waiters should lose their turn. If
//! that runtime ends, the next try of another waiter begins a new subscription. Invariant: a waiter
//! registers in the engine after the subscription was confirmed, so no signal to it is lost unless
//! the connection is; the reply to the next `attend_locks` repeats what was lost. That reply also has
//! the time of the store, which is needed to interpret the end of a lease in a signal. If the engine
//! refuses the subscription, these replies replace the signals: waiters keep their places, and learn a
//! third of a second later that a lock is theirs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fairlane_core::kernel::{self, Signal};
use fairlane_core::limits::LOCK_SLICE_MS;
use fairlane_core::lock::{AcquireLock, AttendLocks, LockAcquired, LockName};
use fairlane_core::{LockToken, ProcessId};
use fairlane_engine::{Backoff, Engine, EngineError, Signals};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::deadline::StoreClock;
use super::lease::Grant;

/// The interval of `attend_locks`, so that at least two of them fall into a slice.
const ATTEND_EVERY: Duration = Duration::from_millis(LOCK_SLICE_MS * 7 / 20);

/// The longest lease that a signal can grant.
const SLICE: Duration = Duration::from_millis(LOCK_SLICE_MS);
/// The least remaining time of such a lease with which a waiter begins. With less, it sends an
/// acquisition, which extends the lease.
const REST_MIN: Duration = Duration::from_millis(LOCK_SLICE_MS / 2);

/// The waiters of one client.
pub(super) struct Waiters {
    process: ProcessId,
    pub engine: Arc<dyn Engine>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The tokens of all acquisitions that are under way.
    tokens: HashSet<LockToken>,
    /// The waiters by token.
    signals: HashMap<LockToken, Arc<Wakes>>,
    /// The waiters of each lock in the order in which they came.
    queues: HashMap<LockName, BTreeMap<u64, Arc<Wakes>>>,
    waiters: u64,
    /// Whether waiters may register: the subscription is confirmed, or was refused and is replaced by
    /// `attend_locks`. `None` while nothing attends.
    confirmed: Option<watch::Receiver<bool>>,
    /// Whether a request of a waiter has kept all of them alive since the last `attend_locks`.
    is_attended: bool,
}

/// The notifications of one waiter.
#[derive(Default)]
struct Wakes {
    /// Notified when the lock is reserved for the waiter or granted to it.
    signal: Notify,
    /// The grant in the last signal, and the clock that interprets the end of its lease.
    granted: Mutex<Option<(kernel::Grant, StoreClock)>>,
    /// Notified when it becomes the first waiter of the client for its lock.
    first: Notify,
}

impl Wakes {
    fn granted(&self) -> MutexGuard<'_, Option<(kernel::Grant, StoreClock)>> {
        self.granted.lock().expect("no code panics while it holds this lock")
    }
}

impl Waiters {
    pub fn new(process: ProcessId, engine: Arc<dyn Engine>) -> Self {
        Self { process, engine, state: Mutex::default() }
    }

    pub fn process(&self) -> &ProcessId {
        &self.process
    }

    /// Reserves a token until the result is dropped; `None` if it is in use.
    pub fn reserve(self: &Arc<Self>, token: &LockToken) -> Option<TokenInUse> {
        let is_new = self.state().tokens.insert(token.clone());
        is_new.then(|| TokenInUse { waiters: self.clone(), token: token.clone() })
    }

    /// Tries to acquire a lock.
    pub async fn try_to_acquire(&self, command: AcquireLock) -> Result<LockAcquired, EngineError> {
        let acquired = self.engine.call(command).await?;
        if matches!(acquired, LockAcquired::Waiting { .. }) {
            self.state().is_attended = true;
        }
        Ok(acquired)
    }

    /// Adds a waiter if the client is subscribed.
    pub fn join_subscribed(self: &Arc<Self>, name: &LockName, token: &LockToken) -> Option<Place> {
        let mut state = self.state();
        let confirmed = state.confirmed.clone().filter(|confirmed| *confirmed.borrow())?;
        Some(self.add(&mut state, confirmed, name, token))
    }

    /// Adds a waiter; the first one begins the subscription, on its own runtime.
    pub fn join(self: &Arc<Self>, name: &LockName, token: &LockToken) -> Place {
        let mut state = self.state();
        let confirmed = match &state.confirmed {
            Some(confirmed) if confirmed.has_changed().is_ok() => confirmed.clone(),
            _ => {
                let (sender, confirmed) = watch::channel(false);
                tokio::spawn(self.clone().attend(sender));
                state.confirmed.insert(confirmed).clone()
            }
        };
        self.add(&mut state, confirmed, name, token)
    }

    fn add(
        self: &Arc<Self>,
        state: &mut State,
        confirmed: watch::Receiver<bool>,
        name: &LockName,
        token: &LockToken,
    ) -> Place {
        let wakes = Arc::<Wakes>::default();
        state.waiters += 1;
        let number = state.waiters;
        state.signals.insert(token.clone(), wakes.clone());
        state.queues.entry(name.clone()).or_default().insert(number, wakes.clone());
        let (waiters, name, token) = (self.clone(), name.clone(), token.clone());
        Place { waiters, name, token, number, wakes, confirmed }
    }

    /// Receives signals and keeps the waiters alive, until there are none.
    async fn attend(self: Arc<Self>, confirmed: watch::Sender<bool>) {
        let mut backoff = Backoff::default();
        while !self.end_if_unused() {
            let source = match self.engine.subscribe(&self.process).await {
                Ok(signals) => {
                    backoff.reset();
                    Source::Signals(signals)
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot subscribe to signals of locks");
                    Source::None { until: Instant::now() + backoff.next_delay() }
                }
            };
            confirmed.send_replace(true);
            let is_subscribed = matches!(source, Source::Signals(_));
            if self.receive(source).await {
                return;
            }
            if is_subscribed {
                tracing::debug!("the subscription to signals of locks has ended; subscribing again");
                confirmed.send_replace(false);
            }
        }
    }

    /// Passes signals on until there are no waiters (true) or the source ends. The first
    /// `attend_locks` is sent at once and finds what was lost before.
    async fn receive(&self, mut source: Source) -> bool {
        let mut ticks = interval(ATTEND_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_skipped = true;
        // Unknown at first: a later connection may lead to another store with another clock.
        let mut clock = None;
        loop {
            tokio::select! {
                signal = source.next() => match signal {
                    Some(signal) => self.wake(&signal.waiter, signal.grant.zip(clock)),
                    None => return false,
                },
                _ = ticks.tick() => {
                    if self.end_if_unused() {
                        return true;
                    }
                    // Never skipped twice in a row, because the reply also has claims whose signal
                    // was lost.
                    is_skipped = std::mem::take(&mut self.state().is_attended) && !is_skipped;
                    if is_skipped {
                        continue;
                    }
                    let asked = StoreClock::ask();
                    let attend = self.engine.call(AttendLocks { process: self.process.clone() });
                    // If no reply arrives in time, the next `attend_locks` follows.
                    if let Ok(Ok(attended)) = timeout(ATTEND_EVERY, attend).await {
                        clock = Some(asked.at(attended.time));
                        attended.claims.iter().for_each(|claim| self.wake(&claim.token, None));
                    }
                }
            }
        }
    }

    fn wake(&self, token: &LockToken, granted: Option<(kernel::Grant, StoreClock)>) {
        if let Some(waiter) = self.state().signals.get(token) {
            if granted.is_some() {
                *waiter.granted() = granted;
            }
            waiter.signal.notify_one();
        }
    }

    fn end_if_unused(&self) -> bool {
        let mut state = self.state();
        let is_unused = state.signals.is_empty();
        if is_unused {
            state.confirmed = None;
        }
        is_unused
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds this lock")
    }
}

/// Where signals come from.
enum Source {
    Signals(Signals),
    /// Nowhere, until it is time to subscribe again.
    None {
        until: Instant,
    },
}

impl Source {
    /// The next signal; `None` when it is time to subscribe again.
    async fn next(&mut self) -> Option<Signal> {
        match self {
            Self::Signals(signals) => signals.next().await,
            Self::None { until } => {
                sleep_until(*until).await;
                None
            }
        }
    }
}

/// A token that no other acquisition of the client may use.
pub(super) struct TokenInUse {
    waiters: Arc<Waiters>,
    token: LockToken,
}

impl TokenInUse {
    pub fn token(&self) -> &LockToken {
        &self.token
    }
}

impl Drop for TokenInUse {
    fn drop(&mut self) {
        self.waiters.state().tokens.remove(&self.token);
    }
}

/// A waiter of this client; dropping it removes it.
pub(super) struct Place {
    waiters: Arc<Waiters>,
    name: LockName,
    token: LockToken,
    number: u64,
    wakes: Arc<Wakes>,
    confirmed: watch::Receiver<bool>,
}

impl Place {
    /// Completes when the waiter may register, or the subscription has ended with its runtime.
    pub async fn confirmed(&self) {
        let _ = self.confirmed.clone().wait_for(|confirmed| *confirmed).await;
    }

    /// Whether the runtime that was subscribed has ended.
    pub fn is_cut_off(&self) -> bool {
        self.confirmed.has_changed().is_err()
    }

    /// Whether the engine is in another process.
    pub fn is_remote(&self) -> bool {
        self.waiters.engine.name() != "embedded"
    }

    /// Completes when the lock may be free.
    pub async fn signalled(&self) {
        self.wakes.signal.notified().await;
    }

    /// The grant in the last signal; `None` if there is none or too little of its lease is left.
    pub fn granted(&self) -> Option<Grant> {
        let (kernel::Grant { fence, until }, clock) = self.wakes.granted().take()?;
        let sent = Instant::now();
        let rest = clock.until(until).min(SLICE);
        (rest >= REST_MIN).then(|| Grant { fence, sent, deadline: sent + rest })
    }

    /// Completes when it becomes the first waiter of the client for its lock.
    pub async fn became_first(&self) {
        self.wakes.first.notified().await;
    }

    /// Whether it is the first waiter of the client for its lock. The first one holds the timer for
    /// the end of the holder's lease.
    pub fn is_first(&self) -> bool {
        let state = self.waiters.state();
        let first = state.queues.get(&self.name).and_then(|queue| queue.keys().next());
        first == Some(&self.number)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.waiters.state();
        state.signals.remove(&self.token);
        let Some(queue) = state.queues.get_mut(&self.name) else { return };
        let was_first = queue.keys().next() == Some(&self.number);
        queue.remove(&self.number);
        match queue.values().next() {
            None => {
                state.queues.remove(&self.name);
            }
            // The next waiter holds the timer from now on.
            Some(next) if was_first => next.first.notify_one(),
            Some(_) => {}
        }
    }
}
