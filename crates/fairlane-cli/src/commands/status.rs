//! `fairlane status`: the whole queue in a screenful.

use clap::Args;
use fairlane::{BulkView, rate_text};
use serde::Serialize;

use crate::failure::Failure;
use crate::limit::{limit_text, rate_now_text};
use crate::overview::{GroupSeen, Overview, TypeSeen};
use crate::place::Place;
use crate::tables::{self, ago, thousands};

const EXAMPLES: &str = "\
Examples:
  fairlane status
  fairlane status --engine http://127.0.0.1:8080
  fairlane status --groups 20 --json

Of many groups those with the most unfinished jobs are shown, with their bulk actions that have not ended.
fairlane top shows it live. It looks and changes nothing.
Exit codes: 0 done; 1 it failed; 2 bad input.";

/// Shows the whole queue in a screenful: counts, types, the busiest groups, bulk actions, warnings
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// At most so many groups
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = crate::place::list_length, allow_negative_numbers = true)]
    groups: usize,
    #[command(flatten)]
    place: Place,
}

/// What programs get.
#[derive(Serialize)]
pub struct Answer {
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
    types: Vec<TypeShown>,
    groups: Vec<GroupShown>,
    bulks: Vec<BulkShown>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct TypeShown {
    r#type: String,
    paused: bool,
    in_flight: u64,
    ready: u64,
    rate: Option<String>,
    /// Below the set one after refusals of the downstream.
    rate_now_per_second: Option<f64>,
    #[serde(skip)]
    rate_now: Option<String>,
    answers_last_second: u64,
    /// When a worker last asked for its jobs.
    asked_ms_ago: Option<u64>,
}

#[derive(Serialize)]
struct GroupShown {
    group: String,
    backlog: u64,
    waiting: u64,
    in_flight: u64,
    total: u64,
    done: u64,
    congestion: &'static str,
    paused: bool,
    #[serde(skip)]
    standing: &'static str,
}

#[derive(Serialize)]
struct BulkShown {
    group: String,
    bulk: String,
    state: &'static str,
    course: &'static str,
    total: u64,
    succeeded: u64,
    failed: u64,
    cancelled: u64,
}

/// Looks once and says what is there.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let fairlane = arguments.place.attach().await?;
    let overview = Overview::take(&fairlane, arguments.groups, true).await?;
    let answer = Answer::new(&arguments.place, fairlane.engine().name(), &overview);
    arguments.place.tell(&answer, || answer.text(overview.more_groups))
}

impl Answer {
    /// From a look.
    pub fn new(place: &Place, engine: &str, overview: &Overview) -> Self {
        let whole = &overview.whole;
        Self {
            engine: format!("{} ({engine})", place.address()),
            discipline: whole.settings.discipline.as_str(),
            rate: whole.settings.rate.map(rate_text),
            backlog: whole.backlog,
            waiting: whole.waiting,
            in_flight: whole.in_flight,
            completed: whole.completed,
            dead: whole.failed,
            stored_bytes: whole.stored_bytes,
            stored_bytes_max: whole.settings.stored_bytes_max,
            active_groups: whole.active_groups,
            aggregating: whole.aggregating,
            sweeping: whole.sweeping,
            answers_last_second: overview.answers(),
            types: overview.types.iter().map(TypeShown::new).collect(),
            groups: overview.groups.iter().map(GroupShown::new).collect(),
            bulks: overview.bulks.iter().map(BulkShown::new).collect(),
            warnings: overview.warnings.clone(),
        }
    }

    fn text(&self, more_groups: bool) -> String {
        let mut parts = vec![tables::prose(&self.counts())];
        if !self.types.is_empty() {
            let header = ["type", "running", "rate", "now", "answered/s", "last asked for"];
            parts.push(tables::texts(&header, self.types.iter().map(TypeShown::row)));
        }
        if !self.groups.is_empty() {
            let header = ["customer", "backlog", "not due", "running", "done", "congestion"];
            let table = tables::texts(&header, self.groups.iter().map(GroupShown::row));
            parts.push(table + &self.hidden(more_groups));
        }
        if !self.bulks.is_empty() {
            let header = ["customer", "bulk action", "state", "done", "failed", "cancelled"];
            parts.push(tables::texts(&header, self.bulks.iter().map(BulkShown::row)));
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
            "{}: {}, rate {}\n  {} waiting ({} not due yet), {} running, {} groups, {} answered in the last second\n  \
             {} completed (those of bulk actions not counted) and {} dead are kept; {} bulk actions to be summed up, {} to be swept\n  \
             {} of {} stored, finished jobs included",
            self.engine,
            self.discipline,
            limit_text(self.rate.as_ref()),
            thousands(self.backlog),
            thousands(self.waiting),
            thousands(self.in_flight),
            thousands(self.active_groups),
            thousands(self.answers_last_second),
            thousands(self.completed),
            thousands(self.dead),
            thousands(self.aggregating),
            thousands(self.sweeping),
            tables::bytes(self.stored_bytes),
            tables::bytes(self.stored_bytes_max)
        )
    }

    /// What is said of groups that are not shown.
    fn hidden(&self, more_groups: bool) -> String {
        let hidden = self.active_groups.saturating_sub(self.groups.len() as u64);
        match (hidden, more_groups) {
            (0, _) => String::new(),
            (hidden, false) => format!("\nand {} groups with less", thousands(hidden)),
            (hidden, true) => format!("\nand {} groups, some of which were not looked at", thousands(hidden)),
        }
    }
}

impl TypeShown {
    fn new(one: &TypeSeen) -> Self {
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

impl GroupShown {
    fn new(one: &GroupSeen) -> Self {
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
            standing: one.standing(),
        }
    }

    fn row(&self) -> Vec<String> {
        let done = format!("{} of {}", thousands(self.done), thousands(self.total));
        let counts = [self.backlog, self.waiting, self.in_flight].map(thousands);
        [vec![self.group.clone()], counts.to_vec(), vec![done, self.standing.to_owned()]].concat()
    }
}

impl BulkShown {
    fn new(view: &BulkView) -> Self {
        Self {
            group: view.bulk.group.to_string(),
            bulk: view.bulk.id.to_string(),
            state: view.state.as_str(),
            course: view.course.as_str(),
            total: view.total,
            succeeded: view.succeeded,
            failed: view.failed,
            cancelled: view.cancelled,
        }
    }

    fn row(&self) -> Vec<String> {
        let state = match self.course {
            "run" => self.state.to_owned(),
            course => format!("{}, {course}", self.state),
        };
        let done = format!("{} of {}", thousands(self.succeeded), thousands(self.total));
        let names = vec![self.group.clone(), self.bulk.clone(), state, done];
        [names, [self.failed, self.cancelled].map(thousands).to_vec()].concat()
    }
}
