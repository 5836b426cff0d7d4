//! One acquisition of a lock, from its first request to its release.
//!
//! One task owns it, so its requests never cross: the token that the task renews is its own, renewal
//! ends before the release is sent, and a grant whose caller is gone is released. Deadlines are
//! computed from the time before a request was sent, because the engine counts from a later one.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::Fence;
use fairlane_core::lock::{
    AcquireLock, Blocked, HeldLock, LockAcquired, LockReleased, LockRenewal, ReleaseLock, RenewLocks,
};
use fairlane_engine::{Backoff, EngineError, observe};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::deadline::Deadline;
use super::guard::{End, LeaseState, LockGuard, LockHold};
use super::waiters::{Place, Waiters};
use super::{LockError, LossReason};
use crate::error::Error;

/// Renewals in one ttl.
const RENEWALS_PER_TTL: u32 = 3;
/// The part of the ttl before the end of a lease in which the lock counts as lost.
const LOSS_MARGIN_PER_TTL: u32 = 10;
/// The shortest time between two tries without a signal.
const RETRY_MIN: Duration = Duration::from_millis(10);

/// When a waiter that has become the first one of its client asks how long the lock is held. Often the
/// lock has passed on to it by then.
const FIRST_TRY_AFTER: Duration = Duration::from_millis(50);

/// The caller that waits for the result.
type Caller = oneshot::Sender<Result<LockGuard, Error>>;

/// One acquisition of a lock.
pub(super) struct Acquisition {
    command: AcquireLock,
    /// The longest time between two tries.
    slice: Duration,
    /// When to give up waiting; `None` if the caller does not wait.
    until: Option<Instant>,
    begun: Instant,
}

/// A lease of the lock.
struct Lease {
    fence: Fence,
    /// When the request was sent that it was granted by.
    sent: Instant,
    deadline: Instant,
}

/// How the attempt to acquire has ended.
enum Acquired {
    Held(Lease),
    Denied(Error),
    /// The caller is gone.
    Abandoned,
}

impl Acquisition {
    pub fn new(command: AcquireLock, slice: Duration, until: Option<Instant>) -> Self {
        Self { command, slice: slice.max(RETRY_MIN), until, begun: Instant::now() }
    }

    /// Acquires the lock, holds it for the caller and releases it.
    pub async fn run(self, waiters: Arc<Waiters>, mut caller: Caller) {
        let Some(_token) = waiters.reserve(&self.command.token) else {
            let _ = caller.send(Err(LockError::TokenInUse(self.command.name).into()));
            return;
        };
        let ttl = Duration::from_millis(self.command.ttl_ms);
        match self.acquire(&waiters, &mut caller).await {
            Acquired::Held(lease) => {
                observe::lock_waited(waiters.engine.name(), self.begun.elapsed());
                self.hold(&waiters, lease, caller).await;
            }
            Acquired::Denied(error) => {
                let may_be_known = !matches!(error, Error::Lock(LockError::Busy { .. }));
                let _ = caller.send(Err(error));
                if may_be_known {
                    let _ = self.release(&waiters, Instant::now() + ttl).await;
                }
            }
            Acquired::Abandoned => {
                let _ = self.release(&waiters, Instant::now() + ttl).await;
            }
        }
    }

    /// Tries until the lock is held. A request is never cancelled, so that the release that follows
    /// an abandoned one arrives later.
    async fn acquire(&self, waiters: &Arc<Waiters>, caller: &mut Caller) -> Acquired {
        // While the client is subscribed anyway, the first try registers at once.
        let mut place: Option<Place> =
            self.until.and_then(|_| waiters.join_subscribed(&self.command.name, &self.command.token));
        let mut blocked: Option<Blocked> = None;
        let mut failure: Option<EngineError> = None;
        let mut backoff = Backoff::default();
        loop {
            let (sent, command) =
                (Instant::now(), AcquireLock { wait: place.is_some(), ..self.command.clone() });
            let pause = match waiters.try_to_acquire(command).await {
                Ok(LockAcquired::Held { fence, remaining_us }) => {
                    let deadline = sent + Duration::from_micros(remaining_us);
                    return Acquired::Held(Lease { fence, sent, deadline });
                }
                Ok(LockAcquired::Refused(refusal)) => {
                    let name = self.command.name.clone();
                    return Acquired::Denied(LockError::Refused { name, refusal }.into());
                }
                Ok(LockAcquired::Busy(by)) => {
                    if self.until.is_none() {
                        let name = self.command.name.clone();
                        return Acquired::Denied(LockError::Busy { name, blocked: by }.into());
                    }
                    blocked = Some(by);
                    place = Some(waiters.join(&self.command.name, &self.command.token));
                    Pause::Subscription
                }
                Ok(LockAcquired::Waiting { blocked: by, .. }) => {
                    (failure, blocked) = (None, Some(by));
                    Pause::Signal
                }
                Err(error) if error.is_retryable() && self.until.is_some() => {
                    failure = Some(error);
                    Pause::Backoff(backoff.next_delay())
                }
                Err(error) => return Acquired::Denied(error.into()),
            };
            let give_up = self.until.unwrap_or(sent);
            tokio::select! {
                () = caller.closed() => return Acquired::Abandoned,
                () = self.pause(&pause, place.as_ref(), blocked.as_ref()) => {}
                () = sleep_until(give_up) => return Acquired::Denied(self.timeout(blocked, failure)),
            }
        }
    }

    /// Waits until the lock should be tried again.
    async fn pause(&self, pause: &Pause, place: Option<&Place>, blocked: Option<&Blocked>) {
        match (pause, place) {
            (Pause::Subscription, Some(place)) => place.confirmed().await,
            (Pause::Signal, Some(place)) => {
                let change = blocked.map(|blocked| Duration::from_micros(blocked.changes_in_us));
                // Leases of the engine end a little later than they are announced.
                let at_most = change.map_or(self.slice, |change| change.max(RETRY_MIN).min(self.slice));
                let timer = async {
                    if place.is_first() {
                        return tokio::time::sleep(at_most).await;
                    }
                    // The holder is another one by now, and its lease is not known yet.
                    place.became_first().await;
                    tokio::time::sleep(FIRST_TRY_AFTER).await;
                };
                tokio::select! {
                    () = place.signalled() => {}
                    () = timer => {}
                }
            }
            (Pause::Backoff(delay), _) => tokio::time::sleep(*delay).await,
            (Pause::Subscription | Pause::Signal, None) => {}
        }
    }

    fn timeout(&self, blocked: Option<Blocked>, failure: Option<EngineError>) -> Error {
        match failure {
            Some(error) => error.into(),
            None => {
                let (name, waited) = (self.command.name.clone(), self.begun.elapsed());
                LockError::WaitTimeout { name, waited, blocked }.into()
            }
        }
    }

    /// Hands the lock to the caller and renews it until the caller has released or dropped it.
    async fn hold(&self, waiters: &Waiters, lease: Lease, caller: Caller) {
        let ttl = Duration::from_millis(self.command.ttl_ms);
        let lost_at = |deadline: Instant| deadline - (ttl / LOSS_MARGIN_PER_TTL).min(deadline - lease.sent);
        let state = LeaseState { lost_at: Deadline::new(lost_at(lease.deadline)), lost: None };
        let (state, receiver) = watch::channel(state);
        let (end_sender, mut end) = oneshot::channel();
        let AcquireLock { name, process, token, .. } = self.command.clone();
        let hold = LockHold { name, fence: lease.fence, process, lease: receiver };
        let mut deadline = lease.deadline;
        // If the caller is gone, the guard is dropped here, and the lock released below.
        let _ = caller.send(Ok(LockGuard::new(hold, token, end_sender)));
        let ended = tokio::select! {
            biased;
            ended = &mut end => ended,
            reason = self.renew(waiters, lease.sent, &mut deadline, |deadline| {
                let lost_at = lost_at(deadline);
                state.send_modify(|state| state.lost_at = Deadline::new(lost_at));
                lost_at
            }) => {
                state.send_modify(|state| state.lost = Some(reason));
                end.await
            }
        };
        if !matches!(ended, Ok(End::Detach(_))) {
            let is_lost = state.borrow().lost.is_some();
            observe::lock_held(waiters.engine.name(), lease.sent.elapsed(), is_lost);
        }
        match ended {
            Ok(End::Detach(reply)) => {
                let remaining = deadline.saturating_duration_since(Instant::now());
                if reply.send(remaining).is_err() {
                    // The caller is gone, and with it the token.
                    let _ = self.release(waiters, deadline).await;
                }
            }
            Ok(End::Release(reply)) => {
                let released = self.release(waiters, deadline).await;
                let _ = reply.send(released.map_err(Error::from));
            }
            Err(_) => {
                let _ = self.release(waiters, deadline).await;
            }
        }
    }

    /// Renews the lock until it is lost. `extended` gets the end of each lease, and returns when
    /// the lock counts as lost.
    async fn renew(
        &self,
        waiters: &Waiters,
        granted: Instant,
        deadline: &mut Instant,
        extended: impl Fn(Instant) -> Instant,
    ) -> LossReason {
        let ttl = Duration::from_millis(self.command.ttl_ms);
        let every = ttl / RENEWALS_PER_TTL;
        let held_until = self.command.max_hold_ms.map(|ms| granted + Duration::from_millis(ms));
        let (mut planned, mut next) = (granted + every, granted + every);
        let mut backoff = Backoff::new(every / 10, every);
        let mut failure = None;
        loop {
            let lost_at = extended(*deadline);
            sleep_until(next.min(lost_at)).await;
            let sent = Instant::now();
            if sent >= lost_at {
                let is_over = held_until.is_some_and(|end| end <= *deadline + RETRY_MIN);
                return if is_over { LossReason::MaxHold } else { LossReason::NotRenewed(failure) };
            }
            let AcquireLock { name, token, ttl_ms, .. } = self.command.clone();
            let renew = RenewLocks { locks: vec![HeldLock { name, token, ttl_ms }] };
            let renewed = timeout_at(lost_at.min(sent + every), waiters.engine.call(renew)).await;
            match renewed.map(|reply| reply.map(|renewed| renewed.renewals.first().copied())) {
                Ok(Ok(Some(LockRenewal::Renewed { remaining_us }))) => {
                    *deadline = sent + Duration::from_micros(remaining_us);
                    planned += every;
                    (next, failure) = (planned.max(sent), None);
                    backoff.reset();
                    continue;
                }
                Ok(Ok(Some(LockRenewal::Lost) | None)) => return LossReason::TakenAway,
                Ok(Err(error)) => failure = Some(error.to_string()),
                Err(_) => failure = Some("no reply in time".to_owned()),
            }
            tracing::debug!(lock = %self.command.name, ?failure, "cannot renew a lock");
            next = Instant::now() + backoff.next_delay();
        }
    }

    /// Releases the lock, or gives up the place among its waiters; true if it was held until now.
    /// Tries again until `give_up`.
    async fn release(&self, waiters: &Waiters, give_up: Instant) -> Result<bool, EngineError> {
        let mut backoff = Backoff::default();
        let mut is_repeated = false;
        loop {
            let AcquireLock { name, token, .. } = self.command.clone();
            match waiters.engine.call(ReleaseLock { name, token }).await {
                Ok(LockReleased::Released) => return Ok(true),
                // A try whose reply was lost may have released it.
                Ok(_) => return Ok(is_repeated && Instant::now() < give_up),
                Err(error) if error.is_retryable() && Instant::now() < give_up => backoff.sleep().await,
                Err(error) => return Err(error),
            }
            is_repeated = true;
        }
    }
}

/// What the next try waits for.
enum Pause {
    /// The confirmation of the subscription.
    Subscription,
    /// A signal, or the end of the slice.
    Signal,
    /// A delay after an error.
    Backoff(Duration),
}
