//! `fairlane enqueue`: adds one job.

use std::io::Read;
use std::time::{Duration, SystemTime};

use clap::Args;
use fairlane::views::EnqueuedView;
use fairlane::{Error, Job, Level, Trace, parse_duration, parse_time};

use crate::failure::Failure;
use crate::target::QueueTarget;

const EXAMPLES: &str = "\
Examples:
  fairlane enqueue customer-7 mail '{\"to\": \"ada@example.com\"}'
  fairlane enqueue customer-7 mail '{\"to\": \"ada@example.com\"}' --id welcome-42 --level high
  fairlane enqueue customer-7 report --delay 2h --engine ./data
  fairlane enqueue customer-7 report - --run-at 2026-01-31T08:30:00Z < report.json

The command is idempotent: a job with the same id and content is not added again, and one with the \
same id and other content is rejected. A data directory that does not exist is created.
Exit codes: 0 the job is in the queue; 1 failure, or the queue is full; 2 bad input.";

/// Adds a job
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Group that the job belongs to
    group: String,
    /// Type of the job
    #[arg(value_name = "TYPE")]
    job_type: String,
    /// Payload as JSON; - reads it from standard input
    #[arg(default_value = "null", allow_negative_numbers = true)]
    payload: String,
    /// Id of the job, unique in its group [default: a new UUID]
    #[arg(long)]
    id: Option<String>,
    /// Level of the job: high, normal or low
    #[arg(long, default_value = "normal")]
    level: Level,
    /// Cost of the job in its group's share, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = crate::limit::within::<1, { fairlane_core::limits::COST_MAX }>)]
    cost: u32,
    /// Earliest start, as a time from now: 500ms, 30s, 5m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "run_at")]
    #[arg(allow_hyphen_values = true)]
    delay: Option<Duration>,
    /// Earliest start, as a timestamp such as 2026-01-31T08:30:00Z
    #[arg(long, value_name = "WHEN", value_parser = parse_time)]
    run_at: Option<SystemTime>,
    /// Trace of the job: a W3C traceparent, such as "$TRACEPARENT"
    #[arg(long, value_name = "TRACEPARENT")]
    trace: Option<Trace>,
    /// Send the payload unchanged, even if it is not JSON
    #[arg(long)]
    bytes: bool,
    #[command(flatten)]
    target: QueueTarget,
}

/// Adds the job and prints its id.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let payload = payload(&arguments)?;
    let mut job = Job::bytes(arguments.group, arguments.job_type, payload);
    job = job.level(arguments.level).cost(arguments.cost);
    if let Some(id) = arguments.id {
        job = job.id(id);
    }
    if let Some(delay) = arguments.delay {
        job = job.delay(delay);
    }
    if let Some(at) = arguments.run_at {
        job = job.run_at(at);
    }
    if let Some(trace) = arguments.trace {
        job = job.trace(trace.as_str());
    }
    let id = job.id_alone();
    let fairlane = arguments.target.attach_or_make().await.map_err(|failure| not_sent(failure, &id))?;
    let receipt =
        fairlane.enqueue(job).await.map_err(|error| not_confirmed(error, &arguments.target, &id))?;
    let view = EnqueuedView::try_from(receipt)?;
    arguments.target.print(&view, || {
        let what = if view.created { "is enqueued" } else { "already exists; nothing was changed" };
        format!("{} of {} {what}", view.id, view.group)
    })
}

fn not_sent(failure: Failure, id: &str) -> Failure {
    match failure {
        Failure::Broken(message) => Failure::Broken(format!(
            "{message}\nnothing was enqueued; to retry with the same job, add --id {id}"
        )),
        other => other,
    }
}

/// Adds the generated id to the message: a retry without it could add a second job.
fn not_confirmed(error: Error, target: &QueueTarget, id: &str) -> Failure {
    let may_be_enqueued = error.is_retryable();
    match target.failure(error) {
        Failure::Broken(message) if may_be_enqueued => Failure::Broken(format!(
            "{message}\nthe job may have been enqueued; retry with --id {id}, so that it is not added twice"
        )),
        other => other,
    }
}

fn payload(arguments: &Arguments) -> Result<Vec<u8>, Failure> {
    let mut payload = arguments.payload.clone().into_bytes();
    if arguments.payload == "-" {
        payload.clear();
        let read = std::io::stdin().read_to_end(&mut payload);
        read.map_err(|error| {
            Failure::broken(format!("cannot read standard input: {error}; pass the payload as an argument"))
        })?;
    }
    if arguments.bytes {
        return Ok(payload);
    }
    let payload = payload.trim_ascii().to_vec();
    match serde_json::from_slice::<serde::de::IgnoredAny>(&payload) {
        Ok(_) => Ok(payload),
        Err(error) => Err(Failure::bad_input(format!(
            "the payload is not JSON: {error}; quote it, or add --bytes to send it unchanged"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlane::EngineError;

    #[test]
    fn a_lost_response_is_reported_with_the_id_for_a_retry() {
        let target = QueueTarget { engine: "redis://127.0.0.1:1".to_owned(), json: false };
        let lost = EngineError::Unavailable { engine: "redis", reason: "the response is lost".to_owned() };
        let message = not_confirmed(lost.into(), &target, "0197-a").to_string();
        for words in ["redis://127.0.0.1:1", "the response is lost", "--engine ./data", "with --id 0197-a"] {
            assert!(message.contains(words), "{message}");
        }
        assert!(!message.contains("safe to repeat"), "{message}");
        let full = Error::TooManyTypes("mail".to_owned());
        assert!(!not_confirmed(full, &target, "0197-a").to_string().contains("--id"));
    }
}
