//! `fairlane status`: the queue on one screen.

use clap::Args;
use fairlane::views::{BulkView, CongestionView, GroupLineView, QueueView};
use fairlane::{TypeId, TypeView, rate_text};
use serde::Serialize;

use super::bulk::text::status as bulk_status;
use crate::failure::Failure;
use crate::limit::{limit_text, rate_now_text};
use crate::overview::{GroupOverview, Overview, ms_since};
use crate::tables::{self, ago, counted, thousands};
use crate::target::QueueTarget;

const EXAMPLES: &str = "\
Examples:
  fairlane status
  fairlane status --engine http://127.0.0.1:8080
  fairlane status --groups 20 --json

Shows the groups with the most unfinished jobs, and their bulk actions that have not ended. \
Changes nothing. fairlane top shows the queue live.
Exit codes: 0 success; 1 failure; 2 bad input.";

/// Shows the queue on one screen: counts, types, busiest groups, bulk actions, warnings
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Maximum number of groups to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = crate::target::list_length, allow_negative_numbers = true)]
    groups: usize,
    #[command(flatten)]
    target: QueueTarget,
}

/// The JSON form of the result.
#[derive(Serialize)]
pub struct StatusView {
    address: String,
    #[serde(flatten)]
    queue: QueueView,
    groups: Vec<GroupRow>,
    bulks: Vec<BulkView>,
}

#[derive(Serialize)]
struct GroupRow {
    #[serde(flatten)]
    line: GroupLineView,
    #[serde(skip_serializing_if = "Option::is_none")]
    congestion: Option<CongestionView>,
}

/// Prints a snapshot of the queue.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let fairlane = arguments.target.attach().await?;
    let overview = Overview::take(&fairlane, arguments.groups, true).await?;
    let view = StatusView::new(&arguments.target, &overview);
    arguments.target.print(&view, || view.text(&overview))
}

impl StatusView {
    /// The view of a snapshot.
    pub fn new(target: &QueueTarget, overview: &Overview) -> Self {
        let row = |one: &GroupOverview| {
            let congestion = one.congestion.as_ref();
            GroupRow {
                line: one.line.clone().into(),
                congestion: congestion.map(|view| CongestionView::new(&one.line.group, view)),
            }
        };
        Self {
            address: target.address(),
            queue: (&overview.state).into(),
            groups: overview.groups.iter().map(row).collect(),
            bulks: overview.bulks.iter().map(BulkView::from).collect(),
        }
    }

    fn text(&self, overview: &Overview) -> String {
        let mut parts = vec![tables::prose(&self.counts())];
        if !overview.state.types.is_empty() {
            let header = ["type", "in flight", "rate", "now", "answered/s", "last requested"];
            let rows = overview.state.types.iter().map(|(name, view)| type_row(name, view));
            parts.push(tables::texts_within(&header, &["answered/s", "in flight"], rows));
        }
        if !overview.groups.is_empty() {
            let header = ["group", "backlog", "waiting", "in flight", "done", "congestion"];
            let optional = ["congestion", "waiting", "in flight"];
            let table = tables::texts_within(&header, &optional, overview.groups.iter().map(group_row));
            parts.push(table + &self.hidden());
        }
        if !self.bulks.is_empty() {
            let header = ["group", "bulk action", "state", "done", "failed", "cancelled"];
            let rows = self.bulks.iter().map(bulk_row);
            parts.push(tables::texts_within(&header, &["cancelled", "failed"], rows));
        }
        if !self.queue.warnings.is_empty() {
            let warnings = self.queue.warnings.iter();
            let lines: Vec<String> = warnings.map(|warning| format!("warning: {warning}")).collect();
            parts.push(tables::prose(&lines.join("\n")));
        }
        parts.join("\n\n")
    }

    fn counts(&self) -> String {
        let queue = &self.queue;
        format!(
            "{} ({}): {}, rate {}\n  backlog {} ({} waiting), {} in flight, {}, {} answered in the last second\n  \
             since the queue was made: {} succeeded, {} became dead\n  \
             retained: {} completed (without those of bulk actions), {} dead; {} to be aggregated, {} to be swept\n  \
             {} of {} stored, including finished jobs",
            self.address,
            queue.engine,
            queue.discipline,
            limit_text(queue.rate.as_ref()),
            thousands(queue.backlog),
            thousands(queue.waiting),
            thousands(queue.in_flight),
            counted(queue.active_groups, "group"),
            thousands(queue.answers_last_second),
            thousands(queue.succeeded_total),
            thousands(queue.dead_total),
            thousands(queue.completed),
            thousands(queue.dead),
            counted(queue.aggregating, "bulk action"),
            thousands(queue.sweeping),
            tables::bytes(queue.stored_bytes),
            tables::bytes(queue.stored_bytes_max)
        )
    }

    /// A line about groups that are not shown.
    fn hidden(&self) -> String {
        match self.queue.active_groups.saturating_sub(self.groups.len() as u64) {
            0 => String::new(),
            hidden => format!("\nand {} with fewer jobs", counted(hidden, "group")),
        }
    }
}

fn type_row(name: &TypeId, view: &TypeView) -> Vec<String> {
    let rate = match view.settings.paused {
        true => "paused".to_owned(),
        false => limit_text(view.settings.rate.map(rate_text).as_ref()),
    };
    let now = view.rate_milli.map_or("–".to_owned(), |milli| rate_now_text(milli, view.settings.rate));
    let asked = view.asked_at.map_or("never".to_owned(), |at| ago(ms_since(at)));
    vec![name.to_string(), thousands(view.in_flight), rate, now, thousands(view.answers), asked]
}

fn group_row(one: &GroupOverview) -> Vec<String> {
    let line = &one.line;
    let done = format!("{} of {}", thousands(line.done), thousands(line.total));
    let counts = [line.backlog, line.waiting, line.in_flight].map(thousands);
    [vec![line.group.to_string()], counts.to_vec(), vec![done, one.status().to_owned()]].concat()
}

fn bulk_row(bulk: &BulkView) -> Vec<String> {
    let done = format!("{} of {}", thousands(bulk.succeeded), thousands(bulk.total));
    let names = vec![bulk.group.clone(), bulk.id.clone(), bulk_status(bulk), done];
    [names, [bulk.failed, bulk.cancelled].map(thousands).to_vec()].concat()
}
