//! `fairlane job`: one job, to look at, to cancel or to requeue.

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
use crate::place::Place;
use crate::tables::counted;

const EXAMPLES: &str = "\
Examples:
  fairlane job show customer-7 invoice-4711
  fairlane job show customer-7 invoice-4711 --json
  fairlane job cancel customer-7 invoice-4711
  fairlane job requeue customer-7 invoice-4711

Why a job is not running says fairlane why. Many dead jobs at once: fairlane dead requeue.
Exit codes: 0 done; 1 it failed, or found no room and stays dead; 2 there is no such job, or it has ended and cannot be
cancelled, or is not dead and cannot be requeued, or bad input.";

/// Shows a job with its payload and result, cancels it, or lets it run again
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Subcommand)]
enum Deed {
    /// Says how a job stands, with its payload and its result
    #[command(after_help = "Example:\n  fairlane job show customer-7 invoice-4711")]
    Show(Which),
    /// Cancels a job: one that waits will not run, one that runs is told
    #[command(after_help = "Example:\n  fairlane job cancel customer-7 invoice-4711")]
    Cancel(Which),
    /// Lets a dead job run again, with all its attempts
    #[command(after_help = "Example:\n  fairlane job requeue customer-7 invoice-4711")]
    Requeue(Which),
}

#[derive(Args)]
struct Which {
    /// Whose job
    group: String,
    /// Which of theirs
    job: String,
    #[command(flatten)]
    place: Place,
}

/// What programs get.
#[derive(Serialize)]
struct Shown {
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
    /// When it is due, or its lease ends.
    until: Option<String>,
    settled_at: Option<String>,
    payload: Bytes,
    result: Option<Bytes>,
    error: Option<Problem>,
}

/// Bytes as they can be read best.
#[derive(Serialize)]
#[serde(untagged)]
enum Bytes {
    Json(Box<RawValue>),
    Text(String),
    Base64 { base64: String },
}

#[derive(Serialize)]
struct Cancelled {
    group: String,
    job: String,
    /// Whether it runs, and is only told to stop.
    is_running: bool,
}

#[derive(Serialize)]
struct RequeuedOne {
    group: String,
    job: String,
    requeued: bool,
}

/// Does what was asked.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.deed {
        Deed::Show(which) => show(which).await,
        Deed::Cancel(which) => cancel(which).await,
        Deed::Requeue(which) => requeue(which).await,
    }
}

async fn show(which: Which) -> Result<(), Failure> {
    let job = which.place.attach().await?.job(&which.group, &which.job);
    let view = job.view().await?.ok_or_else(|| which.unknown())?;
    let shown = Shown::new(&view);
    which.place.tell(&shown, || shown.text())
}

async fn cancel(which: Which) -> Result<(), Failure> {
    let job = which.place.attach().await?.job(&which.group, &which.job);
    let is_running = match job.cancel().await? {
        Cancellation::Cancelled => false,
        Cancellation::Requested => true,
        Cancellation::Ended => {
            return Err(Failure::bad_input(format!(
                "job {} has ended; there is nothing to cancel",
                which.job
            )));
        }
        Cancellation::Unknown => return Err(which.unknown()),
    };
    let answer = Cancelled { group: which.group, job: which.job, is_running };
    which.place.tell(&answer, || {
        let how =
            if is_running { "runs; its worker is told, and it is not tried again" } else { "will not run" };
        format!("{} of {} {how}", answer.job, answer.group)
    })
}

async fn requeue(which: Which) -> Result<(), Failure> {
    let job = which.named()?;
    let fairlane = which.place.attach().await?;
    let answer = fairlane.engine().requeue_dead(RequeueDead { jobs: vec![job] }).await?;
    match answer.jobs.first() {
        Some(Requeued::Requeued) => {}
        Some(Requeued::Full) => {
            return Err(Failure::broken(format!(
                "{} found no room and stays dead; run it again when less is waiting",
                which.job
            )));
        }
        Some(Requeued::NotDead) => {
            return Err(Failure::bad_input(format!(
                "job {} is not dead, so there is nothing to requeue; fairlane job show says how it stands",
                which.job
            )));
        }
        Some(Requeued::Unknown) | None => return Err(which.unknown()),
    }
    let answer = RequeuedOne { group: which.group, job: which.job, requeued: true };
    which.place.tell(&answer, || format!("{} of {} runs again", answer.job, answer.group))
}

impl Which {
    fn named(&self) -> Result<JobRef, Failure> {
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

impl Shown {
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
            payload: Bytes::new(&view.payload),
            result: (is_done && has_note).then(|| Bytes::new(&view.note)),
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
        let until = if self.state == "PROCESSING" { "leased to" } else { "due" };
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
            ("result", self.result.as_ref().map(Bytes::text)),
            ("problem", problem),
        ];
        let mut lines =
            vec![format!("{} of {}: {}, {counts}", self.job, self.group, self.state), String::new()];
        let known = facts.into_iter().filter_map(|(about, text)| Some((about, text?)));
        // A line of a payload stands below its first one, so that it cannot pass for another fact.
        let hanging = format!("\n{:13}", "");
        lines.extend(known.map(|(about, text)| format!("  {about:9}  {}", text.replace('\n', &hanging))));
        lines.join("\n")
    }
}

impl Bytes {
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
