//! The errors of locks. Each names the lock and, if there is one, its holder.

use std::fmt;
use std::time::Duration;

use fairlane_core::Fence;
use fairlane_core::lock::{Blocked, LockName, LockRefusal};

use crate::duration::duration_text;

/// Why a lock was not acquired, or not held to the end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The lock is not free, and the caller did not want to wait.
    #[error("lock {name} is not free: {}", blocked_text(.blocked))]
    Busy {
        /// The name of the lock.
        name: LockName,
        /// Its holder, and when its state changes.
        blocked: Blocked,
    },
    /// The lock did not become free in time.
    #[error(
        "lock {name} was not acquired within {}: {}; wait longer, or inspect the holder",
        duration_text(*.waited), .blocked.as_ref().map_or("no reply in time".to_owned(), blocked_text)
    )]
    WaitTimeout {
        /// The name of the lock.
        name: LockName,
        /// How long the caller waited.
        waited: Duration,
        /// Its holder, as of the last try.
        blocked: Option<Blocked>,
    },
    /// The lock cannot be acquired in this way.
    #[error("lock {name} cannot be acquired: {refusal}")]
    Refused {
        /// The name of the lock.
        name: LockName,
        /// Why the lock cannot be acquired.
        refusal: LockRefusal,
    },
    /// The task holds the lock already, and would wait for itself.
    #[error(
        "this task holds lock {0} already and would wait for itself; use another lock for the inner part"
    )]
    Reentered(LockName),
    /// Another acquisition with the same token is under way in this process.
    #[error("another acquisition of lock {0} with the same token is under way; use a token once")]
    TokenInUse(LockName),
    /// The lock was lost while it was in use.
    #[error(transparent)]
    Lost(#[from] LockLost),
}

/// A lock that was lost before it was released. Another holder may have it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lock {name} (fence {fence}) was lost: {reason}")]
pub struct LockLost {
    /// The name of the lock.
    pub name: LockName,
    /// The fence of the acquisition.
    pub fence: Fence,
    /// Why the lock was lost.
    pub reason: LossReason,
}

/// Why a lock was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossReason {
    /// The engine no longer lists the holder: its lease ran out, or an operator broke the lock.
    TakenAway,
    /// No renewal succeeded before the lease ended; with the last error of a renewal, if there was
    /// one.
    NotRenewed(Option<String>),
    /// The lock was held as long as its options allow.
    MaxHold,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TakenAway => f.write_str("its lease ran out, or it was broken"),
            Self::NotRenewed(None) => f.write_str("it could not be renewed in time"),
            Self::NotRenewed(Some(error)) => write!(f, "it could not be renewed in time: {error}"),
            Self::MaxHold => f.write_str("it was held as long as max_hold allows"),
        }
    }
}

/// Who has the lock, since when, and for how much longer.
fn blocked_text(blocked: &Blocked) -> String {
    let time = |us: u64| duration_text(Duration::from_millis(us.div_ceil(1000)));
    let waiters = match blocked.waiters {
        0 => String::new(),
        1 => ", 1 waiter".to_owned(),
        waiters => format!(", {waiters} waiters"),
    };
    match &blocked.holder {
        Some(view) => format!(
            "held by {} ({}) for {}, and for {} more unless it is renewed{waiters}",
            view.holder,
            view.mode.as_str(),
            time(view.held_us),
            time(view.remaining_us)
        ),
        None => format!(
            "reserved for another waiter, or in its delay, for {}{waiters}",
            time(blocked.changes_in_us)
        ),
    }
}
