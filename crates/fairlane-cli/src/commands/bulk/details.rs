//! A bulk action as a row, a paragraph or JSON.

use fairlane::{BulkPlan, BulkView, JobState, Micros, time_text};
use fairlane_worker::callback_id;
use serde::Serialize;
use serde_json::value::RawValue;

use super::summary;
use crate::tables::{counted, thousands};

/// A bulk action as it is printed.
#[derive(Serialize)]
pub struct BulkDetails {
    group: String,
    bulk: String,
    state: &'static str,
    /// What happens to its jobs: run, hold or drop.
    mode: &'static str,
    sealed: bool,
    total: u64,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    on_hold: u64,
    /// Jobs that have not ended.
    unfinished: u64,
    failures_max: Option<u64>,
    created_at: String,
    started_at: Option<String>,
    finished_at: Option<String>,
    deadline: Option<String>,
    /// Why the bulk action failed.
    cause: Option<&'static str>,
    /// The callback at its end.
    callback: Option<CallbackDetails>,
    /// The function that adds to its summary.
    fold: Option<String>,
    /// The result of its aggregation.
    summary: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct CallbackDetails {
    url: String,
    /// The id of the job that delivers the callback.
    job: String,
    /// The state of that job, if it exists; only `bulk show` reads it.
    state: Option<&'static str>,
}

impl BulkDetails {
    /// The headings of [`row`](Self::row).
    pub const HEADINGS: [&str; 6] = ["bulk action", "state", "done", "failed", "cancelled", "opened"];

    /// The details of a view.
    pub fn new(view: &BulkView) -> Self {
        let time = |at: Micros| time_text(at.as_millis());
        // The aggregation reports a plan that cannot be parsed.
        let plan = BulkPlan::from_bytes(&view.payload).unwrap_or_default();
        let job = callback_id(view);
        Self {
            group: view.bulk.group.to_string(),
            bulk: view.bulk.id.to_string(),
            state: view.state.as_str(),
            mode: view.mode.as_str(),
            sealed: view.sealed,
            total: view.total,
            succeeded: view.succeeded,
            failed: view.failed,
            cancelled: view.cancelled,
            on_hold: view.on_hold,
            unfinished: view.total - (view.succeeded + view.failed + view.cancelled).min(view.total),
            failures_max: view.failures_max,
            created_at: time(view.created_at),
            started_at: view.started_at.map(time),
            finished_at: view.finished_at.map(time),
            deadline: view.deadline.map(time),
            cause: view.cause.map(|cause| cause.as_str()),
            callback: plan.callback.map(|callback| CallbackDetails { url: callback.url, job, state: None }),
            fold: plan.fold,
            summary: serde_json::from_slice(&view.summary).ok(),
        }
    }

    /// Adds the state of the job that delivers the callback.
    pub fn with_callback(mut self, state: Option<JobState>) -> Self {
        if let Some(callback) = &mut self.callback {
            callback.state = state.map(JobState::as_str);
        }
        self
    }

    /// A row of a list.
    pub fn row(&self) -> Vec<String> {
        vec![
            self.bulk.clone(),
            self.status(),
            format!("{} of {}", thousands(self.succeeded), thousands(self.total)),
            thousands(self.failed),
            thousands(self.cancelled),
            self.created_at.clone(),
        ]
    }

    /// All details, the counts first.
    pub fn paragraph(&self) -> String {
        let mut lines = vec![self.line(), String::new()];
        let mut fact = |label: &str, text: Option<String>| {
            lines.extend(text.map(|text| format!("  {label:8}  {text}")));
        };
        fact("on hold", (self.on_hold > 0).then(|| counted(self.on_hold, "job")));
        let failures_max = |most| format!("fails when more than {} fail", counted(most, "job"));
        fact("limit", self.failures_max.map(failures_max));
        fact("opened", Some(self.created_at.clone()));
        fact("started", self.started_at.clone());
        fact("deadline", self.deadline.clone());
        fact("finished", self.finished_at.clone());
        fact("callback", self.callback.as_ref().map(|callback| self.callback_text(callback)));
        fact("fold", self.fold.clone());
        let to_drop =
            || format!("{} still to be dropped or stopped by workers", counted(self.unfinished, "job"));
        fact("to drop", (self.mode == "drop" && self.unfinished > 0).then(to_drop));
        fact("summary", self.summary.as_ref().map(|summary| summary::text(summary.get())));
        lines.join("\n")
    }

    fn callback_text(&self, callback: &CallbackDetails) -> String {
        let status = match (callback.state, &self.finished_at) {
            (Some(state), _) => format!("its job {} is {state}", callback.job),
            (None, None) => "called when the bulk action has ended".to_owned(),
            (None, Some(_)) => "its job does not exist yet, or is past its retention".to_owned(),
        };
        format!("{} ({status})", callback.url)
    }

    /// State and counts in one line.
    pub fn line(&self) -> String {
        format!(
            "{}: {}, {} of {} done, {} failed, {} cancelled",
            self.bulk,
            self.status(),
            thousands(self.succeeded),
            counted(self.total, "job"),
            thousands(self.failed),
            thousands(self.cancelled)
        )
    }

    fn status(&self) -> String {
        let state = self.state;
        match (self.cause, self.mode, self.sealed) {
            (Some(cause), _, _) => format!("{state} ({cause})"),
            (None, "hold", _) => format!("{state}, held"),
            (None, "run", false) => format!("{state}, open"),
            _ => state.to_owned(),
        }
    }
}
