//! `fairlane enqueue`: adds one job.

use std::io::Read;
use std::time::{Duration, SystemTime};

use clap::Args;
use fairlane::{Error, Job, Level, Trace, parse_duration, parse_time};
use serde::Serialize;

use crate::failure::Failure;
use crate::place::Place;

const EXAMPLES: &str = "\
Examples:
  fairlane enqueue customer-7 mail '{\"to\": \"ada@example.com\"}'
  fairlane enqueue customer-7 mail '{\"to\": \"ada@example.com\"}' --id welcome-42 --level high
  fairlane enqueue customer-7 report --delay 2h --engine ./data
  fairlane enqueue customer-7 report - --run-at 2026-01-31T08:30:00Z < report.json

A job that is there already is not added again; another one of its id is refused.
A data directory that is not there is made.
Exit codes: 0 it is in the queue; 1 it failed, or the queue is full; 2 bad input.";

/// Adds a job
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Whose job
    group: String,
    /// What kind of work
    #[arg(value_name = "TYPE")]
    job_type: String,
    /// JSON for the processor; - reads it from standard input
    #[arg(default_value = "null", allow_negative_numbers = true)]
    payload: String,
    /// Its id within the group, instead of a new one
    #[arg(long)]
    id: Option<String>,
    /// How urgent: high, normal or low
    #[arg(long, default_value = "normal")]
    level: Level,
    /// What it counts for in its group's share, 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = crate::limit::within::<1, { fairlane_core::limits::COST_MAX }>)]
    cost: u32,
    /// Not before this much time has passed: 500ms, 30s, 5m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "run_at")]
    #[arg(allow_hyphen_values = true)]
    delay: Option<Duration>,
    /// Not before then, such as 2026-01-31T08:30:00Z
    #[arg(long, value_name = "WHEN", value_parser = parse_time)]
    run_at: Option<SystemTime>,
    /// The trace it belongs to: a W3C traceparent, such as "$TRACEPARENT"
    #[arg(long, value_name = "TRACEPARENT")]
    trace: Option<Trace>,
    /// The payload is passed on as it is, JSON or not
    #[arg(long)]
    bytes: bool,
    #[command(flatten)]
    place: Place,
}

/// What programs get.
#[derive(Serialize)]
struct Answer {
    group: String,
    job: String,
    /// Whether it is new.
    created: bool,
    /// Unfinished jobs of its group that nobody has leased.
    backlog: u64,
}

/// Adds the job and says under which id.
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
    let drawn = job.id_alone();
    let fairlane = arguments.place.attach_or_make().await.map_err(|failure| unsent(failure, &drawn))?;
    let receipt = fairlane.enqueue(job).await.map_err(|error| unanswered(error, &arguments.place, &drawn))?;
    let (created, backlog) = (receipt.is_created(), receipt.backlog);
    let job = receipt.accepted()?;
    let answer = Answer { group: job.group.to_string(), job: job.id.to_string(), created, backlog };
    arguments.place.tell(&answer, || {
        let was = if created { "is enqueued" } else { "is there already; nothing was changed" };
        format!("{} of {} {was}", answer.job, answer.group)
    })
}

fn unsent(failure: Failure, id: &str) -> Failure {
    match failure {
        Failure::Broken(message) => Failure::Broken(format!(
            "{message}\nnothing was enqueued; to repeat it as the same job, say --id {id}"
        )),
        other => other,
    }
}

/// Whoever repeats without the id that was drawn may add a second job.
fn unanswered(error: Error, place: &Place, id: &str) -> Failure {
    let may_be_there = error.is_retryable();
    match place.failed(error) {
        Failure::Broken(message) if may_be_there => Failure::Broken(format!(
            "{message}\nthe job may have been enqueued; repeat the command with --id {id}, and it is not added twice"
        )),
        other => other,
    }
}

fn payload(arguments: &Arguments) -> Result<Vec<u8>, Failure> {
    let mut payload = arguments.payload.clone().into_bytes();
    if arguments.payload == "-" {
        payload.clear();
        let read = std::io::stdin().read_to_end(&mut payload);
        read.map_err(|error| Failure::broken(format!("standard input cannot be read: {error}")))?;
    }
    if arguments.bytes {
        return Ok(payload);
    }
    let payload = payload.trim_ascii().to_vec();
    match serde_json::from_slice::<serde::de::IgnoredAny>(&payload) {
        Ok(_) => Ok(payload),
        Err(error) => Err(Failure::bad_input(format!(
            "the payload is no JSON: {error}; put it in quotes, or say --bytes to pass it on as it is"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairlane::EngineError;

    #[test]
    fn whoever_got_no_answer_is_told_the_id_to_repeat_with() {
        let place = Place { engine: "redis://127.0.0.1:1".to_owned(), json: false };
        let lost = EngineError::Unavailable { engine: "redis", reason: "the answer is lost".to_owned() };
        let message = unanswered(lost.into(), &place, "0197-a").to_string();
        for words in ["redis://127.0.0.1:1", "the answer is lost", "--engine ./data", "with --id 0197-a"] {
            assert!(message.contains(words), "{message}");
        }
        assert!(!message.contains("safe to repeat"), "{message}");
        let full = Error::TooManyTypes("mail".to_owned());
        assert!(!unanswered(full, &place, "0197-a").to_string().contains("--id"));
    }
}
