//! `break_lock`: takes a lock away from its holders.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::lock::{LockName, Machine};
use crate::numbers::{Fence, Micros};

/// Breaks a lock, for operators. The holder is not stopped: it finds out at its next renewal, and
/// resources that check fences refuse it once the next holder has written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakLock {
    /// The name of the lock.
    pub name: LockName,
    /// Breaks the lock for the holder with this fence only; `None` for all holders.
    pub fence: Option<Fence>,
}

/// The reply to [`BreakLock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockBroken {
    /// The number of holders that the lock was taken from.
    pub holders: u64,
}

impl Operation for BreakLock {
    type Machine = Machine;
    type Reply = LockBroken;

    const STEM: &'static str = "break_lock";

    fn access(&self) -> Access<'_> {
        Access::group_or_all(Permission::Operate, self.name.group())
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> LockBroken {
        machine.break_lock(&self, context.now)
    }
}

impl Machine {
    fn break_lock(&mut self, command: &BreakLock, now: Micros) -> LockBroken {
        let Some(mut lock) = self.take_lock(&command.name, now) else { return LockBroken { holders: 0 } };
        let is_meant = |fence: Fence| command.fence.is_none_or(|wanted| wanted == fence);
        let meant = lock.holders.iter().filter(|(_, holder)| is_meant(holder.fence));
        let tokens: Vec<_> = meant.map(|(token, _)| token.clone()).collect();
        for token in &tokens {
            self.remove_holder(&command.name, &mut lock, token);
        }
        self.store(&command.name, lock, now);
        LockBroken { holders: tokens.len() as u64 }
    }
}
