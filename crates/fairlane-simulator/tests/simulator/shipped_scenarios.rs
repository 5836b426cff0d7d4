//! The expected results of the shipped scenarios.

use fairlane_simulator::{GroupReport, PartReport, Scenario, run};

fn reports(name: &str) -> Vec<PartReport> {
    let shipped = Scenario::shipped().iter().find(|(shipped, _)| *shipped == name);
    let (_, toml) = shipped.expect("the scenario is shipped");
    let scenario = Scenario::parse(name, toml).expect("a shipped scenario is good");
    run(&scenario, &mut |_| {}).expect("a checked scenario runs")
}

fn only(name: &str) -> PartReport {
    let mut reports = reports(name);
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

fn group<'a>(report: &'a PartReport, name: &str) -> &'a GroupReport {
    report.groups.iter().find(|group| group.group == name).expect("the scenario has this group")
}

#[test]
fn the_shipped_scenarios_are_the_files_of_the_folder() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    files.sort();
    let shipped: Vec<String> = Scenario::shipped().iter().map(|(name, _)| format!("{name}.toml")).collect();
    assert_eq!(files, shipped);
    for (name, toml) in Scenario::shipped() {
        Scenario::parse(name, toml).unwrap();
    }
}

/// `congestion.toml`. Erratum Q19. Erratum Q22.
#[test]
fn a_long_backlog_drains_at_its_limit_without_a_herd() {
    for report in reports("congestion") {
        assert!(report.completion_over_ideal.unwrap() <= 1.01, "{report:?}");
        assert!(report.peak_over_limit.unwrap() <= 1.0, "{report:?}");
        assert_eq!(report.throttles_per_job, 0.0);
        assert_eq!(report.groups[0].completed, report.groups[0].jobs);
    }
}

/// Erratum Q32.
#[test]
fn fifteen_thousand_jobs_at_thirty_a_second_take_five_hundred_seconds() {
    let reports = reports("congestion");
    let bulk = group(&reports[0], "bulk");
    assert_eq!(bulk.completed, 15_000);
    assert!((499_000.0..=501_000.0).contains(&bulk.last_done_ms.unwrap()), "{bulk:?}");
}

/// `flood.toml`. Erratum Q9.
#[test]
fn small_customers_hardly_notice_a_million_jobs_early_or_late_in_their_life() {
    let (service_ms, burst_ms) = (100.0, 21.0);
    let reports = reports("flood");
    assert_eq!(reports.iter().map(|report| &*report.part).collect::<Vec<_>>(), ["at-1", "at-50", "at-90"]);
    for (report, begins_ms) in reports.iter().zip([10_000.0, 500_000.0, 900_000.0]) {
        for small in [group(report, "B"), group(report, "C")] {
            let most_ms = 1.05 * small.alone_wait_p99_ms.unwrap() + service_ms + burst_ms;
            assert!(small.wait_p99_ms.unwrap() <= most_ms, "{} {small:?}", report.part);
            assert!((small.first_done_ms.unwrap() - begins_ms).abs() < 1000.0, "{} {small:?}", report.part);
        }
        assert_eq!(group(report, "A").completed, 1_000_000);
        assert_eq!(group(report, "A").alone_wait_p99_ms, None);
        assert!(report.completion_over_ideal.unwrap() <= 1.01);
    }
}

/// `neighbours.toml`.
#[test]
fn twenty_bulk_actions_of_fifty_thousand_cost_each_small_customer_a_tenth_at_most() {
    let report = only("neighbours");
    let service_ms = 10.0;
    let small = report.groups.iter().filter(|group| group.group.starts_with("small"));
    let mut compared = 0;
    for small in small {
        let most_ms = 1.1 * small.alone_wait_p99_ms.unwrap() + service_ms;
        assert!(small.wait_p99_ms.unwrap() <= most_ms, "{small:?}");
        compared += 1;
    }
    assert_eq!(compared, 200);
    assert_eq!(report.groups.iter().map(|group| group.completed).sum::<u64>(), 1_010_000);
}

/// `equals.toml`. Erratum Q33: plain first-in-first-out would serve one group's jobs first.
#[test]
fn ten_equals_get_equal_shares_in_turn_with_leases_of_a_hundred() {
    let report = only("equals");
    assert_eq!(report.groups.iter().map(|group| group.completed).sum::<u64>(), 10_000);
    assert!(report.jain.unwrap() >= 0.9999, "{report:?}");
    for group in &report.groups {
        assert!(group.completed < group.jobs, "all must still have work at the end: {group:?}");
        assert!(group.first_done_ms.unwrap() < 200.0, "{group:?}");
        assert!(group.completed.abs_diff(1000) <= 16, "{group:?}");
    }
}

/// `trickle.toml`. Erratum Q27.
#[test]
fn capacity_that_slow_customers_leave_goes_to_the_busy_one() {
    let report = only("trickle");
    assert!(report.utilisation.unwrap() >= 0.99, "{report:?}");
    assert!(report.peak_over_limit.unwrap() <= 1.0, "{report:?}");
    for slow in report.groups.iter().filter(|group| group.group != "busy") {
        assert!(slow.wait_p99_ms.unwrap() < 100.0, "{slow:?}");
    }
}

/// `unknown-limit.toml`.
#[test]
fn an_unknown_limit_is_found_with_few_refusals() {
    let reports = reports("unknown-limit");
    for (report, most) in reports.iter().zip([1.02, 1.05]) {
        assert!(report.completion_over_ideal.unwrap() <= most, "{report:?}");
        assert!(report.refusals_per_job <= 0.02, "{report:?}");
        assert!(report.refusals_per_job > 0.0, "without a refusal the limit was not found: {report:?}");
        assert_eq!(report.groups[0].completed, 15_000);
    }
    assert_eq!(reports.len(), 2);
}

/// `levels.toml`. Erratum Q11: the strict part shows the fault.
#[test]
fn the_low_level_gets_its_part_unless_levels_are_strict() {
    let reports = reports("levels");
    let weighted = &reports[0];
    for (name, weight) in [("urgent", 16.0), ("ordinary", 4.0), ("unhurried", 1.0)] {
        let group = group(weighted, name);
        assert!((group.share - weight / 21.0).abs() <= 0.001, "{group:?}");
        assert!(group.least_window_share.unwrap() >= 0.9, "{group:?}");
    }
    let strict = &reports[1];
    assert_eq!(group(strict, "unhurried").completed, 0);
    assert_eq!(group(strict, "urgent").completed, 21_000);
}

/// `weights.toml`. Erratum Q10: ten times the weight is ten times the share, not a monopoly.
#[test]
fn weights_hold_to_a_thousandth() {
    let report = only("weights");
    for (name, weight) in [("one", 1.0), ("two", 2.0), ("five", 5.0), ("ten", 10.0)] {
        let group = group(&report, name);
        assert!((group.fair_share - weight / 18.0).abs() < 1e-5, "{group:?}");
        assert!((group.share - group.fair_share).abs() <= 0.001, "{group:?}");
        assert!(group.completed < group.jobs, "all must still have work at the end: {group:?}");
    }
}

/// `newcomers.toml`.
#[test]
fn a_thousand_newcomers_leave_the_large_group_half_its_share_at_every_moment() {
    let report = only("newcomers");
    assert_eq!(report.groups.len(), 1001);
    assert!(group(&report, "large").least_window_share.unwrap() >= 0.5);
    assert!(group(&report, "newcomer-0001").wait_p99_ms.unwrap() < 100.0, "a small newcomer is done at once");
    assert!(report.groups.iter().all(|group| group.completed == group.jobs));
}

/// `paused.toml`.
#[test]
fn a_group_back_from_an_hour_s_pause_neither_takes_nor_loses_a_share() {
    let report = only("paused");
    for group in &report.groups {
        assert!(group.least_window_share.unwrap() >= 0.9, "{group:?}");
    }
    let paused = group(&report, "paused");
    assert!((paused.share - paused.fair_share).abs() < 0.001, "{paused:?}");
    // A minute before the pause and 340 s after it, a tenth of 100 per second: 4000 jobs.
    assert!(paused.completed.abs_diff(4000) <= 20, "{paused:?}");
}
