//! `acquire_lock`: takes a lock if it is free, and otherwise joins its waiters if `wait` is set.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Invalid, Operation, Permission};
use crate::limits::{
    LOCK_DELAY_MS_MAX, LOCK_HOLD_MS_MAX, LOCK_PERMITS_MAX, LOCK_TTL_MS_MAX, LOCK_TTL_MS_MIN,
    LOCK_WAITERS_MAX, LOCKS_MAX,
};
use crate::lock::state::{Lock, LockKind, LockMode, Waiter};
use crate::lock::{Blocked, LockName, Machine};
use crate::names::{HolderName, LockToken, ProcessId};
use crate::numbers::{Fence, Micros, within};

/// Acquires a lock. Repeating it with the same token is safe: a holder gets its fence again, and a
/// waiter keeps its place. A waiter that the lock was granted to meanwhile gets the fence of that grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquireLock {
    /// The name of the lock.
    pub name: LockName,
    /// A random token that is used for this acquisition only. Only its owner can renew and release.
    pub token: LockToken,
    /// The process that is signalled when the lock is reserved for this waiter or granted to it.
    pub process: ProcessId,
    /// The holder's name for people, such as the host and process id.
    pub holder: HolderName,
    /// How the caller wants to hold the lock.
    pub mode: LockMode,
    /// How long the lock is held unless it is renewed, in milliseconds.
    pub ttl_ms: u64,
    /// Whether to join the waiters if the lock is not free.
    pub wait: bool,
    /// Whether to keep to the order of the waiters: not to take a lock that is reserved for another
    /// waiter, and not to lose a reserved lock to a newcomer.
    pub fair: bool,
    /// How long no caller can acquire the lock after this holder's lease has run out without a
    /// release, in milliseconds.
    pub lock_delay_ms: u64,
    /// The longest time to hold the lock, renewals included, in milliseconds; `None` for no limit.
    pub max_hold_ms: Option<u64>,
}

/// The reply to [`AcquireLock`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockAcquired {
    /// The caller holds the lock.
    Held {
        /// The fence of this acquisition, larger than every earlier one.
        fence: Fence,
        /// How long it is held unless it is renewed, in microseconds.
        remaining_us: u64,
    },
    /// The caller waits.
    Waiting {
        /// The largest possible position among the waiters, from 1.
        position: u64,
        /// Why the lock is not free.
        blocked: Blocked,
    },
    /// The lock is not free, and the caller did not want to wait.
    Busy(Blocked),
    /// The lock cannot be acquired this way.
    Refused(LockRefusal),
}

/// Why a lock cannot be acquired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum LockRefusal {
    /// The lock is in use as another kind.
    #[error("the lock is in use as {in_use}, not as {wanted}")]
    OtherKind {
        /// The kind while it has holders or waiters.
        in_use: LockKind,
        /// The kind that the caller's mode belongs to.
        wanted: LockKind,
    },
    /// There are too many locks.
    #[error("there are already {LOCKS_MAX} locks in use")]
    TooManyLocks,
    /// There are too many waiters.
    #[error("there are already {LOCK_WAITERS_MAX} waiters for locks")]
    TooManyWaiters,
}

impl Operation for AcquireLock {
    type Machine = Machine;
    type Reply = LockAcquired;

    const STEM: &'static str = "acquire_lock";

    fn validate(&self) -> Result<(), Invalid> {
        within("the ttl of a lock in ms", self.ttl_ms, LOCK_TTL_MS_MIN, LOCK_TTL_MS_MAX)?;
        within("the delay of a lock in ms", self.lock_delay_ms, 0, LOCK_DELAY_MS_MAX)?;
        if let Some(max_hold_ms) = self.max_hold_ms {
            within("the longest hold of a lock in ms", max_hold_ms, LOCK_TTL_MS_MIN, LOCK_HOLD_MS_MAX)?;
        }
        if let LockMode::Permit { of } = self.mode {
            within("the permits of a semaphore", of.into(), 1, LOCK_PERMITS_MAX.into())?;
        }
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        Access::group_or_all(Permission::Work, self.name.group())
    }

    fn adds_data(&self) -> bool {
        true
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> LockAcquired {
        machine.acquire_lock(&self, context.now)
    }
}

impl Machine {
    fn acquire_lock(&mut self, command: &AcquireLock, now: Micros) -> LockAcquired {
        let name = &command.name;
        let wanted = command.mode.kind();
        let Some(mut lock) = self.take_lock(name, now) else {
            if self.locks.len() >= LOCKS_MAX {
                return LockAcquired::Refused(LockRefusal::TooManyLocks);
            }
            let mut lock = Lock::new(wanted);
            let fence = self.grant(name, &mut lock, command, now);
            let reply = held(&lock, command, fence, now);
            self.store(name, lock, now);
            return reply;
        };
        if !lock.is_next(&command.token) {
            // Free capacity goes to waiters before the caller.
            self.claim_for_waiters(name, &mut lock, now);
        }
        let reply = self.acquire_from(&mut lock, command, now);
        self.store(name, lock, now);
        reply
    }

    fn acquire_from(&mut self, lock: &mut Lock, command: &AcquireLock, now: Micros) -> LockAcquired {
        let wanted = command.mode.kind();
        if let Some(holder) = lock.holders.get(&command.token) {
            let (fence, is_new) = (holder.fence, holder.signalled.is_some());
            if is_new {
                self.extend(&command.name, lock, &command.token, command.ttl_ms, now);
            }
            return held(lock, command, fence, now);
        }
        if lock.is_unused() {
            lock.kind = wanted;
        } else if lock.kind != wanted {
            return LockAcquired::Refused(LockRefusal::OtherKind { in_use: lock.kind, wanted });
        }
        if lock.waiting_mode(&command.token).is_some_and(|mode| mode != command.mode) {
            // A token is meant for one acquisition. With another mode it begins a new one.
            self.remove_waiter(&command.name, lock, &command.token);
        }
        if self.may_hold(&command.name, lock, command, now) {
            let fence = self.grant(&command.name, lock, command, now);
            return held(lock, command, fence, now);
        }
        if !command.wait {
            return LockAcquired::Busy(Blocked::of(lock, now));
        }
        if !lock.places.contains_key(&command.token) && self.waiters >= LOCK_WAITERS_MAX {
            return LockAcquired::Refused(LockRefusal::TooManyWaiters);
        }
        self.attend(&command.process, now);
        let place = lock.places.get(&command.token).copied().unwrap_or_else(|| {
            self.waiters += 1;
            lock.add_waiter(Waiter::new(command))
        });
        let fronts = [lock.claims.keys().next(), lock.waiters.keys().next()];
        let first = fronts.into_iter().flatten().min().copied().unwrap_or(place);
        LockAcquired::Waiting { position: place - first + 1, blocked: Blocked::of(lock, now) }
    }
}

fn held(lock: &Lock, command: &AcquireLock, fence: Fence, now: Micros) -> LockAcquired {
    let until = lock.holders.get(&command.token).map_or(now, |holder| holder.until);
    LockAcquired::Held { fence, remaining_us: until.since(now) }
}
