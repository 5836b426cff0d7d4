//! The process group of one attempt.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

/// Everything a program has started and not moved elsewhere; killed when this is dropped.
pub(super) struct Group(Option<Pid>);

impl Group {
    /// The group of a child that was started as the first of its own.
    pub fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    /// Sends it to all of them; that nobody is left is no failure.
    pub fn signal(&self, signal: Signal) {
        let Some(group) = self.0 else { return };
        match kill_process_group(group, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => tracing::warn!(?group, ?signal, %error, "a process group could not be signalled"),
        }
    }

    /// Kills what its first process has left behind when it ended. Its id is free from then on, and this is the
    /// last use of it: the kernel gives it to another only when it has gone through all others.
    pub fn kill_rest(&mut self) {
        self.signal(Signal::KILL);
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
