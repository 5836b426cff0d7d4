//! `fairlane job`: shows, cancels or requeues one job.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, Subcommand};
use fairlane::views::{self, CancellationView, RequeuedView};
use fairlane::{Cancellation, JobRef, JobState, JobView, Micros, Problem, Requeued, time_text};
use fairlane_core::WorkerId;

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
    selector.target.print(&views::JobView::from(view.clone()), || text(&view))
}

async fn cancel(selector: JobSelector) -> Result<(), Failure> {
    let job = selector.target.attach().await?.job(&selector.group, &selector.job);
    let cancellation = job.cancel().await?;
    let effect = match cancellation {
        Cancellation::Cancelled => "will not run",
        Cancellation::Requested => "is running; it is asked to stop and will not be retried",
        Cancellation::Ended => {
            return Err(Failure::bad_input(format!(
                "job {} has ended; there is nothing to cancel",
                selector.job
            )));
        }
        Cancellation::Unknown => return Err(selector.unknown()),
    };
    let view = CancellationView::new(&job.name()?, cancellation);
    selector.target.print(&view, || format!("{} of {} {effect}", view.id, view.group))
}

async fn requeue(selector: JobSelector) -> Result<(), Failure> {
    let job = selector.target.attach().await?.job(&selector.group, &selector.job);
    match job.requeue().await? {
        Requeued::Requeued => {}
        Requeued::Full => {
            return Err(Failure::broken(format!(
                "there is no room for {}, which stays dead; try again when fewer jobs are waiting",
                selector.job
            )));
        }
        Requeued::NotDead => {
            return Err(Failure::bad_input(format!(
                "job {} is not dead, so there is nothing to requeue; run fairlane job show to see its state",
                selector.job
            )));
        }
        Requeued::Unknown => return Err(selector.unknown()),
    }
    let view = RequeuedView::new(&job.name()?);
    selector.target.print(&view, || format!("{} of {} is requeued", view.id, view.group))
}

impl JobSelector {
    fn unknown(&self) -> Failure {
        Failure::bad_input(format!(
            "{} has no job {}; it was never enqueued, or it ended and is past its retention",
            self.group, self.job
        ))
    }
}

/// The job for people.
fn text(view: &JobView) -> String {
    let counts = format!(
        "{}, {} throttled, {} lost",
        counted(view.attempts.into(), "attempt"),
        counted(view.throttles.into(), "time"),
        counted(view.losses.into(), "lease"),
    );
    let until = if view.state == JobState::Processing { "lease end" } else { "due" };
    let time = |at: Micros| time_text(at.as_millis());
    let is_done = view.state == JobState::Completed;
    let note = Some(&view.note).filter(|note| !note.is_empty());
    let facts = [
        ("type", Some(format!("{}, level {}, cost {}", view.type_id, view.level, view.cost.get()))),
        ("bulk", view.bulk.as_ref().map(ToString::to_string)),
        ("trace", view.trace.as_ref().map(ToString::to_string)),
        ("enqueued", Some(time(view.created_at))),
        (until, view.until.map(time)),
        ("settled", view.settled_at.map(time)),
        ("worker", view.worker.as_ref().map(WorkerId::given_name)),
        ("payload", Some(bytes_text(&view.payload))),
        ("result", note.filter(|_| is_done).map(|note| bytes_text(note))),
        ("error", note.filter(|_| !is_done).map(|note| Problem::from_bytes(note).to_string())),
    ];
    let JobRef { group, id } = &view.job;
    let mut lines = vec![format!("{id} of {group}: {}, {counts}", view.state.as_str()), String::new()];
    let known = facts.into_iter().filter_map(|(label, text)| Some((label, text?)));
    // Indents the lines of a payload, so that none can look like another fact.
    let hanging = format!("\n{:13}", "");
    lines.extend(known.map(|(label, text)| format!("  {label:9}  {}", text.replace('\n', &hanging))));
    lines.join("\n")
}

/// A payload or result: as it is if it is text, else in base64.
fn bytes_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("{} (base64)", BASE64.encode(bytes)),
    }
}
