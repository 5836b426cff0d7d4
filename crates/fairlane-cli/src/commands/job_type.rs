//! `fairlane type`: what downstreams allow.

use clap::{Args, Subcommand};
use fairlane::{Fairlane, Rate, TypeSettings, TypeView, rate_text, time_text};
use serde::Serialize;

use crate::failure::Failure;
use crate::limit::{Limit, limit_text, number_or_none, rate_now_text, rate_or_none};
use crate::place::Place;
use crate::tables::{self, counted, thousands};

const EXAMPLES: &str = "\
Examples:
  fairlane type show mail
  fairlane type set mail --rate 500/s --concurrency 50 --max-retry-count 5
  fairlane type set mail --rate none --max-retry-count none
  fairlane type set mail --pause
  fairlane type remove mial
  fairlane type list --json

What is not named stays as it is. Any change opens a type that a Retry-After of its downstream has closed;
a changed rate forgets what refusals of the downstream have taught.
Exit codes: 0 done; 1 it failed; 2 there is no such type, or bad input.";

/// Shows types of jobs, sets their rate, concurrency, retries and pause, and removes them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Subcommand)]
enum Deed {
    /// Says how a type stands
    #[command(after_help = "Example:\n  fairlane type show mail")]
    Show {
        /// Which
        #[arg(value_name = "TYPE")]
        job_type: String,
        #[command(flatten)]
        place: Place,
    },
    /// Changes a type's settings
    #[command(after_help = "Example:\n  fairlane type set mail --rate '500/s burst 20' --max-retry-count 5")]
    Set(Box<Set>),
    /// Removes a type that has no jobs, with its settings
    #[command(
        after_help = "Jobs that have not ended and dead jobs keep a type; finished ones do not.\n\nExample:\n  fairlane type remove mial"
    )]
    Remove {
        /// The type to remove
        #[arg(value_name = "TYPE")]
        job_type: String,
        #[command(flatten)]
        place: Place,
    },
    /// Lists the known types
    #[command(after_help = "Example:\n  fairlane type list")]
    List(Place),
}

#[derive(Args)]
struct Set {
    /// Which
    #[arg(value_name = "TYPE")]
    job_type: String,
    /// What its downstream allows: 50/s, 10/min, '500/s burst 20', or none
    #[arg(long, value_parser = rate_or_none, allow_hyphen_values = true)]
    rate: Option<Limit<Rate>>,
    /// Its jobs that run at once, or none for no limit
    #[arg(long, value_name = "N", value_parser = number_or_none, allow_negative_numbers = true)]
    concurrency: Option<Limit<u32>>,
    /// Retries before one of its jobs is dead, or none for as many as the whole queue allows
    #[arg(long, value_name = "N", value_parser = number_or_none, allow_negative_numbers = true)]
    max_retry_count: Option<Limit<u32>>,
    /// None of it starts until it is resumed
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Its jobs start again
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct SettingsShown {
    r#type: String,
    rate: Option<String>,
    concurrency: Option<u32>,
    max_retry_count: Option<u32>,
    paused: bool,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    settings: SettingsShown,
    in_flight: u64,
    ready: u64,
    active_lanes: u64,
    /// Below the set one after refusals of the downstream.
    rate_now_per_second: Option<f64>,
    #[serde(skip)]
    rate_now: Option<String>,
    closed_until: Option<String>,
    answers_last_second: u64,
    asked_at: Option<String>,
}

#[derive(Serialize)]
struct Listed {
    types: Vec<Shown>,
}

/// Does what was asked.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.deed {
        Deed::Show { job_type, place } => show(&job_type, &place).await,
        Deed::Set(set) => run_set(*set).await,
        Deed::Remove { job_type, place } => remove(&job_type, &place).await,
        Deed::List(place) => list(&place).await,
    }
}

async fn show(name: &str, place: &Place) -> Result<(), Failure> {
    let fairlane = place.attach().await?;
    let Some(shown) = Shown::find(&fairlane, name).await? else {
        return Err(Failure::bad_input(format!("nothing is known of type {name}: no job has it")));
    };
    place.tell(&shown, || tables::prose(&shown.text()))
}

/// What `type remove` prints.
#[derive(Serialize)]
struct RemovedType {
    removed: String,
}

async fn remove(name: &str, place: &Place) -> Result<(), Failure> {
    let fairlane = place.attach().await?;
    if !fairlane.job_type(name).remove().await? {
        return Err(Failure::bad_input(format!("there is no type {name}")));
    }
    let answer = RemovedType { removed: name.to_owned() };
    place.tell(&answer, || tables::prose(&format!("Removed type {name}.")))
}

async fn run_set(set: Set) -> Result<(), Failure> {
    let Set { rate, concurrency, max_retry_count, pause, resume, .. } = set;
    if rate.is_none() && concurrency.is_none() && max_retry_count.is_none() && !pause && !resume {
        return Err(Failure::bad_input("nothing to set; name a setting, such as --rate 50/s or --pause"));
    }
    let mut job_type = set.place.attach_or_make().await?.job_type(&set.job_type);
    job_type = match rate {
        Some(Limit::At(rate)) => job_type.rate(rate),
        Some(Limit::None) => job_type.no_rate(),
        None => job_type,
    };
    job_type = match concurrency {
        Some(Limit::At(concurrency)) => job_type.concurrency(concurrency),
        Some(Limit::None) => job_type.no_concurrency(),
        None => job_type,
    };
    job_type = match max_retry_count {
        Some(Limit::At(count)) => job_type.max_retry_count(count),
        Some(Limit::None) => job_type.default_max_retry_count(),
        None => job_type,
    };
    job_type = if pause { job_type.pause() } else { job_type };
    job_type = if resume { job_type.resume() } else { job_type };
    let shown = SettingsShown::new(&set.job_type, &job_type.apply().await?);
    set.place.tell(&shown, || tables::prose(&shown.text()))
}

async fn list(place: &Place) -> Result<(), Failure> {
    let fairlane = place.attach().await?;
    let mut types = Vec::new();
    for type_id in fairlane.whole().await?.types {
        types.extend(Shown::find(&fairlane, &type_id.to_string()).await?);
    }
    let listed = Listed { types };
    place.tell(&listed, || {
        if listed.types.is_empty() {
            return "No type is known.".to_owned();
        }
        tables::texts(
            &["type", "rate", "now", "concurrency", "retries", "running", "paused"],
            listed.types.iter().map(Shown::row),
        )
    })
}

impl SettingsShown {
    fn new(name: &str, settings: &TypeSettings) -> Self {
        Self {
            r#type: name.to_owned(),
            rate: settings.rate.map(rate_text),
            concurrency: settings.concurrency,
            max_retry_count: settings.max_retry_count,
            paused: settings.paused,
        }
    }

    fn text(&self) -> String {
        format!(
            "{}: {}rate {}, concurrency {}, retries {}",
            self.r#type,
            if self.paused { "paused, " } else { "" },
            limit_text(self.rate.as_ref()),
            limit_text(self.concurrency.as_ref()),
            self.retries()
        )
    }

    fn retries(&self) -> String {
        self.max_retry_count.map_or("as the whole".to_owned(), |count| count.to_string())
    }
}

impl Shown {
    async fn find(fairlane: &Fairlane, name: &str) -> Result<Option<Self>, Failure> {
        Ok(fairlane.job_type(name).view().await?.map(|view| Self::new(name, &view)))
    }

    fn new(name: &str, view: &TypeView) -> Self {
        Self {
            settings: SettingsShown::new(name, &view.settings),
            in_flight: view.in_flight,
            ready: view.ready,
            active_lanes: view.active_lanes.iter().sum(),
            rate_now_per_second: view.rate_milli.map(|milli| milli as f64 / 1000.0),
            rate_now: view.rate_milli.map(|milli| rate_now_text(milli, view.settings.rate)),
            closed_until: view.closed_until.map(|until| time_text(until.as_millis())),
            answers_last_second: view.answers,
            asked_at: view.asked_at.map(|at| time_text(at.as_millis())),
        }
    }

    fn text(&self) -> String {
        let mut lines = vec![self.settings.text()];
        lines.push(format!(
            "  {} running, {} answered in the last second, {} in order",
            thousands(self.in_flight),
            thousands(self.answers_last_second),
            counted(self.active_lanes, "lane")
        ));
        lines.extend(self.rate_now.as_ref().map(|rate| format!("  lets {rate} pass now")));
        lines.extend(
            self.closed_until.as_ref().map(|until| format!("  closed by its downstream until {until}")),
        );
        let asked = self.asked_at.as_deref().unwrap_or("never");
        lines.push(format!("  a worker last asked for it: {asked}"));
        lines.join("\n")
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.settings.r#type.clone(),
            limit_text(self.settings.rate.as_ref()),
            limit_text(self.rate_now.as_ref()),
            limit_text(self.settings.concurrency.as_ref()),
            self.settings.retries(),
            thousands(self.in_flight),
            if self.settings.paused { "yes" } else { "no" }.to_owned(),
        ]
    }
}
