//! `fairlane bulk load`: streams a file of jobs into a bulk action.
//!
//! - `load/beginning.rs`: reads the first line and opens the bulk action, or says why not.
//! - `load/ending.rs`: what is said when it ends before its end.
//!
//! Invariant: whatever ends it half-way, running it again goes on: jobs have the ids they were given, or ids made
//! from the bulk action's name and their position, and what is there is not added again.

mod beginning;
mod ending;

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

use clap::Args;
use fairlane::{Error, Ingest, Level, NdjsonReader, Obstacle, Patience, parse_duration};
use indicatif::ProgressBar;
use serde::Serialize;
use tokio::io::{AsyncBufRead, BufReader};

use crate::escape;
use crate::failure::Failure;
use crate::output;
use crate::place::Place;
use crate::tables::thousands;
use beginning::{Begun, begin};
use ending::Halt;

const EXAMPLES: &str = r#"Examples:
  fairlane bulk load customer-7 newsletter mails.ndjson --type mail
  fairlane bulk load customer-7 newsletter mails.ndjson --deadline 2h --failures-max 100
  zcat mails.ndjson.gz | fairlane bulk load customer-7 newsletter --type mail
  fairlane bulk load customer-7 cleanup ids.txt --type delete --payload-lines
  fairlane bulk load customer-7 newsletter more.ndjson --type mail --append

Each line is a job:
  {"id": "order-42", "type": "mail", "payload": {"to": "ada@example.com"}}
Only payload is needed if --type is given; level, cost, delay_ms, run_at and trace may be. A job without an id gets one from
its position, so the same file loaded again adds nothing twice: after a fault or Ctrl-C, run the same command again.
Lines without ids are known by their position: mend a line, never remove one. Another file for the same bulk action
needs ids, or --append. While the queue is full it waits. At the end the bulk action is sealed with the number of jobs in the file.
Exit codes: 0 loaded; 1 it failed; 2 bad input, the line is named; 130 stopped by Ctrl-C."#;

/// Where lines come from.
type Source = Box<dyn AsyncBufRead + Unpin + Send>;
type Reader = NdjsonReader<Source>;

const BAR_OF_KNOWN: &str = "[{wide_bar}] {bytes} of {total_bytes}, {msg}";
const BAR_OF_UNKNOWN: &str = "{spinner} {bytes}, {msg}";
/// Jobs after which the bar is drawn anew.
const SHOWN_EVERY: u64 = 200;

/// Streams jobs into a bulk action: lines of JSON, from a file or standard input
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Whose bulk action
    group: String,
    /// Its name; opened unless it is there
    bulk: String,
    /// A file with a job on each line; - is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// The type of jobs whose line names none
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// The level of jobs whose line names none: high, normal or low
    #[arg(long, default_value = "normal")]
    level: Level,
    /// Each line is a payload, whatever it holds, blanks too; empty lines are skipped; needs --type
    #[arg(long, requires = "job_type")]
    payload_lines: bool,
    /// The bulk action fails unless it has finished after this long: 30s, 5m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    deadline: Option<Duration>,
    /// The bulk action fails when more jobs than this have
    #[arg(long, value_name = "N", value_parser = crate::limit::count, allow_negative_numbers = true)]
    failures_max: Option<u64>,
    /// Tell this address when it has ended
    #[arg(long, value_name = "URL")]
    callback: Option<String>,
    /// The first N jobs of the file are known to be loaded
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = crate::limit::count, allow_negative_numbers = true)]
    skip: u64,
    /// This is another source: number its jobs on from those that are there, or from N to go on with one
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    append: Option<Option<u64>>,
    /// Seal it also when there is no job in the source
    #[arg(long)]
    allow_empty: bool,
    /// Leave it open, for more jobs to come
    #[arg(long)]
    no_seal: bool,
    /// How long to go on while the queue does not answer
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "1m")]
    #[arg(allow_hyphen_values = true)]
    patience: Duration,
    #[command(flatten)]
    place: Place,
}

/// What programs get.
#[derive(Serialize)]
struct Answer {
    group: String,
    bulk: String,
    /// Jobs in the file, with those that were skipped.
    jobs: u64,
    created: u64,
    /// There before.
    existing: u64,
    /// Lines without a job.
    empty_lines: u64,
    sealed: bool,
    elapsed_ms: u64,
}

/// Loads the file and seals the bulk action.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let (source, size) = open_source(&arguments.file).await?;
    let mut reader = reader(source, &arguments);
    let begun = tokio::select! {
        begun = begin(&mut reader, &arguments) => begun?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::Stopped("nothing was loaded".to_owned())),
    };
    let template = if size.is_some() { BAR_OF_KNOWN } else { BAR_OF_UNKNOWN };
    let bar = output::progress_bar(arguments.place.json, template, size);
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
    let answer = Answer {
        group: arguments.group,
        bulk: arguments.bulk,
        jobs: counts.jobs - begun.behind,
        created: counts.created,
        existing: counts.existing,
        empty_lines: reader.empty_lines(),
        sealed,
        elapsed_ms: started.elapsed().as_millis() as u64,
    };
    arguments.place.tell(&answer, || answer.text())
}

/// The lines, and how many bytes they have if that is known.
async fn open_source(file: &Path) -> Result<(Source, Option<u64>), Failure> {
    if file == Path::new("-") {
        return Ok((Box::new(BufReader::new(tokio::io::stdin())), None));
    }
    let unread = |error| Failure::bad_input(format!("{} cannot be read: {error}", file.display()));
    let opened = tokio::fs::File::open(file).await.map_err(unread)?;
    let about = opened.metadata().await.map_err(unread)?;
    if about.is_dir() {
        return Err(Failure::bad_input(format!("{} is a directory; name a file", file.display())));
    }
    Ok((Box::new(BufReader::with_capacity(1 << 16, opened)), about.is_file().then_some(about.len())))
}

fn reader(source: Source, arguments: &Arguments) -> Reader {
    let mut reader = NdjsonReader::new(&arguments.group, source).level(arguments.level);
    if let Some(job_type) = &arguments.job_type {
        reader = reader.job_type(job_type);
    }
    if arguments.payload_lines { reader.payload_lines() } else { reader }
}

fn ingest(begun: &Begun, arguments: &Arguments, bar: &ProgressBar) -> Ingest {
    let while_full = begun.is_alone.then_some(Duration::ZERO);
    let patience = Patience { while_down: arguments.patience, while_full };
    let (shown, silent) = (bar.clone(), arguments.place.json);
    let (full, down) = (Once::new(), Once::new());
    let ingest = begun.bulk.ingest().skip(begun.behind + arguments.skip).patience(patience);
    ingest.on_obstacle(move |obstacle| {
        let (once, words) = match obstacle {
            _ if silent => return,
            Obstacle::Full(_) => (&full, "the queue is full, waiting for room".to_owned()),
            Obstacle::Down(error) => (&down, format!("waiting: {error}")),
        };
        match shown.is_hidden() {
            true => once.call_once(|| output::say(&words)),
            false => shown.set_message(escape::line(&words).into_owned()),
        }
    })
}

async fn load(reader: &mut Reader, ingest: &mut Ingest, bar: &ProgressBar) -> Result<(), Error> {
    let (started, mut pushed) = (Instant::now(), 0_u64);
    while let Some(job) = reader.next().await? {
        ingest.push(job).await.map_err(|error| at_line(error, reader.line()))?;
        pushed += 1;
        if pushed.is_multiple_of(SHOWN_EVERY) {
            bar.set_position(reader.bytes());
            let rate = pushed as f64 / started.elapsed().as_secs_f64().max(0.001);
            bar.set_message(format!("{} jobs, {} a second", thousands(pushed), thousands(rate as u64)));
        }
    }
    ingest.flush().await
}

/// What is wrong with a job is wrong with its line.
fn at_line(error: Error, line: u64) -> Error {
    match error {
        Error::Job { .. } => Error::Line { line, reason: error.to_string() },
        other => other,
    }
}

impl Answer {
    fn text(&self) -> String {
        let Self { bulk, jobs, created, existing, .. } = self;
        let mut counts = format!("{} new, {} there before", thousands(*created), thousands(*existing));
        if self.empty_lines > 0 {
            counts += &format!(", {} empty lines skipped", thousands(self.empty_lines));
        }
        let end = if self.sealed { "sealed" } else { "left open" };
        let seconds = self.elapsed_ms as f64 / 1000.0;
        format!("{bulk}: {} jobs ({counts}), {end}, in {seconds:.1} s", thousands(*jobs))
    }
}
