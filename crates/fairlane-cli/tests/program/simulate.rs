//! `fairlane simulate`.

use super::running::{fairlane, has_keys};

#[test]
fn the_json_of_a_built_in_scenario_has_one_object_per_part() {
    let report = fairlane(&["simulate", "equals", "--json"]).json();
    let parts = report.as_array().unwrap();
    assert!(!parts.is_empty());
    for part in parts {
        has_keys(part, &["scenario", "part", "discipline", "completion_over_ideal", "jain", "utilisation"]);
        has_keys(part, &["throttles_per_job", "refusals_per_job", "peak_over_limit", "groups"]);
        assert_eq!(part["scenario"], "equals");
        for group in part["groups"].as_array().unwrap() {
            has_keys(group, &["group", "jobs", "completed", "wait_p50_ms", "wait_p99_ms", "last_done_ms"]);
        }
    }
}

#[test]
fn a_file_is_simulated_and_only_the_table_omits_groups() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("crowd.toml");
    let mut toml = "workers = 10\nrate = { count = 100 }\nservice = { fixed_ms = 10 }\n".to_owned();
    for group in 0..30 {
        toml +=
            &format!("[[group]]\nname = \"group-{group}\"\narrivals = [{{ at_once = {{ jobs = 2 }} }}]\n");
    }
    std::fs::write(&path, toml).unwrap();
    let path = path.to_str().unwrap();
    let table = fairlane(&["simulate", path]);
    assert_eq!(table.code, 0, "{}", table.stderr);
    assert!(table.stdout.contains("crowd") && table.stdout.contains("10 more"), "{}", table.stdout);
    let report = fairlane(&["simulate", path, "--json"]).json();
    assert_eq!(report[0]["groups"].as_array().unwrap().len(), 30);
}

#[test]
fn a_plot_is_written_to_the_given_file() {
    let folder = tempfile::TempDir::new().unwrap();
    let picture = folder.path().join("equals.svg");
    let ended = fairlane(&["simulate", "equals", "--plot", picture.to_str().unwrap()]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(std::fs::read_to_string(picture).unwrap().contains("<svg"));
    let nowhere = folder.path().join("missing/equals.svg");
    fairlane(&["simulate", "equals", "--plot", nowhere.to_str().unwrap()]).failed(2, &["cannot be written"]);
}

#[test]
fn an_unknown_scenario_is_rejected_with_a_list_of_the_known_ones() {
    fairlane(&["simulate", "eqauls"]).failed(2, &["\"eqauls\"", "equals", "flood", "weights"]);
}

#[test]
fn an_invalid_file_is_named() {
    let folder = tempfile::TempDir::new().unwrap();
    let missing = folder.path().join("missing.toml");
    fairlane(&["simulate", missing.to_str().unwrap()]).failed(2, &["missing.toml cannot be read"]);
    let torn = folder.path().join("torn.toml");
    std::fs::write(&torn, "workers = [").unwrap();
    fairlane(&["simulate", torn.to_str().unwrap()]).failed(2, &["scenario torn"]);
    let wrong = folder.path().join("wrong.toml");
    std::fs::write(&wrong, "workers = 0").unwrap();
    fairlane(&["simulate", wrong.to_str().unwrap()]).failed(2, &["workers", "must be at least 1"]);
}

#[test]
fn the_discipline_can_be_set_by_options() {
    let arguments = ["simulate", "late", "--discipline", "classic", "--alpha", "-10000", "--json"];
    let report = fairlane(&arguments).json();
    assert_eq!((&report[0]["discipline"], &report[0]["alpha"]), (&"classic".into(), &(-10_000).into()));
    let share = fairlane(&["simulate", "equals", "--json"]).json();
    assert_eq!((&share[0]["discipline"], &share[0]["alpha"]), (&"share".into(), &serde_json::Value::Null));
    let small = ["simulate", "equals", "--discipline", "classic", "--fetch-batch", "5", "--json"];
    let small = fairlane(&[&small[..], &["--global-rps", "100"]].concat()).json();
    assert!(small[0]["utilisation"].as_f64().unwrap() <= 0.26, "5 jobs every 200 ms are 25 per second");
}

#[test]
fn a_comparison_shows_a_plain_queue_and_the_disciplines_side_by_side() {
    let table = fairlane(&["simulate", "late", "--compare"]);
    assert_eq!(table.code, 0, "{}", table.stderr);
    for heading in ["fifo", "share", "alpha 10000", "alpha 0", "alpha -10000"] {
        assert!(table.stdout.contains(heading), "{}", table.stdout);
    }
    assert!(table.stdout.contains("B: wait p99"), "{}", table.stdout);
    let runs = fairlane(&["simulate", "late", "--compare", "--json"]).json();
    let alphas: Vec<&serde_json::Value> = runs.as_array().unwrap().iter().map(|run| &run["alpha"]).collect();
    let none = &serde_json::Value::Null;
    assert_eq!(alphas, [none, none, &10_000.into(), &0.into(), &(-10_000).into()]);
    let runs = fairlane(&["simulate", "late", "--compare=fifo", "--json"]).json();
    let rules = [&runs[0]["discipline"], &runs[1]["discipline"]].map(|rules| rules.as_str().unwrap());
    assert_eq!((rules, runs.as_array().unwrap().len()), (["fifo", "share"], 2));
}

#[test]
fn contradictory_options_are_rejected() {
    fairlane(&["simulate", "late", "--alpha", "5"]).failed(2, &["add --discipline classic"]);
    fairlane(&["simulate", "late", "--compare", "--alpha", "5"]).failed(2, &["cannot be used with"]);
    let beyond = ["simulate", "late", "--discipline", "classic", "--fetch-batch", "501"];
    fairlane(&beyond).failed(2, &["fetch_batch_size", "at most 500"]);
}
