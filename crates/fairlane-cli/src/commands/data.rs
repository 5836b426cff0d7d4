//! `fairlane data`: the files of the embedded engine, when something has to be done about them.
//!
//! - `data/lines.rs`: rows as lines of JSON, there and back. `data/discard.rs`: jobs removed without starting the queue.

mod discard;
mod lines;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use fairlane_engine::embedded::disk::{
    self, Disk, DiskError, Field, Import, Loading, Record, export, owner_of,
};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fairlane data check ./queue
  fairlane data vacuum ./queue
  fairlane data export ./queue > queue.ndjson
  fairlane data import ./queue-new < queue.ndjson
  fairlane data discard ./queue --state completed,dead --older-than 7d --dry-run

check, vacuum, import and discard need the directory for themselves: stop the program that owns it.
export only reads, also beside a running owner, and saves what can be read of a damaged file. Its last line says how many
rows there are: import takes the whole of it or nothing.
Exit codes: 0 done; 1 it failed, or something was found; 2 bad input, or the directory has another owner.";

const DISCARD_HELP: &str = "\
Examples:
  fairlane data discard ./queue --state completed --dry-run
  fairlane data discard ./queue --state dead,cancelled --group customer-7 --older-than 7d --yes

Leased jobs are never discarded. Discarded jobs that had not ended count as cancelled in their bulk action. Export the directory first if
the jobs may be needed again. The file shrinks as far as it can at once; fairlane data vacuum gives back the rest.";

/// The table that the last line of an export names.
const END: &str = "end";

const BAR: &str = "[{bar:40}] {human_pos} of {human_len} jobs";

/// Checks, shrinks, saves, restores and empties the data directory of the embedded engine
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Subcommand)]
enum Deed {
    /// Looks for damage: in the file, between its rows, and in every count
    #[command(after_help = "Example:\n  fairlane data check ./queue")]
    Check(Place),
    /// Gives unused space back to the disk
    #[command(after_help = "Example:\n  fairlane data vacuum ./queue")]
    Vacuum(Place),
    /// Writes every row that can be read as a line of JSON
    #[command(after_help = "Example:\n  fairlane data export ./queue --out queue.ndjson")]
    Export {
        /// The data directory
        directory: PathBuf,
        /// Into this file instead of standard output
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Makes a new directory from an export
    #[command(after_help = "Example:\n  fairlane data import ./queue-new --from queue.ndjson")]
    Import {
        #[command(flatten)]
        place: Place,
        /// From this file instead of standard input
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Removes jobs for good without starting the queue, such as one that has grown too large for the memory
    #[command(after_help = DISCARD_HELP)]
    Discard(discard::Arguments),
}

#[derive(Args)]
struct Place {
    /// The data directory
    directory: PathBuf,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checked {
    sound: bool,
    jobs: u64,
    found: Vec<String>,
}

#[derive(Serialize)]
struct Vacuumed {
    bytes_before: u64,
    bytes_after: u64,
}

#[derive(Serialize)]
struct Imported {
    rows: u64,
    mended: Vec<String>,
}

/// Does what was asked.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.deed {
        Deed::Check(place) => check(&place),
        Deed::Vacuum(place) => vacuum(&place),
        Deed::Export { directory, out } => write_export(&directory, out.as_deref()),
        Deed::Import { place, from } => read_import(&place, from.as_deref()),
        Deed::Discard(arguments) => discard::run(&arguments),
    }
}

fn check(place: &Place) -> Result<(), Failure> {
    let disk = match Disk::open_existing(&place.directory) {
        // What cannot even be opened has been checked.
        Err(error @ DiskError::Damaged { .. }) => return told(place, 0, vec![error.to_string()]),
        opened => opened.map_err(unusable)?,
    };
    let bar = output::progress_bar(place.json, BAR, None);
    let checked = disk.check(&mut |loading| show(&bar, loading)).map_err(unusable)?;
    bar.finish_and_clear();
    told(place, checked.jobs, checked.found)
}

fn told(place: &Place, jobs: u64, found: Vec<String>) -> Result<(), Failure> {
    let sound = found.is_empty();
    let directory = place.directory.display();
    if place.json {
        output::print_json(&Checked { sound, jobs, found: found.clone() })?;
    } else if sound {
        output::print(&format!("{directory} is sound: {jobs} jobs"))?;
    }
    if sound {
        return Ok(());
    }
    Err(Failure::broken(format!("{directory} is damaged: {}", found.join("; "))))
}

fn vacuum(place: &Place) -> Result<(), Failure> {
    let mut disk = Disk::open_existing(&place.directory).map_err(unusable)?;
    let bytes_before = disk.bytes();
    disk.vacuum().map_err(unusable)?;
    let bytes_after = disk.bytes();
    if place.json {
        return output::print_json(&Vacuumed { bytes_before, bytes_after });
    }
    output::print(&format!("{} bytes, before {bytes_before}", bytes_after))
}

/// Beside a running owner the rows are put aside before they are printed, so that they are read at the speed of the
/// disk and not at that of whoever reads the output: a read that lasts keeps the owner's log from being cut back.
fn write_export(directory: &Path, out: Option<&Path>) -> Result<(), Failure> {
    let written = |error| Failure::broken(format!("the export cannot be written: {error}"));
    let mut spool = match out.is_none() && owner_of(directory).is_some() {
        true => Some(tempfile::tempfile().map_err(written)?),
        false => None,
    };
    let mut writer: Box<dyn Write> = match (out, &spool) {
        (None, Some(spool)) => Box::new(BufWriter::new(spool.try_clone().map_err(written)?)),
        (None, None) => Box::new(BufWriter::new(std::io::stdout().lock())),
        (Some(path), _) => Box::new(BufWriter::new(File::create(path).map_err(|error| {
            Failure::bad_input(format!("{} cannot be written: {error}", path.display()))
        })?)),
    };
    let exported = export(directory, &mut |record| {
        writeln!(writer, "{}", lines::line(&record)).map_err(Stopped::Written)
    });
    let exported = exported.and_then(|exported| {
        let rows = exported.rows.iter().map(|(_, rows)| rows).sum();
        let ended = writeln!(writer, "{}", lines::line(&end(rows))).and_then(|()| writer.flush());
        let ended = ended.and_then(|()| spool.as_mut().map_or(Ok(()), give_out));
        ended.map_err(Stopped::Written).map(|()| exported)
    });
    let exported = match exported {
        Ok(exported) => exported,
        // A reader that has gone has what it wanted.
        Err(Stopped::Written(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
        Err(Stopped::Written(error)) => return Err(written(error)),
        Err(Stopped::Read(error)) => return Err(unusable(error)),
    };
    let rows: Vec<String> = exported.rows.iter().map(|(table, rows)| format!("{rows} {table}")).collect();
    output::say(&format!("exported {}", rows.join(", ")));
    if exported.unread.is_empty() {
        return Ok(());
    }
    let unread: Vec<String> = exported.unread.iter().map(|(table, why)| format!("{table} ({why})")).collect();
    Err(Failure::broken(format!(
        "some rows could not be read, of {}; the others are exported",
        unread.join(", ")
    )))
}

/// Prints what was put aside.
fn give_out(spool: &mut File) -> std::io::Result<()> {
    spool.rewind()?;
    let mut output = std::io::stdout().lock();
    std::io::copy(spool, &mut output)?;
    output.flush()
}

/// Why an export ended early.
enum Stopped {
    Read(DiskError),
    Written(std::io::Error),
}

impl From<DiskError> for Stopped {
    fn from(error: DiskError) -> Self {
        Self::Read(error)
    }
}

fn read_import(place: &Place, from: Option<&Path>) -> Result<(), Failure> {
    let reader: Box<dyn BufRead> =
        match from {
            None => Box::new(std::io::stdin().lock()),
            Some(path) => Box::new(BufReader::new(File::open(path).map_err(|error| {
                Failure::bad_input(format!("{} cannot be read: {error}", path.display()))
            })?)),
        };
    let (before, mut begun) = (entries(&place.directory), false);
    let imported = take_in(reader, &place.directory, &mut begun);
    // What somebody else has made there meanwhile is theirs.
    if imported.is_err() && begun {
        remove_new(&place.directory, &before);
    }
    let imported = imported?;
    if place.json {
        return output::print_json(&Imported { rows: imported.rows, mended: imported.mended });
    }
    let mut lines = vec![format!("{} rows are in {}", imported.rows, place.directory.display())];
    lines.extend(imported.mended.iter().map(|what| format!("mended: {what}")));
    output::print(&lines.join("\n"))
}

/// All rows up to the end line; without that line, or with another number of rows than it says, something is missing.
fn take_in(reader: impl BufRead, folder: &Path, begun: &mut bool) -> Result<disk::Imported, Failure> {
    let (mut import, mut rows, mut ended) = (None, 0, false);
    for (line, number) in reader.lines().zip(1..) {
        let line =
            line.map_err(|error| Failure::bad_input(format!("line {number} cannot be read: {error}")))?;
        let wrong = |why: String| Failure::bad_input(format!("line {number} is not of an export: {why}"));
        if ended {
            return Err(wrong("the line before it is the end".to_owned()));
        }
        let record = lines::record(&line).map_err(wrong)?;
        if record.table == END {
            if record != end(rows) {
                return Err(cut(rows, "its last line says another number of rows"));
            }
            ended = true;
            continue;
        }
        let import = match &mut import {
            Some(import) => import,
            none => none.insert(Import::begin(folder).map_err(unusable)?),
        };
        *begun = true;
        import.add(record).map_err(|error| wrong(error.to_string()))?;
        rows += 1;
    }
    match import {
        Some(import) if ended => import.finish().map_err(unusable),
        _ => Err(cut(rows, "its last line, which says how many rows there are, is missing")),
    }
}

/// The last line of an export.
fn end(rows: u64) -> Record {
    Record { table: END.to_owned(), fields: vec![("rows".to_owned(), Field::Integer(rows as i64))] }
}

fn cut(rows: u64, why: &str) -> Failure {
    Failure::bad_input(format!(
        "this is not a whole export: it has {rows} rows, and {why}; export it again. Nothing was imported"
    ))
}

/// What is in a directory; none if it is not there.
fn entries(folder: &Path) -> Option<BTreeSet<OsString>> {
    let entries = std::fs::read_dir(folder).ok()?;
    Some(entries.flatten().map(|entry| entry.file_name()).collect())
}

/// Leaves a directory as it was before an import that failed. What cannot be removed is empty, and stays.
fn remove_new(folder: &Path, before: &Option<BTreeSet<OsString>>) {
    let Some(before) = before else {
        let _ = std::fs::remove_dir_all(folder);
        return;
    };
    for name in entries(folder).unwrap_or_default().difference(before) {
        let _ = std::fs::remove_file(folder.join(name));
    }
}

fn unusable(error: DiskError) -> Failure {
    match error {
        DiskError::Missing { .. }
        | DiskError::Occupied { .. }
        | DiskError::Folder { .. }
        | DiskError::Foreign { .. }
        | DiskError::Taken { .. } => Failure::bad_input(error.to_string()),
        _ => Failure::broken(error.to_string()),
    }
}

fn show(bar: &ProgressBar, loading: Loading) {
    bar.set_length(loading.of);
    bar.set_position(loading.jobs);
}
