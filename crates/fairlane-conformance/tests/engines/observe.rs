//! Metrics and log events of the Redis engine, beyond those of every engine.

#[path = "../../../fairlane-engine/tests/engine/observe/ledger.rs"]
mod ledger;

use std::sync::Arc;
use std::time::Duration;

use fairlane_conformance::subject::job;
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
