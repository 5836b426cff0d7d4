//! A bulk action as a row, a line or a paragraph.

use fairlane::views::{BulkCallbackView, BulkView};

use super::summary;
use crate::tables::{counted, thousands};

/// The headings of [`row`].
pub const HEADINGS: [&str; 6] = ["bulk action", "state", "done", "failed", "cancelled", "opened"];
/// The headings that a narrow list drops.
pub const OPTIONAL: [&str; 3] = ["opened", "cancelled", "failed"];

/// A row of a list.
pub fn row(bulk: &BulkView) -> Vec<String> {
    vec![
        bulk.id.clone(),
        status(bulk),
        format!("{} of {}", thousands(bulk.succeeded), thousands(bulk.total)),
        thousands(bulk.failed),
        thousands(bulk.cancelled),
        bulk.created_at.to_string(),
    ]
}

/// All details, the counts first; `callback` is the state of the job that delivers the callback.
pub fn paragraph(bulk: &BulkView, callback: Option<&str>) -> String {
    let mut lines = vec![line(bulk), String::new()];
    let mut fact = |label: &str, text: Option<String>| {
        lines.extend(text.map(|text| format!("  {label:8}  {text}")));
    };
    fact("on hold", (bulk.on_hold > 0).then(|| counted(bulk.on_hold, "job")));
    let failures_max = |most| format!("fails when more than {} fail", counted(most, "job"));
    fact("limit", bulk.failures_max.map(failures_max));
    fact("opened", Some(bulk.created_at.to_string()));
    fact("started", bulk.started_at.map(|at| at.to_string()));
    fact("deadline", bulk.deadline.map(|at| at.to_string()));
    fact("finished", bulk.finished_at.map(|at| at.to_string()));
    fact("callback", bulk.callback.as_ref().map(|of| callback_text(bulk, of, callback)));
    fact("fold", bulk.fold.clone());
    let to_drop = || format!("{} still to be dropped or stopped by workers", counted(bulk.unfinished, "job"));
    fact("to drop", (bulk.mode == "drop" && bulk.unfinished > 0).then(to_drop));
    fact("summary", bulk.summary.as_ref().map(|summary| summary::text(summary.get())));
    lines.join("\n")
}

fn callback_text(bulk: &BulkView, callback: &BulkCallbackView, state: Option<&str>) -> String {
    let status = match (state, bulk.finished_at) {
        (Some(state), _) => format!("its job {} is {state}", callback.job),
        (None, None) => "called when the bulk action has ended".to_owned(),
        (None, Some(_)) => "its job does not exist yet, or is past its retention".to_owned(),
    };
    format!("{} ({status})", callback.url)
}

/// State and counts in one line.
pub fn line(bulk: &BulkView) -> String {
    format!(
        "{}: {}, {} of {} done, {} failed, {} cancelled",
        bulk.id,
        status(bulk),
        thousands(bulk.succeeded),
        counted(bulk.total, "job"),
        thousands(bulk.failed),
        thousands(bulk.cancelled)
    )
}

/// The state, and why it failed or whether it is held or open.
pub fn status(bulk: &BulkView) -> String {
    let state = bulk.state;
    match (bulk.cause, bulk.mode, bulk.sealed) {
        (Some(cause), _, _) => format!("{state} ({cause})"),
        (None, "hold", _) => format!("{state}, held"),
        (None, "run", false) => format!("{state}, open"),
        _ => state.to_owned(),
    }
}
