//! `fairlane dead`: jobs that failed permanently.

use std::time::Duration;

use clap::{Args, Subcommand};
use fairlane::views::JobView;
use fairlane::{Dead, DeadFilter, Error, Fairlane, Problem, parse_duration};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::spinner;
use crate::tables::{self, counted, thousands};
use crate::target::{QueueTarget, list_length};

const EXAMPLES: &str = "\
Examples:
  fairlane dead list --group customer-7 --limit 50
  fairlane dead requeue --type mail --code timed_out
  fairlane dead discard --older-than 7d
  fairlane dead requeue --all --engine ./data --json

requeue and discard require a filter or --all. A requeued job gets its full number of attempts. A \
job that died in a bulk action leaves it, because the bulk action has already counted it.
Exit codes: 0 success; 1 failure, or no room to requeue some jobs; 2 bad input.";

/// Lists, requeues or discards dead jobs: jobs that failed permanently
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Lists dead jobs, oldest first
    #[command(after_help = "Example:\n  fairlane dead list --group customer-7 --code timed_out")]
    List {
        #[command(flatten)]
        filter: Filter,
        /// Maximum number of jobs to list
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = list_length, allow_negative_numbers = true)]
        limit: usize,
    },
    /// Requeues dead jobs
    #[command(after_help = "Example:\n  fairlane dead requeue --type mail --code timed_out")]
    Requeue(Selection),
    /// Removes dead jobs permanently
    #[command(after_help = "Example:\n  fairlane dead discard --older-than 7d")]
    Discard(Selection),
}

#[derive(Args)]
struct Filter {
    /// Only jobs of this group
    #[arg(long)]
    group: Option<String>,
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// Only jobs whose last error has this code
    #[arg(long)]
    code: Option<String>,
    /// Only jobs that have been dead for longer than this: 30s, 5m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    older_than: Option<Duration>,
    #[command(flatten)]
    target: QueueTarget,
}

#[derive(Args)]
struct Selection {
    #[command(flatten)]
    filter: Filter,
    /// All dead jobs
    #[arg(long)]
    all: bool,
}

/// The JSON form of the list.
#[derive(Serialize)]
struct DeadJobList {
    jobs: Vec<JobView>,
    /// The number of all dead jobs. None for a list of one group, because the key may be bound to
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    dead: Option<u64>,
}

/// Runs the subcommand.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::List { filter, limit } => list(filter, limit).await,
        Action::Requeue(selection) => requeue(selection).await,
        Action::Discard(selection) => discard(selection).await,
    }
}

async fn list(filter: Filter, limit: usize) -> Result<(), Failure> {
    let fairlane = filter.target.attach().await?;
    let found = filter.of(&fairlane).list(limit).await.map_err(|error| filter.failure(error))?;
    let jobs = found.into_iter().map(JobView::from).collect();
    let dead = match filter.group {
        Some(_) => None,
        None => Some(fairlane.queue_view().await?.failed),
    };
    let list = DeadJobList { jobs, dead };
    filter.target.print(&list, || list.text())
}

async fn requeue(selection: Selection) -> Result<(), Failure> {
    let dead = selection.find().await?;
    let bar = spinner(selection.filter.target.json, "requeueing dead jobs");
    let counts = dead.requeue().await;
    bar.finish_and_clear();
    let counts = counts.map_err(|error| selection.filter.failure(error))?;
    selection.filter.target.print(&counts, || format!("{} requeued", thousands(counts.requeued)))?;
    match counts.full {
        0 => Ok(()),
        full => Err(Failure::broken(format!(
            "there is no room for {}; try again when fewer jobs are waiting",
            counted(full, "job")
        ))),
    }
}

async fn discard(selection: Selection) -> Result<(), Failure> {
    let dead = selection.find().await?;
    let bar = spinner(selection.filter.target.json, "removing dead jobs");
    let counts = dead.discard().await;
    bar.finish_and_clear();
    let counts = counts.map_err(|error| selection.filter.failure(error))?;
    selection.filter.target.print(&counts, || format!("{} discarded", thousands(counts.discarded)))
}

impl Filter {
    fn of(&self, fairlane: &Fairlane) -> Dead {
        fairlane.dead().filter(self.filter())
    }

    fn filter(&self) -> DeadFilter {
        DeadFilter {
            group: self.group.clone(),
            job_type: self.job_type.clone(),
            code: self.code.clone(),
            older_than: self.older_than,
        }
    }

    /// Converts an error; a key that is bound to groups needs `--group`.
    fn failure(&self, error: Error) -> Failure {
        match Failure::from(error) {
            Failure::BadInput(message) if self.group.is_none() && message.contains("bound to") => {
                Failure::BadInput(format!("{message}, or select one of its groups with --group"))
            }
            failure => failure,
        }
    }
}

impl Selection {
    async fn find(&self) -> Result<Dead, Failure> {
        if self.all != (self.filter.filter() == DeadFilter::default()) {
            return Err(Failure::bad_input(
                "select the jobs with --group, --type, --code or --older-than, or with --all alone for every dead job",
            ));
        }
        Ok(self.filter.of(&self.filter.target.attach().await?))
    }
}

impl DeadJobList {
    fn text(&self) -> String {
        let shown = match (self.jobs.len(), self.dead) {
            (shown, Some(dead)) => format!("{} of {}.", thousands(shown as u64), counted(dead, "dead job")),
            (shown, None) => format!("{}.", counted(shown as u64, "dead job")),
        };
        if self.jobs.is_empty() {
            return shown;
        }
        let rows = self.jobs.iter().map(|row| {
            let died_at = row.settled_at.map_or("–".to_owned(), |at| at.to_string());
            let error = row.error.as_ref().map(|error| Problem::new(&error.code, &error.reason).to_string());
            let attempts = row.attempts.to_string();
            vec![
                row.group.clone(),
                row.id.clone(),
                row.r#type.clone(),
                attempts,
                died_at,
                error.unwrap_or_default(),
            ]
        });
        let table = tables::texts(&["group", "job", "type", "attempts", "died", "error"], rows);
        format!("{table}\n{shown}")
    }
}
