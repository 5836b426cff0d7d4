//! Signals to waiters.

use crate::names::{LockToken, ProcessId};

/// Tells one waiter that its turn may have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// The process of the waiter.
    pub process: ProcessId,
    /// The waiter.
    pub waiter: LockToken,
}
