//! `fairlane data`: maintenance of a data directory.
//!
//! - `data/lines.rs`: rows as lines of JSON, and back. `data/discard.rs`: removes jobs without
//!   starting the queue.

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
use crate::tables::counted;

const EXAMPLES: &str = "\
Examples:
  fairlane data check ./queue
  fairlane data vacuum ./queue
  fairlane data export ./queue > queue.ndjson
  fairlane data import ./queue-new < queue.ndjson
  fairlane data discard ./queue --state completed,dead --older-than 7d --dry-run

check, vacuum, import and discard need exclusive access: stop the program that owns the directory. \
export only reads, even while an owner is running, and saves the readable part of a damaged file. \
The last line of an export contains the number of rows; import accepts only a complete export.
Exit codes: 0 success; 1 failure, or damage was found; 2 bad input, or the directory has another \
owner.";

const DISCARD_HELP: &str = "\
Examples:
  fairlane data discard ./queue --state completed --dry-run
  fairlane data discard ./queue --state dead,cancelled --group customer-7 --older-than 7d --yes

Leased jobs are never discarded. Discarded jobs that had not ended count as cancelled in their bulk \
action. Export the directory first if the jobs may be needed again. The file shrinks as far as \
possible at once; fairlane data vacuum returns the rest of the space.";

/// The table name in the last line of an export.
const END: &str = "end";

const BAR: &str = "[{bar:40}] {human_pos} of {human_len} jobs";

/// Checks, compacts, exports, imports and empties a data directory
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Checks the file, its rows and every count for damage
    #[command(after_help = "Example:\n  fairlane data check ./queue")]
    Check(DirectoryTarget),
    /// Returns unused space to the file system
    #[command(after_help = "Example:\n  fairlane data vacuum ./queue")]
    Vacuum(DirectoryTarget),
    /// Writes every readable row as a line of JSON
    #[command(after_help = "Example:\n  fairlane data export ./queue --out queue.ndjson")]
    Export {
        /// Data directory
        directory: PathBuf,
        /// Output file [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Creates a data directory from an export
    #[command(after_help = "Example:\n  fairlane data import ./queue-new --from queue.ndjson")]
    Import {
        #[command(flatten)]
        target: DirectoryTarget,
        /// Input file [default: standard input]
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Removes jobs permanently without starting the queue, for example if it no longer fits in
    /// memory
    #[command(after_help = DISCARD_HELP)]
    Discard(discard::Arguments),
}

#[derive(Args)]
struct DirectoryTarget {
    /// Data directory
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

/// Runs the subcommand.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Check(target) => check(&target),
        Action::Vacuum(target) => vacuum(&target),
        Action::Export { directory, out } => write_export(&directory, out.as_deref()),
        Action::Import { target, from } => read_import(&target, from.as_deref()),
        Action::Discard(arguments) => discard::run(&arguments),
    }
}

fn check(target: &DirectoryTarget) -> Result<(), Failure> {
    let disk = match Disk::open_existing(&target.directory) {
        // A file that is too damaged to be opened is a result of the check.
        Err(error @ DiskError::Damaged { .. }) => return print_check(target, 0, vec![error.to_string()]),
        opened => opened.map_err(disk_failure)?,
    };
    let bar = output::progress_bar(target.json, BAR, None);
    let checked = disk.check(&mut |loading| show(&bar, loading)).map_err(disk_failure)?;
    bar.finish_and_clear();
    print_check(target, checked.jobs, checked.found)
}

fn print_check(target: &DirectoryTarget, jobs: u64, found: Vec<String>) -> Result<(), Failure> {
    let sound = found.is_empty();
    let directory = target.directory.display();
    if target.json {
        output::print_json(&Checked { sound, jobs, found: found.clone() })?;
    } else if sound {
        output::print(&format!("{directory} is sound: {}", counted(jobs, "job")))?;
    }
    if sound {
        return Ok(());
    }
    Err(Failure::broken(format!("{directory} is damaged: {}", found.join("; "))))
}

fn vacuum(target: &DirectoryTarget) -> Result<(), Failure> {
    let mut disk = Disk::open_existing(&target.directory).map_err(disk_failure)?;
    let bytes_before = disk.bytes();
    disk.vacuum().map_err(disk_failure)?;
    let bytes_after = disk.bytes();
    if target.json {
        return output::print_json(&Vacuumed { bytes_before, bytes_after });
    }
    output::print(&format!("{bytes_after} bytes, {bytes_before} bytes before"))
}

/// Writes an export. While an owner is running, the rows are first copied to a temporary file: they
/// are then read at the speed of the disk, not of the reader of the output. A long read would keep
/// the owner's write-ahead log from being truncated.
fn write_export(directory: &Path, out: Option<&Path>) -> Result<(), Failure> {
    let unwritable = |error| {
        Failure::broken(format!(
            "the export cannot be written: {error}; check the free space where it is written"
        ))
    };
    let mut spool = match out.is_none() && owner_of(directory).is_some() {
        true => Some(tempfile::tempfile().map_err(unwritable)?),
        false => None,
    };
    let mut writer: Box<dyn Write> = match (out, &spool) {
        (None, Some(spool)) => Box::new(BufWriter::new(spool.try_clone().map_err(unwritable)?)),
        (None, None) => Box::new(BufWriter::new(std::io::stdout().lock())),
        (Some(path), _) => Box::new(BufWriter::new(File::create(path).map_err(Failure::unwritable(path))?)),
    };
    let exported = export(directory, &mut |record| {
        writeln!(writer, "{}", lines::line(&record)).map_err(ExportError::Write)
    });
    let exported = exported.and_then(|exported| {
        let rows = exported.rows.iter().map(|(_, rows)| rows).sum();
        let ended = writeln!(writer, "{}", lines::line(&end(rows))).and_then(|()| writer.flush());
        let ended = ended.and_then(|()| spool.as_mut().map_or(Ok(()), print_spool));
        ended.map_err(ExportError::Write).map(|()| exported)
    });
    let exported = match exported {
        Ok(exported) => exported,
        // A closed pipe is not a failure: the reader has read what it wanted.
        Err(ExportError::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
        Err(ExportError::Write(error)) => return Err(unwritable(error)),
        Err(ExportError::Read(error)) => return Err(disk_failure(error)),
    };
    let rows: Vec<String> = exported.rows.iter().map(|(table, rows)| format!("{rows} {table}")).collect();
    output::print_message(&format!("exported {}", rows.join(", ")));
    if exported.unread.is_empty() {
        return Ok(());
    }
    let unread: Vec<String> = exported.unread.iter().map(|(table, why)| format!("{table} ({why})")).collect();
    Err(Failure::broken(format!(
        "some rows could not be read: {}; all other rows are exported, and fairlane data import makes a directory of them",
        unread.join(", ")
    )))
}

/// Copies the temporary file to standard output.
fn print_spool(spool: &mut File) -> std::io::Result<()> {
    spool.rewind()?;
    let mut output = std::io::stdout().lock();
    std::io::copy(spool, &mut output)?;
    output.flush()
}

/// Why an export ended early.
enum ExportError {
    Read(DiskError),
    Write(std::io::Error),
}

impl From<DiskError> for ExportError {
    fn from(error: DiskError) -> Self {
        Self::Read(error)
    }
}

fn read_import(target: &DirectoryTarget, from: Option<&Path>) -> Result<(), Failure> {
    let reader: Box<dyn BufRead> = match from {
        None => Box::new(std::io::stdin().lock()),
        Some(path) => Box::new(BufReader::new(File::open(path).map_err(Failure::unreadable(path))?)),
    };
    let (before, mut begun) = (entries(&target.directory), false);
    let imported = import_rows(reader, &target.directory, &mut begun);
    // Before the import has begun, new files in the directory belong to other processes.
    if imported.is_err() && begun {
        remove_new(&target.directory, &before);
    }
    let imported = imported?;
    if target.json {
        return output::print_json(&Imported { rows: imported.rows, mended: imported.mended });
    }
    let mut lines =
        vec![format!("imported {} into {}", counted(imported.rows, "row"), target.directory.display())];
    lines.extend(imported.mended.iter().map(|what| format!("repaired: {what}")));
    output::print(&lines.join("\n"))
}

/// Imports all rows up to the end line. The export is incomplete without that line, or if the line
/// contains another number of rows.
fn import_rows(reader: impl BufRead, folder: &Path, begun: &mut bool) -> Result<disk::Imported, Failure> {
    let (mut import, mut rows, mut ended) = (None, 0, false);
    for (line, number) in reader.lines().zip(1..) {
        let line = line.map_err(|error| {
            Failure::bad_input(format!("line {number} cannot be read: {error}; export the data again"))
        })?;
        let invalid = |reason: String| {
            Failure::bad_input(format!("line {number} is not a line of an export: {reason}"))
        };
        if ended {
            return Err(invalid("it follows the end line".to_owned()));
        }
        let record = lines::record(&line).map_err(invalid)?;
        if record.table == END {
            if record != end(rows) {
                return Err(incomplete(rows, "its last line contains another number"));
            }
            ended = true;
            continue;
        }
        let import = match &mut import {
            Some(import) => import,
            none => none.insert(Import::begin(folder).map_err(disk_failure)?),
        };
        *begun = true;
        import.add(record).map_err(|error| invalid(error.to_string()))?;
        rows += 1;
    }
    match import {
        Some(import) if ended => import.finish().map_err(disk_failure),
        _ => Err(incomplete(rows, "its last line, with the number of rows, is missing")),
    }
}

/// The last line of an export.
fn end(rows: u64) -> Record {
    Record { table: END.to_owned(), fields: vec![("rows".to_owned(), Field::Integer(rows as i64))] }
}

fn incomplete(rows: u64, why: &str) -> Failure {
    Failure::bad_input(format!(
        "the export is incomplete: it has {}, and {why}; export the directory again. Nothing was imported",
        counted(rows, "row")
    ))
}

/// The names of the files in a directory; none if it does not exist.
fn entries(folder: &Path) -> Option<BTreeSet<OsString>> {
    let entries = std::fs::read_dir(folder).ok()?;
    Some(entries.flatten().map(|entry| entry.file_name()).collect())
}

/// Restores a directory after a failed import. Files that cannot be removed are empty, and stay.
fn remove_new(folder: &Path, before: &Option<BTreeSet<OsString>>) {
    let Some(before) = before else {
        let _ = std::fs::remove_dir_all(folder);
        return;
    };
    for name in entries(folder).unwrap_or_default().difference(before) {
        let _ = std::fs::remove_file(folder.join(name));
    }
}

fn disk_failure(error: DiskError) -> Failure {
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
