//! `fairlane type`: job types and the limits of their downstreams.

use clap::{Args, Subcommand};
use fairlane::{Fairlane, Rate, TypeSettings, TypeView, rate_text, time_text};
use serde::Serialize;

use crate::failure::Failure;
use crate::limit::{Limit, limit_text, number_or_none, rate_now_text, rate_or_none};
use crate::tables::{self, counted, thousands};
use crate::target::QueueTarget;

const EXAMPLES: &str = "\
Examples:
  fairlane type show mail
  fairlane type set mail --rate 500/s --concurrency 50 --max-retry-count 5
  fairlane type set mail --rate none --max-retry-count none
  fairlane type set mail --pause
  fairlane type remove mial
  fairlane type list --json

Settings that are not given stay unchanged. Any change reopens a type that its downstream has \
closed with Retry-After. A new rate discards what was learned from the rejections of the downstream.
Exit codes: 0 success; 1 failure; 2 unknown type or bad input.";

/// Shows job types, sets their rate, concurrency, retries and pause, and removes them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Shows a type
    #[command(after_help = "Example:\n  fairlane type show mail")]
    Show {
        /// Name of the type
        #[arg(value_name = "TYPE")]
        job_type: String,
        #[command(flatten)]
        target: QueueTarget,
    },
    /// Changes the settings of a type
    #[command(after_help = "Example:\n  fairlane type set mail --rate '500/s burst 20' --max-retry-count 5")]
    Set(Box<SetArguments>),
    /// Removes a type that has no jobs, and its settings
    #[command(
        after_help = "A type with unfinished or dead jobs cannot be removed; completed jobs do not matter.\n\nExample:\n  fairlane type remove mial"
    )]
    Remove {
        /// Name of the type
        #[arg(value_name = "TYPE")]
        job_type: String,
        #[command(flatten)]
        target: QueueTarget,
    },
    /// Lists the known types
    #[command(after_help = "Example:\n  fairlane type list")]
    List(QueueTarget),
}

#[derive(Args)]
struct SetArguments {
    /// Name of the type
    #[arg(value_name = "TYPE")]
    job_type: String,
    /// Rate that the downstream allows: 50/s, 10/min, '500/s burst 20', or none
    #[arg(long, value_parser = rate_or_none, allow_hyphen_values = true)]
    rate: Option<Limit<Rate>>,
    /// Maximum number of running jobs, or none
    #[arg(long, value_name = "N", value_parser = number_or_none, allow_negative_numbers = true)]
    concurrency: Option<Limit<u32>>,
    /// Number of retries before a job is dead, or none for the default of the queue
    #[arg(long, value_name = "N", value_parser = number_or_none, allow_negative_numbers = true)]
    max_retry_count: Option<Limit<u32>>,
    /// Start no jobs of this type until it is resumed
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Start jobs of this type again
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    target: QueueTarget,
}

#[derive(Serialize)]
struct SettingsView {
    r#type: String,
    rate: Option<String>,
    concurrency: Option<u32>,
    max_retry_count: Option<u32>,
    paused: bool,
}

#[derive(Serialize)]
struct TypeDetails {
    #[serde(flatten)]
    settings: SettingsView,
    in_flight: u64,
    ready: u64,
    active_lanes: u64,
    /// The effective rate, below the configured one after rejections of the downstream.
    rate_now_per_second: Option<f64>,
    #[serde(skip)]
    rate_now: Option<String>,
    closed_until: Option<String>,
    answers_last_second: u64,
    asked_at: Option<String>,
}

#[derive(Serialize)]
struct TypeList {
    types: Vec<TypeDetails>,
}

/// Runs the subcommand.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Show { job_type, target } => show(&job_type, &target).await,
        Action::Set(arguments) => set(*arguments).await,
        Action::Remove { job_type, target } => remove(&job_type, &target).await,
        Action::List(target) => list(&target).await,
    }
}

async fn show(name: &str, target: &QueueTarget) -> Result<(), Failure> {
    let fairlane = target.attach().await?;
    let Some(details) = TypeDetails::find(&fairlane, name).await? else {
        return Err(Failure::bad_input(format!("there is no type {name}: it has no jobs and no settings")));
    };
    target.print(&details, || tables::prose(&details.text()))
}

/// The JSON form of the result of `type remove`.
#[derive(Serialize)]
struct RemovedType {
    removed: String,
}

async fn remove(name: &str, target: &QueueTarget) -> Result<(), Failure> {
    let fairlane = target.attach().await?;
    if !fairlane.job_type(name).remove().await? {
        return Err(Failure::bad_input(format!("there is no type {name}")));
    }
    let removed = RemovedType { removed: name.to_owned() };
    target.print(&removed, || tables::prose(&format!("Removed type {name}.")))
}

async fn set(arguments: SetArguments) -> Result<(), Failure> {
    let SetArguments { rate, concurrency, max_retry_count, pause, resume, .. } = arguments;
    if rate.is_none() && concurrency.is_none() && max_retry_count.is_none() && !pause && !resume {
        return Err(Failure::bad_input("nothing to set; give a setting, such as --rate 50/s or --pause"));
    }
    let mut job_type = arguments.target.attach_or_make().await?.job_type(&arguments.job_type);
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
    let settings = SettingsView::new(&arguments.job_type, &job_type.apply().await?);
    arguments.target.print(&settings, || tables::prose(&settings.text()))
}

async fn list(target: &QueueTarget) -> Result<(), Failure> {
    let fairlane = target.attach().await?;
    let mut types = Vec::new();
    for type_id in fairlane.queue_view().await?.types {
        types.extend(TypeDetails::find(&fairlane, &type_id.to_string()).await?);
    }
    let list = TypeList { types };
    target.print(&list, || {
        if list.types.is_empty() {
            return "There are no types.".to_owned();
        }
        tables::texts(
            &["type", "rate", "now", "concurrency", "retries", "running", "paused"],
            list.types.iter().map(TypeDetails::row),
        )
    })
}

impl SettingsView {
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
        self.max_retry_count.map_or("queue default".to_owned(), |count| count.to_string())
    }
}

impl TypeDetails {
    async fn find(fairlane: &Fairlane, name: &str) -> Result<Option<Self>, Failure> {
        Ok(fairlane.job_type(name).view().await?.map(|view| Self::new(name, &view)))
    }

    fn new(name: &str, view: &TypeView) -> Self {
        Self {
            settings: SettingsView::new(name, &view.settings),
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
            "  {} running, {} answered in the last second, {} in fair order",
            thousands(self.in_flight),
            thousands(self.answers_last_second),
            counted(self.active_lanes, "lane")
        ));
        lines.extend(self.rate_now.as_ref().map(|rate| format!("  effective rate {rate}")));
        lines.extend(
            self.closed_until.as_ref().map(|until| format!("  closed by its downstream until {until}")),
        );
        let requested = self.asked_at.as_deref().unwrap_or("never");
        lines.push(format!("  last requested by a worker: {requested}"));
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
