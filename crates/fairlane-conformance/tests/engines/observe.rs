//! Metrics and log events of the Redis engine, beyond those of every engine.

#[path = "../../../fairlane-engine/tests/engine/observe/ledger.rs"]
mod ledger;

use std::sync::Arc;
use std::time::Duration;

use fairlane_conformance::subject::job;
use fairlane_core::ProcessId;
use fairlane_core::queue::{Enqueue, InspectQueue};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Engine, EngineError};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use ledger::{Journal, Ledger};

const RESENT: &str = "fairlane_scripts_resent_total{script=enqueue}";

async fn connect(server: &RedisServer) -> Arc<dyn Engine> {
    let options = RedisOptions { response_timeout: Duration::from_secs(1), ..RedisOptions::default() };
    Arc::new(RedisEngine::connect(&server.url(), options).await.expect("Redis is there"))
}

async fn enqueue(engine: &dyn Engine, id: &str) {
    engine.call(Enqueue { jobs: vec![job("a", id)] }).await.expect("an enqueue is answered");
}

#[tokio::test]
async fn scripts_are_timed_and_counted_when_they_are_sent_again() {
    let (ledger, journal) = (Ledger::default(), Journal::default());
    let _recorder = metrics::set_default_local_recorder(&ledger);
    let _subscriber = tracing::subscriber::set_default(journal.clone());
    let server = RedisServer::start(ServerOptions::default());
    let engine = connect(&server).await;
    enqueue(&*engine, "1").await;
    enqueue(&*engine, "2").await;
    assert_eq!(ledger.value(RESENT), 1.0, "the server is new");
    server.command(&["FUNCTION", "FLUSH", "SYNC"]);
    enqueue(&*engine, "3").await;
    assert_eq!(ledger.value(RESENT), 2.0, "the server has forgotten");
    assert_eq!(ledger.value("bulk_action_lua_duration_seconds{engine=redis,script=enqueue} count"), 3.0);
    assert_eq!(ledger.value("bulk_action_enqueue_total{engine=redis}"), 3.0);
    assert!(ledger.value("bulk_action_lua_duration_seconds{engine=redis,script=enqueue}") > 0.0);
    assert!(journal.has("WARN server setting", &["appendonly"]), "{:?}", journal.lines());
}

#[tokio::test]
async fn denied_channel_of_signals_is_warned_about_once_with_the_rule() {
    let journal = Journal::default();
    let _subscriber = tracing::subscriber::set_default(journal.clone());
    let server = RedisServer::start(ServerOptions::default());
    server.command(&["ACL", "SETUSER", "app", "on", ">pw", "~*", "resetchannels", "+@all"]);
    let url = server.url().replace("://", "://app:pw@");
    let engine = RedisEngine::connect(&url, RedisOptions::default()).await.expect("Redis is there");
    let process = ProcessId::new("p").expect("a name");
    for _ in 0..2 {
        let denied = engine.subscribe(&process).await.expect_err("the channels are denied");
        assert!(denied.is_retryable() && denied.to_string().contains("'&lock:release:*'"), "{denied}");
    }
    let lines = journal.lines();
    let events = lines.iter().filter(|line| line.contains("signals denied"));
    assert_eq!(events.count(), 1, "{lines:?}");
    assert!(engine.info().warnings.iter().any(|warning| warning.contains("ACL SETUSER app")));
    server.command(&["ACL", "SETUSER", "app", "&lock:release:*"]);
    engine.subscribe(&process).await.expect("the channels are permitted");
}

#[tokio::test]
async fn a_server_that_is_away_is_counted_and_warned_about() {
    let (ledger, journal) = (Ledger::default(), Journal::default());
    let _recorder = metrics::set_default_local_recorder(&ledger);
    let _subscriber = tracing::subscriber::set_default(journal.clone());
    let mut server = RedisServer::start(ServerOptions::default());
    let engine = connect(&server).await;
    server.kill();
    let failed = engine.call(InspectQueue).await;
    assert!(matches!(failed, Err(EngineError::Unavailable { .. })), "{failed:?}");
    assert_eq!(ledger.value("fairlane_errors_total{engine=redis,kind=unavailable}"), 1.0);
    assert_eq!(
        ledger.value("fairlane_operations_total{engine=redis,operation=inspect_queue,result=error}"),
        1.0
    );
    assert!(journal.has("WARN engine unavailable", &["operation=\"inspect_queue\"", "error="]));
}
