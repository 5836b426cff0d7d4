//! A bulk action as a row, a paragraph or JSON.

use fairlane::{BulkPlan, BulkView, JobState, Micros, time_text};
use fairlane_worker::callback_id;
use serde::Serialize;
use serde_json::value::RawValue;

use super::summary;
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
    /// Jobs that have not ended.
    unfinished: u64,
    failures_max: Option<u64>,
    created_at: String,
    started_at: Option<String>,
    finished_at: Option<String>,
    deadline: Option<String>,
    /// Why it failed.
    cause: Option<&'static str>,
    /// Whom it tells.
    callback: Option<CallbackShown>,
    /// What adds to its summary.
    fold: Option<String>,
    /// What its aggregation gave.
    summary: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct CallbackShown {
    url: String,
    /// The job that delivers it.
    job: String,
    /// That of the job, if there is one: only `bulk show` looks.
    state: Option<&'static str>,
}

impl Shown {
    /// The headings of its row.
    pub const HEADINGS: [&str; 6] = ["bulk action", "state", "done", "failed", "cancelled", "opened"];

    /// From what the queue says.
    pub fn new(view: &BulkView) -> Self {
        let time = |at: Micros| time_text(at.as_millis());
        // A plan that cannot be read is the aggregation's to report.
        let plan = BulkPlan::from_bytes(&view.payload).unwrap_or_default();
        let job = callback_id(view);
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
            unfinished: view.total - (view.succeeded + view.failed + view.cancelled).min(view.total),
            failures_max: view.failures_max,
            created_at: time(view.created_at),
            started_at: view.started_at.map(time),
            finished_at: view.finished_at.map(time),
            deadline: view.deadline.map(time),
            cause: view.cause.map(|cause| cause.as_str()),
            callback: plan.callback.map(|callback| CallbackShown { url: callback.url, job, state: None }),
            fold: plan.fold,
            summary: serde_json::from_slice(&view.summary).ok(),
        }
    }

    /// With how the job of its callback stands.
    pub fn with_callback(mut self, state: Option<JobState>) -> Self {
        if let Some(callback) = &mut self.callback {
            callback.state = state.map(JobState::as_str);
        }
        self
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
        fact("callback", self.callback.as_ref().map(|callback| self.callback_text(callback)));
        fact("fold", self.fold.clone());
        let dropped = || {
            format!("{} jobs are still to be dropped or told; workers do this", thousands(self.unfinished))
        };
        fact("to drop", (self.course == "drop" && self.unfinished > 0).then(dropped));
        fact("summary", self.summary.as_ref().map(|summary| summary::text(summary.get())));
        lines.join("\n")
    }

    fn callback_text(&self, callback: &CallbackShown) -> String {
        let stands = match (callback.state, &self.finished_at) {
            (Some(state), _) => format!("its job {} is {state}", callback.job),
            (None, None) => "told when it has ended".to_owned(),
            (None, Some(_)) => "its job is not there yet, or past its retention".to_owned(),
        };
        format!("{} ({stands})", callback.url)
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
