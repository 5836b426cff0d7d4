//! `fairlane dead`: jobs that failed for good.

use std::time::Duration;

use clap::{Args, Subcommand};
use fairlane::{Dead, Error, Fairlane, JobLine, Problem, parse_duration, time_text};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::sign_of_life;
use crate::place::{Place, list_length};
use crate::tables::{self, thousands};

const EXAMPLES: &str = "\
Examples:
  fairlane dead list --group customer-7 --limit 50
  fairlane dead requeue --type mail --code timed_out
  fairlane dead discard --older-than 7d
  fairlane dead requeue --all --engine ./data --json

requeue and discard need a filter, or --all. A requeued job has all its attempts again; one that died in a bulk action
leaves it, as that has counted it already.
Exit codes: 0 done; 1 it failed, or some found no room and stay dead; 2 bad input.";

/// Lists dead jobs, lets them run again, or removes them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Subcommand)]
enum Deed {
    /// Lists dead jobs, oldest first
    #[command(after_help = "Example:\n  fairlane dead list --group customer-7 --code timed_out")]
    List {
        #[command(flatten)]
        filter: Filter,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = list_length, allow_negative_numbers = true)]
        limit: usize,
    },
    /// Lets dead jobs run again
    #[command(after_help = "Example:\n  fairlane dead requeue --type mail --code timed_out")]
    Requeue(Chosen),
    /// Removes dead jobs
    #[command(after_help = "Example:\n  fairlane dead discard --older-than 7d")]
    Discard(Chosen),
}

#[derive(Args)]
struct Filter {
    /// Of this group
    #[arg(long)]
    group: Option<String>,
    /// Of this type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// Whose last problem has this code
    #[arg(long)]
    code: Option<String>,
    /// Dead for longer than this: 30s, 5m, 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    older_than: Option<Duration>,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
struct Chosen {
    #[command(flatten)]
    filter: Filter,
    /// All dead jobs there are
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct Listed {
    jobs: Vec<Line>,
    /// Dead jobs at all, whatever the filter; not asked for where one group is, as its key may be bound to it.
    dead: Option<u64>,
}

#[derive(Serialize)]
struct Line {
    group: String,
    job: String,
    r#type: String,
    code: String,
    message: String,
    attempts: u32,
    died_at: Option<String>,
    bulk: Option<String>,
}

#[derive(Serialize)]
struct RequeuedCounts {
    requeued: u64,
    full: u64,
    gone: u64,
}

#[derive(Serialize)]
struct DiscardedCounts {
    discarded: u64,
    gone: u64,
}

/// Does what was asked.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.deed {
        Deed::List { filter, limit } => list(filter, limit).await,
        Deed::Requeue(chosen) => requeue(chosen).await,
        Deed::Discard(chosen) => discard(chosen).await,
    }
}

async fn list(filter: Filter, limit: usize) -> Result<(), Failure> {
    let fairlane = filter.place.attach().await?;
    let found = filter.of(&fairlane).list(limit).await.map_err(|error| filter.failed(error))?;
    let jobs = found.into_iter().map(Line::new).collect();
    let dead = match filter.group {
        Some(_) => None,
        None => Some(fairlane.whole().await?.failed),
    };
    let listed = Listed { jobs, dead };
    filter.place.tell(&listed, || listed.text())
}

async fn requeue(chosen: Chosen) -> Result<(), Failure> {
    let dead = chosen.find().await?;
    let bar = sign_of_life(chosen.filter.place.json, "requeueing dead jobs");
    let counts = dead.requeue().await;
    bar.finish_and_clear();
    let counts = counts.map_err(|error| chosen.filter.failed(error))?;
    let answer = RequeuedCounts { requeued: counts.requeued, full: counts.full, gone: counts.gone };
    chosen.filter.place.tell(&answer, || format!("{} requeued", thousands(counts.requeued)))?;
    match counts.full {
        0 => Ok(()),
        full => Err(Failure::broken(format!(
            "{} found no room and stay dead; run it again when less is waiting",
            thousands(full)
        ))),
    }
}

async fn discard(chosen: Chosen) -> Result<(), Failure> {
    let dead = chosen.find().await?;
    let bar = sign_of_life(chosen.filter.place.json, "removing dead jobs");
    let counts = dead.discard().await;
    bar.finish_and_clear();
    let counts = counts.map_err(|error| chosen.filter.failed(error))?;
    let answer = DiscardedCounts { discarded: counts.discarded, gone: counts.gone };
    chosen.filter.place.tell(&answer, || format!("{} discarded", thousands(counts.discarded)))
}

impl Filter {
    fn of(&self, fairlane: &Fairlane) -> Dead {
        let mut dead = fairlane.dead();
        if let Some(group) = &self.group {
            dead = dead.group(group);
        }
        if let Some(job_type) = &self.job_type {
            dead = dead.job_type(job_type);
        }
        if let Some(code) = &self.code {
            dead = dead.code(code);
        }
        if let Some(age) = self.older_than {
            dead = dead.older_than(age);
        }
        dead
    }

    /// A key that is bound to groups is for one of them at a time.
    fn failed(&self, error: Error) -> Failure {
        match Failure::from(error) {
            Failure::BadInput(why) if self.group.is_none() && why.contains("bound to") => {
                Failure::BadInput(format!("{why}, or name one of its groups with --group"))
            }
            failure => failure,
        }
    }

    fn is_empty(&self) -> bool {
        self.group.is_none() && self.job_type.is_none() && self.code.is_none() && self.older_than.is_none()
    }
}

impl Chosen {
    async fn find(&self) -> Result<Dead, Failure> {
        if self.all != self.filter.is_empty() {
            return Err(Failure::bad_input(
                "say which: --group, --type, --code or --older-than, or --all alone for every dead job",
            ));
        }
        Ok(self.filter.of(&self.filter.place.attach().await?))
    }
}

impl Line {
    fn new(line: JobLine) -> Self {
        let problem = Problem::from_bytes(&line.note);
        Self {
            group: line.job.group.to_string(),
            job: line.job.id.to_string(),
            r#type: line.type_id.to_string(),
            code: problem.code,
            message: problem.message,
            attempts: line.attempts,
            died_at: line.settled_at.map(|at| time_text(at.as_millis())),
            bulk: line.bulk.map(|bulk| bulk.to_string()),
        }
    }
}

impl Listed {
    fn text(&self) -> String {
        let shown = match (self.jobs.len(), self.dead) {
            (shown, Some(dead)) => format!("{} of {} dead jobs.", thousands(shown as u64), thousands(dead)),
            (1, None) => "1 dead job.".to_owned(),
            (shown, None) => format!("{} dead jobs.", thousands(shown as u64)),
        };
        if self.jobs.is_empty() {
            return shown;
        }
        let rows = self.jobs.iter().map(|line| {
            let died_at = line.died_at.clone().unwrap_or_else(|| "–".to_owned());
            let problem = Problem::new(&line.code, &line.message).to_string();
            let attempts = line.attempts.to_string();
            vec![line.group.clone(), line.job.clone(), line.r#type.clone(), attempts, died_at, problem]
        });
        let table = tables::texts(&["customer", "job", "type", "attempts", "died", "problem"], rows);
        format!("{table}\n{shown}")
    }
}
