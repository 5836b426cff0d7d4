//! `fairlane group` and `fairlane type`.

use super::queue::Queue;
use super::running::has_keys;

#[test]
fn a_group_is_set_shown_and_listed() {
    let queue = Queue::new();
    queue.run(&["enqueue", "customer-7", "mail"]);
    let set =
        ["group", "set", "customer-7", "--weight", "3", "--rate", "500/s burst 20", "--concurrency", "10"];
    let settings = queue.json(&[&set[..], &["--base-priority", "-5", "--pause"]].concat());
    assert_eq!((&settings["weight"], &settings["rate"]), (&3.into(), &"500/s burst 20".into()));
    assert_eq!((&settings["base_priority"], &settings["paused"]), (&(-5).into(), &true.into()));
    let freed =
        queue.run(&["group", "set", "customer-7", "--rate", "none", "--concurrency", "none", "--resume"]);
    let expected = "customer-7: weight 3, rate unlimited, concurrency unlimited, base priority -5";
    assert_eq!(freed.stdout.trim(), expected, "{}", freed.stderr);
    let shown = queue.json(&["group", "show", "customer-7"]);
    has_keys(
        &shown,
        &["group", "settings", "backlog", "in_flight", "waiting", "total", "done", "congestion"],
    );
    assert_eq!(shown["backlog"], 1);
    assert!(queue.run(&["group", "show", "customer-7"]).stdout.contains("backlog 1 (0 waiting)"));
    let listed = queue.json(&["group", "list"]);
    assert_eq!((&listed["active_groups"], &listed["groups"][0]["group"]), (&1.into(), &"customer-7".into()));
    assert!(queue.run(&["group", "list"]).stdout.contains("1 of 1 group with unfinished jobs."));
    queue.run(&["group", "set", "customer-8", "--concurrency", "7"]);
    assert_eq!(queue.json(&["group", "list"])["groups"].as_array().unwrap().len(), 1);
    let all = queue.json(&["group", "list", "--all"]);
    assert_eq!((&all["active_groups"], &all["groups"][1]["group"]), (&1.into(), &"customer-8".into()));
    assert_eq!(all["groups"][1]["settings"]["concurrency"], 7);
    let text = queue.run(&["group", "list", "--all"]).stdout;
    assert!(
        text.contains("customer-8") && text.contains("2 groups, 1 of them with unfinished jobs."),
        "{text}"
    );
}

#[test]
fn a_type_is_set_shown_and_listed() {
    let queue = Queue::new();
    let set = ["type", "set", "mail", "--rate", "10/min", "--concurrency", "5", "--max-retry-count", "7"];
    let settings = queue.json(&set);
    assert_eq!((&settings["rate"], &settings["max_retry_count"]), (&"10/min".into(), &7.into()));
    let text = queue.run(&["type", "set", "mail", "--max-retry-count", "none", "--pause"]).stdout;
    assert_eq!(text.trim(), "mail: paused, rate 10/min, concurrency 5, retries queue default");
    let shown = queue.json(&["type", "show", "mail"]);
    has_keys(&shown, &["type", "settings", "in_flight", "ready", "rate_in_effect", "answers_last_second"]);
    assert_eq!(queue.json(&["type", "list"])["types"].as_array().unwrap().len(), 1);
    assert!(queue.run(&["type", "list"]).stdout.contains("10/min"));
    assert!(queue.run(&["type", "show", "mail"]).stdout.contains("last requested by a worker: never"));
    queue.json(&["type", "set", "mail", "--rate", "1/min"]);
    for words in [&["type", "list"][..], &["status"]] {
        let text = queue.run(words).stdout;
        assert!(text.contains("1/min") && !text.contains("0.0"), "{text}");
    }
}

#[test]
fn a_type_is_removed_once_it_has_no_jobs() {
    let queue = Queue::new();
    queue.json(&["enqueue", "customer-7", "mial", "{}", "--id", "1"]);
    queue.run(&["type", "remove", "mial"]).failed(2, &["type mial has 1 job,", "cancel"]);
    queue.run(&["type", "remove", "mail"]).failed(2, &["there is no type mail"]);
    queue.json(&["type", "set", "idle", "--rate", "1/s"]);
    assert_eq!(queue.json(&["type", "remove", "idle"])["removed"], "idle");
    assert_eq!(queue.json(&["type", "list"])["types"].as_array().unwrap().len(), 1);
}

#[test]
fn invalid_settings_are_rejected_with_the_valid_values() {
    let queue = Queue::new();
    queue.run(&["type", "set", "mail", "--rate", "fast"]).failed(2, &["50/s, 10/min", "or none"]);
    queue.run(&["group", "set", "customer-7"]).failed(2, &["nothing to set"]);
    queue.run(&["type", "set", "mail"]).failed(2, &["nothing to set"]);
    queue.run(&["group", "set", "customer-7", "--pause", "--resume"]).failed(2, &["cannot be used with"]);
    assert!(!std::path::Path::new(&queue.path("queue")).exists());
    queue.run(&["group", "set", "customer-7", "--weight", "0"]).failed(2, &["between 1 and 1000"]);
    for (words, bounds) in [
        (&["group", "set", "customer-7", "--weight", "-1"][..], "between 1 and 1000"),
        (&["group", "set", "customer-7", "--concurrency", "-1"], "a whole number from 0 to"),
        (&["group", "set", "customer-7", "--rate", "-5/s"], "50/s, 10/min"),
        (&["group", "list", "--limit", "-1"], "use 1 or more"),
        (&["type", "set", "mail", "--max-retry-count", "-1"], "a whole number from 0 to"),
        (&["dead", "list", "--limit", "-1"], "use 1 or more"),
        (&["dead", "list", "--older-than", "-5s"], "30s, 5m, 2h, 1d"),
        (&["enqueue", "customer-7", "mail", "--cost", "-5"], "between 1 and 10000"),
        (&["enqueue", "customer-7", "mail", "--delay", "-5s"], "30s, 5m, 2h, 1d"),
        (&["bulk", "load", "customer-7", "may", "--failures-max", "-1"], "between 0 and"),
        (&["bulk", "load", "customer-7", "may", "--deadline", "-5s"], "30s, 5m, 2h, 1d"),
        (&["bulk", "list", "customer-7", "--limit", "-1"], "use 1 or more"),
    ] {
        queue.run(words).failed(2, &[bounds]);
    }
    queue.run(&["type", "set", "mail", "--concurrency", "0"]).failed(2, &["a concurrency must be"]);
    queue.run(&["group", "show", "unknown"]).failed(2, &["there is no group unknown"]);
    queue.run(&["type", "show", "unknown"]).failed(2, &["there is no type unknown"]);
}
