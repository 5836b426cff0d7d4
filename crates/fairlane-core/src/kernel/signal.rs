//! Signals to waiters.

use crate::names::{LockToken, ProcessId};
use crate::numbers::{Fence, Micros};

/// A message to one waiter that its turn may have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// The process of the waiter.
    pub process: ProcessId,
    /// The token of the waiter.
    pub waiter: LockToken,
    /// The lock that was granted to the waiter; `None` if the waiter has to acquire it.
    pub grant: Option<Grant>,
}

/// A lock that was granted to a waiter. A signal may be read late, so it carries the end of the
/// lease by the clock of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The fence of the acquisition.
    pub fence: Fence,
    /// When the lease ends unless it is renewed.
    pub until: Micros,
}
