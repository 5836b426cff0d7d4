//! The guard and the hold: the values that represent a held lock in the application.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fairlane_core::lock::LockName;
use fairlane_core::{Fence, LockToken, ProcessId};
use tokio::sync::{oneshot, watch};

use super::client::LockClient;
use super::deadline::Deadline;
use super::renewals::Ticket;
use super::{LockError, LockLost, LossReason};
use crate::error::Error;
use crate::fairlane::broken;

/// How a guard ends a lease that the thread for locks renews. A guard that is dropped sends
/// nothing.
#[derive(Debug)]
pub(super) enum End {
    /// Release the lock, and reply whether it was held until now.
    Release(oneshot::Sender<Result<bool, Error>>),
    /// Stop renewing and leave the lock as it is; the reply is how long it is still held, or `None` if it
    /// was lost.
    Detach(oneshot::Sender<Result<Option<Duration>, Error>>),
}

/// The state of a lease as its guard sees it.
#[derive(Debug)]
pub(super) struct LeaseState {
    /// When the lock counts as lost unless it is renewed.
    pub lost_at: Deadline,
    /// Why the lock was lost.
    pub lost: Option<LossReason>,
}

impl LeaseState {
    /// Why the lock is lost; `None` if it is held. The clock is checked too, so that a process that
    /// was stopped detects the loss before its thread for locks has run again.
    fn loss(&self) -> Option<LossReason> {
        self.lost.clone().or_else(|| self.lost_at.has_passed().then_some(LossReason::NotRenewed(None)))
    }
}

/// A lock that is held: its fence, and whether it was lost.
#[derive(Clone)]
pub struct LockHold {
    pub(super) name: LockName,
    pub(super) fence: Fence,
    pub(super) process: ProcessId,
    pub(super) lease: watch::Receiver<LeaseState>,
}

impl LockHold {
    /// The name of the lock.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// The fence of this acquisition: a number larger than that of every earlier one. Send it to
    /// the resource along with each change; see [`fencing`](super::fencing).
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Whether the lock is known to be lost, or its time is over.
    pub fn is_lost(&self) -> bool {
        self.lease.borrow().loss().is_some()
    }

    /// Completes when the lock is lost: before its lease ends without a renewal, or when a renewal
    /// finds that it was taken away. Never completes after the release.
    ///
    /// Each poll looks at the clock, so that a process that was stopped or suspended learns of the
    /// loss from its first poll.
    pub async fn lost(&self) -> LockLost {
        let mut lease = self.lease.clone();
        let mut reported = pin!(async move {
            let lost = lease.wait_for(|lease| lease.lost.is_some()).await.map(|lease| lease.lost.clone());
            match lost {
                Ok(reason) => reason.unwrap_or(LossReason::TakenAway),
                // The acquisition has ended.
                Err(_) => std::future::pending().await,
            }
        });
        let reason = poll_fn(|context| match reported.as_mut().poll(context) {
            Poll::Ready(reason) => Poll::Ready(reason),
            Poll::Pending if self.lease.has_changed().is_err() => Poll::Pending,
            Poll::Pending => self.lease.borrow().loss().map_or(Poll::Pending, Poll::Ready),
        });
        self.because(reason.await)
    }

    pub(super) fn taken_away(&self) -> LockLost {
        self.because(LossReason::TakenAway)
    }

    fn because(&self, reason: LossReason) -> LockLost {
        LockLost { name: self.name.clone(), fence: self.fence, reason }
    }
}

impl fmt::Debug for LockHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockHold")
            .field("name", &self.name)
            .field("fence", &self.fence)
            .field("lease", &*self.lease.borrow())
            .finish()
    }
}

/// A lock that is held and renewed until the guard is released or dropped.
///
/// Dropping it releases the lock in the background. A program that ends right afterwards should
/// [`release`](Self::release) it instead, or the lock passes on only when its ttl is over.
#[must_use = "a guard that is dropped releases its lock"]
pub struct LockGuard {
    hold: LockHold,
    token: LockToken,
    client: LockClient,
    ticket: Ticket,
    end: Option<oneshot::Sender<End>>,
}

/// A lock that is held and no longer renewed by this process.
#[derive(Debug, Clone)]
pub struct DetachedLock {
    /// The token that renews and releases the lock.
    pub token: LockToken,
    /// The fence of the acquisition.
    pub fence: Fence,
    /// How long the lock is held unless it is renewed.
    pub remaining: Duration,
}

impl LockGuard {
    pub(super) fn new(
        hold: LockHold,
        token: LockToken,
        client: LockClient,
        ticket: Ticket,
        end: oneshot::Sender<End>,
    ) -> Self {
        Self { hold, token, client, ticket, end: Some(end) }
    }

    /// The hold, which can be passed to other tasks.
    pub fn hold(&self) -> &LockHold {
        &self.hold
    }

    /// The fence of this acquisition; see [`LockHold::fence`].
    pub fn fence(&self) -> Fence {
        self.hold.fence()
    }

    /// Completes when the lock is lost; see [`LockHold::lost`].
    pub async fn lost(&self) -> LockLost {
        self.hold.lost().await
    }

    /// Releases the lock; true if it was held until now, false if it had been lost. Renewal stops at
    /// once.
    pub async fn release(mut self) -> Result<bool, Error> {
        if let Some(lease) = self.client.renewals().remove(&self.ticket) {
            return lease.release(&*self.client.waiters().engine).await;
        }
        let (reply, replied) = oneshot::channel();
        self.send(End::Release(reply));
        replied.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Stops renewing, and leaves the lock to the owner of its token: another process, for instance.
    pub async fn detach(mut self) -> Result<DetachedLock, Error> {
        let remaining = match self.client.renewals().remove(&self.ticket) {
            Some(lease) => lease.detach(&*self.client.waiters().engine).await?,
            None => {
                let (reply, replied) = oneshot::channel();
                self.send(End::Detach(reply));
                replied.await.map_err(|_| ended())??
            }
        };
        let remaining = remaining.ok_or_else(|| LockError::Lost(self.hold.taken_away()))?;
        Ok(DetachedLock { token: self.token.clone(), fence: self.hold.fence, remaining })
    }

    fn send(&mut self, end: End) {
        if let Some(lease) = self.end.take() {
            // If the receiver is gone, the reply channel is dropped, and the caller gets an error.
            let _ = lease.send(end);
        }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let renewals = self.client.renewals();
        // If the thread renews the lease, it detects that the guard is gone.
        if let Some(lease) = renewals.remove(&self.ticket) {
            lease.abandon(renewals.name());
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard").field("hold", &self.hold).finish_non_exhaustive()
    }
}

fn ended() -> Error {
    broken("the thread of the locks has ended")
}
