//! `fairlane bulk export`: results as lines of JSON.

use std::io::{ErrorKind, IsTerminal};
use std::path::PathBuf;

use clap::Args;
use fairlane::{Error, Filter};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, BufWriter};

use super::Which;
use crate::failure::Failure;
use crate::output::{self, sign_of_life};

const EXAMPLES: &str = "\
Examples:
  fairlane bulk export customer-7 newsletter > results.ndjson
  fairlane bulk export customer-7 newsletter --failed --out failed.ndjson

Each line is a job that has ended: id, type, state, attempts, created_at, settled_at, and result, or error with code
and message. A result that is no text is in base64, as result_base64. It may run while the bulk action does.
Exit codes: 0 done; 1 it failed; 2 there is no such bulk action, or bad input.";

/// Writes a line of JSON for each job that has ended
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    which: Which,
    /// Those that failed
    #[arg(long, conflicts_with = "succeeded")]
    failed: bool,
    /// Those that succeeded
    #[arg(long)]
    succeeded: bool,
    /// Into this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What programs get when the lines go into a file.
#[derive(Serialize)]
struct Answer {
    jobs: u64,
    out: String,
}

/// Bytes on their way to a terminal.
const SHOWN_BYTES: usize = 64 * 1024;

/// Writes the lines.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let filter = match (arguments.failed, arguments.succeeded) {
        (true, _) => Filter::Failed,
        (_, true) => Filter::Succeeded,
        _ => Filter::All,
    };
    let bulk = arguments.which.find().await?;
    // A file that is there already is left alone until the bulk action is known to be.
    bulk.view().await?;
    let is_terminal = arguments.out.is_none() && std::io::stdout().is_terminal();
    let (shown, showing) = tokio::io::duplex(SHOWN_BYTES);
    let writer: Box<dyn AsyncWrite + Unpin> =
        match &arguments.out {
            None if is_terminal => Box::new(shown),
            None => Box::new(tokio::io::stdout()),
            Some(path) => Box::new(tokio::fs::File::create(path).await.map_err(|error| {
                Failure::bad_input(format!("{} cannot be written: {error}", path.display()))
            })?),
        };
    // Lines that are read on the same terminal are sign enough.
    let bar = sign_of_life(arguments.which.place.json || is_terminal, "writing results");
    let export = bulk.export(BufWriter::new(writer), filter);
    let exported = match is_terminal {
        true => tokio::join!(export, show(showing)).0,
        false => export.await,
    };
    bar.finish_and_clear();
    let jobs = match exported {
        // A reader that has gone has what it wanted.
        Err(Error::Io(error)) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
        exported => exported?,
    };
    let Some(path) = arguments.out else { return Ok(()) };
    let answer = Answer { jobs, out: path.display().to_string() };
    arguments.which.place.tell(&answer, || format!("{jobs} jobs in {}", answer.out))
}

/// Shows lines on a terminal, which files and pipes get as they are.
async fn show(lines: impl AsyncRead + Unpin) -> Result<(), Failure> {
    let mut lines = BufReader::new(lines).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        output::print_json_text(&line)?;
    }
    Ok(())
}
