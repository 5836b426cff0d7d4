//! The summary of a bulk action as text, one fact per line.

use fairlane::{Durations, ErrorSummary, Summary};

use crate::tables::{counted, milliseconds, thousands};

/// Aligns the following lines with the first one, which follows a label.
const INDENT: &str = "\n            ";

/// The summary as text; a summary of another program is printed unchanged.
pub fn text(json: &str) -> String {
    match serde_json::from_str::<Summary>(json) {
        Ok(summary) => lines(&summary).join(INDENT),
        Err(_) => json.to_owned(),
    }
}

fn lines(summary: &Summary) -> Vec<String> {
    let [succeeded, failed, cancelled] =
        [summary.succeeded, summary.failed, summary.cancelled].map(thousands);
    let total = counted(summary.total, "job");
    let attempts = counted(summary.attempts, "attempt");
    let (throttles, losses) = (counted(summary.throttles, "time"), counted(summary.losses, "lease"));
    let mut lines = vec![
        format!("{total}: {succeeded} succeeded, {failed} failed, {cancelled} cancelled"),
        format!("{attempts}, {throttles} throttled, {losses} lost"),
        format!("waited  {}", durations(&summary.wait_ms)),
        format!("took    {}", durations(&summary.service_ms)),
    ];
    lines.extend(summary.errors.iter().flat_map(error_lines));
    if summary.other_errors > 0 {
        lines.push(format!("{} failed with other codes", counted(summary.other_errors, "job")));
    }
    if summary.unseen > 0 {
        lines
            .push(format!("{} requeued or discarded before the aggregation", counted(summary.unseen, "job")));
    }
    lines.extend(summary.fold.as_ref().map(|fold| format!("fold: {fold}")));
    lines
}

fn durations(durations: &Durations) -> String {
    let Durations { p50, p95, p99, max } = *durations;
    let [p50, p95, p99, max] = [p50, p95, p99, max].map(milliseconds);
    format!("p50 {p50}, p95 {p95}, p99 {p99}, max {max}")
}

fn error_lines(error: &ErrorSummary) -> Vec<String> {
    let mut lines = vec![format!("{} failed with {}, such as:", thousands(error.count), error.code)];
    let samples = error.samples.iter();
    lines.extend(
        samples.map(|sample| format!("  {}: {}", sample.job, sample.message.replace(['\n', '\r'], " "))),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_of_another_program_is_printed_unchanged() {
        assert_eq!(text("[1, 2]"), "[1, 2]");
    }
}
