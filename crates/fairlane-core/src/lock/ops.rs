//! The operations on locks. A file per operation; this list is the wire format.

mod acquire_lock;
mod attend_locks;
mod break_lock;
mod inspect_lock;
mod list_locks;
mod release_lock;
mod renew_locks;
mod sweep_locks;

use super::Machine;
use crate::kernel::operations;

operations! {
    Lock(Machine):
    acquire_lock::AcquireLock { LockAcquired, LockRefusal },
    renew_locks::RenewLocks { HeldLock, LockRenewal, LocksRenewed },
    release_lock::ReleaseLock { LockReleased },
    attend_locks::AttendLocks { LockClaim, LocksAttended },
    inspect_lock::InspectLock { LockInspected },
    list_locks::ListLocks { LocksListed },
    break_lock::BreakLock { LockBroken },
    sweep_locks::SweepLocks { LocksSwept },
}
