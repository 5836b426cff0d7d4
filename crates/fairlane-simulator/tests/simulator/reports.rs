//! Reports are reproducible, complete and readable.

use fairlane_simulator::{PartReport, Scenario, group_rows, plot_svg, run, summary_rows};

const MIXED: &str = r#"
workers = 60
rate = { count = 100 }
service = { uniform_ms = [50, 150] }
alone_without = ["bulk"]
[[type]]
name = "t"
[type.downstream]
limit = [{ per_second = 60 }, { from_ms = 10_000, per_second = 80 }]
[[group]]
name = "bulk"
arrivals = [{ at_once = { jobs = 1500 } }]
[[group]]
name = "random"
count = 14
arrivals = [{ poisson = { per_second = 1.0, until_ms = 15_000 } }]
[[part]]
name = "first"
[[part]]
name = "second"
lease_jobs = 5
"#;

fn reports(seed: u64) -> Vec<PartReport> {
    let scenario =
        Scenario::parse("mixed", &format!("seed = {seed}\n{MIXED}")).expect("the scenario is good");
    run(&scenario, &mut |_| {}).expect("a checked scenario runs")
}

#[test]
fn the_same_seed_gives_the_same_report_and_another_seed_a_different_one() {
    let text =
        |reports: &[PartReport]| serde_json::to_string(reports).unwrap() + &plot_svg(&[reports.to_vec()]);
    let first = reports(1);
    assert_eq!(first, reports(1));
    assert_eq!(text(&first), text(&reports(1)));
    assert_ne!(text(&first), text(&reports(2)));
}

#[test]
fn a_report_has_exactly_these_keys() {
    let json = serde_json::to_value(reports(1)).unwrap();
    let keys = |value: &serde_json::Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys.join(" ")
    };
    assert_eq!(
        keys(&json[0]),
        "alpha completion_over_ideal discipline groups jain part peak_over_limit refusals_per_job scenario \
         throttles_per_job utilisation"
    );
    assert_eq!(
        keys(&json[0]["groups"][0]),
        "alone_wait_p99_ms completed fair_share first_arrival_ms first_done_ms group jobs last_done_ms least_window_share \
         share wait_p50_ms wait_p99_ms"
    );
    assert_eq!(json[1]["part"], "second");
    assert_eq!(json[0]["groups"].as_array().unwrap().len(), 15);
}

#[test]
fn the_run_alone_leaves_out_the_named_groups_and_keeps_every_arrival() {
    let report = &reports(1)[0];
    assert_eq!(report.groups[0].alone_wait_p99_ms, None);
    for group in report.groups.iter().skip(1).filter(|group| group.jobs > 0) {
        assert!(group.alone_wait_p99_ms.unwrap() <= group.wait_p99_ms.unwrap(), "{group:?}");
    }
}

#[test]
fn shares_add_up_to_one() {
    for report in reports(1) {
        let share: f64 = report.groups.iter().map(|group| group.share).sum();
        let fair_share: f64 = report.groups.iter().map(|group| group.fair_share).sum();
        assert!((share - 1.0).abs() < 1e-4 && (fair_share - 1.0).abs() < 1e-4, "{report:?}");
    }
}

#[test]
fn progress_only_grows_and_ends_at_the_total() {
    let toml = r#"
        workers = 500
        alone_without = ["a"]
        [[group]]
        name = "a"
        arrivals = [{ at_once = { jobs = 20_000 } }]
        [[group]]
        name = "b"
        arrivals = [{ at_once = { jobs = 10_000 } }]
    "#;
    let scenario = Scenario::parse("progress", toml).unwrap();
    let mut seen: Vec<(u64, u64)> = Vec::new();
    run(&scenario, &mut |progress| seen.push((progress.completed, progress.total))).unwrap();
    assert!(seen.is_sorted() && seen.len() > 5, "{seen:?}");
    assert!(seen.iter().all(|(_, total)| *total == 40_000), "{seen:?}");
    assert_eq!(seen.last(), Some(&(40_000, 40_000)));
}

#[test]
fn the_chart_has_a_title_for_each_part_and_a_line_for_each_large_group() {
    let svg = plot_svg(&[reports(1)]);
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for text in ["mixed, part first", "mixed, part second", "seconds of virtual time", "jobs done"] {
        assert!(svg.contains(text), "{text}");
    }
    let beside = plot_svg(&[reports(1), reports(2)]);
    assert!(beside.matches("seconds of virtual time").count() == 4 && beside.contains("Fairlane (share)"));
    assert_eq!(beside.matches("percent of its jobs done").count(), 4);
    for text in ["bulk", "random-01", "3 more together"] {
        assert_eq!(svg.matches(text).count() % 2, 0, "{text} is in the legend of both parts");
        assert!(svg.contains(text), "{text}");
    }
}

#[test]
fn tables_have_a_heading_and_truncate_long_lists() {
    let reports = reports(1);
    let summary = summary_rows(&reports);
    assert_eq!(summary.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["part", "first", "second"]);
    assert!(summary.iter().all(|row| row.len() == summary[0].len()));
    let groups = group_rows(&reports[0], 4);
    assert_eq!(groups.len(), 1 + 4 + 1);
    assert_eq!(groups[1][0], "bulk");
    assert_eq!(groups[5][0], "and 11 more");
    assert!(groups.iter().all(|row| row.len() == groups[0].len()));
}
