//! `fairlane data discard`: removes jobs from a directory without starting its queue.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use fairlane::{GroupId, parse_duration};
use fairlane_core::Micros;
use fairlane_engine::embedded::disk::{Disk, SelectedJobs, Selection, StoredState};
use serde::Serialize;

use super::disk_failure;
use crate::failure::Failure;
use crate::output;
use crate::tables::{self, counted, thousands};

/// The jobs to remove, and the confirmation.
#[derive(Args)]
pub struct Arguments {
    /// Data directory
    directory: PathBuf,
    /// State of the jobs: completed, dead, cancelled, waiting (not due yet) or pending; may be
    /// repeated
    #[arg(long = "state", value_name = "STATE", required = true, value_delimiter = ',', value_parser = state)]
    states: Vec<StoredState>,
    /// Only jobs of this group
    #[arg(long)]
    group: Option<GroupId>,
    /// Only jobs enqueued longer ago than this, such as 7d
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    older_than: Option<Duration>,
    /// Count the jobs, but remove none
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Confirm the removal, which cannot be undone
    #[arg(long)]
    yes: bool,
    /// Print one JSON object and nothing else
    #[arg(long)]
    json: bool,
}

/// The JSON form of the result.
#[derive(Serialize)]
struct DiscardSummary {
    /// False after a dry run.
    discarded: bool,
    jobs: u64,
    bytes: u64,
    states: Vec<StateCount>,
}

#[derive(Serialize)]
struct StateCount {
    state: &'static str,
    jobs: u64,
    bytes: u64,
}

/// Counts the selected jobs, and removes them with `--yes`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut disk = Disk::open_existing(&arguments.directory).map_err(disk_failure)?;
    let now = now();
    let older_us =
        |age: Duration| Micros(now.0.saturating_sub(age.as_micros().try_into().unwrap_or(u64::MAX)));
    let selection = Selection {
        states: arguments.states.clone(),
        group: arguments.group.clone(),
        enqueued_before: arguments.older_than.map(older_us),
    };
    if arguments.dry_run {
        let selected = disk.selected(&selection).map_err(disk_failure)?;
        return print(arguments, &selected, false);
    }
    if !arguments.yes {
        let jobs = counts(&disk.selected(&selection).map_err(disk_failure)?);
        return Err(Failure::bad_input(format!(
            "this would discard {jobs} permanently; confirm with --yes, or use --dry-run to count them by state"
        )));
    }
    let selected = disk.discard(&selection, now).map_err(disk_failure)?;
    print(arguments, &selected, true)
}

fn print(arguments: &Arguments, selected: &[SelectedJobs], discarded: bool) -> Result<(), Failure> {
    if arguments.json {
        let state =
            |one: &SelectedJobs| StateCount { state: one.state.as_str(), jobs: one.jobs, bytes: one.bytes };
        let (jobs, bytes) = totals(selected);
        return output::print_json(&DiscardSummary {
            discarded,
            jobs,
            bytes,
            states: selected.iter().map(state).collect(),
        });
    }
    let row = |one: &SelectedJobs| {
        vec![one.state.as_str().to_owned(), thousands(one.jobs), tables::bytes(one.bytes)]
    };
    let mut lines = Vec::new();
    if !selected.is_empty() {
        lines.push(tables::texts(&["state", "jobs", "stored"], selected.iter().map(row)));
    }
    let directory = arguments.directory.display();
    lines.push(match discarded {
        true => format!("{directory}: {} discarded", counts(selected)),
        false => format!("{directory}: {} would be discarded; confirm with --yes", counts(selected)),
    });
    output::print(&lines.join("\n"))
}

/// `1,234 jobs with 5.6 MiB`.
fn counts(selected: &[SelectedJobs]) -> String {
    let (jobs, bytes) = totals(selected);
    format!("{} with {}", counted(jobs, "job"), tables::bytes(bytes))
}

fn totals(selected: &[SelectedJobs]) -> (u64, u64) {
    (selected.iter().map(|one| one.jobs).sum(), selected.iter().map(|one| one.bytes).sum())
}

fn state(word: &str) -> Result<StoredState, String> {
    let known = StoredState::ALL.into_iter().find(|state| state.as_str() == word);
    known.ok_or_else(|| {
        let words = StoredState::ALL.map(StoredState::as_str).join(", ");
        format!("must be one of {words}; a running job is not discarded")
    })
}

fn now() -> Micros {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Micros(since.map_or(0, |since| since.as_micros() as u64))
}
