//! The lease of a lock that is held: renewed until its guard ends it.

use std::sync::Arc;
use std::time::Duration;

use fairlane_core::Fence;
use fairlane_core::lock::{AcquireLock, HeldLock, LockRenewal, RenewLocks};
use fairlane_engine::{Backoff, Engine, observe};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::LossReason;
use super::deadline::Deadline;
use super::guard::{End, LeaseState, LockGuard, LockHold};
use super::release::Release;
use super::renewals::Renewals;
use crate::error::Error;

/// The number of renewals within the length of a lease.
const RENEWALS_PER_LEASE: u32 = 3;
/// A lease that a signal has granted is as short as a slice. It is first renewed after its length
/// divided by this number, so that the holder does not depend on it for long.
const GRANTED_PER_RENEWAL: u32 = 10;
/// The lock counts as lost in the last part of a lease: its length divided by this number.
const LOSS_MARGIN_PER_LEASE: u32 = 10;
/// A lease that ends at most this long before the longest hold was shortened by it.
const HOLD_MARGIN: Duration = Duration::from_millis(10);

/// A hold that the engine has granted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant {
    pub fence: Fence,
    /// When the request was sent.
    pub sent: Instant,
    /// When the lease ends.
    pub deadline: Instant,
}

impl Grant {
    /// How long the lease was at first: the ttl, or up to a slice if a signal has granted it.
    fn length(&self, command: &AcquireLock) -> Duration {
        self.deadline.saturating_duration_since(self.sent).min(ttl(command))
    }

    /// When the lease is first renewed.
    fn first_renewal(&self, command: &AcquireLock) -> Instant {
        let length = self.length(command);
        let parts = if length < ttl(command) { GRANTED_PER_RENEWAL } else { RENEWALS_PER_LEASE };
        self.sent + length / parts
    }

    /// When the lock counts as lost unless it is renewed.
    fn lost_at(&self, command: &AcquireLock) -> Instant {
        self.deadline - self.length(command) / LOSS_MARGIN_PER_LEASE
    }
}

/// The lease of a guard.
pub(super) struct Lease {
    command: AcquireLock,
    grant: Grant,
    state: watch::Sender<LeaseState>,
    /// Receives how the guard ends the lease, once the thread renews it.
    end: oneshot::Receiver<End>,
    release: Release,
}

impl Lease {
    /// Makes a guard whose lease will be renewed.
    pub fn guard(command: AcquireLock, grant: Grant, mut release: Release) -> LockGuard {
        release.give_up_at(grant.deadline);
        let client = release.client().clone();
        let lost_at = Deadline::new(grant.lost_at(&command));
        let (state, receiver) = watch::channel(LeaseState { lost_at, lost: None });
        let (end_sender, end) = oneshot::channel();
        let AcquireLock { name, process, token, .. } = command.clone();
        let hold = LockHold { name, fence: grant.fence, process, lease: receiver };
        let ticket = client
            .renewals()
            .add(grant.first_renewal(&command), Self { command, grant, state, end, release });
        LockGuard::new(hold, token, client, ticket, end_sender)
    }

    /// Releases a lease that no task of the thread renews.
    pub async fn release(self, engine: &dyn Engine) -> Result<bool, Error> {
        self.note_end(self.release.client().renewals().name());
        self.release.send(engine).await.map_err(Error::from)
    }

    /// Releases a lease in the background.
    pub fn abandon(self, engine: &'static str) {
        self.note_end(engine);
        // Dropping the release passes it to the thread.
        drop(self.release);
    }

    /// Stops renewing; returns how long the lock is still held, or `None` if it was lost. A lease that a
    /// signal has granted is extended first.
    pub async fn detach(mut self, engine: &dyn Engine) -> Result<Option<Duration>, Error> {
        let detached = self.remaining(engine).await;
        if matches!(detached, Ok(Some(_))) {
            self.release.cancel();
        }
        detached
    }

    async fn remaining(&mut self, engine: &dyn Engine) -> Result<Option<Duration>, Error> {
        if self.grant.length(&self.command) < ttl(&self.command) {
            let sent = Instant::now();
            let renewed = engine.call(renewal(&self.command)).await?;
            let Some(LockRenewal::Renewed { remaining_us }) = renewed.renewals.first() else {
                return Ok(None);
            };
            self.grant.deadline = sent + Duration::from_micros(*remaining_us);
        }
        Ok(Some(self.grant.deadline.saturating_duration_since(Instant::now())))
    }

    /// Renews the lease until its guard ends it.
    pub async fn keep(mut self, renewals: Arc<Renewals>) {
        let ended = tokio::select! {
            biased;
            ended = &mut self.end => ended,
            reason = renew(&self.command, &mut self.grant, &self.state, &renewals) => {
                self.state.send_modify(|state| state.lost = Some(reason));
                (&mut self.end).await
            }
        };
        self.release.give_up_at(self.grant.deadline);
        match ended {
            Ok(End::Detach(reply)) => {
                let remaining = match renewals.engine().await {
                    Ok(engine) => self.remaining(&**engine).await,
                    Err(error) => Err(error.into()),
                };
                let is_held = matches!(remaining, Ok(Some(_)));
                // If the caller is gone, its token is gone with it, and the lock is released.
                if reply.send(remaining).is_ok() && is_held {
                    self.release.cancel();
                }
            }
            Ok(End::Release(reply)) => {
                let released = match renewals.engine().await {
                    Ok(engine) => self.release(&**engine).await,
                    Err(error) => Err(error.into()),
                };
                let _ = reply.send(released);
            }
            Err(_) => self.abandon(renewals.name()),
        }
    }

    fn note_end(&self, engine: &'static str) {
        let is_lost = self.state.borrow().lost.is_some();
        observe::lock_held(engine, self.grant.sent.elapsed(), is_lost);
    }
}

fn ttl(command: &AcquireLock) -> Duration {
    Duration::from_millis(command.ttl_ms)
}

fn renewal(command: &AcquireLock) -> RenewLocks {
    let AcquireLock { name, token, ttl_ms, .. } = command.clone();
    RenewLocks { locks: vec![HeldLock { name, token, ttl_ms }] }
}

/// Renews a lock until it is lost.
async fn renew(
    command: &AcquireLock,
    grant: &mut Grant,
    state: &watch::Sender<LeaseState>,
    renewals: &Renewals,
) -> LossReason {
    let mut every = grant.length(command) / RENEWALS_PER_LEASE;
    let held_until = command.max_hold_ms.map(|ms| grant.sent + Duration::from_millis(ms));
    let mut planned = grant.first_renewal(command);
    let mut next = planned;
    let mut backoff = Backoff::new(every / 10, every);
    let mut failure = None;
    loop {
        let lost_at = grant.lost_at(command);
        state.send_modify(|state| state.lost_at = Deadline::new(lost_at));
        sleep_until(next.min(lost_at)).await;
        let sent = Instant::now();
        if sent >= lost_at {
            let is_over = held_until.is_some_and(|end| end <= grant.deadline + HOLD_MARGIN);
            return if is_over { LossReason::MaxHold } else { LossReason::NotRenewed(failure) };
        }
        let renewed = async { renewals.engine().await?.call(renewal(command)).await };
        let renewed = timeout_at(lost_at.min(sent + every), renewed).await;
        match renewed.map(|reply| reply.map(|renewed| renewed.renewals.first().copied())) {
            Ok(Ok(Some(LockRenewal::Renewed { remaining_us }))) => {
                grant.deadline = sent + Duration::from_micros(remaining_us);
                every = ttl(command) / RENEWALS_PER_LEASE;
                planned += every;
                (next, failure) = (planned.max(sent), None);
                backoff = Backoff::new(every / 10, every);
                continue;
            }
            Ok(Ok(Some(LockRenewal::Lost) | None)) => return LossReason::TakenAway,
            Ok(Err(error)) => failure = Some(error.to_string()),
            Err(_) => failure = Some("no reply in time".to_owned()),
        }
        tracing::debug!(lock = %command.name, ?failure, "cannot renew a lock");
        next = Instant::now() + backoff.next_delay();
    }
}
