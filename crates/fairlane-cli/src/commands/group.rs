//! `fairlane group`: shares and limits of groups.

use clap::{Args, Subcommand};
use fairlane::views::{GroupLineView, GroupSettingsView, GroupView};
use fairlane::{GroupId, GroupPatch, Rate, Weight};
use fairlane_core::limits::WEIGHT_MAX;
use serde::Serialize;

use crate::failure::Failure;
use crate::limit::{Limit, limit_text, number_or_none, paused, rate_or_none, within};
use crate::overview::{is_held_up_by_pause, paused_warnings};
use crate::tables::{self, counted, thousands};
use crate::target::{QueueTarget, list_length};

const EXAMPLES: &str = "\
Examples:
  fairlane group show customer-7
  fairlane group set customer-7 --weight 3 --rate 50/s --concurrency 10
  fairlane group set customer-7 --rate none
  fairlane group set customer-7 --pause
  fairlane group list --limit 20 --json
  fairlane group list --all

Settings that are not given stay unchanged. list prints the groups with unfinished jobs, by name; with --all also \
groups without jobs that have settings of their own.
Exit codes: 0 success; 1 failure; 2 unknown group or bad input.";

/// Shows groups (customers) and sets their weight, rate, concurrency and pause
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Shows a group
    #[command(after_help = "Example:\n  fairlane group show customer-7")]
    Show {
        /// Name of the group
        group: String,
        #[command(flatten)]
        target: QueueTarget,
    },
    /// Changes the settings of a group
    #[command(after_help = "Example:\n  fairlane group set customer-7 --weight 3 --rate '500/s burst 20'")]
    Set(Box<SetArguments>),
    /// Lists the groups with unfinished jobs
    #[command(after_help = "Examples:\n  fairlane group list --limit 20\n  fairlane group list --all")]
    List {
        /// List also groups without jobs that have settings of their own
        #[arg(long)]
        all: bool,
        /// Maximum number of groups to list
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = list_length, allow_negative_numbers = true)]
        limit: usize,
        #[command(flatten)]
        target: QueueTarget,
    },
}

#[derive(Args)]
struct SetArguments {
    /// Name of the group
    group: String,
    /// Share relative to other groups, 1 to 1000
    #[arg(long, value_name = "N", value_parser = within::<1, WEIGHT_MAX>, allow_negative_numbers = true)]
    weight: Option<u32>,
    /// Rate limit over all types: 50/s, 10/min, '500/s burst 20', or none
    #[arg(long, value_parser = rate_or_none, allow_hyphen_values = true)]
    rate: Option<Limit<Rate>>,
    /// Maximum number of running jobs, or none
    #[arg(long, value_name = "N", value_parser = number_or_none, allow_negative_numbers = true)]
    concurrency: Option<Limit<u32>>,
    /// Base priority in the classic discipline, in milliseconds of age
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    base_priority: Option<i64>,
    /// Start no jobs of this group until it is resumed
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Start jobs of this group again
    #[arg(long)]
    resume: bool,
    /// Discard the recorded congestion
    #[arg(long)]
    reset_congestion: bool,
    #[command(flatten)]
    target: QueueTarget,
}

/// The JSON form of the list.
#[derive(Serialize)]
struct GroupList {
    groups: Vec<GroupLineView>,
    /// The number of all groups with unfinished jobs.
    active_groups: u64,
    warnings: Vec<String>,
    #[serde(skip)]
    all: bool,
}

/// Runs the subcommand.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.action {
        Action::Show { group, target } => show(&group, &target).await,
        Action::Set(arguments) => set(*arguments).await,
        Action::List { all, limit, target } => list(all, limit, &target).await,
    }
}

async fn show(name: &str, target: &QueueTarget) -> Result<(), Failure> {
    let group = target.attach().await?.group(name);
    let (Some(view), Some(congestion)) = (group.view().await?, group.congestion().await?) else {
        return Err(Failure::bad_input(format!("there is no group {name}: it has no jobs and no settings")));
    };
    let name = GroupId::new(name).map_err(fairlane::Error::from)?;
    let view = GroupView::new(&name, view, &congestion);
    target.print(&view, || text(&view))
}

async fn set(arguments: SetArguments) -> Result<(), Failure> {
    let patch = GroupPatch {
        weight: arguments.weight.map(Weight::new).transpose().map_err(fairlane::Error::from)?,
        rate: arguments.rate.map(Option::from),
        concurrency: arguments.concurrency.map(Option::from),
        base_priority: arguments.base_priority,
        paused: paused(arguments.pause, arguments.resume),
    };
    if patch == GroupPatch::default() && !arguments.reset_congestion {
        return Err(Failure::bad_input("nothing to set; give a setting, such as --weight 3 or --pause"));
    }
    let mut group = arguments.target.attach_or_make().await?.group(&arguments.group).patch(patch);
    if arguments.reset_congestion {
        group = group.reset_congestion();
    }
    let settings = group.apply().await?.into();
    arguments.target.print(&settings, || tables::prose(&settings_text(&arguments.group, &settings)))
}

async fn list(all: bool, limit: usize, target: &QueueTarget) -> Result<(), Failure> {
    let fairlane = target.attach().await?;
    let (mut groups, mut paused) = (Vec::new(), Vec::new());
    let mut after = None;
    while groups.len() < limit {
        let (begin, size) = (after.take(), (limit - groups.len()).min(500));
        let page = match all {
            true => fairlane.all_groups(begin, size).await?,
            false => fairlane.groups(begin, size).await?,
        };
        let Some(last) = page.last() else { break };
        after = Some(last.group.clone());
        paused.extend(page.iter().filter(|line| is_held_up_by_pause(line)).cloned());
        groups.extend(page.into_iter().map(GroupLineView::from));
    }
    let warnings = paused_warnings(&paused);
    let active_groups = fairlane.queue_view().await?.active_groups;
    let list = GroupList { groups, active_groups, warnings, all };
    target.print(&list, || list.text())
}

fn settings_text(group: &str, settings: &GroupSettingsView) -> String {
    let paused = if settings.paused { "paused, " } else { "" };
    format!(
        "{group}: {paused}weight {}, rate {}, concurrency {}, base priority {}",
        settings.weight,
        limit_text(settings.rate.as_ref()),
        limit_text(settings.concurrency.as_ref()),
        settings.base_priority
    )
}

fn text(view: &GroupView) -> String {
    tables::prose(&format!(
        "{}\n  backlog {} ({} waiting), {} in flight, {} of {} done since the group was last idle\n  \
         {} stored, including finished jobs\n  congestion {}, {:.2} throttles per job",
        settings_text(&view.group, &view.settings),
        thousands(view.backlog),
        thousands(view.waiting),
        thousands(view.in_flight),
        thousands(view.done),
        thousands(view.total),
        tables::bytes(view.stored_bytes),
        view.congestion.level,
        view.congestion.throttles_per_job
    ))
}

impl GroupList {
    fn active_shown(&self) -> u64 {
        self.groups.iter().filter(|line| line.backlog + line.in_flight > 0).count() as u64
    }

    fn text(&self) -> String {
        let shown = thousands(self.groups.len() as u64);
        let summary = match self.all {
            true => {
                let groups = counted(self.groups.len() as u64, "group");
                format!("{groups}, {} of them with unfinished jobs.", thousands(self.active_shown()))
            }
            false => format!("{shown} of {} with unfinished jobs.", counted(self.active_groups, "group")),
        };
        if self.groups.is_empty() {
            return summary;
        }
        let rows = self.groups.iter().map(|line| {
            let done = format!("{} of {}", thousands(line.done), thousands(line.total));
            let counts = [line.backlog, line.waiting, line.in_flight].map(thousands);
            let settings = &line.settings;
            let rate = limit_text(settings.rate.as_ref());
            let paused = if settings.paused { "paused" } else { "–" };
            let seats = limit_text(settings.concurrency.as_ref());
            let limits = vec![done, settings.weight.to_string(), rate, seats, paused.to_owned()];
            [vec![line.group.clone()], counts.to_vec(), limits].concat()
        });
        let header =
            ["group", "backlog", "waiting", "in flight", "done", "weight", "rate", "concurrency", "paused"];
        let warnings: String = self.warnings.iter().map(|text| format!("\nwarning: {text}")).collect();
        let optional = ["weight", "waiting", "in flight", "concurrency", "rate", "paused"];
        format!("{}\n{summary}{warnings}", tables::texts_within(&header, &optional, rows))
    }
}
