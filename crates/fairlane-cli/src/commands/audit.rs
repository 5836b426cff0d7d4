//! `fairlane audit`: finds inconsistencies in the stored data and repairs them.

use clap::Args;
use fairlane_core::queue::{Finding, Suspect};
use fairlane_engine::{AuditProgress, AuditReport};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;
use crate::tables::{self, counted, thousands};
use crate::target::QueueTarget;

const EXAMPLES: &str = "\
Examples:
  fairlane audit
  fairlane audit --engine redis://10.0.0.5:6379
  fairlane audit --engine ./queue --json
  fairlane audit --repair

An audit may run while producers and workers do: changes in progress are not findings. Without \
--repair it changes nothing. With --repair it repairs each finding atomically, including the counts \
and lanes that depend on it.
Exit codes: 0 no inconsistencies, or all repaired; 1 failure; 2 bad input; 3 inconsistencies that \
are not repaired.";

const BAR: &str = "[{wide_bar}] {human_pos} of {human_len} groups {msg}";

/// Finds inconsistent jobs, lanes and counts, and repairs them
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    target: QueueTarget,
    /// Repair the findings
    #[arg(long)]
    repair: bool,
}

/// The JSON form of the result.
#[derive(Serialize)]
struct AuditView {
    groups: u64,
    findings: Vec<FindingView>,
    /// Items that are too large to be counted in one step.
    too_large: Vec<SuspectView>,
    repaired: usize,
    /// Findings that are neither repaired nor mere warnings.
    remaining: usize,
    /// What weakens the guarantees of the store, one sentence each.
    engine_warnings: Vec<String>,
}

#[derive(Serialize)]
struct SuspectView {
    kind: &'static str,
    name: String,
}

#[derive(Serialize)]
struct FindingView {
    word: &'static str,
    #[serde(flatten)]
    suspect: SuspectView,
    sentence: String,
    stored: i64,
    counted: i64,
    repaired: bool,
    warning: bool,
}

/// Scans all stored data and prints the findings.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let fairlane = arguments.target.attach().await?;
    let engine = fairlane.engine();
    let warnings = engine.info().warnings;
    if !arguments.target.json {
        warnings.iter().for_each(|warning| output::print_message(&format!("warning: {warning}")));
    }
    let bar = output::progress_bar(arguments.target.json, BAR, Some(0));
    let report = engine.audit_all(arguments.repair, |progress| show(&bar, progress)).await;
    bar.finish_and_clear();
    let report = report?;
    let view = AuditView::new(&report, warnings);
    if arguments.target.json {
        output::print_json(&view)?
    } else {
        output::print(&view.text())?
    };
    match view.remaining {
        0 => Ok(()),
        _ if arguments.target.json => Err(Failure::Found(String::new())),
        _ if arguments.repair => Err(Failure::Found("some findings could not be repaired".into())),
        _ => Err(Failure::Found("run the audit again with --repair to repair the findings".into())),
    }
}

fn show(bar: &ProgressBar, progress: AuditProgress) {
    bar.set_length(progress.groups);
    bar.set_position(progress.groups_scanned);
    if progress.findings > 0 {
        bar.set_message(format!("{} found", thousands(progress.findings)));
    }
}

impl SuspectView {
    fn new(suspect: &Suspect) -> Self {
        Self { kind: suspect.kind(), name: suspect.to_string() }
    }
}

impl FindingView {
    fn new(finding: &Finding) -> Self {
        Self {
            word: finding.word(),
            suspect: SuspectView::new(&finding.suspect),
            sentence: finding.sentence(),
            stored: finding.stored,
            counted: finding.counted,
            repaired: finding.repaired,
            warning: finding.is_warning(),
        }
    }
}

impl AuditView {
    fn new(report: &AuditReport, engine_warnings: Vec<String>) -> Self {
        Self {
            groups: report.groups,
            findings: report.findings.iter().map(FindingView::new).collect(),
            too_large: report.too_large.iter().map(SuspectView::new).collect(),
            repaired: report.findings.iter().filter(|finding| finding.repaired).count(),
            remaining: report.remaining(),
            engine_warnings,
        }
    }

    /// A row for each finding, and a summary.
    fn text(&self) -> String {
        let mut lines = Vec::new();
        if !self.findings.is_empty() {
            let rows = self.findings.iter().map(|finding| {
                let suspect = format!("{} {}", finding.suspect.kind, finding.suspect.name);
                vec![finding.word.to_owned(), suspect, finding.sentence.clone()]
            });
            lines.push(tables::texts(&["finding", "of", "description"], rows) + "\n");
        }
        if let Some(first) = self.too_large.first() {
            lines.push(format!(
                "Too large to be counted in one step: {}, such as {} {}. Run the audit again when fewer jobs are waiting.",
                counted(self.too_large.len() as u64, "item"),
                first.kind,
                first.name
            ));
        }
        lines.push(self.summary());
        lines.join("\n")
    }

    fn summary(&self) -> String {
        let groups = counted(self.groups, "group");
        let warnings = self.findings.iter().filter(|finding| finding.warning).count();
        match self.findings.len() {
            0 => format!("No inconsistencies in {groups}."),
            findings => format!(
                "{} in {groups}: {} repaired, {} to be repaired, {}.",
                counted(findings as u64, "finding"),
                thousands(self.repaired as u64),
                thousands(self.remaining as u64),
                counted(warnings as u64, "warning")
            ),
        }
    }
}
