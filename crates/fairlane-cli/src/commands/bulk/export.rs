//! `fairlane bulk export`: the results of a bulk action as lines of JSON.

use std::io::{ErrorKind, IsTerminal};
use std::path::PathBuf;

use clap::Args;
use fairlane::{Error, Filter};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, BufWriter};

use super::BulkSelector;
use crate::failure::Failure;
use crate::output::{self, spinner};
use crate::tables::counted;

const EXAMPLES: &str = "\
Examples:
  fairlane bulk export customer-7 newsletter > results.ndjson
  fairlane bulk export customer-7 newsletter --failed --out failed.ndjson

Each line is a finished job: id, type, state, attempts, created_at, settled_at, and either result \
or error with code and reason. A result that is not text is base64 in result_base64. The bulk \
action may still be running.
Exit codes: 0 success; 1 failure; 2 unknown bulk action or bad input.";

/// Writes a line of JSON for each finished job
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    bulk: BulkSelector,
    /// Only jobs that failed
    #[arg(long, conflicts_with = "succeeded")]
    failed: bool,
    /// Only jobs that succeeded
    #[arg(long)]
    succeeded: bool,
    /// Output file [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// The JSON form of the result, if the lines go to a file.
#[derive(Serialize)]
struct ExportSummary {
    jobs: u64,
    out: String,
}

/// Bytes that may wait to be written to a terminal.
const TERMINAL_BUFFER_BYTES: usize = 64 * 1024;

/// Writes the lines.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let filter = match (arguments.failed, arguments.succeeded) {
        (true, _) => Filter::Failed,
        (_, true) => Filter::Succeeded,
        _ => Filter::All,
    };
    let bulk = arguments.bulk.find().await?;
    // Checked first, so that an unknown bulk action does not truncate an existing file.
    bulk.view().await?;
    let is_terminal = arguments.out.is_none() && std::io::stdout().is_terminal();
    let (to_terminal, lines) = tokio::io::duplex(TERMINAL_BUFFER_BYTES);
    let writer: Box<dyn AsyncWrite + Unpin> = match &arguments.out {
        None if is_terminal => Box::new(to_terminal),
        None => Box::new(tokio::io::stdout()),
        Some(path) => Box::new(tokio::fs::File::create(path).await.map_err(Failure::unwritable(path))?),
    };
    // The lines themselves show the progress on the same terminal.
    let bar = spinner(arguments.bulk.target.json || is_terminal, "writing results");
    let export = bulk.export(BufWriter::new(writer), filter);
    let exported = match is_terminal {
        true => tokio::join!(export, show(lines)).0,
        false => export.await,
    };
    bar.finish_and_clear();
    let jobs = match exported {
        // A closed pipe is not a failure: the reader has read what it wanted.
        Err(Error::Io(error)) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
        exported => exported?,
    };
    let Some(path) = arguments.out else { return Ok(()) };
    let summary = ExportSummary { jobs, out: path.display().to_string() };
    arguments.bulk.target.print(&summary, || format!("{} in {}", counted(jobs, "job"), summary.out))
}

/// Prints lines escaped on a terminal; files and pipes get the original bytes.
async fn show(lines: impl AsyncRead + Unpin) -> Result<(), Failure> {
    let mut lines = BufReader::new(lines).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        output::print_json_text(&line)?;
    }
    Ok(())
}
