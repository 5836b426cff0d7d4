//! The examples run to their end, in memory and on a real Redis.

use std::path::PathBuf;
use std::process::Command;

use fairlane_testkit::redis::{RedisServer, ServerOptions};

/// Each example, and what it prints in the end.
const EXAMPLES: [(&str, &str); 8] = [
    ("enqueue_and_work", "the result: sent"),
    ("bulk_action", "completed: 1000 of 1000 done"),
    ("rate_limited_downstream", "50 jobs with 55 calls"),
    ("retries_and_dead_jobs", "completed"),
    ("locks_and_fences", "10 coupons were issued, and a late write was refused"),
    ("with_lock", "the report was written under fence"),
    ("waiting_room", "ada has left, and cyd has her place"),
    ("middleware_and_events", "customer-0: dead"),
];

/// Examples are built beside the tests.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(|folder| folder.parent()).unwrap();
    let program = folder.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "build the examples first: cargo build -p fairlane --examples");
    program
}

fn run_all(url: &str) {
    let run = |name| Command::new(program(name)).arg(url).output().unwrap();
    for (name, words) in EXAMPLES {
        let output = run(name);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stdout.contains(words), "{name} on {url}: {stdout}{stderr}");
    }
}

#[test]
fn every_example_is_run() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = files.map(|name| name.into_string().unwrap().replace(".rs", "")).collect();
    names.sort();
    let mut known: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
    known.sort();
    assert_eq!(names, known);
}

#[test]
fn the_examples_run_to_their_end_in_memory() {
    run_all("memory:");
}

#[test]
fn the_examples_run_to_their_end_in_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    run_all(&format!("dir:{}/queue", folder.path().display()));
}

#[test]
fn the_examples_run_to_their_end_on_redis() {
    let server = RedisServer::start(ServerOptions::default());
    run_all(&server.url());
}
