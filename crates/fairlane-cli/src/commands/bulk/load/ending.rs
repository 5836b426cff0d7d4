//! What is said when a load ends before its end: what ended it, how far it came, and how to go on, if one can.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use fairlane::{BulkView, Error, Refusal};

use super::{Arguments, Begun, open_source, reader};
use crate::failure::Failure;
use crate::tables::thousands;

/// Ids that stand twice in the source and are named.
const TWICE_NAMED: usize = 3;
/// Ids that are looked through for some that stand twice, so that memory stays bounded.
const IDS_COMPARED: usize = 1_000_000;

/// How a load can end before its end.
pub enum Halt {
    Stopped,
    Failed(Error),
}

/// The way it ends.
pub async fn halted(halt: Halt, jobs: u64, begun: &Begun, arguments: &Arguments) -> Failure {
    let loaded = jobs - begun.behind;
    let error = match halt {
        Halt::Stopped => {
            let on = way_on(loaded, true, begun, arguments);
            let open = || format!("{}; {on}", there(loaded, arguments));
            return Failure::Stopped(takes_no_more(begun).await.unwrap_or_else(open));
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
        Error::GaveUp { reason, .. } if begun.is_alone => {
            let (place, on) = (&arguments.place, way_on(loaded, true, begun, arguments));
            return Failure::broken(format!(
                "{reason}\nnobody serves {}, so nobody can make room while this waits; {}\n{}; then {on}",
                place.address(),
                place.serve_it(),
                there(loaded, arguments)
            ));
        }
        Error::Mismatch { total, .. } => return mismatch(&error, *total, begun, arguments).await,
        Error::SealedWithOthers { .. } => return Failure::bad_input(error.to_string()),
        Error::OtherSource { .. } => {
            let open = || format!("bulk action {} stays open", arguments.bulk);
            let stays = takes_no_more(begun).await.unwrap_or_else(open);
            return Failure::bad_input(format!("{error}\n{stays}"));
        }
        _ => {}
    }
    // A job that was not taken leaves a gap, and what is behind it is not a beginning to skip.
    let is_beginning =
        !matches!(error, Error::Conflict { .. } | Error::Differs { .. } | Error::Refused { .. });
    let on = way_on(loaded, is_beginning, begun, arguments);
    let twice = match error {
        Error::Differs { .. } => twice_named(begun, arguments).await,
        _ => String::new(),
    };
    let open = || format!("{}; mend this, and {on}", there(loaded, arguments));
    let message = format!("{error}\n{twice}{}", takes_no_more(begun).await.unwrap_or_else(open));
    match Failure::from(error) {
        Failure::BadInput(_) => Failure::BadInput(message),
        _ => Failure::Broken(message),
    }
}

fn there(loaded: u64, arguments: &Arguments) -> String {
    let bulk = &arguments.bulk;
    format!("{} jobs of the source are in bulk action {bulk}, which stays open", thousands(loaded))
}

fn way_on(loaded: u64, is_beginning: bool, begun: &Begun, arguments: &Arguments) -> String {
    let mut options = Vec::new();
    // Without the number, the jobs that are there by now would be numbered over once more.
    options.extend(arguments.append.map(|_| format!("--append={}", begun.behind)));
    if is_beginning && loaded > 0 && arguments.file != Path::new("-") {
        options.push(format!("--skip {loaded}"));
    }
    let with = match &options[..] {
        [] => String::new(),
        options => format!(", with {}", options.join(" ")),
    };
    format!("run the same command again to go on{with}: nothing is added twice")
}

/// What is said of one that cannot be gone on with, whatever is mended.
async fn takes_no_more(begun: &Begun) -> Option<String> {
    let view = begun.bulk.view().await.ok().filter(|view| view.sealed || view.state.is_final())?;
    Some(format!(
        "bulk action {} is {} and takes no more jobs than the {} it has; name a new bulk action for others",
        view.bulk.id,
        end_of(&view),
        thousands(view.total)
    ))
}

fn end_of(view: &BulkView) -> &'static str {
    if view.state.is_final() { view.state.as_str() } else { "sealed" }
}

/// No more jobs can be added, whatever is done.
pub fn closed(view: &BulkView, loaded: u64) -> Failure {
    Failure::bad_input(format!(
        "bulk action {} is {}: it takes no more jobs. {} jobs of the source are in it; name a new bulk action for others",
        view.bulk.id,
        end_of(view),
        thousands(loaded)
    ))
}

fn gone(arguments: &Arguments) -> Failure {
    Failure::bad_input(format!(
        "bulk action {} is gone: it ended meanwhile and is past its retention, or the queue was emptied; the same command \
         begins a new one",
        arguments.bulk
    ))
}

/// It has another number of jobs than the source.
async fn mismatch(error: &Error, total: u64, begun: &Begun, arguments: &Arguments) -> Failure {
    let twice = twice_named(begun, arguments).await;
    let expected = total.to_string();
    let seal = ["bulk", "seal", &arguments.group, &arguments.bulk, "--expected", &expected];
    let seal = arguments.place.command(&seal);
    if twice.is_empty() {
        return Failure::bad_input(format!("{error}:\n  {seal}"));
    }
    Failure::bad_input(format!(
        "bulk action {} has {} jobs and stays open: the second one adds nothing where\n{twice}\
         give these lines other ids and run the same command again, or seal it as it is:\n  {seal}",
        arguments.bulk,
        thousands(total),
    ))
}

/// Ids that stand twice in the source with their lines, if there are some and it can be read once more.
async fn twice_named(begun: &Begun, arguments: &Arguments) -> String {
    let twice = match arguments.file.is_file() {
        true => ids_twice(begun.behind, arguments).await.unwrap_or_default(),
        false => Vec::new(),
    };
    let lines: String =
        twice.iter().map(|(id, first, again)| format!("  {id}: lines {first} and {again}\n")).collect();
    if lines.is_empty() { lines } else { format!("ids stand twice in the source:\n{lines}") }
}

/// The first ids that stand twice, with both lines.
async fn ids_twice(behind: u64, arguments: &Arguments) -> Result<Vec<(String, u64, u64)>, Failure> {
    let (source, _) = open_source(&arguments.file).await?;
    let (mut reader, mut position) = (reader(source, arguments), behind);
    let (mut lines, mut twice) = (HashMap::<u64, u64>::new(), Vec::new());
    let hasher = RandomState::new();
    while let Some(job) = reader.next().await? {
        position += 1;
        let id = job.given_id().map_or_else(|| format!("{}-{position}", arguments.bulk), str::to_owned);
        if let Some(first) = lines.insert(hasher.hash_one(&id), reader.line()) {
            twice.push((id, first, reader.line()));
        }
        if twice.len() == TWICE_NAMED || lines.len() == IDS_COMPARED {
            break;
        }
    }
    Ok(twice)
}
