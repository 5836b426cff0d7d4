//! `fairlane lock`: commands under a lock, in real processes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fairlane_testkit::program::Background;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until_blocking;
use tempfile::TempDir;

use super::running::{Ended, PROGRAM, fairlane};
use super::served::Served;

/// Runs until the program that has started it is gone.
const UNTIL_PARENT_ENDS: &str = "touch held; while kill -0 $PPID 2>/dev/null; do sleep 0.05; done";

fn lock(served: &Served, words: &[&str]) -> Ended {
    let (run, command) = words.split_at(words.iter().position(|word| *word == "--").unwrap_or(words.len()));
    fairlane(&[&["lock"], run, &["--engine", &served.address], command].concat())
}

/// `lock run` in the background, in a folder of its own.
fn background(served: &Served, words: &[&str], script: &str) -> (Background, TempDir) {
    background_at(&served.address, words, script)
}

fn background_at(address: &str, words: &[&str], script: &str) -> (Background, TempDir) {
    let folder = TempDir::new().unwrap();
    let engine = ["--engine", address];
    let words = [&["lock", "run", "nightly"], words, &engine, &["--", "sh", "-c", script]].concat();
    (Background::start(Path::new(PROGRAM), folder.path(), &words), folder)
}

fn until_held(folder: &TempDir) {
    until_blocking("the command runs", || folder.path().join("held").exists());
}

#[test]
fn command_runs_under_its_lock_with_a_fence_and_passes_its_exit_code_on() {
    let served = Served::start();
    let first = lock(&served, &["run", "nightly", "--", "sh", "-c", "echo $FAIRLANE_LOCK $FAIRLANE_FENCE"]);
    let second = lock(&served, &["run", "nightly", "--", "sh", "-c", "echo $FAIRLANE_LOCK $FAIRLANE_FENCE"]);
    assert_eq!((first.code, second.code), (0, 0), "{}{}", first.stderr, second.stderr);
    let fence =
        |ended: &Ended| -> u64 { ended.stdout.trim().strip_prefix("nightly ").unwrap().parse().unwrap() };
    assert!(fence(&second) > fence(&first));
    assert_eq!(lock(&served, &["run", "nightly", "--", "sh", "-c", "exit 7"]).code, 7);
    assert_eq!(lock(&served, &["run", "nightly", "--", "sh", "-c", "kill -KILL $$"]).code, 137);
    lock(&served, &["run", "nightly", "--", "./no-such-program"]).failed(127, &["no-such-program"]);
    let json = lock(&served, &["run", "nightly", "--json", "--", "sh", "-c", "exit 3"]);
    let result: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, &result["exit_code"]), (3, &3.into()));
    lock(&served, &["show", "nightly"]).failed(2, &["is free"]);
}

#[test]
fn second_command_is_refused_and_told_the_holder() {
    let served = Served::start();
    let (mut holder, folder) = background(&served, &["--holder", "app-1", "--ttl", "60s"], UNTIL_PARENT_ENDS);
    until_held(&folder);
    lock(&served, &["run", "nightly", "--wait", "0s", "--", "true"]).failed(75, &["held by app-1"]);
    lock(&served, &["run", "nightly", "--wait", "50ms", "--", "true"]).failed(75, &["app-1", "within"]);
    let shown = lock(&served, &["show", "nightly", "--json"]).json();
    assert_eq!((&shown["lock"], &shown["held_by"][0]["holder"]), (&"nightly".into(), &"app-1".into()));
    let listed = lock(&served, &["list", "--json"]).json();
    assert_eq!(listed["locks"][0]["lock"], "nightly");
    assert!(lock(&served, &["list"]).stdout.contains("app-1"));
    holder.process().kill();
}

#[test]
fn lock_of_a_killed_process_passes_to_the_waiter() {
    let served = Served::start();
    let (mut holder, folder) = background(&served, &["--ttl", "1s"], UNTIL_PARENT_ENDS);
    until_held(&folder);
    let (waiter, _folder) = background(&served, &["--wait", "1m"], "echo passed");
    let waits = || lock(&served, &["show", "nightly", "--json"]).json()["waiters"] == 1;
    until_blocking("the second process waits", waits);
    holder.process().kill();
    let ended = waiter.ended();
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "passed\n"), "{}", ended.stderr);
}

/// The timeline of two servers: a job of 5.5 s under a ttl of 5 s. Times have a lower bound only, so that a
/// slow machine changes nothing: a renewal is not sent before its time, and the second job begins after
/// the first one has ended.
#[test]
fn job_longer_than_its_ttl_keeps_its_lock_and_the_second_process_follows() {
    let server = RedisServer::start(ServerOptions::default());
    // The fence, when the lock was granted and until when it is held, in microseconds.
    let holder = || -> Option<[u64; 3]> {
        let row = server.command(&["GETRANGE", "lock:nightly", "0", "-1"]);
        let fields: Vec<&str> = row.split(':').collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        Some([number(5)?, number(6)?, number(7)?])
    };
    let (first, _folder) = background_at(&server.url(), &["--ttl", "5s"], "sleep 5.5; echo done");
    until_blocking("the first process holds the lock", || holder().is_some());
    let (second, _other) =
        background_at(&server.url(), &["--ttl", "5s", "--wait", "5m"], "sleep 2; echo done");
    let mut held: BTreeMap<[u64; 2], BTreeSet<u64>> = BTreeMap::new();
    until_blocking("the second process follows", || {
        if let Some([fence, since, until]) = holder() {
            held.entry([fence, since]).or_default().insert(until - since);
        }
        held.len() == 2
    });
    let (first, second) = (first.ended(), second.ended());
    assert_eq!([first.code, second.code], [0, 0], "{}{}", first.stderr, second.stderr);
    let ([fence, since], leases) = held.pop_first().unwrap();
    assert!(leases.len() >= 2, "it was renewed: {leases:?}");
    for (renewals, lease) in leases.iter().enumerate() {
        let planned = 5_000_000 + renewals as u64 * 5_000_000 / 3;
        assert!(*lease + 1_000_000 >= planned, "{renewals} renewals too early: {leases:?}");
    }
    let ([next_fence, next_since], _) = held.pop_first().unwrap();
    assert!(next_fence > fence && next_since >= since + 5_500_000, "{since} {next_since}");
}

/// The user may use the keys of locks, but not their channels, which Redis denies to new users.
#[test]
fn waiter_whose_user_may_not_subscribe_gets_the_lock_and_a_warning_with_the_rule() {
    let server = RedisServer::start(ServerOptions::default());
    let keys = ["~bulk-action:*", "~lock:*", "~lock-*", "resetchannels", "+@all"];
    server.command(&[&["ACL", "SETUSER", "app", "on", ">pw"], &keys[..]].concat());
    let address = server.url().replace("://", "://app:pw@");
    let (holder, folder) =
        background_at(&address, &[], "touch held; until [ -e free ]; do sleep 0.05; done; rm free");
    until_held(&folder);
    let (waiter, _folder) = background_at(&address, &["--wait", "5m"], "echo third");
    until_blocking("the second process waits", || {
        let shown = fairlane(&["lock", "show", "nightly", "--engine", &address, "--json"]);
        shown.json()["waiters"] == 1
    });
    std::fs::write(folder.path().join("free"), "").unwrap();
    let (holder, waiter) = (holder.ended(), waiter.ended());
    assert_eq!((holder.code, waiter.code), (0, 0), "{}{}", holder.stderr, waiter.stderr);
    assert_eq!(waiter.stdout, "third\n");
    assert_eq!(waiter.stderr.matches("ACL SETUSER app '&lock:release:*'").count(), 1, "{}", waiter.stderr);
    assert!(!waiter.stderr.contains("pw") && holder.stderr.is_empty(), "{}", waiter.stderr);
}

#[test]
fn command_is_stopped_when_its_lock_is_broken() {
    let served = Served::start();
    let script = "trap 'echo stopped; exit 0' TERM; touch held; while :; do sleep 0.05; done";
    let (holder, folder) = background(&served, &["--ttl", "1s"], script);
    until_held(&folder);
    let broken = lock(&served, &["break", "nightly", "--json"]).json();
    assert_eq!(broken["holders"], 1);
    let ended = holder.ended();
    assert_eq!((ended.code, ended.stdout.as_str()), (76, "stopped\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("was lost"), "{}", ended.stderr);
    lock(&served, &["break", "nightly"]).failed(2, &["has no holder"]);
}

#[test]
fn directory_without_a_server_is_refused() {
    let folder = TempDir::new().unwrap();
    let engine = format!("dir:{}/queue", folder.path().display());
    fairlane(&["group", "set", "customer-7", "--weight", "2", "--engine", &engine]);
    let words = ["lock", "run", "nightly", "--engine", &engine, "--", "true"];
    fairlane(&words).failed(2, &["has no server", "redis://"]);
}
