//! `fairlane why`: why a job is not running.

use clap::Args;
use fairlane_core::queue::{Explain, Explanation, JobRef};
use fairlane_core::{GroupId, JobId};
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
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

/// The JSON form of the result.
#[derive(Serialize)]
struct ExplanationView {
    group: String,
    job: String,
    state: &'static str,
    reason: &'static str,
    sentence: String,
    /// An estimate of the time until the job starts, in milliseconds.
    starts_in_ms: Option<u64>,
    facts: Vec<Fact>,
}

#[derive(Serialize)]
struct Fact {
    about: &'static str,
    text: String,
}

/// Explains the state of the job.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let fairlane = arguments.target.attach().await?;
    let engine = fairlane.engine();
    let job = JobRef { group: arguments.group, id: arguments.job };
    let explained = engine.call(Explain { job: job.clone() }).await?;
    let Some(explanation) = explained.0 else {
        let JobRef { group, id } = job;
        return Err(Failure::bad_input(format!(
            "{group} has no job {id} at {}; it was never enqueued, or it ended and is past its retention",
            arguments.target.address()
        )));
    };
    let view = ExplanationView::new(&explanation);
    if arguments.target.json { output::print_json(&view) } else { output::print(&view.text()) }
}

impl ExplanationView {
    fn new(explanation: &Explanation) -> Self {
        let job = &explanation.job;
        let facts = explanation.facts().into_iter();
        Self {
            group: job.job.group.to_string(),
            job: job.job.id.to_string(),
            state: job.state.as_str(),
            reason: explanation.reason().as_str(),
            sentence: explanation.sentence(),
            starts_in_ms: explanation.starts_in_us().map(|us| us / 1000),
            facts: facts.map(|(about, text)| Fact { about, text }).collect(),
        }
    }

    /// The sentence, and the facts under it.
    fn text(&self) -> String {
        let facts = tables::facts(self.facts.iter().map(|fact| (fact.about, fact.text.as_str())));
        format!("{}\n\n{facts}", tables::prose(&self.sentence))
    }
}
