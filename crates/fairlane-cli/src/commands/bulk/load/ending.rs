//! The message of a load that fails or is interrupted: the cause, the progress, and how to
//! continue.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use fairlane::{BulkView, Error, Refusal};

use super::{Arguments, Begun, open_source, reader};
use crate::failure::Failure;
use crate::tables::counted;

/// Duplicate ids that a message names at most.
const DUPLICATES_NAMED_MAX: usize = 3;
/// Ids that are compared to find duplicates; bounds the memory.
const IDS_COMPARED_MAX: usize = 1_000_000;

/// Why a load did not finish.
pub enum Halt {
    /// The user pressed Ctrl-C.
    Stopped,
    /// An error occurred.
    Failed(Error),
}

/// The failure to report.
pub async fn halted(halt: Halt, jobs: u64, begun: &Begun, arguments: &Arguments) -> Failure {
    let loaded = jobs - begun.behind;
    let error = match halt {
        Halt::Stopped => {
            let how = how_to_continue(loaded, true, begun, arguments);
            let open = || format!("{}; {how}", progress(loaded, arguments));
            return Failure::Stopped(no_more_jobs(begun).await.unwrap_or_else(open));
        }
        Halt::Failed(error) => error,
    };
    match &error {
        Error::Refused { refusal: Refusal::BulkSealed | Refusal::BulkUnknown, .. } | Error::NoSuchBulk(_) => {
            match begun.bulk.view().await {
                Ok(view) => return closed(&view, loaded),
                Err(Error::NoSuchBulk(_)) => return gone(arguments),
                Err(_) => {}
            }
        }
        Error::GaveUp { reason, .. } if begun.is_exclusive => {
            let (target, how) = (&arguments.target, how_to_continue(loaded, true, begun, arguments));
            return Failure::broken(format!(
                "{reason}\n{} has no server, so no worker can make room while this command waits; {}\n{}; then {how}",
                target.address(),
                target.serve_hint(),
                progress(loaded, arguments)
            ));
        }
        Error::Mismatch { total, .. } => return mismatch(&error, *total, begun, arguments).await,
        Error::SealedWithOthers { .. } => return Failure::bad_input(error.to_string()),
        Error::OtherSource { .. } => {
            let open = || format!("bulk action {} stays open", arguments.bulk);
            let stays = no_more_jobs(begun).await.unwrap_or_else(open);
            return Failure::bad_input(format!("{error}\n{stays}"));
        }
        _ => {}
    }
    // A rejected job leaves a gap, so the loaded jobs are not a prefix that --skip could skip.
    let is_prefix = !matches!(error, Error::Conflict { .. } | Error::Differs { .. } | Error::Refused { .. });
    let how = how_to_continue(loaded, is_prefix, begun, arguments);
    let duplicates = match error {
        Error::Differs { .. } => duplicates_text(begun, arguments).await,
        _ => String::new(),
    };
    let open = || format!("{}; correct this, and {how}", progress(loaded, arguments));
    let message = format!("{error}\n{duplicates}{}", no_more_jobs(begun).await.unwrap_or_else(open));
    match Failure::from(error) {
        Failure::BadInput(_) => Failure::BadInput(message),
        _ => Failure::Broken(message),
    }
}

fn progress(loaded: u64, arguments: &Arguments) -> String {
    format!("loaded {} into bulk action {}, which stays open", counted(loaded, "job"), arguments.bulk)
}

fn how_to_continue(loaded: u64, is_prefix: bool, begun: &Begun, arguments: &Arguments) -> String {
    let mut options = Vec::new();
    // Without the number, the jobs loaded by now would count as jobs of another source.
    options.extend(arguments.append.map(|_| format!("--append={}", begun.behind)));
    if is_prefix && loaded > 0 && arguments.file != Path::new("-") {
        options.push(format!("--skip {loaded}"));
    }
    let with = match &options[..] {
        [] => String::new(),
        options => format!(", with {}", options.join(" ")),
    };
    format!("run the same command again to continue{with}: nothing is added twice")
}

/// A message if the bulk action is closed, so that correcting the source would not help.
async fn no_more_jobs(begun: &Begun) -> Option<String> {
    let view = begun.bulk.view().await.ok().filter(|view| view.sealed || view.state.is_final())?;
    Some(format!(
        "bulk action {} is {}, has {} and accepts no more; use a new bulk action for other jobs",
        view.bulk.id,
        end_of(&view),
        counted(view.total, "job")
    ))
}

fn end_of(view: &BulkView) -> &'static str {
    if view.state.is_final() { view.state.name() } else { "sealed" }
}

/// The failure for a bulk action that accepts no more jobs.
pub fn closed(view: &BulkView, loaded: u64) -> Failure {
    Failure::bad_input(format!(
        "bulk action {} is {} and accepts no more jobs; it contains {} of this source. Use a new bulk action for other jobs",
        view.bulk.id,
        end_of(view),
        counted(loaded, "job")
    ))
}

fn gone(arguments: &Arguments) -> Failure {
    Failure::bad_input(format!(
        "bulk action {} is gone: it has ended and is past its retention, or the queue was emptied; the same command \
         opens a new one",
        arguments.bulk
    ))
}

/// The failure if the bulk action and the source have different numbers of jobs.
async fn mismatch(error: &Error, total: u64, begun: &Begun, arguments: &Arguments) -> Failure {
    let duplicates = duplicates_text(begun, arguments).await;
    let expected = total.to_string();
    let seal = ["bulk", "seal", &arguments.group, &arguments.bulk, "--expected", &expected];
    let seal = arguments.target.shell_command(&seal);
    if duplicates.is_empty() {
        return Failure::bad_input(format!("{error}:\n  {seal}"));
    }
    Failure::bad_input(format!(
        "bulk action {} has {} and stays open: a duplicate id adds no job\n{duplicates}\
         give these lines other ids and run the same command again, or seal the bulk action without them:\n  {seal}",
        arguments.bulk,
        counted(total, "job"),
    ))
}

/// The duplicate ids of the source with their lines, if it can be read again.
async fn duplicates_text(begun: &Begun, arguments: &Arguments) -> String {
    let duplicates = match arguments.file.is_file() {
        true => duplicate_ids(begun.behind, arguments).await.unwrap_or_default(),
        false => Vec::new(),
    };
    let lines: String =
        duplicates.iter().map(|(id, first, again)| format!("  {id}: lines {first} and {again}\n")).collect();
    if lines.is_empty() { lines } else { format!("duplicate ids in the source:\n{lines}") }
}

/// The first duplicate ids, each with both lines.
async fn duplicate_ids(behind: u64, arguments: &Arguments) -> Result<Vec<(String, u64, u64)>, Failure> {
    let (source, _) = open_source(&arguments.file).await?;
    let (mut reader, mut position) = (reader(source, arguments), behind);
    let (mut lines, mut duplicates) = (HashMap::<u64, u64>::new(), Vec::new());
    let hasher = RandomState::new();
    while let Some(job) = reader.next().await? {
        position += 1;
        let id = job.given_id().map_or_else(|| format!("{}-{position}", arguments.bulk), str::to_owned);
        if let Some(first) = lines.insert(hasher.hash_one(&id), reader.line()) {
            duplicates.push((id, first, reader.line()));
        }
        if duplicates.len() == DUPLICATES_NAMED_MAX || lines.len() == IDS_COMPARED_MAX {
            break;
        }
    }
    Ok(duplicates)
}
