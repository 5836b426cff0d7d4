//! `fairlane status`: the queue on one screen.

use clap::Args;
use fairlane::{BulkView, rate_text};
use serde::Serialize;

use crate::failure::Failure;
use crate::limit::{limit_text, rate_now_text};
use crate::overview::{GroupOverview, Overview, TypeOverview};
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
    engine: String,
    discipline: &'static str,
    rate: Option<String>,
    backlog: u64,
    waiting: u64,
    in_flight: u64,
    completed: u64,
    dead: u64,
    stored_bytes: u64,
    stored_bytes_max: u64,
    active_groups: u64,
    aggregating: u64,
    sweeping: u64,
    answers_last_second: u64,
    types: Vec<TypeRow>,
    groups: Vec<GroupRow>,
    bulks: Vec<BulkRow>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct TypeRow {
    r#type: String,
    paused: bool,
    in_flight: u64,
    ready: u64,
    rate: Option<String>,
    /// The effective rate, below the configured one after rejections of the downstream.
    rate_now_per_second: Option<f64>,
    #[serde(skip)]
    rate_now: Option<String>,
    answers_last_second: u64,
    /// How long ago a worker last requested its jobs.
    asked_ms_ago: Option<u64>,
}

#[derive(Serialize)]
struct GroupRow {
    group: String,
    backlog: u64,
    waiting: u64,
    in_flight: u64,
    total: u64,
    done: u64,
    congestion: &'static str,
    paused: bool,
    #[serde(skip)]
    status: &'static str,
}

#[derive(Serialize)]
struct BulkRow {
    group: String,
    bulk: String,
    state: &'static str,
    mode: &'static str,
    total: u64,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
}

/// Prints a snapshot of the queue.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let fairlane = arguments.target.attach().await?;
    let overview = Overview::take(&fairlane, arguments.groups, true).await?;
    let view = StatusView::new(&arguments.target, fairlane.engine().name(), &overview);
    arguments.target.print(&view, || view.text(overview.more_groups))
}

impl StatusView {
    /// The view of a snapshot.
    pub fn new(target: &QueueTarget, engine: &str, overview: &Overview) -> Self {
        let queue = &overview.queue;
        Self {
            engine: format!("{} ({engine})", target.address()),
            discipline: queue.settings.discipline.as_str(),
            rate: queue.settings.rate.map(rate_text),
            backlog: queue.backlog,
            waiting: queue.waiting,
            in_flight: queue.in_flight,
            completed: queue.completed,
            dead: queue.failed,
            stored_bytes: queue.stored_bytes,
            stored_bytes_max: queue.settings.stored_bytes_max,
            active_groups: queue.active_groups,
            aggregating: queue.aggregating,
            sweeping: queue.sweeping,
            answers_last_second: overview.answers(),
            types: overview.types.iter().map(TypeRow::new).collect(),
            groups: overview.groups.iter().map(GroupRow::new).collect(),
            bulks: overview.bulks.iter().map(BulkRow::new).collect(),
            warnings: overview.warnings.clone(),
        }
    }

    fn text(&self, more_groups: bool) -> String {
        let mut parts = vec![tables::prose(&self.counts())];
        if !self.types.is_empty() {
            let header = ["type", "running", "rate", "now", "answered/s", "last requested"];
            parts.push(tables::texts(&header, self.types.iter().map(TypeRow::row)));
        }
        if !self.groups.is_empty() {
            let header = ["customer", "backlog", "not due", "running", "done", "congestion"];
            let table = tables::texts(&header, self.groups.iter().map(GroupRow::row));
            parts.push(table + &self.hidden(more_groups));
        }
        if !self.bulks.is_empty() {
            let header = ["customer", "bulk action", "state", "done", "failed", "cancelled"];
            parts.push(tables::texts(&header, self.bulks.iter().map(BulkRow::row)));
        }
        if !self.warnings.is_empty() {
            let lines: Vec<String> =
                self.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
            parts.push(tables::prose(&lines.join("\n")));
        }
        parts.join("\n\n")
    }

    fn counts(&self) -> String {
        format!(
            "{}: {}, rate {}\n  {} waiting ({} not due yet), {} running, {}, {} answered in the last second\n  \
             retained: {} completed (without those of bulk actions), {} dead; {} to be aggregated, {} to be swept\n  \
             {} of {} stored, including finished jobs",
            self.engine,
            self.discipline,
            limit_text(self.rate.as_ref()),
            thousands(self.backlog),
            thousands(self.waiting),
            thousands(self.in_flight),
            counted(self.active_groups, "group"),
            thousands(self.answers_last_second),
            thousands(self.completed),
            thousands(self.dead),
            counted(self.aggregating, "bulk action"),
            thousands(self.sweeping),
            tables::bytes(self.stored_bytes),
            tables::bytes(self.stored_bytes_max)
        )
    }

    /// A line about groups that are not shown.
    fn hidden(&self, more_groups: bool) -> String {
        let hidden = self.active_groups.saturating_sub(self.groups.len() as u64);
        match (hidden, more_groups) {
            (0, _) => String::new(),
            (hidden, false) => format!("\nand {} with fewer jobs", counted(hidden, "group")),
            (hidden, true) => format!("\nand {}, some of which were not scanned", counted(hidden, "group")),
        }
    }
}

impl TypeRow {
    fn new(one: &TypeOverview) -> Self {
        let view = &one.view;
        Self {
            r#type: one.type_id.to_string(),
            paused: view.settings.paused,
            in_flight: view.in_flight,
            ready: view.ready,
            rate: view.settings.rate.map(rate_text),
            rate_now_per_second: view.rate_milli.map(|milli| milli as f64 / 1000.0),
            rate_now: view.rate_milli.map(|milli| rate_now_text(milli, view.settings.rate)),
            answers_last_second: view.answers,
            asked_ms_ago: one.asked_ms_ago,
        }
    }

    fn row(&self) -> Vec<String> {
        let rate = if self.paused { "paused".to_owned() } else { limit_text(self.rate.as_ref()) };
        let now = self.rate_now.clone().unwrap_or("–".to_owned());
        let asked = self.asked_ms_ago.map_or("never".to_owned(), ago);
        let counts = [self.in_flight, self.answers_last_second].map(thousands);
        let [running, answered] = counts;
        vec![self.r#type.clone(), running, rate, now, answered, asked]
    }
}

impl GroupRow {
    fn new(one: &GroupOverview) -> Self {
        let line = &one.line;
        Self {
            group: line.group.to_string(),
            backlog: line.backlog,
            waiting: line.waiting,
            in_flight: line.in_flight,
            total: line.total,
            done: line.done,
            congestion: one.level,
            paused: line.settings.paused,
            status: one.status(),
        }
    }

    fn row(&self) -> Vec<String> {
        let done = format!("{} of {}", thousands(self.done), thousands(self.total));
        let counts = [self.backlog, self.waiting, self.in_flight].map(thousands);
        [vec![self.group.clone()], counts.to_vec(), vec![done, self.status.to_owned()]].concat()
    }
}

impl BulkRow {
    fn new(view: &BulkView) -> Self {
        Self {
            group: view.bulk.group.to_string(),
            bulk: view.bulk.id.to_string(),
            state: view.state.as_str(),
            mode: view.mode.as_str(),
            total: view.total,
            succeeded: view.succeeded,
            failed: view.failed,
            cancelled: view.cancelled,
        }
    }

    fn row(&self) -> Vec<String> {
        let state = match self.mode {
            "run" => self.state.to_owned(),
            mode => format!("{}, {mode}", self.state),
        };
        let done = format!("{} of {}", thousands(self.succeeded), thousands(self.total));
        let names = vec![self.group.clone(), self.bulk.clone(), state, done];
        [names, [self.failed, self.cancelled].map(thousands).to_vec()].concat()
    }
}
