//! Standard output: text or JSON, and files that are asked for; and a sign of life beside it.
//!
//! A reader that has gone (`fairlane … | head`) is no failure: what it wanted it has.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::failure::Failure;

/// Prints a text and a line break.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::broken(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a value as JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::broken(format!("the result cannot be written as JSON: {error}")))?;
    print(&json)
}

/// Writes a file.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::bad_input(format!("{} cannot be written: {error}", path.display())))
}

/// Says on a terminal what is being done and for how long, until it is cleared.
pub fn sign_of_life(silent: bool, doing: &'static str) -> ProgressBar {
    if silent || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}").expect("the template is valid");
    let bar = ProgressBar::new_spinner().with_style(style).with_message(doing);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
