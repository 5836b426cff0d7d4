//! The locks that the current task holds by [`Lock::with`](super::Lock::with), so that it does not
//! wait for itself.

use fairlane_core::ProcessId;
use fairlane_core::lock::{AcquireLock, LockName};

use super::{LockError, LockHold};

tokio::task_local! {
    static HELD: Vec<(ProcessId, LockName)>;
}

/// Refuses a lock that the current task holds.
pub(super) fn check(command: &AcquireLock) -> Result<(), LockError> {
    let is_held = |held: &Vec<(ProcessId, LockName)>| {
        held.iter().any(|(process, name)| *process == command.process && *name == command.name)
    };
    match HELD.try_with(is_held) {
        Ok(true) => Err(LockError::Reentered(command.name.clone())),
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Runs the work with the lock listed as held by the current task.
pub(super) async fn within<T>(hold: &LockHold, work: impl Future<Output = T>) -> T {
    let mut held = HELD.try_with(Vec::clone).unwrap_or_default();
    held.push((hold.process.clone(), hold.name.clone()));
    HELD.scope(held, work).await
}
