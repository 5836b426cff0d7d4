//! The index of groups with settings in a Redis: how data that has none gets it.

use std::sync::Arc;

use fairlane_conformance::subject::*;
use fairlane_core::queue::*;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Clock, Engine};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

const INDEX: &str = "bulk-action:configured-groups";

async fn queue_on(server: &RedisServer) -> Subject {
    let options = RedisOptions { clock: Clock::System, ..RedisOptions::default() };
    let engine = RedisEngine::connect(&server.url(), options).await.expect("Redis is there");
    let engine: Arc<dyn Engine> = Arc::new(engine);
    Subject::new(engine, Arc::default())
}

async fn faults(queue: &Subject, repair: bool) -> Vec<(String, Fault)> {
    let report = queue.engine.audit_all(repair, |_| {}).await.expect("audit is answered");
    let named = |finding: Finding| match finding.suspect {
        Suspect::Group(group) => (group.to_string(), finding.fault),
        other => panic!("{other:?}"),
    };
    report.findings.into_iter().map(named).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_that_were_set_before_the_index_are_added_by_an_audit() {
    let server = RedisServer::start(ServerOptions::default());
    let queue = queue_on(&server).await;
    for group in ["idle", "busy"] {
        queue.set_group(group, weight(3)).await;
    }
    queue.add([job("busy", "1"), job("plain", "1")]).await;
    server.command(&["DEL", INDEX]);
    assert_eq!(queue.all_groups(None, 10).await, ["busy", "plain"]);
    let mut missing = faults(&queue, false).await;
    missing.sort_by(|left, right| left.0.cmp(&right.0));
    assert_eq!(missing, ["busy", "idle"].map(|name| (name.to_owned(), Fault::SettingsUnlisted)));
    assert_eq!(faults(&queue, true).await.len(), 2);
    assert_eq!(faults(&queue, false).await, []);
    assert_eq!(queue.all_groups(None, 10).await, ["busy", "idle", "plain"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_that_was_set_before_the_index_is_added_when_it_is_set_again() {
    let server = RedisServer::start(ServerOptions::default());
    let queue = queue_on(&server).await;
    queue.set_group("idle", weight(3)).await;
    server.command(&["DEL", INDEX]);
    queue.set_group("idle", weight(3)).await;
    assert_eq!(queue.all_groups(None, 10).await, ["idle"], "even to the same settings");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_groups_without_settings_are_found_and_removed() {
    let server = RedisServer::start(ServerOptions::default());
    let queue = queue_on(&server).await;
    queue.add([job("plain", "1")]).await;
    for group in ["plain", "unknown"] {
        server.command(&["ZADD", INDEX, "0", group]);
    }
    let found = faults(&queue, true).await;
    assert!(found.len() == 2 && found.iter().all(|(_, fault)| *fault == Fault::NoSettings), "{found:?}");
    assert_eq!(faults(&queue, false).await, []);
    assert_eq!(server.command(&["ZCARD", INDEX]).trim(), "0");
}
