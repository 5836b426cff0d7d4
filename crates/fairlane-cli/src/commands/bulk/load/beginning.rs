//! The beginning of a load: reads the first line before it opens the bulk action, and checks that
//! an existing bulk action was loaded from the same source with the same options.
//!
//! Invariant: a load that is rejected here has added no job, and invalid input has opened nothing.

use std::time::Duration;

use fairlane::{Bulk, BulkPlan, BulkView, Error, FirstLine, Micros, duration_text};

use super::{Arguments, Reader, with_option_names};
use crate::failure::Failure;
use crate::output;
use crate::tables::{counted, thousands};

/// A load that has begun.
pub struct Begun {
    pub bulk: Bulk,
    /// Whether no other process can make room, because this command has the directory open.
    pub is_exclusive: bool,
    /// The number of jobs of other sources, which precede those of this source.
    pub behind: u64,
}

/// Opens the bulk action, or finds it, and advances the reader to the first job to load.
pub async fn begin(reader: &mut Reader, arguments: &Arguments) -> Result<Begun, Failure> {
    if arguments.skip > 0 && arguments.append == Some(None) {
        return Err(Failure::bad_input(
            "--append with --skip needs the number of jobs before the source, as in --append=1000 --skip 200",
        ));
    }
    let first = reader.first().await.map_err(nothing_loaded)?;
    if first.is_none() && !arguments.no_seal && !arguments.allow_empty {
        return Err(Failure::bad_input(
            "the source has no jobs, and sealing an empty bulk action ends it; nothing was loaded, opened or sealed. Use \
             --allow-empty if the bulk action should be empty",
        ));
    }
    let skipped = reader.skip(arguments.skip).await.map_err(nothing_loaded)?;
    if skipped < arguments.skip {
        return Err(Failure::bad_input(format!(
            "the source has only {}, and --skip is {}; nothing was loaded",
            counted(skipped, "job"),
            thousands(arguments.skip)
        )));
    }
    let (bulk, is_exclusive) = open_bulk(first.as_ref(), arguments).await?;
    let before = if bulk.is_new() { None } else { Some(bulk.view().await?) };
    if let Some(view) = &before {
        let plan = bulk.plan().await?;
        reject_other_options(view, &plan, arguments)?;
        reject_other_source(view, &plan, first.as_ref(), arguments)?;
    }
    let behind = match arguments.append {
        None => 0,
        Some(Some(behind)) => behind,
        Some(None) => before.map_or(0, |view| view.total),
    };
    Ok(Begun { bulk, is_exclusive, behind })
}

/// The failure of a source that is rejected before anything is opened.
pub fn nothing_loaded(error: Error) -> Failure {
    let error = with_option_names(error);
    let message = format!("{error}\nnothing was loaded or opened");
    match Failure::from(error) {
        Failure::BadInput(_) => Failure::BadInput(message),
        _ => Failure::Broken(message),
    }
}

/// Opens the bulk action; also returns whether this command has exclusive use of the queue.
async fn open_bulk(first: Option<&FirstLine>, arguments: &Arguments) -> Result<(Bulk, bool), Failure> {
    let fairlane = arguments.target.attach_or_make().await?;
    if !arguments.target.json {
        for warning in fairlane.engine().info().warnings {
            output::print_message(&format!("warning: {warning}"));
        }
    }
    let mut bulk = fairlane.bulk(&arguments.group, &arguments.bulk);
    if let Some(deadline) = arguments.deadline {
        bulk = bulk.deadline(deadline);
    }
    if let Some(failures_max) = arguments.failures_max {
        bulk = bulk.failures_max(failures_max);
    }
    if let Some(callback) = &arguments.callback {
        bulk = bulk.callback(callback);
    }
    if let Some(first) = first.filter(|first| !first.has_id) {
        bulk = bulk.source(&first.fingerprint);
    }
    Ok((bulk.open().await?, arguments.target.is_exclusive(&fairlane)))
}

/// Rejects options that differ from those the bulk action was opened with, because they would have
/// no effect.
fn reject_other_options(view: &BulkView, plan: &BulkPlan, arguments: &Arguments) -> Result<(), Failure> {
    let none = || "none".to_owned();
    let mut others = Vec::new();
    if let Some(wanted) = &arguments.callback {
        let has = plan.callback.as_ref().map_or_else(none, |callback| callback.url.clone());
        others.extend((*wanted != has).then(|| format!("--callback {wanted} (it has {has})")));
    }
    if let Some(wanted) = arguments.deadline {
        let length = |deadline: Micros| Duration::from_micros(deadline.since(view.created_at));
        let has = view.deadline.map(length);
        let text = has.map_or_else(none, duration_text);
        let other = has.map(|has| has.as_millis()) != Some(wanted.as_millis());
        others.extend(other.then(|| format!("--deadline {} (it has {text})", duration_text(wanted))));
    }
    if let Some(wanted) = arguments.failures_max {
        let has = view.failures_max.map_or_else(none, |most| most.to_string());
        let other = view.failures_max != Some(wanted);
        others.extend(other.then(|| format!("--failures-max {wanted} (it has {has})")));
    }
    if others.is_empty() {
        return Ok(());
    }
    Err(Failure::bad_input(format!(
        "bulk action {} was opened with other options, which cannot be changed: {}; omit these options, or use a new \
         bulk action. Nothing was loaded",
        view.bulk.id,
        others.join(", ")
    )))
}

/// Rejects another source without ids: its jobs are identified by their position, and would be
/// mistaken for those of the source that was loaded before.
fn reject_other_source(
    view: &BulkView,
    plan: &BulkPlan,
    first: Option<&FirstLine>,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let is_other = |first: &FirstLine| {
        !first.has_id && plan.source.as_ref().is_some_and(|source| *source != first.fingerprint)
    };
    let is_closed = view.sealed || view.state.is_final();
    match first {
        Some(_) if is_closed && arguments.append == Some(None) => Err(super::ending::closed(view, 0)),
        Some(first) if arguments.append.is_none() && is_other(first) && is_closed => {
            Err(super::ending::closed(view, 0))
        }
        Some(first) if arguments.append.is_none() && is_other(first) => Err(Failure::bad_input(format!(
            "bulk action {} was loaded from another source: its first line differs, and lines without ids are identified \
             by their position. Use --append to add this source behind the {}; or give its lines ids; or use a new bulk \
             action. Nothing was loaded",
            view.bulk.id,
            counted(view.total, "existing job")
        ))),
        _ => Ok(()),
    }
}
