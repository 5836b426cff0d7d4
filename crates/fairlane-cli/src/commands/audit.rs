//! `fairlane audit`: finds inconsistencies in the stored data and repairs them.

use clap::Args;
use fairlane::AuditProgress;
use fairlane::views::AuditView;
use indicatif::ProgressBar;

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

/// Scans all stored data and prints the findings.
pub async fn run(arguments: Arguments) -> Result<(), Failure> {
    let fairlane = arguments.target.attach().await?;
    let warnings = fairlane.engine().info().warnings;
    if !arguments.target.json {
        warnings.iter().for_each(|warning| output::print_message(&format!("warning: {warning}")));
    }
    let bar = output::progress_bar(arguments.target.json, BAR, Some(0));
    let report = fairlane.audit(arguments.repair, |progress| show(&bar, progress)).await;
    bar.finish_and_clear();
    let view = AuditView::new(&report?, warnings, usize::MAX);
    arguments.target.print(&view, || text(&view))?;
    match view.remaining {
        0 => Ok(()),
        _ if arguments.target.json => Err(Failure::Found(String::new())),
        _ if arguments.repair => Err(Failure::Found("some findings could not be repaired; run the audit with --repair again, and report those that remain".into())),
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

/// A row for each finding, and a summary.
fn text(view: &AuditView) -> String {
    let mut lines = Vec::new();
    if !view.findings.is_empty() {
        let rows = view.findings.iter().map(|finding| {
            let item = format!("{} {}", finding.kind, finding.name);
            vec![finding.code.to_owned(), item, finding.sentence.clone()]
        });
        lines.push(tables::texts(&["finding", "of", "description"], rows) + "\n");
    }
    if let Some(first) = view.too_large.first() {
        lines.push(format!(
            "Too large to be counted in one step: {}, such as {} {}. Run the audit again when fewer jobs are waiting.",
            counted(view.too_large.len() as u64, "item"),
            first.kind,
            first.name
        ));
    }
    lines.push(summary(view));
    lines.join("\n")
}

fn summary(view: &AuditView) -> String {
    let groups = counted(view.groups, "group");
    let warnings = view.findings.iter().filter(|finding| finding.warning).count();
    match view.found {
        0 => format!("No inconsistencies in {groups}."),
        found => format!(
            "{} in {groups}: {} repaired, {} to be repaired, {}.",
            counted(found, "finding"),
            thousands(view.repaired),
            thousands(view.remaining),
            counted(warnings as u64, "warning")
        ),
    }
}
