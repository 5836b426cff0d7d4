//! Properties of Redis only: its scripts, its memory, and state that outlives a connection.

use std::sync::Arc;
use std::time::Duration;

use fairlane_conformance::subject::{job, jobs, succeeded, type_id};
use fairlane_core::queue::{
    Discard, Enqueue, Lease, Leased, NewJob, Reclaim, SetType, Settle, Settlement, Verdict,
};
use fairlane_core::{RequestNumber, WorkerId};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Engine, EngineError};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

async fn connect(server: &RedisServer) -> Arc<dyn Engine> {
    let engine = RedisEngine::connect(&server.url(), RedisOptions::default()).await;
    Arc::new(engine.expect("Redis is there"))
}

fn lease(number: u64) -> Lease {
    Lease {
        worker: WorkerId::new("worker").expect("a plain word is a name"),
        request: RequestNumber(number),
        types: vec![type_id("t")],
        jobs_max: 100,
        lease_ms: 30_000,
    }
}

/// Leases and settles every available job; returns their number.
async fn drain(engine: &dyn Engine, number: u64) -> usize {
    let Leased::Jobs { jobs, .. } = engine.call(lease(number)).await.expect("a lease is answered") else {
        panic!("superseded")
    };
    let ended =
        jobs.iter().map(|job| Settlement { job: job.job.clone(), fence: job.fence, outcome: succeeded() });
    let settled = engine.call(Settle { settlements: ended.collect() }).await.expect("settle is answered");
    assert!(settled.verdicts.iter().all(|verdict| *verdict == Verdict::Applied));
    jobs.len()
}

#[tokio::test]
async fn a_full_redis_refuses_enqueues_and_goes_on_draining() {
    let server = RedisServer::start(ServerOptions::default());
    let engine = connect(&server).await;
    engine.enqueue_all(jobs("a", 50)).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1mb"]);
    let refused = engine.call(Enqueue { jobs: vec![job("a", "one-more")] }).await.unwrap_err();
    assert!(matches!(refused, EngineError::Refused { .. }), "{refused:?}");
    assert!(refused.to_string().contains("raise maxmemory"), "{refused}");
    assert_eq!(drain(&*engine, 1).await, 50);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    engine.enqueue_all([job("a", "one-more")]).await.unwrap();
    assert_eq!(drain(&*engine, 2).await, 1);
}

#[tokio::test]
async fn a_store_of_another_layout_is_refused() {
    let server = RedisServer::start(ServerOptions::default());
    server.command(&["HSET", "bulk-action:partition", "backlog", "3"]);
    let refused = RedisEngine::connect(&server.url(), RedisOptions::default()).await.err().unwrap();
    assert!(refused.to_string().contains("layout version none"), "{refused}");
    for (version, cure) in [("5", "drain it"), ("99", "use the program that wrote it")] {
        server.command(&["HSET", "bulk-action:partition", "version", version]);
        let refused = RedisEngine::connect(&server.url(), RedisOptions::default()).await.err().unwrap();
        assert!(refused.to_string().contains(&format!("layout version {version}")), "{refused}");
        assert!(refused.to_string().contains(cure), "{refused}");
    }
}

#[tokio::test]
async fn an_emptied_server_is_marked_again_before_anything_is_written() {
    let server = RedisServer::start(ServerOptions::default());
    let engine = connect(&server).await;
    engine.enqueue_all([job("a", "1")]).await.unwrap();
    let version = server.command(&["HGET", "bulk-action:partition", "version"]);
    server.command(&["FLUSHALL"]);
    engine.enqueue_all([job("a", "2")]).await.unwrap();
    assert_eq!(server.command(&["HGET", "bulk-action:partition", "version"]), version);
    assert_eq!(drain(&*engine, 1).await, 1);
}

#[tokio::test]
async fn a_store_that_another_layout_has_taken_over_is_not_written_to() {
    let server = RedisServer::start(ServerOptions::default());
    let engine = connect(&server).await;
    server.command(&["FLUSHALL"]);
    server.command(&["HSET", "bulk-action:partition", "version", "99"]);
    let (set, discarded) = (Default::default(), vec![job("a", "1").job]);
    let refused = [
        engine.call(Enqueue { jobs: vec![job("a", "1")] }).await.err(),
        engine.call(lease(1)).await.err(),
        engine.call(SetType { type_id: type_id("t"), patch: set }).await.err(),
        engine.call(Discard { jobs: discarded }).await.err(),
        engine.call(Reclaim { jobs_max: 1 }).await.err(),
    ];
    for refused in refused {
        let reason = refused.expect("it is refused").to_string();
        assert!(reason.contains("layout version 99, this program reads version"), "{reason}");
    }
    assert_eq!(server.command(&["DBSIZE"]), "1");
}

#[tokio::test]
async fn settings_that_weaken_the_guarantees_are_reported() {
    let server = RedisServer::start(ServerOptions::default());
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let engine = RedisEngine::connect(&server.url(), RedisOptions::default()).await.unwrap();
    let warnings = engine.info().warnings.join(" ");
    assert!(warnings.contains("noeviction") && warnings.contains("appendonly"), "{warnings}");
}

#[tokio::test]
async fn redis_without_a_memory_limit_is_warned_about_at_start() {
    let server = RedisServer::start(ServerOptions::default());
    let warned = async || {
        let engine = RedisEngine::connect(&server.url(), RedisOptions::default()).await.unwrap();
        engine.info().warnings.iter().any(|warning| warning.starts_with("maxmemory is 0"))
    };
    assert!(warned().await);
    server.command(&["CONFIG", "SET", "maxmemory", "64mb"]);
    assert!(!warned().await);
}

/// Commands in flight together, each of which finds its code gone: with functions, then with scripts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_forgot_are_sent_again_also_among_others_in_flight() {
    let server = RedisServer::start(ServerOptions::default());
    let engine = connect(&server).await;
    for round in 0..40 {
        if round == 20 {
            server.command(&["ACL", "SETUSER", "default", "-fcall"]);
        }
        server.command(&["FUNCTION", "FLUSH", "SYNC"]);
        server.command(&["SCRIPT", "FLUSH", "SYNC"]);
        let mut sent = Vec::new();
        for number in 0..10 {
            let engine = engine.clone();
            let added: Vec<NewJob> = vec![job("a", &format!("{round}-{number}"))];
            sent.push(tokio::spawn(async move { engine.call(Enqueue { jobs: added }).await }));
        }
        for command in sent {
            command.await.unwrap().unwrap();
        }
    }
    let mut drained = 0;
    for number in 1..=4 {
        drained += drain(&*engine, number).await;
    }
    assert_eq!(drained, 400);
}

#[tokio::test]
async fn a_waiter_that_gives_up_swallows_no_token() {
    let server = RedisServer::start(ServerOptions::default());
    let engine = connect(&server).await;
    let types = [type_id("t")];
    let given_up =
        tokio::time::timeout(Duration::from_millis(50), engine.wait(&types, Duration::from_secs(60)));
    assert!(given_up.await.is_err());
    engine.enqueue_all([job("a", "1")]).await.unwrap();
    assert!(engine.wait(&types, Duration::from_secs(20)).await.unwrap(), "the token came to the next waiter");
}

#[tokio::test]
async fn an_address_without_a_listener_is_unreachable() {
    let error = RedisEngine::connect("redis://127.0.0.1:1", RedisOptions::default()).await.err().unwrap();
    assert!(error.is_retryable(), "{error:?}");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}

#[tokio::test]
async fn the_share_of_its_memory_that_redis_uses_is_known_where_it_has_a_bound() {
    let server = RedisServer::start(ServerOptions::default());
    let engine = connect(&server).await;
    assert_eq!(engine.admin().space().await, Ok(None));
    server.command(&["CONFIG", "SET", "maxmemory", "64mb"]);
    let space = engine.admin().space().await.expect("Redis answers").expect("there is a bound now");
    assert_eq!(space.limit_bytes, 64 << 20);
    assert!(space.used_bytes > 0 && space.used_bytes < space.limit_bytes, "{space:?}");
}
