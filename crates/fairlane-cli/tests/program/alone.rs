//! Commands on a data directory that nobody serves: those who look leave no trace, and none waits for others there.

use std::process::Command;

use super::bulk::{NEWS, lines, load};
use super::queue::Queue;
use super::running::fairlane;
use super::served::Served;
use super::terminal::fairlane_on_terminal;
use super::work::until;

#[test]
fn whoever_only_looks_makes_no_queue_and_whoever_adds_does() {
    let folder = tempfile::tempdir().unwrap();
    let engine = format!("dir:{}", folder.path().display());
    let looks: [&[&str]; 12] = [
        &["status"],
        &["top"],
        &["audit"],
        &["why", "customer-7", "a"],
        &["job", "show", "customer-7", "a"],
        &["bulk", "show", "customer-7", "may"],
        &["bulk", "list", "customer-7"],
        &["bulk", "watch", "customer-7", "may"],
        &["dead", "list"],
        &["group", "list"],
        &["type", "list"],
        &["settings", "show"],
    ];
    for words in looks {
        fairlane(&[words, &["--engine", &engine]].concat()).failed(2, &["there is no queue in"]);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{words:?}");
    }
    fairlane(&["enqueue", "customer-7", "mail", "--json", "--engine", &engine]).json();
    assert_eq!(fairlane(&["status", "--json", "--engine", &engine]).json()["backlog"], 1);
}

#[test]
fn nobody_waits_in_a_directory_that_nobody_else_can_use_meanwhile() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(250));
    queue.json(&["settings", "set", "group_backlog_max=100"]);
    let full = [
        "nobody serves dir:",
        "jobs of the source are in bulk action news",
        "fairlane serve --engine",
        "run the same",
    ];
    queue.run(&load(&file, &[])).failed(1, &full);
    let alone = ["nobody serves dir:", "fairlane serve --engine dir:", "fairlane bulk show"];
    queue.run(&["bulk", "watch", NEWS[0], NEWS[1]]).failed(2, &alone);
    // Only at a terminal would it stay.
    let (code, shown) = fairlane_on_terminal(&["top", "--engine", &queue.url()]);
    assert!(code == 2 && shown.contains("nobody serves dir:"), "{shown}");
    assert_eq!(queue.run(&["top"]).code, 0, "one look is no waiting");
}

#[test]
fn a_load_that_waits_for_room_says_so_where_there_is_no_bar() {
    let served = Served::start();
    let file = served.path("news.ndjson").display().to_string();
    std::fs::write(&file, lines(250)).unwrap();
    fairlane(&["settings", "set", "group_backlog_max=100", "--json", "--engine", &served.address]).json();
    let said = served.path("said");
    let mut loading = Command::new(env!("CARGO_BIN_EXE_fairlane"))
        .args([&load(&file, &[])[..], &["--engine", &served.address]].concat())
        .stderr(std::fs::File::create(&said).unwrap())
        .spawn()
        .unwrap();
    until("it says so", || {
        std::fs::read_to_string(&said).unwrap() == "the queue is full, waiting for room\n"
    });
    assert!(loading.try_wait().unwrap().is_none(), "it waits");
    loading.kill().unwrap();
    loading.wait().unwrap();
}
