//! Signals to waiters.

use crate::names::{LockToken, ProcessId};
use crate::numbers::{Fence, Micros};

/// Tells one waiter that its turn may have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// The process of the waiter.
    pub process: ProcessId,
    /// The waiter.
    pub waiter: LockToken,
    /// What the waiter holds already; `None` if it has to acquire.
    pub grant: Option<Grant>,
}

/// A lock that was granted to a waiter. A signal may be old when it is read, so it has the end of the
/// lease in the time of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The fence of the acquisition.
    pub fence: Fence,
    /// When the lease ends unless it is renewed.
    pub until: Micros,
}
