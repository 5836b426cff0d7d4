//! The beginning of a load: the first line is read before the bulk action is opened, and a bulk action that was opened
//! before is not taken for another one.
//!
//! Invariant: what is refused here has added no job, and an input that cannot be used has opened nothing.

use std::time::Duration;

use fairlane::{Bulk, BulkPlan, BulkView, Error, FirstLine, Micros, duration_text};

use super::{Arguments, Reader};
use crate::failure::Failure;
use crate::output;
use crate::tables::thousands;

/// A load that can begin.
pub struct Begun {
    pub bulk: Bulk,
    /// Whether nobody can make room meanwhile: this command has the directory for itself.
    pub is_alone: bool,
    /// Jobs of other sources that its own are numbered behind.
    pub behind: u64,
}

/// Opens the bulk action, or finds it, with the reader at the first job to be loaded.
pub async fn begin(reader: &mut Reader, arguments: &Arguments) -> Result<Begun, Failure> {
    if arguments.skip > 0 && arguments.append == Some(None) {
        return Err(Failure::bad_input(
            "with --skip say also behind how many jobs the source began, as in --append=1000 --skip 200",
        ));
    }
    let first = reader.first().await.map_err(nothing_loaded)?;
    if first.is_none() && !arguments.no_seal && !arguments.allow_empty {
        return Err(Failure::bad_input(
            "there is no job in the source, and a bulk action that is sealed without jobs has ended; nothing was loaded, and \
             nothing opened or sealed. If it is to be empty, say --allow-empty",
        ));
    }
    let skipped = reader.skip(arguments.skip).await.map_err(nothing_loaded)?;
    if skipped < arguments.skip {
        return Err(Failure::bad_input(format!(
            "there are only {} lines with a job in the source, and --skip says {}; nothing was loaded",
            thousands(skipped),
            thousands(arguments.skip)
        )));
    }
    let (bulk, is_alone) = open_bulk(first.as_ref(), arguments).await?;
    let before = if bulk.is_new() { None } else { Some(bulk.view().await?) };
    if let Some(view) = &before {
        let plan = bulk.plan().await?;
        refuse_other_options(view, &plan, arguments)?;
        refuse_other_source(view, &plan, first.as_ref(), arguments)?;
    }
    let behind = match arguments.append {
        None => 0,
        Some(Some(behind)) => behind,
        Some(None) => before.map_or(0, |view| view.total),
    };
    Ok(Begun { bulk, is_alone, behind })
}

fn nothing_loaded(error: Error) -> Failure {
    let message = format!("{error}\nnothing was loaded, and nothing opened");
    match Failure::from(error) {
        Failure::BadInput(_) => Failure::BadInput(message),
        _ => Failure::Broken(message),
    }
}

/// With whether nobody else can use the queue meanwhile.
async fn open_bulk(first: Option<&FirstLine>, arguments: &Arguments) -> Result<(Bulk, bool), Failure> {
    let fairlane = arguments.place.attach_or_make().await?;
    if !arguments.place.json {
        fairlane.engine().warnings().iter().for_each(|warning| output::say(&format!("warning: {warning}")));
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
    Ok((bulk.open().await?, arguments.place.is_ours_alone(&fairlane)))
}

/// What a bulk action was opened with stays, and who says otherwise must not think it holds.
fn refuse_other_options(view: &BulkView, plan: &BulkPlan, arguments: &Arguments) -> Result<(), Failure> {
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
        "bulk action {} was opened with other options, which stay as they are: {}; leave these away, or name a new bulk \
         action. Nothing was loaded",
        view.bulk.id,
        others.join(", ")
    )))
}

/// Jobs without ids are known by their position, and so would be taken for those of the source loaded before.
fn refuse_other_source(
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
            "bulk action {} was loaded from another source: that one began with another line, and lines without ids are \
             known by their position. To add this source behind the {} jobs that are there, say --append; or give its \
             lines ids; or name a new bulk action. Nothing was loaded",
            view.bulk.id,
            thousands(view.total)
        ))),
        _ => Ok(()),
    }
}
