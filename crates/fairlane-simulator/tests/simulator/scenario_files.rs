//! Errors in scenario files are reported precisely.

use fairlane_simulator::{Scenario, SimulationError};

const GOOD: &str = r#"
workers = 10
rate = { count = 100 }
[[group]]
name = "a"
arrivals = [{ at_once = { jobs = 10 } }]
"#;

fn refusal(toml: &str) -> String {
    Scenario::parse("mine", toml).expect_err("the scenario is invalid").to_string()
}

/// The error message of the valid file with one change.
fn refusal_after(from: &str, to: &str) -> String {
    let changed = GOOD.replace(from, to);
    assert_ne!(changed, GOOD, "the change changes something");
    refusal(&changed)
}

#[test]
fn a_valid_file_is_accepted() {
    assert_eq!(Scenario::parse("mine", GOOD).unwrap().name(), "mine");
}

#[test]
fn an_unknown_key_is_reported_with_its_line() {
    let message = refusal_after("workers", "wrokers");
    assert!(message.contains("unknown field `wrokers`"), "{message}");
    assert!(message.contains("line 2"), "{message}");
    let message = refusal_after("jobs = 10", "jobs = 10, job = 1");
    assert!(message.contains("unknown field `job`"), "{message}");
}

#[test]
fn a_negative_number_is_rejected_with_its_line() {
    let message = refusal_after("workers = 10", "workers = -1");
    assert!(message.contains("workers = -1") && message.contains("line 2"), "{message}");
    let message = refusal_after("at_once = { jobs = 10 }", "steady = { per_second = -3.0, jobs = 5 }");
    assert_eq!(
        message,
        "scenario mine, part main: arrivals of group a.per_second: must be above 0 and at most 1000000, not -3"
    );
}

#[test]
fn zero_workers_are_rejected() {
    let message = refusal_after("workers = 10", "workers = 0");
    assert_eq!(message, "scenario mine, part main: workers: must be at least 1, not 0");
}

#[test]
fn an_unknown_group_is_named() {
    let message = refusal_after("workers = 10", "workers = 10\nalone_without = [\"b\"]");
    assert_eq!(message, "scenario mine, part main: alone_without: there is no group \"b\"; there are a");
    let message = refusal_after("jobs = 10", "jobs = 10, when = { group = \"c\", done_percent = 1 }");
    assert!(message.contains("when.group: there is no group \"c\""), "{message}");
}

#[test]
fn an_unknown_discipline_is_rejected() {
    let message = refusal(&format!("discipline = \"lifo\"\n{GOOD}"));
    let expected = "discipline: \"lifo\" is not a discipline; use \"share\", \"classic\" or \"fifo\"";
    assert_eq!(message, format!("scenario mine, part main: {expected}"));
}

#[test]
fn for_a_mistyped_key_the_most_similar_key_is_suggested() {
    let suggestions = [
        (refusal_after("workers", "wrokers"), "workers"),
        (refusal_after("workers = 10", "workers = 10\nclassic = { fetch_batch = 5 }"), "fetch_batch_size"),
        (refusal_after("workers = 10", "workers = 10\nclassic = { alhpa = 5 }"), "alpha"),
        (refusal_after("name = \"a\"", "name = \"a\"\nbase_prioriy = 5"), "base_priority"),
    ];
    for (message, meant) in suggestions {
        assert!(message.ends_with(&format!("did you mean `{meant}`?")), "{message}");
    }
}

#[test]
fn invalid_values_of_classic_keys_are_rejected() {
    let refused = [
        ("alpha = 10_000_001", "classic.alpha: must be between -10000000 and 10000000, not 10000001"),
        ("global_rps = 0", "classic.global_rps: must be at least 1"),
        ("fetch_interval_ms = 0", "classic.fetch_interval_ms: must be at least 1"),
        ("fetch_batch_size = 501", "classic.fetch_batch_size: must be at most 500"),
        ("dispatch_batch_size = 0", "classic.dispatch_batch_size: must be at least 1"),
        ("congestion = { max_backoff_ms = 999 }", "max_backoff_ms: must be at least 1000"),
    ];
    for (key, expected) in refused {
        let message = refusal_after("workers = 10", &format!("workers = 10\nclassic = {{ {key} }}"));
        assert!(message.contains(expected), "{message:?} does not contain {expected:?}");
    }
    let message = refusal_after("name = \"a\"", "name = \"a\"\nbase_priority = 1_000_000_000_001");
    assert!(message.contains("base_priority of group a: must be between"), "{message}");
}

#[test]
fn arrivals_without_an_end_need_a_stop() {
    let endless = GOOD.replace("at_once = { jobs = 10 }", "steady = { per_second = 5 }");
    assert!(refusal(&endless).contains("arrivals of group a: never end"), "{}", refusal(&endless));
    assert!(Scenario::parse("mine", &format!("stop = {{ after_ms = 1000 }}\n{endless}")).is_ok());
}

#[test]
fn invalid_values_are_rejected() {
    let refused = [
        ("count = 100", "count = 0", "rate: the count of a rate must be between 1 and 1000000, not 0"),
        ("name = \"a\"", "name = \"\"", "a group id must not be empty"),
        ("name = \"a\"", "name = \"a\"\nweight = 0", "weight of group a: a weight must be between"),
        ("name = \"a\"", "name = \"a\"\ncost = 10001", "cost of group a: a cost must be between"),
        ("name = \"a\"", "name = \"a\"\nlevel = \"urgent\"", "\"urgent\" is not a level"),
        ("name = \"a\"", "name = \"a\"\ntype = \"t\"", "type of group a: there is no type \"t\""),
        ("name = \"a\"", "name = \"a\"\ncount = 0", "count of group a: must be at least 1"),
        ("name = \"a\"", "name = \"a\"\nconcurrency = 0", "concurrency of group a: must be at least 1"),
        ("jobs = 10", "jobs = 0", "at_once.jobs: must be at least 1"),
        ("{ at_once = { jobs = 10 } }", "", "arrivals of group a: there are none"),
        ("workers = 10", "workers = 10\nlease_jobs = 501", "lease_jobs: must be at most 500"),
        (
            "workers = 10",
            "workers = 10\nservice = { fixed_ms = 0 }",
            "service of type work: must be at least 1",
        ),
        ("workers = 10", "workers = 10\nservice = { uniform_ms = [9, 3] }", "9 ms to 3 ms is not a range"),
    ];
    for (from, to, expected) in refused {
        let message = refusal_after(from, to);
        assert!(message.contains(expected), "{message:?} does not contain {expected:?}");
    }
}

#[test]
fn parts_have_unique_names_and_no_parts_of_their_own() {
    assert!(refusal(&format!("{GOOD}\n[[part]]\nworkers = 3")).contains("a [[part]] has no name"));
    let twice = format!("{GOOD}\n[[part]]\nname = \"x\"\n[[part]]\nname = \"x\"");
    assert!(refusal(&twice).contains("two parts are named x"));
    let nested = format!("{GOOD}\n[[part]]\nname = \"x\"\n[[part.part]]\nname = \"y\"");
    assert!(refusal(&nested).contains("a part has no parts of its own"));
    assert!(refusal(&format!("name = \"x\"\n{GOOD}")).contains("only a [[part]] has a name"));
    let invalid = format!("{GOOD}\n[[part]]\nname = \"x\"\nworkers = 0");
    let error = Scenario::parse("mine", &invalid).unwrap_err();
    assert!(
        matches!(error, SimulationError::Invalid { part, field, .. } if part == "x" && field == "workers")
    );
}
