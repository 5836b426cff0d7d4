//! The process group of one attempt.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// The processes that a program has started and not moved to another group; killed on drop.
pub(super) struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// The group of a child that was started as the leader of its own group.
    pub fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    /// Sends a signal to all processes of the group; an empty group is not an error.
    pub fn signal(&self, signal: Signal) {
        let Some(group) = self.0 else { return };
        match kill_process_group(group, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => tracing::warn!(?group, ?signal, %error, "a process group could not be signalled"),
        }
    }

    /// Kills processes that outlived the leader. The leader's id is free from then on, so this is
    /// its last use: the kernel reuses an id only after it has gone through all others.
    pub fn kill_rest(&mut self) {
        self.signal(Signal::KILL);
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
