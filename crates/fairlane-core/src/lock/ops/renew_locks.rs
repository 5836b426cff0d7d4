//! `renew_locks`: extends the leases of locks that the caller holds.

use serde::{Deserialize, Serialize};

use crate::encoding::list;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::{LOCK_TTL_MS_MAX, LOCK_TTL_MS_MIN, RENEW_LOCKS_MAX};
use crate::lock::{LockName, Machine};
use crate::names::LockToken;
use crate::numbers::{Micros, within};

/// Renews locks. It never acquires a lock that the caller no longer holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewLocks {
    /// The locks to renew.
    #[serde(deserialize_with = "list::<RENEW_LOCKS_MAX, _, _>")]
    pub locks: Vec<HeldLock>,
}

/// A lock that the caller holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLock {
    /// The name of the lock.
    pub name: LockName,
    /// The token of the acquisition.
    pub token: LockToken,
    /// How long the lock is held from now on, in milliseconds.
    pub ttl_ms: u64,
}

/// The reply to [`RenewLocks`], in the order of the locks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocksRenewed {
    /// The result for each lock.
    pub renewals: Vec<LockRenewal>,
}

/// The result for one lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockRenewal {
    /// The lock was renewed. The time is shorter than the ttl if the longest hold ends before.
    Renewed {
        /// How long the lock is held unless it is renewed again, in microseconds.
        remaining_us: u64,
    },
    /// The lock is not held any more.
    Lost,
}

impl Operation for RenewLocks {
    type Machine = Machine;
    type Reply = LocksRenewed;

    const STEM: &'static str = "renew_locks";

    fn validate(&self) -> Result<(), Invalid> {
        crate::kernel::operation::at_most("renew_locks", self.locks.len(), RENEW_LOCKS_MAX)?;
        for lock in &self.locks {
            within("the ttl of a lock in ms", lock.ttl_ms, LOCK_TTL_MS_MIN, LOCK_TTL_MS_MAX)?;
        }
        Ok(())
    }

    fn access(&self) -> Access<'_> {
        let mut groups = Vec::new();
        for lock in &self.locks {
            match lock.name.group() {
                Some(group) => groups.push(group),
                None => return Access::all_groups(Permission::Work),
            }
        }
        Access::groups(Permission::Work, groups)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.locks.len())
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> LocksRenewed {
        let renewals = self.locks.iter().map(|lock| machine.renew_lock(lock, context.now)).collect();
        LocksRenewed { renewals }
    }
}

impl Machine {
    fn renew_lock(&mut self, held: &HeldLock, now: Micros) -> LockRenewal {
        let Some(mut lock) = self.take_lock(&held.name, now) else { return LockRenewal::Lost };
        let renewal = match self.extend(&held.name, &mut lock, &held.token, held.ttl_ms, now) {
            Some(until) => LockRenewal::Renewed { remaining_us: until.since(now) },
            None => LockRenewal::Lost,
        };
        self.store(&held.name, lock, now);
        renewal
    }
}
