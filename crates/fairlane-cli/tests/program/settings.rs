//! `fairlane settings`, `fairlane config` and `fairlane completions`.

use tempfile::TempDir;

use super::queue::Queue;
use super::running::{fairlane, fairlane_in};

#[test]
fn queue_settings_are_shown_and_changed_by_key() {
    let queue = Queue::new();
    let set =
        queue.json(&["settings", "set", "max_retry_count=5", "rate=1000/s", "completed_retention_ms=2h"]);
    assert_eq!(set["settings"]["completed_retention_ms"], "7200000");
    let shown = queue.json(&["settings", "show"]);
    assert_eq!(shown, set, "only the given settings change");
    assert_eq!(
        (&shown["settings"]["rate"], &shown["settings"]["max_loss_count"]),
        (&"1000/s".into(), &"5".into())
    );
    let set = queue.json(&["settings", "set", "stored_bytes_max=64MiB", "group_stored_bytes_max=1000"]);
    assert_eq!(set["settings"]["stored_bytes_max"], "64MiB");
    assert_eq!(set["settings"]["group_stored_bytes_max"], "1000");
    let text = queue.run(&["settings", "set", "rate=none"]);
    assert!(text.code == 0 && text.stdout.contains("max_retry_count"), "{}", text.stderr);
    let retention = text.stdout.lines().find(|line| line.contains("completed_retention_ms")).unwrap();
    assert!(retention.trim_end().ends_with(" 2h"), "{retention}");
    for (words, problem) in [
        ("max_retry_cont=5", "did you mean `max_retry_count`?"),
        ("max_retry_count=many", "max_retry_count must be a whole number"),
        ("max_retry_count=99999", "max_retry_count must be between 0 and 10000"),
        ("discipline=fair", "discipline must be share or classic"),
        ("stored_bytes_max=4GB", "stored_bytes_max must be bytes such as"),
        ("group_stored_bytes_max=0", "group_stored_bytes_max must be bytes such as"),
        ("rate", "KEY=VALUE"),
    ] {
        queue.run(&["settings", "set", words]).failed(2, &[problem]);
    }
    queue.run(&["enqueue", "customer-7", "mail"]);
    queue.run(&["settings", "set", "discipline=classic"]).failed(2, &["no unfinished jobs"]);
}

#[test]
fn config_prints_every_value_with_its_source() {
    let folder = TempDir::new().unwrap();
    let file = "engine = \"redis://:hunter2@127.0.0.1:1\"\n[worker]\nlease_ms = 20000\n";
    std::fs::write(folder.path().join("fairlane.toml"), file).unwrap();
    let run = |words: &[&str]| {
        let variables = [("FAIRLANE_SERVER_POLL_MAX", "20s")];
        fairlane_in(&folder, &variables, &[&["config"], words].concat())
    };
    let shown = run(&["--json", "--listen", "127.0.0.1:9000"]).json();
    let row = |key: &str| {
        let rows = shown["values"].as_array().unwrap();
        let row = rows.iter().find(|row| row["key"] == key).unwrap();
        (row["value"].as_str().unwrap().to_owned(), row["origin"].as_str().unwrap().to_owned())
    };
    let expected = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(row("engine"), expected("redis://127.0.0.1:1", "fairlane.toml:1"));
    assert_eq!(row("server.listen"), expected("127.0.0.1:9000", "--listen"));
    assert_eq!(row("server.poll_max"), expected("20s", "FAIRLANE_SERVER_POLL_MAX"));
    assert_eq!(row("worker.lease_ms"), expected("20000", "fairlane.toml:3"));
    assert_eq!(row("worker.worker_count"), expected("10", "default"));
    let text = run(&[]).stdout;
    assert!(text.contains("fairlane.toml:3") && !text.contains("hunter2"), "{text}");
    std::fs::write(folder.path().join("fairlane.toml"), "[sever]\n").unwrap();
    run(&[]).failed(2, &["did you mean `server`?"]);
}

#[test]
fn config_prints_default_engines_and_no_password() {
    let folder = TempDir::new().unwrap();
    let run = |variables: &[(&str, &str)], words: &[&str]| fairlane_in(&folder, variables, words).stdout;
    let engines = |variables: &[(&str, &str)]| {
        let shown: serde_json::Value = serde_json::from_str(&run(variables, &["config", "--json"])).unwrap();
        let rows = shown["values"].as_array().unwrap().iter().filter(|row| row["key"] == "engine");
        let shown = rows.map(|row| format!("{} {}", row["value"], row["origin"]).replace('"', ""));
        shown.collect::<Vec<_>>()
    };
    let served = "dir:./fairlane-data default";
    let apart = [
        format!("{served} of serve"),
        "redis://127.0.0.1:6379 default of work, unless ./fairlane-data contains a queue or a server runs here"
            .to_owned(),
    ];
    assert_eq!(engines(&[]), apart);
    assert_eq!(engines(&[("FAIRLANE_ENGINE", "")]), apart);
    let secret = [("FAIRLANE_ENGINE", "redis://:hunter2@127.0.0.1:1")];
    assert_eq!(engines(&secret), ["redis://127.0.0.1:1 FAIRLANE_ENGINE"]);
    run(&[("FAIRLANE_ENGINE", "./fairlane-data")], &["enqueue", "customer-7", "mail"]);
    assert_eq!(engines(&[]), [served]);
    let status = run(&[("FAIRLANE_ENGINE", "")], &["status", "--json"]);
    assert!(status.contains("\"backlog\": 1"), "an empty variable counts as not set: {status}");
}

#[test]
fn every_shell_has_a_completion_script() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = fairlane(&["completions", shell]);
        assert!(ended.code == 0 && ended.stdout.contains("completions"), "{}", ended.stderr);
    }
    fairlane(&["completions", "cmd"]).failed(2, &["bash"]);
}

/// `config` rejects the addresses that `serve` rejects.
#[test]
fn config_rejects_an_invalid_engine() {
    let folder = TempDir::new().unwrap();
    for engine in ["sqlite:./x", "redis:/missing", "http://"] {
        let config = fairlane(&["config", "--engine", engine]);
        let serve = fairlane(&["serve", "--engine", engine, "--listen", "127.0.0.1:0"]);
        config.failed(2, &["error: "]);
        serve.failed(2, &["error: "]);
    }
    let file = folder.path().join("fairlane.toml");
    std::fs::write(&file, "engine = \"sqlite:./x\"\n").unwrap();
    fairlane(&["config", "--config", file.to_str().unwrap()]).failed(2, &["sqlite"]);
    for engine in ["./data", "dir:./data", "redis://127.0.0.1:1", "http://127.0.0.1:1", "memory:"] {
        assert_eq!(fairlane(&["config", "--engine", engine]).code, 0, "{engine}");
    }
}
