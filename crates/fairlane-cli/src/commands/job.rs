//! `fairlane job`: lists jobs; shows, cancels or requeues one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::{Args, Subcommand};
use fairlane::views::{self, CancellationView, RequeuedView};
use fairlane::{
    Cancellation, GroupId, JobRef, JobState, JobView, Micros, Problem, Requeued, TypeId, time_text,
};
use fairlane_core::WorkerId;
use fairlane_core::limits::LIST_JOBS_MAX;
use serde::Serialize;

use crate::failure::Failure;
use crate::limit::within;
use crate::tables::{self, counted};
use crate::target::QueueTarget;

const EXAMPLES: &str = "\
Examples:
  fairlane job show customer-7 invoice-4711
  fairlane job show customer-7 invoice-4711 --json
  fairlane job cancel customer-7 invoice-4711
  fairlane job requeue customer-7 invoice-4711
  fairlane job list --group customer-7

fairlane why explains why a job is not running. fairlane dead requeue requeues many dead jobs.
Exit codes: 0 success; 1 failure, or no room to requeue the job; 2 unknown job, a job that has \
ended and cannot be cancelled, a job that is not dead and cannot be requeued, or bad input.";

/// Lists jobs; shows, cancels or requeues one
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Lists jobs of any state: running ones first, then waiting, dead and finished ones
    #[command(after_help = "Example:\n  fairlane job list --group customer-7 --type mail\n\n\
        Jobs that wait in the lane of a group are listed only with --group.")]
    List(ListArguments),
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

#[derive(Args)]
struct ListArguments {
    /// Only jobs of this group
    #[arg(long)]
    group: Option<String>,
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// Maximum number of jobs to list
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = within::<1, { LIST_JOBS_MAX as u32 }>, allow_negative_numbers = true)]
    limit: u32,
    #[command(flatten)]
    target: QueueTarget,
}

/// The JSON form of a list.
#[derive(Serialize)]
struct JobList {
    jobs: Vec<views::JobView>,
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
        Action::List(arguments) => list(arguments).await,
        Action::Show(selector) => show(selector).await,
        Action::Cancel(selector) => cancel(selector).await,
        Action::Requeue(selector) => requeue(selector).await,
    }
}

async fn list(arguments: ListArguments) -> Result<(), Failure> {
    let group = arguments.group.map(GroupId::new).transpose().map_err(fairlane::Error::from)?;
    let type_id = arguments.job_type.map(TypeId::new).transpose().map_err(fairlane::Error::from)?;
    let fairlane = arguments.target.attach().await?;
    let jobs = fairlane.jobs_of_any_state(group, type_id, arguments.limit as usize).await?;
    let list = JobList { jobs: jobs.into_iter().map(views::JobView::from).collect() };
    arguments.target.print(&list, || list.text())
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

impl JobList {
    fn text(&self) -> String {
        let rows = self.jobs.iter().map(|row| {
            let names = vec![row.group.clone(), row.id.clone(), row.r#type.clone(), row.state.to_string()];
            [names, vec![row.attempts.to_string(), row.created_at.to_string()]].concat()
        });
        match self.jobs.len() {
            0 => "no jobs".to_owned(),
            _ => tables::texts(&["group", "job", "type", "state", "attempts", "enqueued"], rows),
        }
    }
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
        ("progress", view.progress.map(|progress| format!("{} of {}", progress.done, progress.total))),
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
