//! One acquisition of a lock, from its first request until it is held or given up.
//!
//! A task of its own sends its requests, one after the other, and never cancels one, so that the
//! release that follows an abandoned request arrives later. Deadlines are computed from the time before a
//! request was sent, because the engine counts from a later one. A waiter that was granted the lock holds it
//! when it reads the signal; the first renewal extends its lease.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::lock::{AcquireLock, Blocked, LockAcquired};
use fairlane_engine::{Backoff, EngineError, observe};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::client::LockClient;
use super::guard::LockGuard;
use super::lease::{Grant, Lease};
use super::release::Release;
use super::timer;
use super::waiters::{Place, Waiters};
use super::{FOREVER, LockError};
use crate::error::Error;

/// The shortest time between two tries without a signal.
const RETRY_MIN: Duration = Duration::from_millis(10);

/// The delay before a waiter that has become the first of its client tries again, to learn how long
/// the lock is held. Often the lock is granted to it within this time.
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

/// How the attempt to acquire has ended.
enum Acquired {
    Held(Grant),
    Denied(Error),
    /// The caller is gone.
    Abandoned,
}

/// Why the lock is not free, and when that changes without a release.
struct Refused {
    by: Blocked,
    changes_at: Option<Instant>,
}

impl Refused {
    /// The engine counted `changes_in_us` from a time between the request and the reply; the middle
    /// is the best estimate.
    fn new(by: Blocked, sent: Instant) -> Self {
        let counted = sent + sent.elapsed() / 2;
        let changes_at = (by.changes_in_us > 0).then(|| counted + Duration::from_micros(by.changes_in_us));
        Self { by, changes_at }
    }
}

impl Acquisition {
    pub fn new(command: AcquireLock, slice: Duration, until: Option<Instant>) -> Self {
        Self { command, slice: slice.clamp(RETRY_MIN, FOREVER), until, begun: Instant::now() }
    }

    /// Acquires the lock for the caller.
    pub async fn run(self, client: LockClient, mut caller: Caller) {
        let waiters = client.waiters();
        let Some(token) = waiters.reserve(&self.command.token) else {
            let _ = caller.send(Err(LockError::TokenInUse(self.command.name).into()));
            return;
        };
        let ttl = Duration::from_millis(self.command.ttl_ms);
        // If the runtime of the caller ends, the thread for locks sends the release.
        let mut release = Release::new(client.clone(), self.command.name.clone(), token, ttl);
        match self.acquire(waiters, &mut caller).await {
            Acquired::Held(grant) => {
                observe::lock_waited(client.renewals().name(), self.begun.elapsed());
                // If the caller is gone, the guard is dropped here, which releases the lock.
                let _ = caller.send(Ok(Lease::guard(self.command, grant, release)));
            }
            Acquired::Denied(error) => {
                let may_be_known = !matches!(error, Error::Lock(LockError::Busy { .. }));
                let _ = caller.send(Err(error));
                match may_be_known {
                    true => drop(release.send(&*waiters.engine).await),
                    false => release.cancel(),
                }
            }
            Acquired::Abandoned => drop(release.send(&*waiters.engine).await),
        }
    }

    /// Tries until the lock is held.
    async fn acquire(&self, waiters: &Arc<Waiters>, caller: &mut Caller) -> Acquired {
        // If the client is subscribed already, the first try also registers the waiter.
        let mut place: Option<Place> =
            self.until.and_then(|_| waiters.join_subscribed(&self.command.name, &self.command.token));
        let mut refused: Option<Refused> = None;
        let mut failure: Option<EngineError> = None;
        let mut backoff = Backoff::default();
        loop {
            let (sent, command) =
                (Instant::now(), AcquireLock { wait: place.is_some(), ..self.command.clone() });
            let pause = match waiters.try_to_acquire(command).await {
                Ok(LockAcquired::Held { fence, remaining_us }) => {
                    let deadline = sent + Duration::from_micros(remaining_us);
                    return Acquired::Held(Grant { fence, sent, deadline });
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
                    refused = Some(Refused::new(by, sent));
                    place = Some(waiters.join(&self.command.name, &self.command.token));
                    Pause::Subscription
                }
                Ok(LockAcquired::Waiting { blocked: by, .. }) => {
                    (failure, refused) = (None, Some(Refused::new(by, sent)));
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
                () = self.pause(&pause, place.as_ref(), refused.as_ref()) => {}
                () = sleep_until(give_up) => return Acquired::Denied(self.timeout(refused, failure)),
            }
            if let Some(grant) = place.as_ref().and_then(Place::granted) {
                return Acquired::Held(grant);
            }
            if place.as_ref().is_some_and(Place::is_cut_off) {
                // The runtime that was subscribed has ended. The old place must be removed before
                // the waiter joins again.
                drop(place.take());
                let joined = waiters.join(&self.command.name, &self.command.token);
                self.confirmed(&joined, give_up).await;
                place = Some(joined);
            }
        }
    }

    /// Waits until the lock should be tried again.
    async fn pause(&self, pause: &Pause, place: Option<&Place>, refused: Option<&Refused>) {
        match (pause, place) {
            (Pause::Subscription, Some(place)) => self.confirmed(place, Instant::now() + self.slice).await,
            (Pause::Signal, Some(place)) => {
                let timer = async {
                    if !place.is_first() {
                        // The holder has changed since the last try, and the end of its lease is
                        // not known.
                        place.became_first().await;
                        return tokio::time::sleep(FIRST_TRY_AFTER).await;
                    }
                    let slice = Instant::now() + self.slice;
                    match refused.map(|refused| refused.changes_at) {
                        Some(Some(at)) if at <= slice => until_free(at, place.is_remote()).await,
                        Some(None) => tokio::time::sleep(RETRY_MIN).await,
                        Some(Some(_)) | None => sleep_until(slice).await,
                    }
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

    /// Waits for the confirmation of the subscription, at most for a slice: an engine that does not
    /// confirm it delays the next try, and does not prevent it.
    async fn confirmed(&self, place: &Place, until: Instant) {
        let until = until.min(Instant::now() + self.slice);
        // Either way the lock is tried again.
        let _ = timeout_at(until, place.confirmed()).await;
    }

    fn timeout(&self, refused: Option<Refused>, failure: Option<EngineError>) -> Error {
        match failure {
            Some(error) => error.into(),
            None => {
                let (name, waited) = (self.command.name.clone(), self.begun.elapsed());
                LockError::WaitTimeout { name, waited, blocked: refused.map(|refused| refused.by) }.into()
            }
        }
    }
}

/// Waits for the end of another holder's lease. With a remote engine it returns once shortly before
/// that time: the reply to one more try has a more precise end, and the machines on the path are
/// awake for the last try.
async fn until_free(at: Instant, is_remote: bool) {
    match is_remote && at > Instant::now() + 2 * timer::PRECISE_FOR {
        true => sleep_until(at - timer::PRECISE_FOR).await,
        false => timer::until(at, is_remote).await,
    }
}

/// What the next try waits for.
enum Pause {
    /// The confirmation of the subscription, or the end of the slice.
    Subscription,
    /// A signal, or the end of the slice.
    Signal,
    /// A delay after an error.
    Backoff(Duration),
}
