//! `fairlane job`: shows, cancels or requeues one job.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, Subcommand};
use fairlane::{
    Cancellation, GroupId, InvalidName, JobId, JobRef, JobState, JobView, Micros, Problem, time_text,
};
use fairlane_core::WorkerId;
use fairlane_core::queue::{RequeueDead, Requeued};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::tables::counted;
use crate::target::QueueTarget;

const EXAMPLES: &str = "\
Examples:
  fairlane job show customer-7 invoice-4711
  fairlane job show customer-7 invoice-4711 --json
  fairlane job cancel customer-7 invoice-4711
  fairlane job requeue customer-7 invoice-4711

fairlane why explains why a job is not running. fairlane dead requeue requeues many dead jobs.
Exit codes: 0 success; 1 failure, or no room to requeue the job; 2 unknown job, a job that has \
ended and cannot be cancelled, a job that is not dead and cannot be requeued, or bad input.";

/// Shows, cancels or requeues one job
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Shows a job with its payload and result
    #[command(after_help = "Example:\n  fairlane job show customer-7 invoice-4711")]
    Show(JobSelector),
    /// Cancels a job: a waiting job will not run, a running job is asked to stop
    #[command(after_help = "Example:\n  fairlane job cancel customer-7 invoice-4711")]
    Cancel(JobSelector),
    /// Requeues a dead job with its full number of attempts
    #[command(after_help = "Example:\n  fairlane job requeue customer-7 invoice-4711")]
    Requeue(JobSelector),
}

/// The arguments that select a job.
#[derive(Args)]
struct JobSelector {
    /// Group of the job
    group: String,
    /// Id of the job
    job: String,
    #[command(flatten)]
    target: QueueTarget,
}

/// A job as it is printed.
#[derive(Serialize)]
struct JobDetails {
    group: String,
    job: String,
    r#type: String,
    state: &'static str,
    level: &'static str,
    cost: u64,
    attempts: u32,
    throttles: u32,
    losses: u32,
    bulk: Option<String>,
    trace: Option<String>,
    worker: Option<String>,
    created_at: String,
    /// When the job is due, or when its lease expires.
    until: Option<String>,
    settled_at: Option<String>,
    payload: Content,
    result: Option<Content>,
    error: Option<Problem>,
}

/// A payload or result: as JSON or text if possible, else in base64.
#[derive(Serialize)]
#[serde(untagged)]
enum Content {
    Json(Box<RawValue>),
    Text(String),
    Base64 { base64: String },
}

#[derive(Serialize)]
struct CancelledJob {
    group: String,
    job: String,
    /// Whether the job is running and was only asked to stop.
    is_running: bool,
}

#[derive(Serialize)]
struct RequeuedJob {
    group: String,
    job: String,
    requeued: bool,
}

/// Runs the subcommand.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Show(selector) => show(selector).await,
        Action::Cancel(selector) => cancel(selector).await,
        Action::Requeue(selector) => requeue(selector).await,
    }
}

async fn show(selector: JobSelector) -> Result<(), Failure> {
    let job = selector.target.attach().await?.job(&selector.group, &selector.job);
    let view = job.view().await?.ok_or_else(|| selector.unknown())?;
    let details = JobDetails::new(&view);
    selector.target.print(&details, || details.text())
}

async fn cancel(selector: JobSelector) -> Result<(), Failure> {
    let job = selector.target.attach().await?.job(&selector.group, &selector.job);
    let is_running = match job.cancel().await? {
        Cancellation::Cancelled => false,
        Cancellation::Requested => true,
        Cancellation::Ended => {
            return Err(Failure::bad_input(format!(
                "job {} has ended; there is nothing to cancel",
                selector.job
            )));
        }
        Cancellation::Unknown => return Err(selector.unknown()),
    };
    let cancelled = CancelledJob { group: selector.group, job: selector.job, is_running };
    selector.target.print(&cancelled, || {
        let effect = if is_running {
            "is running; it is asked to stop and will not be retried"
        } else {
            "will not run"
        };
        format!("{} of {} {effect}", cancelled.job, cancelled.group)
    })
}

async fn requeue(selector: JobSelector) -> Result<(), Failure> {
    let job = selector.job_ref()?;
    let fairlane = selector.target.attach().await?;
    let reply = fairlane.engine().call(RequeueDead { jobs: vec![job] }).await?;
    match reply.jobs.first() {
        Some(Requeued::Requeued) => {}
        Some(Requeued::Full) => {
            return Err(Failure::broken(format!(
                "there is no room for {}, which stays dead; try again when fewer jobs are waiting",
                selector.job
            )));
        }
        Some(Requeued::NotDead) => {
            return Err(Failure::bad_input(format!(
                "job {} is not dead, so there is nothing to requeue; run fairlane job show to see its state",
                selector.job
            )));
        }
        Some(Requeued::Unknown) | None => return Err(selector.unknown()),
    }
    let requeued = RequeuedJob { group: selector.group, job: selector.job, requeued: true };
    selector.target.print(&requeued, || format!("{} of {} is requeued", requeued.job, requeued.group))
}

impl JobSelector {
    fn job_ref(&self) -> Result<JobRef, Failure> {
        let bad = |error: InvalidName| Failure::bad_input(error.to_string());
        Ok(JobRef { group: GroupId::new(&self.group).map_err(bad)?, id: JobId::new(&self.job).map_err(bad)? })
    }

    fn unknown(&self) -> Failure {
        Failure::bad_input(format!(
            "{} has no job {}; it was never enqueued, or it ended and is past its retention",
            self.group, self.job
        ))
    }
}

impl JobDetails {
    fn new(view: &JobView) -> Self {
        let time = |at: Micros| time_text(at.as_millis());
        let has_note = !view.note.is_empty();
        let is_done = view.state == JobState::Completed;
        Self {
            group: view.job.group.to_string(),
            job: view.job.id.to_string(),
            r#type: view.type_id.to_string(),
            state: view.state.as_str(),
            level: view.level.as_str(),
            cost: view.cost.get(),
            attempts: view.attempts,
            throttles: view.throttles,
            losses: view.losses,
            bulk: view.bulk.as_ref().map(ToString::to_string),
            trace: view.trace.as_ref().map(ToString::to_string),
            worker: view.worker.as_ref().map(WorkerId::given_name),
            created_at: time(view.created_at),
            until: view.until.map(time),
            settled_at: view.settled_at.map(time),
            payload: Content::new(&view.payload),
            result: (is_done && has_note).then(|| Content::new(&view.note)),
            error: (!is_done && has_note).then(|| Problem::from_bytes(&view.note)),
        }
    }

    fn text(&self) -> String {
        let counts = format!(
            "{}, {} throttled, {} lost",
            counted(self.attempts.into(), "attempt"),
            counted(self.throttles.into(), "time"),
            counted(self.losses.into(), "lease"),
        );
        let until = if self.state == "PROCESSING" { "lease end" } else { "due" };
        let problem = self.error.as_ref().map(ToString::to_string);
        let facts = [
            ("type", Some(format!("{}, level {}, cost {}", self.r#type, self.level, self.cost))),
            ("bulk", self.bulk.clone()),
            ("trace", self.trace.clone()),
            ("enqueued", Some(self.created_at.clone())),
            (until, self.until.clone()),
            ("settled", self.settled_at.clone()),
            ("worker", self.worker.clone()),
            ("payload", Some(self.payload.text())),
            ("result", self.result.as_ref().map(Content::text)),
            ("problem", problem),
        ];
        let mut lines =
            vec![format!("{} of {}: {}, {counts}", self.job, self.group, self.state), String::new()];
        let known = facts.into_iter().filter_map(|(label, text)| Some((label, text?)));
        // Indents the lines of a payload, so that none can look like another fact.
        let hanging = format!("\n{:13}", "");
        lines.extend(known.map(|(label, text)| format!("  {label:9}  {}", text.replace('\n', &hanging))));
        lines.join("\n")
    }
}

impl Content {
    fn new(bytes: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Self::Base64 { base64: BASE64.encode(bytes) };
        };
        RawValue::from_string(text.to_owned()).map_or_else(|_| Self::Text(text.to_owned()), Self::Json)
    }

    fn text(&self) -> String {
        match self {
            Self::Json(json) => json.get().to_owned(),
            Self::Text(text) => text.clone(),
            Self::Base64 { base64 } => format!("{base64} (base64)"),
        }
    }
}
