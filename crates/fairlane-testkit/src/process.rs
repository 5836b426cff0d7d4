//! A child process that ends with its test.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};

/// A child process, which is killed when dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts the program.
    pub fn start(command: &mut Command) -> Self {
        let program = command.get_program().to_owned();
        Self(command.spawn().unwrap_or_else(|error| panic!("{program:?} cannot start: {error}")))
    }

    /// Kills the process, as a crash would end it.
    pub fn kill(&mut self) {
        // The process may have ended already; then the wait only reaps it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Sends a signal such as `-TERM`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.id().to_string()]).status();
        assert!(status.expect("kill is installed").success(), "the process runs");
    }

    /// The memory of the process in MiB, current and peak; NaN if it has ended.
    pub fn memory_mib(&self) -> (f64, f64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let mib = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
            kib.map_or(f64::NAN, |kib| kib / 1024.0)
        };
        (mib("VmRSS:"), mib("VmHWM:"))
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
