//! Runs the program on a pseudo-terminal.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Runs `fairlane` with these arguments; returns its exit code and the output with plain line
/// breaks.
pub fn fairlane_on_terminal(words: &[&str]) -> (i32, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let name = std::ffi::OsStr::from_bytes(name.as_bytes());
    let side = OpenOptions::new().read(true).write(true).open(name).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_fairlane"))
        .args(words)
        .stdin(Stdio::null())
        .stdout(side.try_clone().unwrap())
        .stderr(side)
        .spawn()
        .unwrap();
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    let mut terminal = File::from(terminal);
    // A read fails after the last program on the terminal has exited.
    while let Ok(bytes @ 1..) = terminal.read(&mut buffer) {
        received.extend(&buffer[..bytes]);
    }
    let code = program.wait().unwrap().code().expect("the program exits without a signal");
    (code, String::from_utf8(received).unwrap().replace("\r\n", "\n"))
}
