//! `fairlane simulate`.

use super::running::{fairlane, has_keys};

#[test]
fn a_shipped_scenario_gives_a_list_with_an_object_per_part() {
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
fn a_file_is_played_and_many_groups_are_shortened_in_the_table_only() {
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
fn a_picture_is_drawn_where_asked() {
    let folder = tempfile::TempDir::new().unwrap();
    let picture = folder.path().join("equals.svg");
    let ended = fairlane(&["simulate", "equals", "--plot", picture.to_str().unwrap()]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(std::fs::read_to_string(picture).unwrap().contains("<svg"));
    let nowhere = folder.path().join("missing/equals.svg");
    fairlane(&["simulate", "equals", "--plot", nowhere.to_str().unwrap()]).failed(2, &["cannot be written"]);
}

#[test]
fn an_unknown_name_is_answered_with_the_shipped_ones() {
    fairlane(&["simulate", "eqauls"]).failed(2, &["\"eqauls\"", "equals", "flood", "weights"]);
}

#[test]
fn a_file_that_cannot_be_read_or_understood_is_named() {
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
