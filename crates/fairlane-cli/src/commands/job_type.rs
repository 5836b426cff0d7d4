//! `fairlane type`: job types and the limits of their downstreams.

use std::fmt::Display;

use clap::{Args, Subcommand};
use fairlane::views::{TypeSettingsView, TypeView};
use fairlane::{Micros, Rate, TypeId, TypePatch, TypeSettings, rate_text, time_text};
use serde::Serialize;

use crate::failure::Failure;
use crate::limit::{Limit, limit_text, number_or_none, paused, rate_now_text, rate_or_none};
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

/// The JSON form of the list.
#[derive(Serialize)]
struct TypeList {
    types: Vec<TypeView>,
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
    let Some(view) = target.attach().await?.job_type(name).view().await? else {
        return Err(Failure::bad_input(format!("there is no type {name}: it has no jobs and no settings")));
    };
    let name = TypeId::new(name).map_err(fairlane::Error::from)?;
    target.print(&TypeView::new(&name, &view), || tables::prose(&text(&name, &view)))
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
    let patch = TypePatch {
        rate: arguments.rate.map(Option::from),
        concurrency: arguments.concurrency.map(Option::from),
        paused: paused(arguments.pause, arguments.resume),
        max_retry_count: arguments.max_retry_count.map(Option::from),
    };
    if patch == TypePatch::default() {
        return Err(Failure::bad_input("nothing to set; give a setting, such as --rate 50/s or --pause"));
    }
    let job_type = arguments.target.attach_or_make().await?.job_type(&arguments.job_type).patch(patch);
    let settings = job_type.apply().await?;
    let view = TypeSettingsView::from(&settings);
    arguments.target.print(&view, || tables::prose(&settings_text(&arguments.job_type, &settings)))
}

async fn list(target: &QueueTarget) -> Result<(), Failure> {
    let types = target.attach().await?.state().await?.types;
    let list = TypeList { types: types.iter().map(|(name, view)| TypeView::new(name, view)).collect() };
    target.print(&list, || {
        if types.is_empty() {
            return "There are no types.".to_owned();
        }
        tables::texts_within(
            &["type", "rate", "now", "concurrency", "retries", "in flight", "paused"],
            &["in flight", "retries", "concurrency"],
            types.iter().map(|(name, view)| row(name, view)),
        )
    })
}

fn settings_text(name: impl Display, settings: &TypeSettings) -> String {
    format!(
        "{name}: {}rate {}, concurrency {}, retries {}",
        if settings.paused { "paused, " } else { "" },
        limit_text(settings.rate.map(rate_text).as_ref()),
        limit_text(settings.concurrency.as_ref()),
        retries(settings)
    )
}

fn retries(settings: &TypeSettings) -> String {
    settings.max_retry_count.map_or("queue default".to_owned(), |count| count.to_string())
}

fn rate_now(view: &fairlane::TypeView) -> Option<String> {
    view.rate_milli.map(|milli| rate_now_text(milli, view.settings.rate))
}

fn text(name: &TypeId, view: &fairlane::TypeView) -> String {
    let time = |at: Micros| time_text(at.as_millis());
    let mut lines = vec![settings_text(name, &view.settings)];
    lines.push(format!(
        "  {} in flight, {} answered in the last second, {} in fair order",
        thousands(view.in_flight),
        thousands(view.answers),
        counted(view.active_lanes.iter().sum(), "lane")
    ));
    lines.extend(rate_now(view).map(|rate| format!("  effective rate {rate}")));
    let until = view.closed_until.map(time);
    lines.extend(until.map(|until| format!("  closed by its downstream until {until}")));
    let requested = view.asked_at.map_or("never".to_owned(), time);
    lines.push(format!("  last requested by a worker: {requested}"));
    lines.join("\n")
}

fn row(name: &TypeId, view: &fairlane::TypeView) -> Vec<String> {
    let settings = &view.settings;
    vec![
        name.to_string(),
        limit_text(settings.rate.map(rate_text).as_ref()),
        limit_text(rate_now(view).as_ref()),
        limit_text(settings.concurrency.as_ref()),
        retries(settings),
        thousands(view.in_flight),
        if settings.paused { "yes" } else { "no" }.to_owned(),
    ]
}
