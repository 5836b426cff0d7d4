//! Commands on a data directory without a server: reading creates nothing, and no command blocks.

use std::process::Command;

use super::bulk::{NEWS, lines, load};
use super::queue::Queue;
use super::running::fairlane;
use super::served::Served;
use super::terminal::fairlane_on_terminal;
use super::work::until;

#[test]
fn commands_that_only_read_create_no_queue() {
    let folder = tempfile::tempdir().unwrap();
    let engine = format!("dir:{}", folder.path().display());
    let commands: [&[&str]; 12] = [
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
    for words in commands {
        fairlane(&[words, &["--engine", &engine]].concat()).failed(2, &["there is no queue in"]);
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{words:?}");
    }
    fairlane(&["enqueue", "customer-7", "mail", "--json", "--engine", &engine]).json();
    assert_eq!(fairlane(&["status", "--json", "--engine", &engine]).json()["backlog"], 1);
}

#[test]
fn commands_that_change_and_then_show_open_a_directory_once() {
    let queue = Queue::new();
    assert_eq!(queue.run(&["enqueue", "customer-7", "mail", "1"]).code, 0);
    let commands: [&[&str]; 12] = [
        &["group", "set", "customer-7", "--weight", "2"],
        &["type", "set", "mail", "--rate", "5/s"],
        &["settings", "set", "max_retry_count=4"],
        &["ranking", "set", "popular", "--windows", "day"],
        &["ranking", "set", "popular", "--events-max", "5000"],
        &["ranking", "record", "popular", "reservation-1", "concert-7"],
        &["ranking", "close-season", "popular", "1"],
        &["room", "set", "concert", "--max-active", "200"],
        &["room", "pause", "concert"],
        &["room", "resume", "concert"],
        &["room", "close", "concert"],
        &["room", "open", "concert"],
    ];
    for words in commands {
        let ended = queue.run(words);
        assert_eq!(ended.code, 0, "{words:?}: {}", ended.stderr);
    }
}

#[test]
fn no_command_blocks_on_a_directory_without_a_server() {
    let queue = Queue::new();
    let file = queue.file("news.ndjson", &lines(250));
    queue.json(&["settings", "set", "group_backlog_max=100"]);
    let full = [
        "has no server, so no worker can make room",
        "into bulk action news, which stays open",
        "fairlane serve --engine",
        "run the same",
    ];
    queue.run(&load(&file, &[])).failed(1, &full);
    let exclusive = ["has no server", "fairlane serve --engine dir:", "fairlane bulk show"];
    queue.run(&["bulk", "watch", NEWS[0], NEWS[1]]).failed(2, &exclusive);
    // On a terminal, top would keep running.
    let (code, shown) = fairlane_on_terminal(&["top", "--engine", &queue.url()]);
    assert!(code == 2 && shown.contains("has no server"), "{shown}");
    assert_eq!(queue.run(&["top"]).code, 0, "one frame does not block");
}

#[test]
fn a_load_without_a_progress_bar_reports_that_it_waits_for_room() {
    let served = Served::start();
    let file = served.path("news.ndjson").display().to_string();
    std::fs::write(&file, lines(250)).unwrap();
    fairlane(&["settings", "set", "group_backlog_max=100", "--json", "--engine", &served.address]).json();
    let messages = served.path("messages");
    let mut loading = Command::new(env!("CARGO_BIN_EXE_fairlane"))
        .args([&load(&file, &[])[..], &["--engine", &served.address]].concat())
        .stderr(std::fs::File::create(&messages).unwrap())
        .spawn()
        .unwrap();
    until("the load reports that it waits", || {
        std::fs::read_to_string(&messages).unwrap() == "the queue is full, waiting for room\n"
    });
    assert!(loading.try_wait().unwrap().is_none(), "the load is still waiting");
    loading.kill().unwrap();
    loading.wait().unwrap();
}
