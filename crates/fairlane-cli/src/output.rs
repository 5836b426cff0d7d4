//! Standard output and standard error: text or JSON, files, and progress bars.
//!
//! Invariant: printed text contains no control character that a terminal would interpret
//! (`escape.rs`). A closed pipe (`fairlane … | head`) is not a failure: the reader has read what it
//! wanted.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::escape;
use crate::failure::Failure;

/// How long the program waits for the reader of its last message.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// Whether failures are reported as JSON.
static JSON_FAILURES: AtomicBool = AtomicBool::new(false);

/// Reports failures as JSON from now on.
pub fn report_failures_as_json() {
    JSON_FAILURES.store(true, Ordering::Relaxed);
}

/// Prints a text and a line break.
pub fn print(text: &str) -> Result<(), Failure> {
    write_out(&escape::text(text))
}

fn write_out(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::broken(format!(
            "cannot write to standard output: {error}; check where it is redirected to"
        ))),
        _ => Ok(()),
    }
}

/// Prints a value as JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value).map_err(|error| not_json("the result", &error))?;
    print_json_text(&json)
}

/// Prints a text that already is JSON.
pub fn print_json_text(json: &str) -> Result<(), Failure> {
    write_out(&escape::json(json))
}

/// Prints a value as JSON on one line.
pub fn print_json_line(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value).map_err(|error| not_json("the event", &error))?;
    print_json_text(&json)
}

fn not_json(what: &str, error: &serde_json::Error) -> Failure {
    Failure::broken(format!("cannot write {what} as JSON: {error}; run the command without --json"))
}

/// Prints a message on standard error.
pub fn print_message(text: &str) {
    write_err(&escape::text(text));
}

fn write_err(text: &str) {
    // An error here cannot be reported anywhere.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints why a command failed, unless the message is empty. A separate thread writes it, so that a
/// pipe without a reader cannot keep the program from exiting.
pub fn print_failure(failure: &Failure) {
    if failure.message().is_empty() {
        return;
    }
    #[derive(Serialize)]
    struct FailureReport<'a> {
        error: &'a str,
        exit_code: u8,
    }
    let report = FailureReport { error: failure.message(), exit_code: failure.exit_code() };
    let text = match JSON_FAILURES.load(Ordering::Relaxed) {
        true => serde_json::to_string(&report).map(|json| escape::json(&json).into_owned()),
        false => Ok(escape::text(&failure.to_string()).into_owned()),
    };
    let text = text.unwrap_or_default();
    let (writing, written) = mpsc::channel::<()>();
    let started = std::thread::Builder::new().spawn(move || {
        write_err(&text);
        drop(writing);
    });
    if started.is_ok() {
        let _ = written.recv_timeout(FINAL_WRITE_TIMEOUT);
    }
}

/// Writes a file.
pub fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(Failure::unwritable(path))
}

/// A progress bar on a terminal; its length may not be known yet.
pub fn progress_bar(silent: bool, template: &str, length: Option<u64>) -> ProgressBar {
    if silent || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("the template is valid").progress_chars("=> ");
    length.map_or_else(ProgressBar::no_length, ProgressBar::new).with_style(style)
}

/// Shows an activity and its elapsed time on a terminal, until the bar is cleared.
pub fn spinner(silent: bool, activity: &'static str) -> ProgressBar {
    if silent || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}").expect("the template is valid");
    let bar = ProgressBar::new_spinner().with_style(style).with_message(activity);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
