//! The operations on locks. A file per operation; this list is the wire format.

mod acquire_lock;
mod attend_locks;
mod break_lock;
mod inspect_lock;
mod list_locks;
mod release_lock;
mod renew_locks;
mod sweep_locks;

pub use acquire_lock::{AcquireLock, LockAcquired, LockRefusal};
pub use attend_locks::{AttendLocks, LockClaim, LocksAttended};
pub use break_lock::{BreakLock, LockBroken};
pub use inspect_lock::{InspectLock, LockInspected};
pub use list_locks::{ListLocks, LocksListed};
pub use release_lock::{LockReleased, ReleaseLock};
pub use renew_locks::{HeldLock, LockRenewal, LocksRenewed, RenewLocks};
pub use sweep_locks::{LocksSwept, SweepLocks};

use super::Machine;
use crate::kernel::operations;

operations! {
    Lock(Machine):
    AcquireLock,
    RenewLocks,
    ReleaseLock,
    AttendLocks,
    InspectLock,
    ListLocks,
    BreakLock,
    SweepLocks,
}
