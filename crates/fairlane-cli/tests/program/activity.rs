//! `fairlane activity`.

use super::queue::Queue;
use super::running::fairlane;
use super::served::Served;

#[test]
fn changes_on_the_command_line_are_listed_with_who_made_them() {
    let queue = Queue::new();
    queue.run(&["enqueue", "customer-7", "mail", "1"]);
    assert!(queue.run(&["activity"]).stdout.contains("No operator has changed anything."));
    queue.run(&["group", "set", "customer-7", "--weight", "3"]);
    queue.run(&["group", "set", "customer-8", "--pause"]);
    queue.run(&["settings", "set", "max_retry_count=3"]);
    queue.run(&["status"]);
    let listed = queue.json(&["activity"]);
    let lines: Vec<(&str, &str)> = listed["activity"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["name"].as_str().unwrap_or("–"), one["text"].as_str().unwrap()))
        .collect();
    assert_eq!(
        lines,
        [("–", "settings of the queue changed"), ("customer-8", "paused"), ("customer-7", "weight 3")]
    );
    assert_eq!(queue.json(&["activity", "--limit", "1"])["activity"].as_array().unwrap().len(), 1);
    let text = queue.run(&["activity", "--group", "customer-8"]).stdout;
    assert!(text.contains("local") && text.contains("group customer-8") && text.contains("paused"), "{text}");
    assert!(!text.contains("customer-7"), "{text}");
}

#[test]
fn a_server_records_what_the_command_line_changes_through_it_once() {
    let served = Served::start();
    let json = |words: &[&str]| fairlane(&[words, &["--json", "--engine", &served.address]].concat()).json();
    json(&["group", "set", "customer-7", "--weight", "3"]);
    let (status, body) = served.ask("GET", "/api/activity", "").unwrap();
    assert_eq!(status, 200, "{body}");
    let api: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(api["activity"].as_array().unwrap().len(), 1, "{api}");
    assert_eq!(json(&["activity"])["activity"], api["activity"]);
}
