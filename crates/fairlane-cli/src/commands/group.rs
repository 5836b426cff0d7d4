//! `fairlane group`: shares and limits of customers.

use clap::{Args, Subcommand};
use fairlane::{CongestionView, GroupSettings, GroupView, Rate, rate_text};
use fairlane_core::limits::WEIGHT_MAX;
use serde::Serialize;

use crate::failure::Failure;
use crate::limit::{Limit, limit_text, number_or_none, rate_or_none, within};
use crate::overview::{paused_warnings, waits_paused};
use crate::place::{Place, list_length};
use crate::tables::{self, thousands};

const EXAMPLES: &str = "\
Examples:
  fairlane group show customer-7
  fairlane group set customer-7 --weight 3 --rate 50/s --concurrency 10
  fairlane group set customer-7 --rate none
  fairlane group set customer-7 --pause
  fairlane group list --limit 20 --json

What is not named stays as it is. A list has the groups with unfinished jobs, by name.
Exit codes: 0 done; 1 it failed; 2 there is no such group, or bad input.";

/// Shows customers and sets their weight, rate, concurrency and pause
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Subcommand)]
enum Deed {
    /// Says how a group stands
    #[command(after_help = "Example:\n  fairlane group show customer-7")]
    Show {
        /// Which
        group: String,
        #[command(flatten)]
        place: Place,
    },
    /// Changes a group's settings
    #[command(after_help = "Example:\n  fairlane group set customer-7 --weight 3 --rate '500/s burst 20'")]
    Set(Box<Set>),
    /// Lists groups that have unfinished jobs
    #[command(after_help = "Example:\n  fairlane group list --limit 20")]
    List {
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = list_length, allow_negative_numbers = true)]
        limit: usize,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Args)]
struct Set {
    /// Which
    group: String,
    /// Its share relative to others, 1 to 1000
    #[arg(long, value_name = "N", value_parser = within::<1, WEIGHT_MAX>, allow_negative_numbers = true)]
    weight: Option<u32>,
    /// Its rate over all types: 50/s, 10/min, '500/s burst 20', or none
    #[arg(long, value_parser = rate_or_none, allow_hyphen_values = true)]
    rate: Option<Limit<Rate>>,
    /// Its jobs that run at once, or none for no limit
    #[arg(long, value_name = "N", value_parser = number_or_none, allow_negative_numbers = true)]
    concurrency: Option<Limit<u32>>,
    /// Added to its score under the discipline classic, in milliseconds of age
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    base_priority: Option<i64>,
    /// Nothing of it starts until it is resumed
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Its jobs start again
    #[arg(long)]
    resume: bool,
    /// Forget what is recorded of its congestion
    #[arg(long)]
    reset_congestion: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct SettingsShown {
    group: String,
    weight: u64,
    rate: Option<String>,
    concurrency: Option<u32>,
    base_priority: i64,
    paused: bool,
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    settings: SettingsShown,
    backlog: u64,
    in_flight: u64,
    waiting: u64,
    total: u64,
    done: u64,
    stored_bytes: u64,
    congestion: Option<CongestionShown>,
}

#[derive(Serialize)]
struct CongestionShown {
    level: &'static str,
    kept_away: u64,
    speed: u64,
    backoff_ms: u64,
    throttles_per_job: f64,
    estimated_completion_ms: Option<u64>,
}

#[derive(Serialize)]
struct Listed {
    groups: Vec<Line>,
    /// Groups with unfinished jobs at all.
    active: u64,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    settings: SettingsShown,
    backlog: u64,
    in_flight: u64,
    waiting: u64,
    total: u64,
    done: u64,
    backoff_ms: u64,
}

/// Does what was asked.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.deed {
        Deed::Show { group, place } => show(&group, &place).await,
        Deed::Set(set) => run_set(*set).await,
        Deed::List { limit, place } => list(limit, &place).await,
    }
}

async fn show(name: &str, place: &Place) -> Result<(), Failure> {
    let group = place.attach().await?.group(name);
    let Some(view) = group.view().await? else {
        return Err(Failure::bad_input(format!(
            "nothing is known of {name}: it has no jobs and no settings"
        )));
    };
    let shown = Shown::new(name, &view, group.congestion().await?);
    place.tell(&shown, || shown.text())
}

async fn run_set(set: Set) -> Result<(), Failure> {
    let Set { weight, rate, concurrency, base_priority, pause, resume, reset_congestion, .. } = set;
    let nothing = weight.is_none() && rate.is_none() && concurrency.is_none() && base_priority.is_none();
    if nothing && !pause && !resume && !reset_congestion {
        return Err(Failure::bad_input("nothing to set; name a setting, such as --weight 3 or --pause"));
    }
    let mut group = set.place.attach_or_make().await?.group(&set.group);
    if let Some(weight) = weight {
        group = group.weight(weight);
    }
    group = match rate {
        Some(Limit::At(rate)) => group.rate(rate),
        Some(Limit::None) => group.no_rate(),
        None => group,
    };
    group = match concurrency {
        Some(Limit::At(concurrency)) => group.concurrency(concurrency),
        Some(Limit::None) => group.no_concurrency(),
        None => group,
    };
    if let Some(base_priority) = base_priority {
        group = group.base_priority(base_priority);
    }
    group = if pause { group.pause() } else { group };
    group = if resume { group.resume() } else { group };
    group = if reset_congestion { group.reset_congestion() } else { group };
    let shown = SettingsShown::new(&set.group, &group.apply().await?);
    set.place.tell(&shown, || tables::prose(&shown.text()))
}

async fn list(limit: usize, place: &Place) -> Result<(), Failure> {
    let fairlane = place.attach().await?;
    let (mut groups, mut paused) = (Vec::new(), Vec::new());
    let mut after = None;
    while groups.len() < limit {
        let page = fairlane.groups(after.take(), (limit - groups.len()).min(500)).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.group.clone());
        paused.extend(page.iter().filter(|line| waits_paused(line)).cloned());
        groups.extend(page.into_iter().map(|line| Line {
            settings: SettingsShown::new(&line.group.to_string(), &line.settings),
            backlog: line.backlog,
            in_flight: line.in_flight,
            waiting: line.waiting,
            total: line.total,
            done: line.done,
            backoff_ms: line.backoff_ms,
        }));
    }
    let warnings = paused_warnings(&paused);
    let listed = Listed { groups, active: fairlane.whole().await?.active_groups, warnings };
    place.tell(&listed, || listed.text())
}

impl SettingsShown {
    fn new(group: &str, settings: &GroupSettings) -> Self {
        Self {
            group: group.to_owned(),
            weight: settings.weight.get(),
            rate: settings.rate.map(rate_text),
            concurrency: settings.concurrency,
            base_priority: settings.base_priority,
            paused: settings.paused,
        }
    }

    fn text(&self) -> String {
        let paused = if self.paused { "paused, " } else { "" };
        format!(
            "{}: {paused}weight {}, rate {}, concurrency {}, base priority {}",
            self.group,
            self.weight,
            limit_text(self.rate.as_ref()),
            limit_text(self.concurrency.as_ref()),
            self.base_priority
        )
    }
}

impl Shown {
    fn new(group: &str, view: &GroupView, congestion: Option<CongestionView>) -> Self {
        let congestion = congestion.map(|view| CongestionShown {
            level: view.level.as_str(),
            kept_away: view.waiting,
            speed: view.speed,
            backoff_ms: view.backoff_ms,
            throttles_per_job: view.throttles_per_job(),
            estimated_completion_ms: view.estimated_completion_ms(),
        });
        Self {
            settings: SettingsShown::new(group, &view.settings),
            backlog: view.backlog,
            in_flight: view.in_flight,
            waiting: view.waiting,
            total: view.total,
            done: view.done,
            stored_bytes: view.stored_bytes,
            congestion,
        }
    }

    fn text(&self) -> String {
        let counts = format!(
            "{} waiting for their turn ({} of them not due yet), {} running, {} of {} done since it was last idle\n  \
             {} stored, finished jobs included",
            thousands(self.backlog),
            thousands(self.waiting),
            thousands(self.in_flight),
            thousands(self.done),
            thousands(self.total),
            tables::bytes(self.stored_bytes)
        );
        let congestion = self.congestion.as_ref().map(|view| {
            format!("\n  congestion {}, {:.2} throttles a job", view.level, view.throttles_per_job)
        });
        tables::prose(&format!("{}\n  {counts}{}", self.settings.text(), congestion.unwrap_or_default()))
    }
}

impl Listed {
    fn text(&self) -> String {
        let shown = thousands(self.groups.len() as u64);
        let summary = format!("{shown} of {} groups with unfinished jobs.", thousands(self.active));
        if self.groups.is_empty() {
            return summary;
        }
        let rows = self.groups.iter().map(|line| {
            let done = format!("{} of {}", thousands(line.done), thousands(line.total));
            let counts = [line.backlog, line.waiting, line.in_flight].map(thousands);
            let settings = &line.settings;
            let rate = limit_text(settings.rate.as_ref());
            let paused = if settings.paused { "paused" } else { "–" };
            let limits = vec![done, settings.weight.to_string(), rate, paused.to_owned()];
            [vec![settings.group.clone()], counts.to_vec(), limits].concat()
        });
        let header = ["customer", "backlog", "not due", "running", "done", "weight", "rate", "paused"];
        let warnings: String = self.warnings.iter().map(|text| format!("\nwarning: {text}")).collect();
        format!("{}\n{summary}{warnings}", tables::texts(&header, rows))
    }
}
