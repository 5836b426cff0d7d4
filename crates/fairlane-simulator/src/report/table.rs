//! The figures as rows of text; whoever shows them draws the lines. The first row is the heading.

use super::PartReport;

/// One row for each part.
pub fn summary_rows(reports: &[PartReport]) -> Vec<Vec<String>> {
    let heading = [
        "part",
        "completion / ideal",
        "throttles / job",
        "refusals / job",
        "Jain",
        "peak / limit",
        "utilisation",
    ];
    let mut rows = vec![heading.map(String::from).to_vec()];
    for report in reports {
        rows.push(vec![
            report.part.clone(),
            figure(report.completion_over_ideal),
            figure(Some(report.throttles_per_job)),
            figure(Some(report.refusals_per_job)),
            figure(report.jain),
            figure(report.peak_over_limit),
            figure(report.utilisation),
        ]);
    }
    rows
}

/// One row for each group of a part, the `groups_max` with the most jobs and a row that says how
/// many more there are.
pub fn group_rows(report: &PartReport, groups_max: usize) -> Vec<Vec<String>> {
    let heading = [
        "group",
        "jobs",
        "completed",
        "first done",
        "last done",
        "wait p50",
        "wait p99",
        "alone p99",
        "share",
        "fair share",
        "least in 10 s",
    ];
    let mut rows = vec![heading.map(String::from).to_vec()];
    let mut by_jobs: Vec<usize> = (0..report.groups.len()).collect();
    by_jobs.sort_by_key(|&index| std::cmp::Reverse(report.groups[index].jobs));
    let mut shown: Vec<usize> = by_jobs.into_iter().take(groups_max).collect();
    shown.sort_unstable();
    for index in &shown {
        let group = &report.groups[*index];
        rows.push(vec![
            group.group.clone(),
            group.jobs.to_string(),
            group.completed.to_string(),
            duration(group.first_done_ms),
            duration(group.last_done_ms),
            duration(group.wait_p50_ms),
            duration(group.wait_p99_ms),
            duration(group.alone_wait_p99_ms),
            figure(Some(group.share)),
            figure(Some(group.fair_share)),
            figure(group.least_window_share),
        ]);
    }
    let more = report.groups.len() - shown.len();
    if more > 0 {
        let mut row = vec![format!("and {more} more")];
        row.resize(heading.len(), String::new());
        rows.push(row);
    }
    rows
}

fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.4}"))
}

fn duration(ms: Option<f64>) -> String {
    match ms {
        None => "-".into(),
        Some(ms) if ms < 1000.0 => format!("{ms:.0} ms"),
        Some(ms) => format!("{:.1} s", ms / 1000.0),
    }
}
