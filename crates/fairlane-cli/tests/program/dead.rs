//! `fairlane dead`.

use super::queue::Queue;
use super::running::{fairlane, fairlane_in, has_keys};
use super::served::Served;

const IDS: [&str; 5] = ["rare-1", "frequent-1", "frequent-2", "rare-2", "frequent-3"];

#[test]
fn dead_jobs_are_listed_with_their_error() {
    let queue = Queue::with_dead(&IDS);
    let listed = queue.json(&["dead", "list", "--code", "rare"]);
    assert_eq!(listed["dead"], 5);
    let jobs = listed["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2);
    has_keys(&jobs[0], &["group", "id", "type", "error", "attempts", "settled_at"]);
    assert_eq!(
        (&jobs[0]["error"]["code"], &jobs[0]["error"]["reason"]),
        (&"rare".into(), &"it never works".into())
    );
    let text = queue.run(&["dead", "list", "--limit", "3"]).stdout;
    assert!(text.contains("frequent: it never works") && text.contains("3 of 5 dead jobs."), "{text}");
    assert_eq!(queue.json(&["dead", "list", "--group", "customer-8"])["jobs"].as_array().unwrap().len(), 0);
    assert_eq!(queue.json(&["dead", "list", "--older-than", "1h"])["jobs"].as_array().unwrap().len(), 0);
}

#[test]
fn matching_dead_jobs_are_requeued_or_discarded() {
    let queue = Queue::with_dead(&IDS);
    assert_eq!(queue.json(&["dead", "requeue", "--code", "rare"])["requeued"], 2);
    assert_eq!(queue.json(&["why", "customer-7", "rare-1"])["state"], "pending");
    let removed = queue.run(&["dead", "discard", "--type", "mail"]);
    assert_eq!((removed.code, removed.stdout.trim()), (0, "3 discarded"));
    assert_eq!(queue.json(&["dead", "requeue", "--all"])["requeued"], 0);
}

#[test]
fn requeue_and_discard_require_a_filter_or_all() {
    let queue = Queue::with_dead(&IDS[..1]);
    for action in ["requeue", "discard"] {
        queue.run(&["dead", action]).failed(2, &["--group, --type, --code or --older-than", "--all"]);
        queue.run(&["dead", action, "--all", "--code", "rare"]).failed(2, &["--all alone"]);
    }
    queue.run(&["dead", "discard", "--older-than", "long"]).failed(2, &["1h30m"]);
    queue.run(&["dead", "list", "--group", ""]).failed(2, &["must not be empty"]);
    assert_eq!(queue.json(&["dead", "list"])["dead"], 1);
}

#[test]
fn a_bound_key_must_select_its_group() {
    let queue = Queue::with_dead(&IDS);
    let keys = queue.path("keys.json");
    let words = ["key", "create", "--name", "n", "--role", "producer", "--group", "customer-7", "--json"];
    let made = fairlane(&[&words[..], &["--keys", &keys]].concat()).json();
    let folder = tempfile::TempDir::new().unwrap();
    let served = Served::in_folder(folder, &["--engine", &queue.url(), "--keys", &keys]);
    let run = |words: &[&str]| {
        let words = [&["dead"], words, &["--engine", &served.address]].concat();
        fairlane_in(&served.folder, &[("FAIRLANE_KEY", made["key"].as_str().unwrap())], &words)
    };
    for words in [&["list"][..], &["requeue", "--all"], &["requeue", "--type", "mail"], &["discard", "--all"]]
    {
        run(words).failed(2, &["this key is bound", "--group"]);
    }
    assert!(run(&["list", "--group", "customer-7"]).stdout.contains("5 dead jobs."));
    assert_eq!(run(&["requeue", "--group", "customer-7"]).stdout.trim(), "5 requeued");
}
