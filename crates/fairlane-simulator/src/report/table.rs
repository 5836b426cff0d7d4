//! The figures as rows of text without borders. The first row is the heading.

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

/// The figures of one part under several disciplines side by side: a row for each figure, a column
/// for each report. Only the `groups_max` groups with the most jobs are shown.
pub fn compared_rows(reports: &[&PartReport], groups_max: usize) -> Vec<Vec<String>> {
    let row = |name: String, show: &dyn Fn(&PartReport) -> String| {
        [name].into_iter().chain(reports.iter().map(|report| show(report))).collect()
    };
    let mut rows = vec![row("figure".into(), &PartReport::rules)];
    for index in reports.first().map(|report| largest(report, groups_max)).unwrap_or_default() {
        let name = &reports[0].groups[index].group;
        rows.push(row(format!("{name}: wait p99"), &|report| duration(report.groups[index].wait_p99_ms)));
        rows.push(row(format!("{name}: last done"), &|report| duration(report.groups[index].last_done_ms)));
        rows.push(row(format!("{name}: least in 10 s"), &|report| {
            figure(report.groups[index].least_window_share)
        }));
    }
    rows.push(row("all done".into(), &|report| duration(report.last_done_ms())));
    rows.push(row("completion / ideal".into(), &|report| figure(report.completion_over_ideal)));
    rows.push(row("throttles / job".into(), &|report| figure(Some(report.throttles_per_job))));
    rows.push(row("refusals / job".into(), &|report| figure(Some(report.refusals_per_job))));
    rows.push(row("Jain".into(), &|report| figure(report.jain)));
    rows.push(row("peak / limit".into(), &|report| figure(report.peak_over_limit)));
    rows.push(row("utilisation".into(), &|report| figure(report.utilisation)));
    rows
}

/// The groups with the most jobs, in the order of the file.
fn largest(report: &PartReport, groups_max: usize) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..report.groups.len()).collect();
    groups.sort_by_key(|&index| std::cmp::Reverse(report.groups[index].jobs));
    groups.truncate(groups_max);
    groups.sort_unstable();
    groups
}

/// One row for each of the `groups_max` groups with the most jobs, and one with the number of the
/// others.
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
    let shown = largest(report, groups_max);
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
