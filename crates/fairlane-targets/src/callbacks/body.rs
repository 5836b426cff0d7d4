//! The body of a callback.
//!
//! Invariant: the body is bounded, since a summary is, and has the same bytes in every attempt.

use fairlane_core::queue::BulkView;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::event;
use crate::timestamps::rfc_3339;

#[derive(Serialize)]
struct Body {
    r#type: &'static str,
    timestamp: String,
    data: Data,
}

#[derive(Serialize)]
struct Data {
    group: String,
    id: String,
    state: &'static str,
    /// Why the bulk action failed.
    cause: Option<&'static str>,
    total: u64,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    created_at: String,
    finished_at: String,
    summary: Option<Box<RawValue>>,
}

/// The body of the callback of an ended bulk action.
pub(super) fn of(view: &BulkView) -> Vec<u8> {
    let finished_at = rfc_3339(view.finished_at.unwrap_or(view.created_at));
    let data = Data {
        group: view.bulk.group.to_string(),
        id: view.bulk.id.to_string(),
        state: view.state.name(),
        cause: view.cause.map(|cause| cause.as_str()),
        total: view.total,
        succeeded: view.succeeded,
        failed: view.failed,
        cancelled: view.cancelled,
        created_at: rfc_3339(view.created_at),
        finished_at: finished_at.clone(),
        summary: summary(&view.summary),
    };
    let body = Body { r#type: event(view.state), timestamp: finished_at, data };
    serde_json::to_vec(&body).expect("names, numbers and JSON are always JSON")
}

/// A summary as it is stored; as a string if it is not JSON, and null if there is none.
fn summary(bytes: &[u8]) -> Option<Box<RawValue>> {
    if bytes.is_empty() {
        return None;
    }
    serde_json::from_slice(bytes).or_else(|_| to_raw_value(&String::from_utf8_lossy(bytes))).ok()
}
