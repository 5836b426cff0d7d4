//! Commands on a server whose key does not permit them.

use tempfile::TempDir;

use super::running::{Ended, fairlane};
use super::served::Served;

/// A server with one key per role, and its addresses with these keys.
fn served_with(roles: &[&str]) -> (Served, Vec<String>) {
    let folder = TempDir::new().unwrap();
    let keys = folder.path().join("keys.json").display().to_string();
    let key = |role: &&str| {
        let made =
            fairlane(&["key", "create", "--name", "k", "--role", role, "--keys", &keys, "--json"]).json();
        made["key"].as_str().unwrap().to_owned()
    };
    let made: Vec<String> = roles.iter().map(key).collect();
    let served = Served::in_folder(folder, &["--engine", "memory:", "--keys", &keys]);
    let addresses = made.iter().map(|key| served.address.replace("http://", &format!("http://{key}@")));
    let addresses = addresses.collect();
    (served, addresses)
}

fn run(engine: &str, words: &[&str]) -> Ended {
    fairlane(&[words, &["--engine", engine]].concat())
}

#[test]
fn every_command_reports_a_missing_permission_in_the_same_way() {
    let (served, addresses) = served_with(&["viewer"]);
    let jobs = served.path("jobs").display().to_string();
    std::fs::write(&jobs, "1\n2\n").unwrap();
    let load = ["bulk", "load", "customer-7", "may", &jobs, "--type", "mail", "--payload-lines"];
    let lines: [&[&str]; 8] = [
        &["enqueue", "customer-7", "mail", "1"],
        &["group", "set", "customer-7", "--weight", "2"],
        &["type", "set", "mail", "--rate", "5/s"],
        &["settings", "set", "max_retry_count=4"],
        &["job", "cancel", "customer-7", "a"],
        &["job", "requeue", "customer-7", "a"],
        &["audit"],
        &load,
    ];
    for words in lines {
        let ended = run(&addresses[0], words);
        ended.failed(2, &["the role viewer does not give; use a key with the role"]);
        assert!(!ended.stderr.contains("FAIRLANE_KEY"), "{words:?}: {}", ended.stderr);
        run(&served.address, words).failed(2, &["set FAIRLANE_KEY"]);
    }
}

#[test]
fn a_worker_key_uses_a_file_whose_settings_it_may_not_set() {
    let (served, addresses) = served_with(&["worker", "admin"]);
    let config = served.path("work.toml").display().to_string();
    let file = "[queue]\nmax_retry_count = 5\ncompleted_retention_ms = \"2h\"\n\
        [types.mail]\ncommand = [\"cat\"]\nrate = \"100/s\"\nmax_retry_count = 3\n";
    std::fs::write(&config, file).unwrap();
    let work = |expected: &str| {
        let ended = run(&addresses[0], &["work", "--config", &config, "--drain", "--patience", "10s"]);
        assert!(ended.code == 0 && ended.stdout.starts_with(expected), "{}{}", ended.stdout, ended.stderr);
        ended.stderr
    };
    run(&addresses[1], &["enqueue", "customer-7", "mail", "1", "--json"]).json();
    let messages = work("drained: 1 done");
    assert!(
        messages.contains("warning: the settings of the queue in the file were not applied"),
        "{messages}"
    );
    let advice = "fairlane settings set max_retry_count='5' completed_retention_ms='2h'";
    assert!(messages.contains(advice), "{messages}");
    let advice = "fairlane type set mail --rate '100/s' --max-retry-count 3";
    assert!(messages.contains("warning: the settings of mail in the file were not applied"), "{messages}");
    assert!(messages.contains(advice), "{messages}");
    run(&addresses[1], &["type", "set", "mail", "--rate", "100/s", "--max-retry-count", "3", "--json"])
        .json();
    run(&addresses[1], &["settings", "set", "max_retry_count=5", "completed_retention_ms=2h", "--json"])
        .json();
    let messages = work("drained: 0 done");
    assert!(!messages.contains("not applied"), "{messages}");
}
