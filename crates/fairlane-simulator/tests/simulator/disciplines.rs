//! The claims of the original documents about their rules, measured: reproduced or refuted, beside
//! `share`.
//!
//! The figures are in `docs/disciplines.md`.

use std::sync::LazyLock;

use fairlane_core::queue::Discipline;
use fairlane_simulator::{ClassicLayer, GroupReport, Overlay, PartReport, Scenario, run};

fn shipped(name: &str) -> Scenario {
    let found = Scenario::shipped().iter().find(|(shipped, _)| *shipped == name);
    let (name, toml) = found.expect("the scenario is shipped");
    Scenario::parse(name, toml).expect("a shipped scenario is good")
}

fn play(scenario: &Scenario) -> Vec<PartReport> {
    run(scenario, &mut |_| {}).expect("a checked scenario runs")
}

/// The parts of `backoff.toml`, run once for all tests.
fn backoff() -> &'static [PartReport] {
    static REPORTS: LazyLock<Vec<PartReport>> = LazyLock::new(|| play(&shipped("backoff")));
    &REPORTS
}

fn under_share(scenario: &Scenario) -> Vec<PartReport> {
    let overlay = Overlay { discipline: Some(Discipline::Share), ..Overlay::default() };
    play(&scenario.with(&overlay).expect("every scenario runs under share"))
}

fn under_classic(scenario: &Scenario, classic: ClassicLayer) -> Vec<PartReport> {
    let overlay = Overlay { discipline: Some(Discipline::Classic), classic, ..Overlay::default() };
    play(&scenario.with(&overlay).expect("every scenario runs under classic"))
}

/// A plain queue serves in the order of arrival, whatever the group.
#[test]
fn in_a_plain_queue_small_customers_wait_behind_the_large_one() {
    let scenario = shipped("late");
    let plain = play(&scenario.with(&Overlay { is_fifo: true, ..Overlay::default() }).unwrap());
    let share = under_share(&scenario);
    assert_eq!((plain[0].discipline, share[0].discipline), ("fifo", "share"));
    let [behind, beside] = [&plain, &share].map(|reports| wait_p99_s(&reports[0], "B"));
    assert!(behind > 100.0 * beside, "{behind} s and {beside} s");
    assert_eq!(plain[0].groups[0].completed, share[0].groups[0].completed);
}

fn at_alpha(alpha: i64) -> ClassicLayer {
    ClassicLayer { alpha: Some(alpha), ..ClassicLayer::default() }
}

fn part<'a>(reports: &'a [PartReport], name: &str) -> &'a PartReport {
    reports.iter().find(|report| report.part == name).expect("the scenario has this part")
}

fn group<'a>(report: &'a PartReport, name: &str) -> &'a GroupReport {
    report.groups.iter().find(|group| group.group == name).expect("the part has this group")
}

fn over_ideal(report: &PartReport) -> f64 {
    report.completion_over_ideal.expect("all jobs were done under a limit")
}

fn wait_p99_s(report: &PartReport, name: &str) -> f64 {
    group(report, name).wait_p99_ms.expect("it was served") / 1000.0
}

fn first_done_s(report: &PartReport, name: &str) -> f64 {
    group(report, name).first_done_ms.expect("it was served") / 1000.0
}

fn last_done_s(report: &PartReport, name: &str) -> f64 {
    group(report, name).last_done_ms.expect("it was served") / 1000.0
}

#[test]
fn a_fixed_backoff_of_a_second_costs_four_and_a_half_throttles_a_job() {
    let reports = backoff();
    let fixed = part(reports, "1000-fixed");
    assert_eq!(fixed.throttles_per_job, 4.5);
    assert!((9.0..9.1).contains(&last_done_s(fixed, "bulk")), "{fixed:?}");
    // "Dozens" of throttles per job occur with a long backlog, and they do not cost time.
    let long = part(reports, "15000-at-10-fixed");
    assert!((20.0..30.0).contains(&long.throttles_per_job), "{long:?}");
    for long in [long, part(reports, "15000-at-30-fixed")] {
        assert!(over_ideal(long) < 1.01, "{long:?}");
    }
}

/// Erratum Q32. Returned all at once, as the documents' prose has it, jobs would cost 4.5
/// throttles.
#[test]
fn a_backoff_that_follows_the_backlog_costs_less_than_one_throttle_a_job() {
    let reports = backoff();
    let following = part(reports, "1000-following");
    assert_eq!(following.throttles_per_job, 0.9, "each refused job once");
    assert!(over_ideal(following) < 1.01, "{following:?}");
}

/// Erratum Q32.
#[test]
fn a_long_backlog_takes_a_quarter_longer_under_the_classic_rules() {
    let reports = backoff();
    let at_30 = part(reports, "15000-at-30-following");
    assert!((1.05..1.35).contains(&over_ideal(at_30)), "{at_30:?}");
    assert!((2.0..3.2).contains(&at_30.throttles_per_job), "{at_30:?}");
    let at_10 = part(reports, "15000-at-10-following");
    assert!((1.03..1.15).contains(&over_ideal(at_10)), "{at_10:?}");
    assert!((6.0..9.0).contains(&at_10.throttles_per_job), "{at_10:?}");
    assert!(last_done_s(at_10, "bulk") > 1500.0, "500 s would be 30 jobs per second");
}

#[test]
fn the_longest_backoff_is_what_costs_throttles_and_time() {
    let reports = backoff();
    let (cut, uncut) = (part(reports, "15000-at-30-following"), part(reports, "15000-at-30-uncut"));
    assert!(uncut.throttles_per_job < 1.2, "{uncut:?}");
    assert!(cut.throttles_per_job > 2.0 * uncut.throttles_per_job, "{cut:?}");
    assert!(over_ideal(uncut) <= 1.15, "{uncut:?}");
}

/// Erratum Q22.
#[test]
fn a_herd_takes_many_times_as_long_as_the_same_jobs_spread() {
    let reports = backoff();
    let (herd, spread) = (part(reports, "15000-at-30-herd"), part(reports, "15000-at-30-spread"));
    assert!(over_ideal(herd) > 5.0, "{herd:?}");
    assert!(herd.throttles_per_job > 10.0, "{herd:?}");
    assert!(over_ideal(spread) < 1.3, "{spread:?}");
    assert!(spread.throttles_per_job < 4.0, "{spread:?}");
    for report in under_share(&shipped("backoff")) {
        assert!(over_ideal(&report) < 1.01 && report.throttles_per_job == 0.0, "{report:?}");
    }
}

/// Erratum Q9.
#[test]
fn with_positive_alpha_a_newcomer_waits_until_the_large_group_has_ended() {
    let late = shipped("late");
    let classic = &under_classic(&late, at_alpha(10_000))[0];
    for name in ["B", "C", "D"] {
        assert!(last_done_s(classic, name) > last_done_s(classic, "A"), "{name}: {classic:?}");
        assert_eq!(group(classic, name).completed, 100);
    }
    assert!(wait_p99_s(classic, "B") > 190.0, "{classic:?}");
    let share = &under_share(&late)[0];
    for name in ["B", "C", "D"] {
        assert!(wait_p99_s(share, name) < 0.5, "{name}: {share:?}");
    }
}

/// Erratum Q9.
#[test]
fn with_negative_alpha_a_small_group_waits_long_for_its_last_jobs() {
    let classic = &under_classic(&shipped("late"), at_alpha(-10_000))[0];
    let small = group(classic, "B");
    assert!(small.wait_p50_ms < Some(500.0), "its first jobs go first: {small:?}");
    assert!(wait_p99_s(classic, "B") > 150.0, "its last ones wait: {small:?}");
    assert!(wait_p99_s(classic, "D") < 1.0, "the large group has been served more than any newcomer");
}

#[test]
fn with_alpha_zero_newcomers_are_served_in_turn_early_and_late() {
    let classic = &under_classic(&shipped("late"), at_alpha(0))[0];
    for name in ["B", "C", "D"] {
        assert!(wait_p99_s(classic, name) < 1.0, "{name}: {classic:?}");
    }
    assert!(classic.jain > Some(0.999), "{classic:?}");
}

#[test]
fn a_larger_alpha_starves_longer_and_even_a_small_one_does() {
    let waits = [0, 1000, 10_000, 100_000].map(|alpha| {
        let reports = under_classic(&shipped("late"), at_alpha(alpha));
        wait_p99_s(&reports[0], "B")
    });
    assert!(waits.is_sorted() && waits[0] < 1.0 && waits[1] > 30.0, "{waits:?}");
}

/// Erratum Q10.
#[test]
fn a_base_priority_is_a_monopoly_and_a_weight_is_a_share() {
    let reports = play(&shipped("premium"));
    let monopoly = part(&reports, "base-priority");
    assert!((1000.0..1001.0).contains(&first_done_s(monopoly, "ordinary")), "{monopoly:?}");
    assert_eq!(group(monopoly, "ordinary").completed, 1, "and the next after another 1000 s");
    let weight = part(&reports, "weight");
    assert!(first_done_s(weight, "ordinary") < 1.0, "{weight:?}");
    assert!((group(weight, "ordinary").share - 1.0 / 11.0).abs() < 0.001, "{weight:?}");
}

/// Erratum Q11. Erratum Q27.
#[test]
fn the_low_level_starves_under_the_classic_rules_while_most_of_the_limit_is_unused() {
    let report = &under_classic(&shipped("levels"), ClassicLayer::default())[0];
    assert_eq!(group(report, "unhurried").completed, 0, "{report:?}");
    assert!(first_done_s(report, "urgent") < 1.0, "{report:?}");
    assert!(first_done_s(report, "ordinary") > 100.0, "{report:?}");
    assert!(report.utilisation < Some(0.5), "{report:?}");
}

/// Erratum Q27.
#[test]
fn a_fixed_part_for_each_leaves_four_fifths_unused() {
    let reports = play(&shipped("leftovers"));
    let (shared, divided) = (part(&reports, "shared"), part(&reports, "divided"));
    assert!((0.185..0.195).contains(&divided.utilisation.unwrap()), "{divided:?}");
    assert!(shared.utilisation > Some(0.99), "{shared:?}");
    let trickle = &under_classic(&shipped("trickle"), ClassicLayer::default())[0];
    assert!((0.4..0.6).contains(&trickle.utilisation.unwrap()), "idle groups do not count: {trickle:?}");
}

/// Erratum Q8. Erratum Q33: plain first-in-first-out would serve one group's jobs first.
#[test]
fn equals_get_equal_shares_in_turn_under_the_classic_rules() {
    let report = &under_classic(&shipped("equals"), ClassicLayer::default())[0];
    assert!(report.jain >= Some(0.9999), "{report:?}");
    for group in &report.groups {
        assert!(group.completed.abs_diff(1000) <= 5 && group.completed < group.jobs, "{group:?}");
        assert!(group.first_done_ms < Some(200.0), "{group:?}");
    }
}

/// Erratum Q33: first-in-first-out would end A after its third job.
#[test]
fn being_served_sends_a_group_behind_the_other() {
    let toml = r#"
        discipline = "classic"
        workers = 10
        service = { fixed_ms = 10 }
        classic = { alpha = 0, fetch_interval_ms = 100, fetch_batch_size = 1 }
        [[group]]
        name = "A"
        arrivals = [{ at_once = { jobs = 3 } }]
        [[group]]
        name = "B"
        arrivals = [{ at_once = { jobs = 3 } }]
    "#;
    let report = &play(&Scenario::parse("turns", toml).unwrap())[0];
    let times = |name| (group(report, name).first_done_ms, group(report, name).last_done_ms);
    assert_eq!(times("A"), (Some(10.0), Some(410.0)));
    assert_eq!(times("B"), (Some(110.0), Some(510.0)));
}

#[test]
fn every_scenario_runs_under_either_discipline() {
    let too_slow = ["flood", "newcomers", "paused"];
    let names = Scenario::shipped().iter().map(|(name, _)| *name);
    for name in names.filter(|name| !too_slow.contains(name)) {
        let scenario = shipped(name);
        for (report, alpha) in
            [(&under_share(&scenario)[0], None), (&under_classic(&scenario, at_alpha(7))[0], Some(7))]
        {
            assert_eq!(report.alpha, alpha, "{name}");
            assert!(report.groups.iter().all(|group| group.jobs > 0), "{name}");
        }
    }
}

#[test]
fn a_group_paused_for_ever_ends_a_classic_run_too() {
    let toml = r#"
        discipline = "classic"
        workers = 10
        rate = { count = 10 }
        service = { fixed_ms = 100 }
        [[group]]
        name = "a"
        arrivals = [{ at_once = { jobs = 100 } }]
        pauses = [{ from_ms = 2500 }]
    "#;
    let report = &play(&Scenario::parse("paused", toml).unwrap())[0];
    assert!((10..=40).contains(&report.groups[0].completed), "{report:?}");
}
