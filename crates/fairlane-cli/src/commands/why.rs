//! `fairlane why`: why a job is not running.

use clap::Args;
use fairlane::views::ExplanationView;
use fairlane::{GroupId, JobId};

use crate::failure::Failure;
use crate::tables;
use crate::target::QueueTarget;

const EXAMPLES: &str = "\
Examples:
  fairlane why customer-A invoice-4711
  fairlane why customer-A invoice-4711 --engine redis://10.0.0.5:6379
  fairlane why customer-A invoice-4711 --json

Changes nothing. Positions and future times are estimates.
Exit codes: 0 explained; 1 failure; 2 unknown job or bad input.";

/// Explains in one sentence why a job is not running, with the facts behind it
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Group of the job
    group: GroupId,
    /// Id of the job
    job: JobId,
    #[command(flatten)]
    target: QueueTarget,
}

/// Explains the state of the job.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { group, job, target } = arguments;
    let explanation = target.attach().await?.job(&group, &job).explain().await?;
    let Some(explanation) = explanation else {
        return Err(Failure::bad_input(format!(
            "{group} has no job {job} at {}; it was never enqueued, or it ended and is past its retention",
            target.address()
        )));
    };
    let view = ExplanationView::from(&explanation);
    target.print(&view, || text(&view))
}

/// The sentence, and the facts under it.
fn text(view: &ExplanationView) -> String {
    let facts = tables::facts(view.facts.iter().map(|fact| (fact.about, fact.text.as_str())));
    format!("{}\n\n{facts}", tables::prose(&view.sentence))
}
