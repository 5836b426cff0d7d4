//! Each key of a scenario has its effect.

use fairlane_simulator::{PartReport, Scenario, run};

fn play(toml: &str) -> PartReport {
    let scenario = Scenario::parse("small", toml).expect("the scenario is good");
    let mut reports = run(&scenario, &mut |_| {}).expect("a checked scenario runs");
    assert_eq!(reports.len(), 1);
    reports.remove(0)
}

fn last_done_ms(report: &PartReport, group: usize) -> f64 {
    assert_eq!(report.groups[group].completed, report.groups[group].jobs);
    report.groups[group].last_done_ms.expect("a completed group was done at some time")
}

#[test]
fn a_groups_own_rate_holds_and_leaves_the_rest_to_others() {
    let report = play(
        r#"
        workers = 100
        rate = { count = 100, burst = 1 }
        service = { fixed_ms = 10 }
        [[group]]
        name = "slow"
        rate = { count = 10, burst = 1 }
        arrivals = [{ at_once = { jobs = 101 } }]
        [[group]]
        name = "fast"
        arrivals = [{ at_once = { jobs = 900 } }]
        "#,
    );
    assert!((last_done_ms(&report, 0) - 10_010.0).abs() <= 200.0, "{report:?}");
    assert!((last_done_ms(&report, 1) - 10_000.0).abs() <= 200.0, "{report:?}");
    assert_eq!(report.groups[0].least_window_share, None, "its own limit decides, not its share");
}

#[test]
fn concurrency_limits_of_groups_and_types_hold() {
    let group_seats = play(
        r#"
        workers = 50
        service = { fixed_ms = 100 }
        [[group]]
        name = "a"
        concurrency = 2
        arrivals = [{ at_once = { jobs = 100 } }]
        "#,
    );
    assert_eq!(last_done_ms(&group_seats, 0), 5000.0);
    assert_eq!(group_seats.completion_over_ideal, None, "nothing limits the rate");
    assert_eq!(group_seats.utilisation, None);
    let type_seats = play(
        r#"
        workers = 50
        service = { fixed_ms = 1 }
        [[type]]
        name = "t"
        concurrency = 4
        service = { fixed_ms = 100 }
        [[group]]
        name = "a"
        arrivals = [{ at_once = { jobs = 100 } }]
        "#,
    );
    assert_eq!(last_done_ms(&type_seats, 0), 2500.0);
}

#[test]
fn jobs_never_use_more_than_the_worker_slots() {
    let report = play(
        r#"
        workers = 3
        service = { fixed_ms = 100 }
        [[group]]
        name = "a"
        arrivals = [{ at_once = { jobs = 30 } }]
        "#,
    );
    assert_eq!(last_done_ms(&report, 0), 1000.0);
}

#[test]
fn a_slow_type_does_not_hold_up_another() {
    let report = play(
        r#"
        workers = 100
        service = { fixed_ms = 10 }
        [[type]]
        name = "slow"
        rate = { count = 10, burst = 1 }
        [[type]]
        name = "fast"
        rate = { count = 1000, burst = 1 }
        [[group]]
        name = "a"
        type = "slow"
        arrivals = [{ at_once = { jobs = 101 } }]
        [[group]]
        name = "b"
        type = "fast"
        arrivals = [{ at_once = { jobs = 1001 } }]
        "#,
    );
    assert_eq!(last_done_ms(&report, 0), 10_010.0);
    assert_eq!(last_done_ms(&report, 1), 1_010.0);
    assert!(report.completion_over_ideal.unwrap() <= 1.01, "{report:?}");
}

#[test]
fn a_downstream_that_sends_retry_after_gets_no_call_until_then() {
    let report = play(
        r#"
        workers = 100
        service = { fixed_ms = 20 }
        [[type]]
        name = "t"
        rate = { count = 100, burst = 1 }
        [type.downstream]
        limit = [{ per_second = 20 }]
        depth_seconds = 0.5
        retry_after = true
        refusal_ms = 5
        [[group]]
        name = "a"
        arrivals = [{ at_once = { jobs = 200 } }]
        "#,
    );
    assert_eq!(report.groups[0].completed, 200);
    assert!(report.refusals_per_job > 0.0 && report.refusals_per_job < 0.1, "{report:?}");
}

#[test]
fn costs_count_in_shares_but_not_in_rates() {
    let report = play(
        r#"
        workers = 100
        rate = { count = 100, burst = 1 }
        service = { fixed_ms = 10 }
        stop = { after_jobs = 1000 }
        [[group]]
        name = "dear"
        cost = 4
        arrivals = [{ at_once = { jobs = 2000 } }]
        [[group]]
        name = "cheap"
        arrivals = [{ at_once = { jobs = 2000 } }]
        "#,
    );
    assert!(report.groups[0].completed.abs_diff(200) <= 4, "{report:?}");
    assert!((report.groups[0].share - 0.5).abs() < 0.02, "{report:?}");
    assert!((report.groups[0].fair_share - 0.5).abs() < 1e-6, "{report:?}");
}

#[test]
fn jobs_arrive_as_their_arrivals_define() {
    let report = play(
        r#"
        workers = 100
        service = { fixed_ms = 10 }
        [[group]]
        name = "steady"
        arrivals = [{ steady = { per_second = 10, from_ms = 500, until_ms = 2500 } }]
        [[group]]
        name = "poisson"
        arrivals = [{ poisson = { per_second = 10, jobs = 30 } }]
        [[group]]
        name = "stepping"
        arrivals = [{ stepping = { steps = [{ per_second = 1 }, { from_ms = 2000, per_second = 10 }], until_ms = 3000 } }]
        [[group]]
        name = "after"
        count = 2
        stagger_ms = 250
        arrivals = [
            { at_once = { jobs = 1, at_ms = 100 } },
            { at_once = { jobs = 1, when = { group = "steady", done_percent = 50 } } },
        ]
        "#,
    );
    let group = |name: &str| report.groups.iter().find(|group| group.group == name).unwrap();
    assert_eq!([group("steady").jobs, group("poisson").jobs, group("stepping").jobs], [20, 30, 12]);
    assert_eq!(group("steady").first_done_ms, Some(510.0));
    assert_eq!(group("after-1").first_done_ms, Some(110.0));
    assert_eq!(group("after-2").first_done_ms, Some(360.0));
    assert_eq!(group("after-1").last_done_ms, Some(1420.0), "the tenth steady job is done at 1410 ms");
    assert_eq!(group("after-2").last_done_ms, Some(1670.0));
    assert!(report.groups.iter().all(|group| group.wait_p99_ms == Some(0.0)));
}

#[test]
fn a_run_stops_at_its_stop() {
    let toml = |stop: &str| {
        format!(
            r#"
            workers = 10
            rate = {{ count = 10, burst = 1 }}
            service = {{ fixed_ms = 10 }}
            stop = {stop}
            [[group]]
            name = "endless"
            arrivals = [{{ steady = {{ per_second = 100 }} }}]
            "#
        )
    };
    let by_time = play(&toml("{ after_ms = 5000 }"));
    assert_eq!(by_time.groups[0].completed, 50);
    assert_eq!(by_time.completion_over_ideal, None, "it did not complete");
    let by_jobs = play(&toml("{ after_jobs = 7 }"));
    assert_eq!(by_jobs.groups[0].completed, 7);
}

#[test]
fn a_group_paused_for_ever_keeps_its_jobs_and_the_run_ends() {
    let report = play(
        r#"
        workers = 10
        service = { fixed_ms = 100 }
        [[group]]
        name = "a"
        arrivals = [{ at_once = { jobs = 100 } }]
        pauses = [{ from_ms = 250 }]
        "#,
    );
    assert_eq!(report.groups[0].completed, 30);
}
