//! The chapters about locks.

pub(super) mod acquire_lock;
pub(super) mod attend_locks;
pub(super) mod break_lock;
pub(super) mod inspect_lock;
pub(super) mod list_locks;
pub(super) mod release_lock;
pub(super) mod renew_locks;
pub(super) mod sweep_locks;
