//! `sweep_locks`: ends leases and claims that have run out, so that locks pass on without another
//! command.

use serde::{Deserialize, Serialize};

use crate::kernel::operation::one_to;
use crate::kernel::{Access, Context, Invalid, Operation, OperationWeight, Permission};
use crate::limits::SWEEP_LOCKS_MAX;
use crate::lock::Machine;
use crate::numbers::Micros;

/// Brings locks up to date that are due for a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepLocks {
    /// Most locks to bring up to date.
    pub locks_max: usize,
}

/// The reply to [`SweepLocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocksSwept {
    /// Locks that were brought up to date.
    pub locks: usize,
    /// Leases that have run out since the last sweep, whichever command ended them.
    pub expired: u64,
    /// The time until the next lock is due, in microseconds; `None` if no lock is due later.
    pub next_in_us: Option<u64>,
}

impl Operation for SweepLocks {
    type Machine = Machine;
    type Reply = LocksSwept;

    const STEM: &'static str = "sweep_locks";

    fn validate(&self) -> Result<(), Invalid> {
        one_to("the locks of a sweep", self.locks_max, SWEEP_LOCKS_MAX)
    }

    fn access(&self) -> Access<'_> {
        Access::no_group(Permission::Work)
    }

    fn weight(&self) -> OperationWeight {
        OperationWeight::jobs(self.locks_max)
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> LocksSwept {
        machine.sweep_locks(self.locks_max, context.now)
    }
}

impl Machine {
    fn sweep_locks(&mut self, most: usize, now: Micros) -> LocksSwept {
        let mut swept = 0;
        while swept < most
            && let Some((deadline, name)) = self.deadlines.first().cloned()
            && deadline <= now
        {
            let lock = self.take_lock(&name, now).expect("a deadline names a lock");
            self.store(&name, lock, now);
            swept += 1;
        }
        self.forget_processes(most, now);
        let next_in_us = self.deadlines.first().map(|(deadline, _)| deadline.since(now));
        LocksSwept { locks: swept, expired: std::mem::take(&mut self.expired), next_in_us }
    }
}
