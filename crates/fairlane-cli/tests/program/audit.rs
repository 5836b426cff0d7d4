//! `fairlane audit`.

use fairlane_core::queue::{Enqueue, JobRef, NewJob, Settings};
use fairlane_core::{GroupId, JobId, TypeId};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use tempfile::TempDir;

use super::running::{Ended, fairlane, has_keys};

/// Enqueues three jobs of one customer at this address.
fn fill(engine: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = fairlane_engine::open(engine, Settings::default()).await.unwrap();
        let new = |number: u32| {
            NewJob::new(
                JobRef {
                    group: GroupId::new("customer-A").unwrap(),
                    id: JobId::new(format!("job-{number}")).unwrap(),
                },
                TypeId::new("mail").unwrap(),
                b"secret".as_slice().into(),
            )
        };
        engine.call(Enqueue { jobs: (1..=3).map(new).collect() }).await.unwrap();
    });
}

fn sound() -> RedisServer {
    let server = RedisServer::start(ServerOptions::default());
    fill(&server.url());
    server
}

fn damaged() -> RedisServer {
    let server = sound();
    server.command(&["LREM", "bulk-action:group:customer-A:jobs:1:mail", "1", "job-2"]);
    server.command(&["HINCRBY", "bulk-action:type:mail", "in_flight", "2"]);
    server
}

fn json(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn the_audit_of_a_sound_queue_is_one_line() {
    let server = sound();
    for words in [&["audit"][..], &["audit", "--repair"]] {
        let ended = fairlane(&[words, &["--engine", &server.url()]].concat());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert_eq!(ended.stdout.trim(), "No inconsistencies in 1 group.");
        assert!(ended.stderr.starts_with("warning: appendonly is off"), "{}", ended.stderr);
    }
    let view = json(&fairlane(&["audit", "--json", "--engine", &server.url()]));
    assert!(view["engine_warnings"][0].as_str().unwrap().starts_with("appendonly is off"));
}

#[test]
fn findings_exit_with_code_3_until_they_are_repaired() {
    let server = damaged();
    let engine = server.url();
    for _ in 0..2 {
        let ended = fairlane(&["audit", "--engine", &engine]);
        let last = ended.stderr.lines().last();
        assert_eq!((ended.code, last), (3, Some("run the audit again with --repair to repair the findings")));
        for words in [
            "no-place",
            "job customer-A/job-2",
            "seat-without-job",
            "type mail",
            "2 seats are taken for 0 jobs in flight; repair sets the count",
            "2 findings in 1 group: 0 repaired, 2 to be repaired, 0 warnings.",
        ] {
            assert!(ended.stdout.contains(words), "{words:?} is missing in: {}", ended.stdout);
        }
        assert!(!ended.stdout.contains("secret"), "an audit prints no payload");
    }
    let repaired = fairlane(&["audit", "--engine", &engine, "--repair"]);
    assert_eq!(repaired.code, 0, "{}", repaired.stdout);
    assert!(repaired.stdout.contains("2 repaired, 0 to be repaired"), "{}", repaired.stdout);
    assert_eq!(fairlane(&["audit", "--engine", &engine]).code, 0);
}

#[test]
fn json_is_one_object_with_all_findings() {
    let server = damaged();
    let engine = server.url();
    let ended = fairlane(&["audit", "--engine", &engine, "--json"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (3, ""));
    let answer = json(&ended);
    has_keys(&answer, &["groups", "findings", "too_large", "repaired", "remaining"]);
    assert_eq!(
        (&answer["groups"], &answer["repaired"], &answer["remaining"]),
        (&1.into(), &0.into(), &2.into())
    );
    let found = &answer["findings"][0];
    has_keys(found, &["code", "kind", "name", "sentence", "stored", "counted", "repaired", "warning"]);
    assert_eq!((&found["code"], &found["name"]), (&"no-place".into(), &"customer-A/job-2".into()));
    let repaired = fairlane(&["audit", "--engine", &engine, "--json", "--repair"]).json();
    assert_eq!((&repaired["repaired"], &repaired["remaining"]), (&2.into(), &0.into()));
    assert_eq!(repaired["findings"][1]["repaired"], true);
}

#[test]
fn a_data_directory_can_be_audited() {
    let folder = TempDir::new().unwrap();
    let engine = format!("dir:{}", folder.path().join("queue").display());
    fill(&engine);
    let answer = fairlane(&["audit", "--engine", &engine, "--json"]).json();
    assert_eq!((&answer["groups"], &answer["remaining"]), (&1.into(), &0.into()));
}

#[test]
fn an_invalid_and_an_unreachable_address_have_different_exit_codes() {
    fairlane(&["audit", "--engine", "nowhere"]).failed(2, &["nowhere", "redis://host:port"]);
    fairlane(&["audit", "--engine", "redis://127.0.0.1:1"]).failed(1, &["cannot be reached"]);
}
