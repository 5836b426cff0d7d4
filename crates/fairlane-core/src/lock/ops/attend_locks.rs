//! `attend_locks`: keeps the waiters of a process alive, and reports locks that are reserved for them
//! or were granted to them.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::limits::ATTEND_CLAIMS_MAX;
use crate::lock::{LockName, Machine};
use crate::names::{LockToken, ProcessId};
use crate::numbers::Micros;

/// Keeps all waiters of a process alive for one slice. A process sends it two or three times per
/// slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttendLocks {
    /// The id of the process.
    pub process: ProcessId,
}

/// The reply to [`AttendLocks`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocksAttended {
    /// Locks that are reserved for waiters of the process, or were granted to them and not renewed since;
    /// the signals about them may have been lost.
    pub claims: Vec<LockClaim>,
    /// The time of the store. A process compares the ends of leases in its signals with it, not
    /// with its own clock.
    pub time: Micros,
}

/// A lock that is reserved for a waiter or was granted to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockClaim {
    /// The name of the lock.
    pub name: LockName,
    /// The token of the waiter.
    pub token: LockToken,
}

impl Operation for AttendLocks {
    type Machine = Machine;
    type Reply = LocksAttended;

    const STEM: &'static str = "attend_locks";

    /// A process id is as secret as a token, so no group is checked: the reply names only locks of
    /// the caller's own waiters.
    fn access(&self) -> Access<'_> {
        Access::no_group(Permission::Work)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> LocksAttended {
        machine.attend_locks(&self.process, context.now)
    }
}

impl Machine {
    fn attend_locks(&mut self, process: &ProcessId, now: Micros) -> LocksAttended {
        if self.waiters > 0 {
            self.attend(process, now);
        }
        let own = self.claims.get(process).into_iter().flatten().take(ATTEND_CLAIMS_MAX);
        let claim =
            |(name, token): &(LockName, LockToken)| LockClaim { name: name.clone(), token: token.clone() };
        LocksAttended { claims: own.map(claim).collect(), time: now }
    }
}
