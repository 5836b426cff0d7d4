//! A bulk action as a row, a paragraph or JSON.

use fairlane::{BulkView, Micros, time_text};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::tables::thousands;

/// What programs get.
#[derive(Serialize)]
pub struct Shown {
    group: String,
    bulk: String,
    state: &'static str,
    /// What becomes of its jobs: run, hold or drop.
    course: &'static str,
    sealed: bool,
    total: u64,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    on_hold: u64,
    failures_max: Option<u64>,
    created_at: String,
    started_at: Option<String>,
    finished_at: Option<String>,
    deadline: Option<String>,
    /// Why it failed.
    cause: Option<&'static str>,
    /// What its aggregation gave.
    summary: Option<Box<RawValue>>,
}

impl Shown {
    /// The headings of its row.
    pub const HEADINGS: [&str; 6] = ["bulk action", "state", "done", "failed", "cancelled", "opened"];

    /// From what the queue says.
    pub fn new(view: &BulkView) -> Self {
        let time = |at: Micros| time_text(at.as_millis());
        Self {
            group: view.bulk.group.to_string(),
            bulk: view.bulk.id.to_string(),
            state: view.state.as_str(),
            course: view.course.as_str(),
            sealed: view.sealed,
            total: view.total,
            succeeded: view.succeeded,
            failed: view.failed,
            cancelled: view.cancelled,
            on_hold: view.on_hold,
            failures_max: view.failures_max,
            created_at: time(view.created_at),
            started_at: view.started_at.map(time),
            finished_at: view.finished_at.map(time),
            deadline: view.deadline.map(time),
            cause: view.cause.map(|cause| cause.as_str()),
            summary: serde_json::from_slice(&view.summary).ok(),
        }
    }

    /// One line of a list.
    pub fn row(&self) -> Vec<String> {
        vec![
            self.bulk.clone(),
            self.standing(),
            format!("{} of {}", thousands(self.succeeded), thousands(self.total)),
            thousands(self.failed),
            thousands(self.cancelled),
            self.created_at.clone(),
        ]
    }

    /// All there is to say, the counts first.
    pub fn paragraph(&self) -> String {
        let mut lines = vec![self.line(), String::new()];
        let mut fact = |about: &str, text: Option<String>| {
            lines.extend(text.map(|text| format!("  {about:8}  {text}")));
        };
        fact("on hold", (self.on_hold > 0).then(|| format!("{} jobs", thousands(self.on_hold))));
        let failures_max = |most| format!("fails when more than {} jobs have", thousands(most));
        fact("limit", self.failures_max.map(failures_max));
        fact("opened", Some(self.created_at.clone()));
        fact("started", self.started_at.clone());
        fact("deadline", self.deadline.clone());
        fact("finished", self.finished_at.clone());
        fact("summary", self.summary.as_ref().map(|summary| summary.get().to_owned()));
        lines.join("\n")
    }

    /// How it stands, in one line.
    pub fn line(&self) -> String {
        format!(
            "{}: {}, {} of {} jobs done, {} failed, {} cancelled",
            self.bulk,
            self.standing(),
            thousands(self.succeeded),
            thousands(self.total),
            thousands(self.failed),
            thousands(self.cancelled)
        )
    }

    fn standing(&self) -> String {
        let state = self.state;
        match (self.cause, self.course, self.sealed) {
            (Some(cause), _, _) => format!("{state} ({cause})"),
            (None, "hold", _) => format!("{state}, held"),
            (None, "run", false) => format!("{state}, open"),
            _ => state.to_owned(),
        }
    }
}
