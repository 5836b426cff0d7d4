//! Every command on every kind of engine: a directory, Redis, a server, and a directory that a
//! server owns.

use fairlane_testkit::redis::{RedisServer, ServerOptions};
use serde_json::Value;
use tempfile::TempDir;

use super::running::{Ended, fairlane};
use super::served::Served;

/// The arguments of a command, and a part of the expected output.
type Case = (&'static [&'static str], &'static str);

/// The order matters: later commands use the data of earlier ones.
const CASES: &[Case] = &[
    (&["settings", "set", "max_retry_count=4"], "\"max_retry_count\": \"4\""),
    (&["settings", "show"], "\"max_retry_count\": \"4\""),
    (&["enqueue", "customer-7", "mail", "{\"to\": 1}", "--id", "a"], "\"created\": true"),
    (&["enqueue", "customer-7", "mail", "{\"to\": 1}", "--id", "a"], "\"created\": false"),
    (&["enqueue", "customer-7", "mail", "--id", "late", "--delay", "1h"], "\"created\": true"),
    (&["job", "show", "customer-7", "a"], "\"state\": \"pending\""),
    (&["why", "customer-7", "a"], "\"reason\""),
    (&["group", "set", "customer-7", "--weight", "3", "--rate", "50/s"], "\"weight\": 3"),
    (&["group", "show", "customer-7"], "\"rate\": \"50/s\""),
    (&["group", "list"], "\"group\": \"customer-7\""),
    (&["type", "set", "mail", "--rate", "500/s"], "\"rate\": \"500/s\""),
    (&["type", "show", "mail"], "\"rate\": \"500/s\""),
    (&["type", "list"], "\"type\": \"mail\""),
    (&["bulk", "load", "customer-7", "may", "FILE", "--type", "mail", "--no-seal"], "\"jobs\": 3"),
    (&["bulk", "show", "customer-7", "may"], "\"total\": 3"),
    (&["bulk", "list", "customer-7"], "\"id\": \"may\""),
    (&["bulk", "hold", "customer-7", "may"], "\"mode\": \"hold\""),
    (&["bulk", "resume", "customer-7", "may"], "\"mode\": \"run\""),
    (&["bulk", "seal", "customer-7", "may", "--expected", "3"], "\"sealed\": true"),
    (&["bulk", "export", "customer-7", "may", "--out", "OUT"], "\"jobs\": 0"),
    (&["status"], "\"backlog\": 5"),
    (&["top"], "\"backlog\": 5"),
    (&["bulk", "cancel", "customer-7", "may"], "\"state\": \"cancelled\""),
    (&["job", "cancel", "customer-7", "a"], "\"outcome\": \"cancelled\""),
    (&["job", "cancel", "customer-7", "late"], "\"outcome\": \"cancelled\""),
    (&["dead", "list"], "\"dead\": 0"),
    (&["dead", "requeue", "--all"], "\"requeued\": 0"),
    (&["dead", "discard", "--all"], "\"discarded\": 0"),
    (&["audit"], "\"remaining\": 0"),
];

fn run_all(engine: &str, folder: &TempDir) {
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("jobs"), "{\"payload\":1}\n{\"payload\":2}\n{\"payload\":3}\n").unwrap();
    let (file, out) = (path("jobs"), path("out"));
    for (words, expected) in CASES {
        let word = |word: &&'static str| match *word {
            "FILE" => file.clone(),
            "OUT" => out.clone(),
            other => other.to_owned(),
        };
        let mut words: Vec<String> = words.iter().map(word).collect();
        words.extend(["--json".to_owned(), "--engine".to_owned(), engine.to_owned()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = fairlane(&words);
        assert!(
            is_json_object(&ended) && ended.stdout.contains(expected),
            "{words:?}: {}{}",
            ended.stdout,
            ended.stderr
        );
    }
    let config = path("work.toml");
    std::fs::write(&config, "[types.mail]\ncommand = [\"cat\"]\n").unwrap();
    fairlane(&["enqueue", "customer-7", "mail", "2", "--id", "b", "--engine", engine]);
    let ended = fairlane(&["work", "--config", &config, "--drain", "--patience", "10s", "--engine", engine]);
    assert!(
        ended.code == 0 && ended.stdout.starts_with("drained: 1 done"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
}

/// Whether the command printed one JSON object and nothing else.
fn is_json_object(ended: &Ended) -> bool {
    ended.code == 0 && ended.stderr.is_empty() && serde_json::from_str::<Value>(&ended.stdout).is_ok()
}

#[test]
fn every_command_works_on_a_directory() {
    let folder = TempDir::new().unwrap();
    run_all(&format!("dir:{}", folder.path().join("queue").display()), &folder);
}

#[test]
fn every_command_works_on_redis() {
    run_all(&RedisServer::start(ServerOptions::default()).url(), &TempDir::new().unwrap());
}

#[test]
fn every_command_works_on_a_server() {
    let served = Served::start();
    run_all(&served.address, &TempDir::new().unwrap());
}

#[test]
fn every_command_works_on_a_directory_that_a_server_owns() {
    let served = Served::start();
    run_all(&format!("dir:{}", served.path("queue").display()), &TempDir::new().unwrap());
}
