//! A wall clock that jumps, for child processes.
//!
//! `libfaketime` replaces the wall clock of a process that is started with it. The monotonic clock
//! is not changed, so timers run on.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// An offset from the real time that several processes share.
pub struct JumpingClock {
    library: PathBuf,
    folder: TempDir,
}

impl JumpingClock {
    /// A clock that shows the real time.
    pub fn new() -> Self {
        let clock = Self { library: library(), folder: tempfile::tempdir().expect("a temporary folder") };
        clock.jump_to(0);
        clock
    }

    /// Makes a process that is not started yet use this clock.
    pub fn set_for(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library);
        command.env("FAKETIME_TIMESTAMP_FILE", self.offset_file());
        // Each reading of the clock reads the offset again.
        command.env("FAKETIME_NO_CACHE", "1");
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    }

    /// Moves the clock to this many seconds after the real time, or before it.
    pub fn jump_to(&self, offset_secs: i64) {
        // The file is renamed into place, so that no process reads a part of it.
        let written = self.folder.path().join("next");
        fs::write(&written, format!("{offset_secs:+}\n")).expect("a temporary folder can be written");
        fs::rename(&written, self.offset_file()).expect("a temporary folder can be written");
    }

    fn offset_file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }
}

impl Default for JumpingClock {
    fn default() -> Self {
        Self::new()
    }
}

/// The path of the library, which Debian installs in a folder per architecture.
fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").expect("a system has libraries").flatten();
    let candidates = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let mut found = candidates.filter(|path| path.exists());
    found.next().expect("libfaketime is installed: apt-get install faketime")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_of_a_process_jumps_and_that_of_others_does_not() {
        let clock = JumpingClock::new();
        clock.jump_to(-1_000_000_000);
        let mut date = Command::new("date");
        date.arg("+%s");
        clock.set_for(&mut date);
        let output = date.output().expect("date runs").stdout;
        let there: i64 = String::from_utf8_lossy(&output).trim().parse().expect("a number");
        let here = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs() as i64;
        assert!((here - there - 1_000_000_000).abs() < 1000, "{here} and {there}");
    }
}
