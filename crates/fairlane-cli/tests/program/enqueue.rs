//! `fairlane enqueue`.

use super::queue::Queue;
use super::running::fairlane;

#[test]
fn enqueueing_a_job_twice_adds_it_once() {
    let queue = Queue::new();
    let words = ["enqueue", "customer-7", "mail", "{\"to\": 1}", "--id", "welcome"];
    let first = queue.run(&words);
    assert_eq!(
        (first.code, first.stdout.trim()),
        (0, "welcome of customer-7 is enqueued"),
        "{}",
        first.stderr
    );
    let again = queue.json(&words);
    assert_eq!((&again["id"], &again["created"]), (&"welcome".into(), &false.into()));
    let other = ["enqueue", "customer-7", "mail", "{\"to\": 2}", "--id", "welcome"];
    queue
        .run(&other)
        .failed(2, &["welcome of customer-7 is there already, with another payload", "stays as it is"]);
    let second = queue.json(&["enqueue", "customer-7", "mail", "--delay", "1h"]);
    assert_eq!((&second["created"], &second["backlog"]), (&true.into(), &2.into()));
    let why = queue.json(&["why", "customer-7", "welcome"]);
    assert_eq!(why["state"], "pending");
}

#[test]
fn delay_level_and_cost_are_applied() {
    let queue = Queue::new();
    let options = ["--delay", "2h", "--level", "high", "--cost", "7"];
    let enqueued = queue.json(&[&["enqueue", "customer-7", "report"][..], &options].concat());
    let id = enqueued["id"].as_str().unwrap();
    assert_eq!(queue.json(&["why", "customer-7", id])["reason"], "delayed");
}

#[test]
fn invalid_input_is_rejected_and_creates_nothing() {
    let queue = Queue::new();
    queue.run(&["enqueue", "customer-7", "mail", "hello"]).failed(2, &["not JSON", "--bytes"]);
    queue.run(&["enqueue", "customer-7", "mail", "--delay", "soon"]).failed(2, &["500ms, 30s, 5m, 2h, 1d"]);
    queue.run(&["enqueue", "customer-7", "mail", "--run-at", "noon"]).failed(2, &["2026-01-31T08:30:00Z"]);
    queue.run(&["enqueue", "customer-7", "mail", "--level", "urgent"]).failed(2, &["high, normal and low"]);
    queue
        .run(&["enqueue", "customer-7", "mail", "--trace", "00"])
        .failed(2, &["W3C traceparent, such as 00-"]);
    queue.run(&["enqueue", "customer-7"]).failed(2, &["<TYPE>"]);
    let both = ["enqueue", "a", "b", "--delay", "1s", "--run-at", "2026-01-31T08:30:00Z"];
    queue.run(&both).failed(2, &["cannot be used with"]);
    assert!(!std::path::Path::new(&queue.path("queue")).exists());
    queue.run(&["enqueue", "customer-7", "mail", "--cost", "0"]).failed(2, &["between 1 and 10000"]);
    fairlane(&["enqueue", "a", "b", "--engine", "memory:"])
        .failed(2, &["exists only while this command runs"]);
    let unreachable = fairlane(&["enqueue", "a", "b", "--engine", "redis://me:hunter2@127.0.0.1:1"]);
    unreachable.failed(
        1,
        &["redis at redis://127.0.0.1:1 cannot be reached", "redis-server", "--engine ./data", "--id 0"],
    );
    let message = &unreachable.stderr;
    assert!(!message.contains("safe to repeat") && !message.contains("hunter2"), "{message}");
}

#[test]
fn the_owner_of_a_directory_is_named() {
    let queue = Queue::new();
    queue.run(&["enqueue", "customer-7", "mail"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let owner = runtime.block_on(fairlane::Fairlane::attach(&queue.url())).unwrap();
    let pid = std::process::id().to_string();
    queue.run(&["enqueue", "customer-7", "mail"]).failed(2, &[&pid]);
    drop(owner);
    assert_eq!(queue.run(&["enqueue", "customer-7", "mail"]).code, 0);
}

#[test]
fn a_trace_in_the_environment_is_ignored() {
    let queue = Queue::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fairlane"));
    command.args(["enqueue", "a", "mail", "--id", "1", "--engine", &queue.url()]);
    let output = command
        .env("TRACEPARENT", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(queue.json(&["job", "show", "a", "1"])["trace"].is_null());
}

#[test]
fn the_engine_can_come_from_the_environment() {
    let queue = Queue::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fairlane"));
    let output = command.args(["enqueue", "a", "mail"]).env("FAIRLANE_ENGINE", queue.url()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(queue.json(&["group", "show", "a"])["backlog"], 1);
}
