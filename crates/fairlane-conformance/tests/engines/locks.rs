//! Locks in Redis: their keys, and what a user without permission for them can do.

use std::sync::Arc;

use fairlane_conformance::subject::{
    Subject, exclusive, exclusive_of, fair, lock_name, lock_token, next_signal, permit,
};
use fairlane_core::limits::{LOCK_LOSSES_MAX, LOCK_SLICE_MS, LOCK_TTL_MS_MIN};
use fairlane_core::lock::{AcquireLock, SweepLocks};
use fairlane_engine::Engine;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until_async;

async fn connect(url: &str) -> Subject {
    let engine = RedisEngine::connect(url, RedisOptions::default()).await.expect("Redis is there");
    Subject::new(Arc::new(engine), Arc::default())
}

#[tokio::test]
async fn lock_has_the_key_of_its_name_on_one_server() {
    let server = RedisServer::start(ServerOptions::default());
    let locks = connect(&server.url()).await;
    locks.locked(exclusive_of("coupon:issue:42", "t")).await;
    let row = server.command(&["GET", "lock:coupon:issue:42"]);
    assert!(row.starts_with("exclusive:0:1:0:t:"), "{row}");
    locks.release_of("coupon:issue:42", "t").await;
    assert_eq!(server.command(&["EXISTS", "lock:coupon:issue:42"]).trim(), "0");
}

#[tokio::test]
async fn release_is_published_on_the_channel_of_its_lock_on_one_server() {
    let server = RedisServer::start(ServerOptions::default());
    let locks = connect(&server.url()).await;
    let client = redis::Client::open(server.url()).expect("an address");
    let mut connection = client.get_connection().expect("it is there");
    let mut messages = connection.as_pubsub();
    messages.psubscribe("lock:release:*").expect("it is confirmed");
    for name in ["coupon:issue:42", "coupon:issue:43"] {
        locks.locked(exclusive_of(name, "t")).await;
        locks.release_of(name, "other").await;
        locks.release_of(name, "t").await;
        let message = messages.get_message().expect("the release is published");
        assert_eq!(message.get_channel_name(), format!("lock:release:{name}"));
    }
}

#[tokio::test]
async fn key_of_another_program_is_not_a_lock() {
    let server = RedisServer::start(ServerOptions::default());
    let locks = connect(&server.url()).await;
    server.command(&["SET", "lock:seat:1", "theirs"]);
    server.command(&["HSET", "lock:seat:3", "theirs", "1"]);
    assert!(locks.engine.call(exclusive("t")).await.is_err());
    assert!(locks.engine.call(exclusive_of("seat:3", "t")).await.is_err());
    assert_eq!(server.command(&["GET", "lock:seat:1"]).trim(), "theirs");
    assert_eq!(server.command(&["HGET", "lock:seat:3", "theirs"]).trim(), "1");
    locks.locked(exclusive_of("seat:2", "t")).await;
}

#[tokio::test]
async fn signal_to_a_fair_waiter_has_its_grant() {
    let server = RedisServer::start(ServerOptions::default());
    let locks = connect(&server.url()).await;
    let mut signals = locks.subscribe("t:%").await;
    locks.locked(exclusive("one")).await;
    locks.queue_up(fair("t:%")).await;
    locks.release("one").await;
    let signal = next_signal(&mut signals).await;
    assert_eq!(signal.waiter, lock_token("t:%"));
    let grant = signal.grant.expect("the lock is granted");
    assert_eq!(grant.fence, locks.lock().await.held_by[0].fence);
    let row = server.command(&["GET", "lock:seat:1"]);
    let ends = row.split(':').nth(7).and_then(|end| end.parse().ok());
    assert_eq!(ends, Some(grant.until.0), "{row}");
}

/// Waiters of an earlier build have no terms, so the lock is reserved for them.
#[tokio::test]
async fn waiters_that_an_earlier_build_has_written_are_served() {
    let server = RedisServer::start(ServerOptions::default());
    let locks = connect(&server.url()).await;
    locks.locked(exclusive("one")).await;
    locks.queue_up(fair("two")).await;
    let row = format!("1:0:{LOCK_LOSSES_MAX}:exclusive:two");
    let written = server.command(&["HGET", "lock-waiters:seat:1", "two"]);
    assert_eq!(written.trim(), format!("{row}:0:0:holder two"));
    server.command(&["HSET", "lock-waiters:seat:1", "two", &row]);
    locks.release("one").await;
    let lock = locks.lock().await;
    assert_eq!((lock.holders, lock.claims), (0, 1));
    assert_eq!(locks.attend("two").await, ["two"]);
    locks.locked(fair("two")).await;
    assert!(locks.lock().await.held_by[0].remaining_us > LOCK_SLICE_MS * 1000);
}

/// An operator may delete the key of a lock by hand, with its waiters and holders.
#[tokio::test]
async fn deleted_key_of_a_lock_leaves_nothing_that_is_in_the_way() {
    let server = RedisServer::start(ServerOptions::default());
    let locks = connect(&server.url()).await;
    let brief = |command: AcquireLock| AcquireLock { ttl_ms: LOCK_TTL_MS_MIN, ..command };
    let first = locks.locked(brief(exclusive("one"))).await;
    locks.queue_up(exclusive("two")).await;
    locks.locked(brief(AcquireLock { name: lock_name("gpu"), ..permit(2, "a") })).await;
    server.command(&["DEL", "lock:seat:1", "lock:gpu"]);
    until_async("the sweep has removed the rest", async || {
        locks.engine.call(SweepLocks { locks_max: 10 }).await.expect("it is answered");
        server.command(&["ZCARD", "lock-names"]).trim() == "0"
    })
    .await;
    assert_eq!(
        server.command(&["EXISTS", "lock-waiters:seat:1", "lock-waiting:seat:1", "lock-ends:gpu"]).trim(),
        "0"
    );
    assert_eq!(server.command(&["HGET", "bulk-action:partition", "lock_waiters"]).trim(), "0");
    assert!(locks.locked(exclusive("two")).await > first);
    locks.queue_up(exclusive("three")).await;
    locks.release("two").await;
    locks.locked(exclusive("three")).await;
}

#[tokio::test]
async fn user_without_permission_for_locks_can_sweep_until_locks_are_used() {
    let server = RedisServer::start(ServerOptions::default());
    server.command(&["ACL", "SETUSER", "app", "on", ">pw", "~bulk-action:*", "+@all"]);
    let locks = connect(&server.url().replace("://", "://app:pw@")).await;
    let engine: &dyn Engine = &*locks.engine;
    assert_eq!(engine.call(SweepLocks { locks_max: 1 }).await.expect("it is answered").locks, 0);
    assert!(engine.call(exclusive("t")).await.is_err(), "the keys of locks are not permitted");
}
