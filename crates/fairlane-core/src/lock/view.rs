//! Views of a lock for callers and operators.

use serde::{Deserialize, Serialize};

use crate::limits::LOCK_HOLDERS_SHOWN_MAX;
use crate::names::HolderName;
use crate::numbers::{Fence, Micros};

use super::LockName;
use super::state::{Holder, Lock, LockKind, LockMode};

/// A holder, without its token: the token can release the lock, so it stays secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderView {
    /// The holder's name.
    pub holder: HolderName,
    /// How the lock is held.
    pub mode: LockMode,
    /// The fence of the acquisition.
    pub fence: Fence,
    /// How long the lock has been held, in microseconds.
    pub held_us: u64,
    /// How long it is held unless it is renewed, in microseconds.
    pub remaining_us: u64,
}

/// Why a lock is not free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// The holder whose lease ends first; `None` if the lock is reserved for another waiter or in
    /// its delay.
    pub holder: Option<HolderView>,
    /// Waiters, including those that the lock is reserved for.
    pub waiters: u64,
    /// The time until the lock changes without a release, in microseconds.
    pub changes_in_us: u64,
}

/// The state of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockView {
    /// The name of the lock.
    pub name: LockName,
    /// Its kind.
    pub kind: LockKind,
    /// The number of holders.
    pub holders: u64,
    /// The holders whose leases end first, at most [`LOCK_HOLDERS_SHOWN_MAX`].
    pub held_by: Vec<HolderView>,
    /// Waiters, including those that the lock is reserved for.
    pub waiters: u64,
    /// Waiters that the lock is reserved for.
    pub claims: u64,
    /// How long no caller can acquire the lock after a lease that ran out, in microseconds.
    pub delay_us: u64,
}

impl HolderView {
    fn of(holder: &Holder, now: Micros) -> Self {
        Self {
            holder: holder.name.clone(),
            mode: holder.mode,
            fence: holder.fence,
            held_us: now.since(holder.since),
            remaining_us: holder.until.since(now),
        }
    }
}

impl Blocked {
    pub(super) fn of(lock: &Lock, now: Micros) -> Self {
        let first = lock.ends.first().and_then(|(_, token)| lock.holders.get(token));
        Self {
            holder: first.map(|holder| HolderView::of(holder, now)),
            waiters: lock.places.len() as u64,
            changes_in_us: lock.next_deadline().map_or(0, |deadline| deadline.since(now)),
        }
    }
}

impl LockView {
    /// Whether the lock has holders or waiters, or is in its delay.
    pub(super) fn is_in_use(&self) -> bool {
        self.holders > 0 || self.waiters > 0 || self.delay_us > 0
    }

    /// The lock at this time: leases that have run out are not shown, although no command has
    /// removed them yet.
    pub(super) fn of(name: &LockName, lock: &Lock, now: Micros) -> Self {
        let ended = lock.ends.iter().take_while(|(until, _)| *until <= now).count();
        let live = lock.ends.iter().skip(ended).take(LOCK_HOLDERS_SHOWN_MAX);
        Self {
            name: name.clone(),
            kind: lock.kind,
            holders: (lock.ends.len() - ended) as u64,
            held_by: live.map(|(_, token)| HolderView::of(&lock.holders[token], now)).collect(),
            waiters: lock.places.len() as u64,
            claims: lock.claims.len() as u64,
            delay_us: lock.delay_until.since(now),
        }
    }
}
