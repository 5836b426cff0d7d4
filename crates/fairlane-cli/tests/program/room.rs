//! `fairlane room`: waiting rooms from the shell, and the verification of a draw.

use tempfile::TempDir;

use super::running::{Ended, fairlane};
use super::served::Served;

fn room(served: &Served, words: &[&str]) -> Ended {
    fairlane(&[&["room"], words, &["--engine", &served.address]].concat())
}

#[test]
fn room_is_set_paused_closed_and_shown() {
    let served = Served::start();
    room(&served, &["show", "concert"]).failed(2, &["there is no room concert"]);
    let limits = room(&served, &["set", "concert", "--max-active", "200", "--rate", "600/min", "--json"]);
    let limits = limits.json();
    assert_eq!((&limits["max_active"], &limits["rate"]), (&200.into(), &"600/min".into()));
    let limits =
        room(&served, &["set", "concert", "--active-ttl", "5m", "--weights", "4,1", "--json"]).json();
    assert_eq!((&limits["max_active"], &limits["active_ttl_ms"]), (&200.into(), &300_000.into()));
    let shown = room(&served, &["pause", "concert", "--reason", "Back at noon"]);
    assert!(shown.stdout.contains("paused: Back at noon"), "{}", shown.stdout);
    assert!(shown.stdout.contains("class weights 4:1"), "{}", shown.stdout);
    assert_eq!(room(&served, &["resume", "concert", "--json"]).json()["paused"], serde_json::Value::Null);
    assert_eq!(room(&served, &["close", "concert", "--json"]).json()["phase"], "closed");
    assert_eq!(room(&served, &["open", "concert", "--json"]).json()["phase"], "open");
    let listed = room(&served, &["list"]);
    assert!(listed.stdout.contains("concert"), "{}", listed.stdout);
    room(&served, &["revoke", "concert", "ada"]).failed(2, &["no place"]);
    room(&served, &["set", "concert", "--max-active", "1", "--weights", ""]).failed(2, &["weights"]);
}

#[test]
fn draw_is_published_and_verified_without_a_queue() {
    let (served, folder) = (Served::start(), TempDir::new().unwrap());
    let list = folder.path().join("tickets.tsv");
    let path = list.to_str().unwrap();
    let begun = room(&served, &["prequeue", "concert", "--json"]).json();
    let commitment = begun["draw"]["commitment"].as_str().unwrap().to_owned();
    room(&served, &["open", "concert"]).failed(2, &["--tickets"]);
    let opened = room(&served, &["open", "concert", "--tickets", path, "--json"]).json();
    let word = |field: &str| opened["draw"][field].as_str().unwrap().to_owned();
    let (seed, digest) = (word("seed"), word("digest"));
    let verify = |digest: &str, user: &[&str]| {
        let facts = ["--seed", &seed, "--commitment", &commitment, "--digest", digest];
        fairlane(&[&["room", "verify", path], &facts[..], user].concat())
    };
    let verified = verify(&digest, &["--json"]);
    assert_eq!((verified.code, &verified.json()["tickets"]), (0, &0.into()));
    verify(&digest, &["--user", "ada"]).failed(3, &["ada is not in it"]);
    verify("another", &[]).failed(3, &["the digest of the list is"]);
}
