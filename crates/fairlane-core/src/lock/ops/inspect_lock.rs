//! `inspect_lock`: the state of one lock.

use serde::{Deserialize, Serialize};

use crate::kernel::{Access, Context, Operation, Permission};
use crate::lock::{LockName, LockView, Machine};

/// Shows a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InspectLock {
    /// The name of the lock.
    pub name: LockName,
}

/// The reply: the lock, or `None` if it has no holders and no waiters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockInspected(pub Option<LockView>);

impl Operation for InspectLock {
    type Machine = Machine;
    type Reply = LockInspected;

    const STEM: &'static str = "inspect_lock";
    const READ_ONLY: bool = true;

    fn access(&self) -> Access<'_> {
        Access::group_or_all(Permission::Read, self.name.group())
    }

    fn apply(self, machine: &mut Machine, context: &mut Context) -> LockInspected {
        let lock = machine.locks.get(&self.name);
        let view = lock.map(|lock| LockView::of(&self.name, lock, context.now));
        LockInspected(view.filter(LockView::is_in_use))
    }
}
