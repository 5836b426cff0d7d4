//! `fairlane dead`.

use super::queue::Queue;
use super::running::has_keys;

const IDS: [&str; 5] = ["rare-1", "frequent-1", "frequent-2", "rare-2", "frequent-3"];

#[test]
fn dead_jobs_are_listed_with_their_problem() {
    let queue = Queue::with_dead(&IDS);
    let listed = queue.json(&["dead", "list", "--code", "rare"]);
    assert_eq!(listed["dead"], 5);
    let jobs = listed["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2);
    has_keys(&jobs[0], &["group", "job", "type", "code", "message", "attempts", "died_at", "bulk"]);
    assert_eq!((&jobs[0]["code"], &jobs[0]["message"]), (&"rare".into(), &"it never works".into()));
    let text = queue.run(&["dead", "list", "--limit", "3"]).stdout;
    assert!(text.contains("frequent: it never works") && text.contains("3 of 5 dead jobs."), "{text}");
    assert_eq!(queue.json(&["dead", "list", "--group", "customer-8"])["jobs"].as_array().unwrap().len(), 0);
    assert_eq!(queue.json(&["dead", "list", "--older-than", "1h"])["jobs"].as_array().unwrap().len(), 0);
}

#[test]
fn those_that_match_run_again_or_are_removed() {
    let queue = Queue::with_dead(&IDS);
    assert_eq!(queue.json(&["dead", "requeue", "--code", "rare"])["requeued"], 2);
    assert_eq!(queue.json(&["why", "customer-7", "rare-1"])["state"], "PENDING");
    let removed = queue.run(&["dead", "discard", "--type", "mail"]);
    assert_eq!((removed.code, removed.stdout.trim()), (0, "3 discarded"));
    assert_eq!(queue.json(&["dead", "requeue", "--all"])["requeued"], 0);
}

#[test]
fn without_a_filter_nothing_is_touched() {
    let queue = Queue::with_dead(&IDS[..1]);
    for deed in ["requeue", "discard"] {
        queue.run(&["dead", deed]).failed(2, &["--group, --type, --code or --older-than", "--all"]);
        queue.run(&["dead", deed, "--all", "--code", "rare"]).failed(2, &["--all alone"]);
    }
    queue.run(&["dead", "discard", "--older-than", "long"]).failed(2, &["1h30m"]);
    queue.run(&["dead", "list", "--group", ""]).failed(2, &["must not be empty"]);
    assert_eq!(queue.json(&["dead", "list"])["dead"], 1);
}
