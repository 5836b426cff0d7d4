//! The summary of a bulk action in words, a fact a line.

use fairlane::{Durations, ErrorSummary, Summary};

use crate::tables::{counted, milliseconds, thousands};

/// Below the word that stands before the first line.
const INDENT: &str = "\n            ";

/// What a summary says; one that another program wrote is shown as it is.
pub fn text(json: &str) -> String {
    match serde_json::from_str::<Summary>(json) {
        Ok(summary) => lines(&summary).join(INDENT),
        Err(_) => json.to_owned(),
    }
}

fn lines(summary: &Summary) -> Vec<String> {
    let [total, succeeded, failed, cancelled] =
        [summary.total, summary.succeeded, summary.failed, summary.cancelled].map(thousands);
    let attempts = counted(summary.attempts, "attempt");
    let (throttles, losses) = (counted(summary.throttles, "time"), counted(summary.losses, "lease"));
    let mut lines = vec![
        format!("{total} jobs: {succeeded} succeeded, {failed} failed, {cancelled} cancelled"),
        format!("{attempts}, {throttles} throttled, {losses} lost"),
        format!("waited  {}", durations(&summary.wait_ms)),
        format!("took    {}", durations(&summary.service_ms)),
    ];
    lines.extend(summary.errors.iter().flat_map(error_lines));
    if summary.other_errors > 0 {
        lines.push(format!("{} jobs failed with other codes", thousands(summary.other_errors)));
    }
    if summary.unseen > 0 {
        lines.push(format!(
            "{} jobs were requeued or discarded before it was summed up",
            thousands(summary.unseen)
        ));
    }
    lines.extend(summary.fold.as_ref().map(|fold| format!("fold: {fold}")));
    lines
}

fn durations(durations: &Durations) -> String {
    let Durations { p50, p95, p99, max } = *durations;
    let [p50, p95, p99, max] = [p50, p95, p99, max].map(milliseconds);
    format!("p50 {p50}, p95 {p95}, p99 {p99}, at most {max}")
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
    fn a_summary_that_is_not_ours_is_shown_as_it_is() {
        assert_eq!(text("[1, 2]"), "[1, 2]");
    }
}
