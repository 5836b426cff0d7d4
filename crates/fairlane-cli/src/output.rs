//! Standard output and standard error: text or JSON, files that are asked for, and signs of life.
//!
//! Invariant: what is printed holds no character that a terminal would obey (`escape.rs`).
//! A reader that has gone (`fairlane … | head`) is no failure: what it wanted it has.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::escape;
use crate::failure::Failure;

/// How long the last words may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Whether programs read what is said.
static FOR_PROGRAMS: AtomicBool = AtomicBool::new(false);

/// From now on a failure is told as JSON.
pub fn speak_to_programs() {
    FOR_PROGRAMS.store(true, Ordering::Relaxed);
}

/// Prints a text and a line break.
pub fn print(text: &str) -> Result<(), Failure> {
    write_out(&escape::text(text))
}

fn write_out(text: &str) -> Result<(), Failure> {
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
    print_json_text(&json)
}

/// Prints what is JSON already.
pub fn print_json_text(json: &str) -> Result<(), Failure> {
    write_out(&escape::json(json))
}

/// Prints a value as JSON on one line.
pub fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value)
        .map_err(|error| Failure::broken(format!("the event cannot be written as JSON: {error}")))?;
    print_json_text(&json)
}

/// Says a line about the way there, on standard error.
pub fn say(text: &str) {
    write_err(&escape::text(text));
}

fn write_err(text: &str) {
    // There is nowhere left to say that it could not be said.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Says why a command failed, if there is something to say. A pipe that nobody reads must not keep a program that has
/// ended, so a thread of its own says it.
pub fn say_failure(failure: &Failure) {
    if failure.message().is_empty() {
        return;
    }
    #[derive(Serialize)]
    struct Told<'a> {
        error: &'a str,
        exit_code: u8,
    }
    let told = Told { error: failure.message(), exit_code: failure.exit_code() };
    let text = match FOR_PROGRAMS.load(Ordering::Relaxed) {
        true => serde_json::to_string(&told).map(|json| escape::json(&json).into_owned()),
        false => Ok(escape::text(&failure.to_string()).into_owned()),
    };
    let text = text.unwrap_or_default();
    let (saying, said) = mpsc::channel::<()>();
    let begun = std::thread::Builder::new().spawn(move || {
        write_err(&text);
        drop(saying);
    });
    if begun.is_ok() {
        let _ = said.recv_timeout(LAST_WORDS);
    }
}

/// Writes a file.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::bad_input(format!("{} cannot be written: {error}", path.display())))
}

/// A bar on a terminal; of a length that may not be known yet.
pub fn progress_bar(silent: bool, template: &str, length: Option<u64>) -> ProgressBar {
    if silent || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("the template is valid").progress_chars("=> ");
    length.map_or_else(ProgressBar::no_length, ProgressBar::new).with_style(style)
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
