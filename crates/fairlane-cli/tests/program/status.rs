//! `fairlane status` and `fairlane top`.

use super::queue::Queue;
use super::running::has_keys;

fn filled() -> Queue {
    let queue = Queue::new();
    for (group, jobs) in [("customer-7", 3), ("customer-8", 1)] {
        let lines: String = (0..jobs).map(|number| format!("{number}\n")).collect();
        let file = queue.file("jobs.txt", &lines);
        queue.json(&["bulk", "load", group, "may", &file, "--type", "mail", "--payload-lines"]);
    }
    queue
}

#[test]
fn a_status_has_counts_types_groups_bulk_actions_and_warnings() {
    let queue = filled();
    let status = queue.json(&["status"]);
    has_keys(&status, &["engine", "backlog", "in_flight", "dead", "types", "groups", "bulks", "warnings"]);
    assert_eq!((&status["backlog"], &status["active_groups"]), (&4.into(), &2.into()));
    assert_eq!(status["groups"][0]["group"], "customer-7", "the largest comes first");
    assert!(status["stored_bytes"].as_u64().unwrap() >= 4, "{status}");
    assert_eq!(status["stored_bytes_max"], 4_u64 << 30);
    assert_eq!((&status["bulks"][0]["id"], &status["bulks"][0]["total"]), (&"may".into(), &3.into()));
    assert!(
        status["warnings"][0]
            .as_str()
            .unwrap()
            .contains("jobs of type mail are waiting, but no worker requests them")
    );
    let text = queue.run(&["status", "--groups", "1"]).stdout;
    for words in [
        "backlog 4 (0 waiting)",
        "mail",
        "customer-7",
        "and 1 group with fewer jobs",
        "may",
        "of 4.0 GiB stored",
        "warning: jobs of type mail are waiting",
    ] {
        assert!(text.contains(words), "{words} is missing in {text}");
    }
}

#[test]
fn the_totals_include_jobs_of_bulk_actions() {
    let queue = filled();
    for group in ["customer-7", "customer-8"] {
        queue.work_off(group, "may");
    }
    let status = queue.json(&["status"]);
    assert_eq!((&status["succeeded_total"], &status["dead_total"]), (&4.into(), &0.into()));
    assert_eq!(status["completed"], 0);
    let text = queue.run(&["status"]).stdout;
    assert!(text.contains("since the queue was made: 4 succeeded, 0 became dead"), "{text}");
}

/// The number of ended bulk actions does not matter.
#[test]
fn an_active_bulk_action_is_shown_after_hundreds_that_have_ended() {
    let queue = Queue::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let fairlane = fairlane::Fairlane::open(&queue.url()).await.unwrap();
        let mut cancelled = tokio::task::JoinSet::new();
        for number in 0..510 {
            let opening = fairlane.bulk("customer-7", format!("old-{number}"));
            cancelled.spawn(async move { opening.open().await.unwrap().cancel().await.unwrap() });
        }
        cancelled.join_all().await;
    });
    let file = queue.file("jobs.txt", "1\n2\n");
    queue.json(&["bulk", "load", "customer-7", "running-now", &file, "--type", "mail", "--payload-lines"]);
    let status = queue.json(&["status"]);
    assert_eq!(status["bulks"].as_array().unwrap().len(), 1);
    assert_eq!(status["bulks"][0]["id"], "running-now");
}

#[test]
fn a_cancelled_job_in_a_lane_causes_no_warning() {
    let queue = Queue::new();
    queue.json(&["enqueue", "customer-7", "mail", "1", "--id", "a"]);
    assert_eq!(queue.json(&["status"])["warnings"].as_array().unwrap().len(), 1);
    queue.json(&["job", "cancel", "customer-7", "a"]);
    let status = queue.json(&["status"]);
    assert_eq!((&status["backlog"], status["warnings"].as_array().unwrap().len()), (&0.into(), 0));
}

#[test]
fn the_status_of_an_empty_queue_has_no_groups() {
    let queue = Queue::new();
    queue.json(&["settings", "set", "max_retry_count=3"]);
    let text = queue.run(&["status"]).stdout;
    assert!(text.contains("backlog 0 (0 waiting)") && !text.contains("congestion"), "{text}");
}

#[test]
fn top_prints_one_frame_without_a_terminal() {
    let queue = filled();
    let ended = queue.run(&["top"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for words in ["fairlane top", "backlog 4 (0 waiting)", "customer-7", "congestion"] {
        assert!(ended.stdout.contains(words), "{words} is missing in {}", ended.stdout);
    }
    assert!(!ended.stdout.contains('\u{1b}'));
    assert_eq!(queue.json(&["top"])["backlog"], 4);
}

#[test]
fn a_paused_group_is_marked_and_its_waiting_jobs_are_counted() {
    let queue = filled();
    queue.json(&["group", "set", "customer-7", "--pause", "--weight", "3", "--rate", "50/s"]);
    let warning = "warning: customer-7 is paused, 3 jobs wait";
    for (words, row) in [
        (&["status"][..], "customer-7   3         0         0           0 of 3   paused"),
        (&["top"], "paused"),
        (&["group", "list"], "3        50/s        unlimited     paused"),
    ] {
        let text = queue.run(words).stdout;
        assert!(text.contains(warning), "{words:?}: {text}");
        let line = text.lines().find(|line| line.trim_start().starts_with("customer-7")).unwrap();
        assert!(line.contains(row), "{words:?}: {line}");
    }
    let status = queue.json(&["status"]);
    let paused = |group: &serde_json::Value| group["settings"]["paused"].as_bool().unwrap();
    assert_eq!((paused(&status["groups"][0]), paused(&status["groups"][1])), (true, false));
    assert_eq!(status["warnings"][0], "customer-7 is paused, 3 jobs wait");
    let listed = queue.json(&["group", "list"]);
    let group = &listed["groups"][0];
    assert_eq!(
        (&group["settings"]["paused"], &group["settings"]["weight"], &group["settings"]["rate"]),
        (&true.into(), &3.into(), &"50/s".into())
    );
    queue.json(&["group", "set", "customer-7", "--resume"]);
    assert!(!queue.run(&["status"]).stdout.contains("paused"));
}
