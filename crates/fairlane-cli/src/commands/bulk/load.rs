//! `fairlane bulk load`: streams a file of jobs into a bulk action.
//!
//! - `load/check.rs`: checks the lines before anything is opened.
//! - `load/beginning.rs`: reads the first line and opens the bulk action, or rejects the input.
//! - `load/ending.rs`: the message of a load that fails or is interrupted.
//!
//! Invariant: an interrupted load continues when it is repeated. Jobs keep the ids in the file, or
//! get ids from the name of the bulk action and their position, and existing jobs are not added
//! again.

mod beginning;
mod check;
mod ending;

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

use clap::Args;
use fairlane::{Backpressure, Error, Ingest, Level, NdjsonReader, RetryBudget, parse_duration};
use indicatif::ProgressBar;
use serde::Serialize;
use tokio::io::{AsyncBufRead, BufReader};

use crate::escape;
use crate::failure::Failure;
use crate::output;
use crate::tables::{counted, thousands};
use crate::target::QueueTarget;
use beginning::{Begun, begin};
use ending::Halt;

const EXAMPLES: &str = "\
Examples:
  fairlane bulk load customer-7 newsletter mails.ndjson --type mail
  fairlane bulk load customer-7 newsletter mails.ndjson --deadline 2h --failures-max 100
  zcat mails.ndjson.gz | fairlane bulk load customer-7 newsletter --type mail
  fairlane bulk load customer-7 cleanup ids.txt --type delete --payload-lines
  fairlane bulk load customer-7 newsletter more.ndjson --type mail --append

Each line is a job:
  {\"id\": \"order-42\", \"type\": \"mail\", \"payload\": {\"to\": \"ada@example.com\"}}

With --type, every key is optional; the default payload is null. Other keys: level, cost, delay_ms, \
run_at and trace. A job without an id gets one from its position in the file. Loading is idempotent: after a failure or \
Ctrl-C, run the same command again. Lines without ids are identified by their position: correct a \
line, but never remove one. Another file for the same bulk action needs ids or --append. While the \
queue is full, load waits. All lines of a file, and the first 1,000 lines of standard input, are \
checked before anything is loaded. At the end it seals the bulk action with the number of jobs in the file.
Exit codes: 0 loaded; 1 failure; 2 bad input, with the line number; 130 interrupted by Ctrl-C.";

/// The source of the lines.
type Source = Box<dyn AsyncBufRead + Unpin + Send>;
type Reader = NdjsonReader<Source>;

const BAR_WITH_LENGTH: &str = "[{wide_bar}] {bytes} of {total_bytes}, {msg}";
const BAR_WITHOUT_LENGTH: &str = "{spinner} {bytes}, {msg}";
/// Jobs between two updates of the bar.
const BAR_UPDATE_JOBS: u64 = 200;

/// Streams jobs into a bulk action, one JSON object per line, from a file or standard input
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Group of the bulk action
    group: String,
    /// Name of the bulk action, which is opened if it does not exist
    bulk: String,
    /// File with one job per line; - is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Type of jobs whose line has none
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// Level of jobs whose line has none: high, normal or low
    #[arg(long, default_value = "normal")]
    level: Level,
    /// Use each line unchanged as a payload, including its spaces. Skips empty lines. Requires
    /// --type
    #[arg(long, requires = "job_type")]
    payload_lines: bool,
    /// Fail the bulk action if it has not finished after this time: 30s, 5m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    deadline: Option<Duration>,
    /// Fail the bulk action when more jobs than this have failed
    #[arg(long, value_name = "N", value_parser = crate::limit::count, allow_negative_numbers = true)]
    failures_max: Option<u64>,
    /// URL to call when the bulk action has ended
    #[arg(long, value_name = "URL")]
    callback: Option<String>,
    /// Skip the first N jobs of the file, which are already loaded
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = crate::limit::count, allow_negative_numbers = true)]
    skip: u64,
    /// Add the jobs of another file behind the existing ones. To continue an interrupted --append,
    /// set N to the number of jobs before it
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    append: Option<Option<u64>>,
    /// Seal the bulk action even if the file has no jobs
    #[arg(long)]
    allow_empty: bool,
    /// Leave the bulk action open for more jobs
    #[arg(long)]
    no_seal: bool,
    /// How long to retry while the queue does not respond
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1m")]
    #[arg(allow_hyphen_values = true)]
    patience: Duration,
    #[command(flatten)]
    target: QueueTarget,
}

/// The JSON form of the result.
#[derive(Serialize)]
struct LoadSummary {
    group: String,
    /// The id of the bulk action.
    id: String,
    /// Jobs in the file, including skipped ones.
    jobs: u64,
    created: u64,
    /// Jobs that existed before.
    existing: u64,
    /// Lines without a job.
    empty_lines: u64,
    sealed: bool,
    elapsed_ms: u64,
}

/// Loads the file and seals the bulk action.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let begin = async {
        let (source, size) = check::checked_source(&arguments).await?;
        let mut reader = reader(source, &arguments);
        let begun = begin(&mut reader, &arguments).await?;
        Ok::<_, Failure>((reader, size, begun))
    };
    let (mut reader, size, begun) = tokio::select! {
        begun = begin => begun?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::Stopped("nothing was loaded".to_owned())),
    };
    let template = if size.is_some() { BAR_WITH_LENGTH } else { BAR_WITHOUT_LENGTH };
    let bar = output::progress_bar(arguments.target.json, template, size);
    let started = Instant::now();
    let mut ingest = ingest(&begun, &arguments, &bar);
    let loaded = tokio::select! {
        loaded = load(&mut reader, &mut ingest, &bar) => loaded.map_err(Halt::Failed),
        _ = tokio::signal::ctrl_c() => Err(Halt::Stopped),
    };
    bar.finish_and_clear();
    let counts = ingest.counts();
    let sealed = !arguments.no_seal;
    let ended = match loaded {
        Ok(()) if sealed => ingest.seal().await.map(drop).map_err(Halt::Failed),
        other => other,
    };
    if let Err(halt) = ended {
        return Err(ending::halted(halt, counts.jobs, &begun, &arguments).await);
    }
    let summary = LoadSummary {
        group: arguments.group,
        id: arguments.bulk,
        jobs: counts.jobs - begun.behind,
        created: counts.created,
        existing: counts.existing,
        empty_lines: reader.empty_lines(),
        sealed,
        elapsed_ms: started.elapsed().as_millis() as u64,
    };
    arguments.target.print(&summary, || summary.text())
}

/// Opens the source; returns its size in bytes too, if that is known.
async fn open_source(file: &Path) -> Result<(Source, Option<u64>), Failure> {
    if file == Path::new("-") {
        return Ok((Box::new(BufReader::new(tokio::io::stdin())), None));
    }
    let unreadable = Failure::unreadable(file);
    let opened = tokio::fs::File::open(file).await.map_err(unreadable)?;
    let metadata = opened.metadata().await.map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(Failure::bad_input(format!("{} is a directory, not a file", file.display())));
    }
    let size = metadata.is_file().then_some(metadata.len());
    Ok((Box::new(BufReader::with_capacity(1 << 16, opened)), size))
}

fn reader(source: Source, arguments: &Arguments) -> Reader {
    let mut reader = NdjsonReader::new(&arguments.group, source).level(arguments.level);
    if let Some(job_type) = &arguments.job_type {
        reader = reader.job_type(job_type);
    }
    if arguments.payload_lines { reader.payload_lines() } else { reader }
}

fn ingest(begun: &Begun, arguments: &Arguments, bar: &ProgressBar) -> Ingest {
    let while_full = begun.is_exclusive.then_some(Duration::ZERO);
    let budget = RetryBudget { while_down: arguments.patience, while_full };
    let (bar, silent) = (bar.clone(), arguments.target.json);
    let (full, down) = (Once::new(), Once::new());
    let ingest = begun.bulk.ingest().skip(begun.behind + arguments.skip).retry_budget(budget);
    ingest.on_backpressure(move |backpressure| {
        let (once, message) = match backpressure {
            _ if silent => return,
            Backpressure::Full(_) => (&full, "the queue is full, waiting for room".to_owned()),
            Backpressure::Down(error) => (&down, format!("waiting: {error}")),
        };
        match bar.is_hidden() {
            true => once.call_once(|| output::print_message(&message)),
            false => bar.set_message(escape::line(&message).into_owned()),
        }
    })
}

async fn load(reader: &mut Reader, ingest: &mut Ingest, bar: &ProgressBar) -> Result<(), Error> {
    let (started, mut pushed) = (Instant::now(), 0_u64);
    while let Some(job) = reader.next().await.map_err(with_option_names)? {
        ingest.push(job).await.map_err(|error| at_line(error, reader.line()))?;
        pushed += 1;
        if pushed.is_multiple_of(BAR_UPDATE_JOBS) {
            bar.set_position(reader.bytes());
            let rate = pushed as f64 / started.elapsed().as_secs_f64().max(0.001);
            bar.set_message(format!("{}, {} per second", counted(pushed, "job"), thousands(rate as u64)));
        }
    }
    ingest.flush().await
}

/// Adds the line number to the error of a job.
fn at_line(error: Error, line: u64) -> Error {
    match error {
        Error::Job { .. } => Error::Line { line, reason: error.to_string() },
        other => other,
    }
}

/// Replaces the names of library methods in an error by the options of this command.
fn with_option_names(error: Error) -> Error {
    match error {
        Error::Line { line, reason } => {
            let reason = reason.replace("(payload_lines)", "(--payload-lines)");
            let reason = reason.replace("there is no default type", "no default is set with --type");
            Error::Line { line, reason }
        }
        other => other,
    }
}

impl LoadSummary {
    fn text(&self) -> String {
        let Self { id, jobs, created, existing, .. } = self;
        let mut counts = format!("{} new, {} existing", thousands(*created), thousands(*existing));
        if self.empty_lines > 0 {
            counts += &format!(", {} skipped", counted(self.empty_lines, "empty line"));
        }
        let end = if self.sealed { "sealed" } else { "left open" };
        let seconds = self.elapsed_ms as f64 / 1000.0;
        format!("{id}: {} ({counts}), {end}, in {seconds:.1} s", counted(*jobs, "job"))
    }
}
