//! `release_lock`: gives up a lock, or a place among its waiters.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::lock::{LockName, Machine};
use crate::names::LockToken;
use crate::numbers::Micros;

/// Releases a lock. A caller that gives up an acquisition sends it as well, because it may be a
/// holder already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseLock {
    /// The name of the lock.
    pub name: LockName,
    /// The token of the acquisition.
    pub token: LockToken,
}

/// The reply to [`ReleaseLock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockReleased {
    /// The lock was held until now.
    Released,
    /// The caller was a waiter, and gave up its place.
    Withdrawn,
    /// The lock was not held any more: its lease had run out, or it was broken or released before.
    NotHeld,
}

impl Operation for ReleaseLock {
    type Machine = Machine;
    type Reply = LockReleased;

    const STEM: &'static str = "release_lock";

    fn access(&self) -> Access<'_> {
        Access::group_or_all(Permission::Work, self.name.group())
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> LockReleased {
        machine.release_lock(&self, context.now)
    }
}

impl Machine {
    fn release_lock(&mut self, command: &ReleaseLock, now: Micros) -> LockReleased {
        let Some(mut lock) = self.take_lock(&command.name, now) else { return LockReleased::NotHeld };
        let released = if self.remove_holder(&command.name, &mut lock, &command.token).is_some() {
            LockReleased::Released
        } else if self.remove_waiter(&command.name, &mut lock, &command.token) {
            LockReleased::Withdrawn
        } else {
            LockReleased::NotHeld
        };
        self.store(&command.name, lock, now);
        released
    }
}
