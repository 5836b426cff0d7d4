//! `fairlane audit`: does everything that is stored fit together, and if not, put it right.

use clap::Args;
use fairlane_core::queue::{Finding, Suspect};
use fairlane_engine::{AuditProgress, AuditReport};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::place::Place;
use crate::tables::{self, thousands};

const EXAMPLES: &str = "\
Examples:
  fairlane audit
  fairlane audit --engine redis://10.0.0.5:6379
  fairlane audit --engine ./queue --json
  fairlane audit --repair

It may run while producers and workers do: what was only in motion is no finding. Without --repair it changes
nothing. With --repair each finding is put right in one step, and no count or lane stays wrong because of another.
Exit codes: 0 nothing is wrong, or all is repaired; 1 it failed; 2 bad input; 3 something is wrong and not repaired.";

const BAR: &str = "[{wide_bar}] {human_pos} of {human_len} groups {msg}";

/// Looks for jobs, lanes and counts that do not fit together, and repairs them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Put right what is found
    #[arg(long)]
    repair: bool,
}

/// What programs get.
#[derive(Serialize)]
struct Answer {
    groups: u64,
    findings: Vec<Found>,
    /// Could not be counted in one step.
    too_large: Vec<Thing>,
    repaired: usize,
    /// Findings that are neither repaired nor mere warnings.
    remaining: usize,
    /// What weakens the promises of the store, a sentence each.
    engine_warnings: Vec<String>,
}

#[derive(Serialize)]
struct Thing {
    kind: &'static str,
    name: String,
}

#[derive(Serialize)]
struct Found {
    word: &'static str,
    #[serde(flatten)]
    thing: Thing,
    sentence: String,
    stored: i64,
    counted: i64,
    repaired: bool,
    warning: bool,
}

/// Walks through everything and says what was found.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let fairlane = arguments.place.attach().await?;
    let engine = fairlane.engine();
    let warnings = engine.warnings();
    if !arguments.place.json {
        warnings.iter().for_each(|warning| output::say(&format!("warning: {warning}")));
    }
    let bar = output::progress_bar(arguments.place.json, BAR, Some(0));
    let report = engine.audit_all(arguments.repair, |progress| show(&bar, progress)).await;
    bar.finish_and_clear();
    let report = report?;
    let answer = Answer::new(&report, warnings);
    if arguments.place.json {
        output::print_json(&answer)?
    } else {
        output::print(&answer.text())?
    };
    match answer.remaining {
        0 => Ok(()),
        _ if arguments.place.json => Err(Failure::Found(String::new())),
        _ if arguments.repair => Err(Failure::Found("not everything could be repaired".into())),
        _ => Err(Failure::Found("run it again with --repair to put this right".into())),
    }
}

fn show(bar: &ProgressBar, progress: AuditProgress) {
    bar.set_length(progress.groups);
    bar.set_position(progress.groups_walked);
    if progress.findings > 0 {
        bar.set_message(format!("{} found", thousands(progress.findings)));
    }
}

impl Thing {
    fn new(suspect: &Suspect) -> Self {
        Self { kind: suspect.kind(), name: suspect.to_string() }
    }
}

impl Found {
    fn new(finding: &Finding) -> Self {
        Self {
            word: finding.word(),
            thing: Thing::new(&finding.suspect),
            sentence: finding.sentence(),
            stored: finding.stored,
            counted: finding.counted,
            repaired: finding.repaired,
            warning: finding.is_warning(),
        }
    }
}

impl Answer {
    fn new(report: &AuditReport, engine_warnings: Vec<String>) -> Self {
        Self {
            groups: report.groups,
            findings: report.findings.iter().map(Found::new).collect(),
            too_large: report.too_large.iter().map(Thing::new).collect(),
            repaired: report.findings.iter().filter(|finding| finding.repaired).count(),
            remaining: report.remaining(),
            engine_warnings,
        }
    }

    /// A row for each finding, and what they come to.
    fn text(&self) -> String {
        let mut lines = Vec::new();
        if !self.findings.is_empty() {
            let rows = self.findings.iter().map(|found| {
                let thing = format!("{} {}", found.thing.kind, found.thing.name);
                vec![found.word.to_owned(), thing, found.sentence.clone()]
            });
            lines.push(tables::texts(&["finding", "of", "what was found"], rows) + "\n");
        }
        if let Some(first) = self.too_large.first() {
            lines.push(format!(
                "{} things are too large to be counted in one step, such as {} {}; audit again when less is waiting.",
                thousands(self.too_large.len() as u64),
                first.kind,
                first.name
            ));
        }
        lines.push(self.summary());
        lines.join("\n")
    }

    fn summary(&self) -> String {
        let groups =
            if self.groups == 1 { "1 group".into() } else { format!("{} groups", thousands(self.groups)) };
        let warnings = self.findings.iter().filter(|found| found.warning).count();
        match self.findings.len() {
            0 => format!("Nothing is wrong in {groups}."),
            found => format!(
                "{} found in {groups}: {} repaired, {} to be repaired, {} warnings.",
                thousands(found as u64),
                thousands(self.repaired as u64),
                thousands(self.remaining as u64),
                thousands(warnings as u64)
            ),
        }
    }
}
