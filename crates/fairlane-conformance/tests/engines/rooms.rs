//! Waiting rooms in Redis: their keys, what a user without permission for them can do, and restarts.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fairlane_conformance::subject::{START, Subject, is_active, joining, position, room_name};
use fairlane_core::limits::{ROOM_ACTIVE_TTL_MS, ROOM_IDLE_MS, ROOM_MAX_ACTIVE, ROOM_RETENTION_MS};
use fairlane_core::room::{JoinRoom, RoomSettings, SweepRooms};
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_engine::{Clock, Engine};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

async fn connect(url: &str) -> Subject {
    let engine = RedisEngine::connect(url, RedisOptions::default()).await.expect("Redis is there");
    Subject::new(Arc::new(engine), Arc::default())
}

/// Connects with a clock that the test sets.
async fn connect_with_clock(url: &str) -> Subject {
    let time = Arc::new(AtomicU64::new(START.0));
    let options = RedisOptions { clock: Clock::Given(time.clone()), ..RedisOptions::default() };
    let engine = RedisEngine::connect(url, options).await.expect("Redis is there");
    Subject::new(Arc::new(engine), time)
}

/// The members of a sorted set in their order.
fn members(server: &RedisServer, key: &str) -> String {
    let script = "return table.concat(redis.call('ZRANGE', KEYS[1], 0, -1), ' ')";
    server.command(&["EVAL", script, "1", key])
}

fn number(server: &RedisServer, command: &[&str]) -> u64 {
    server.command(command).trim().parse().expect("a number")
}

#[tokio::test]
async fn waiting_and_active_sets_have_their_keys_on_one_server() {
    let server = RedisServer::start(ServerOptions::default());
    let rooms = connect(&server.url()).await;
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.join("two").await;
    rooms.try_join(JoinRoom { room: room_name("a:b"), ..joining("three") }).await;
    assert_eq!(members(&server, "queue:waiting"), "two");
    assert_eq!(members(&server, "queue:active"), "one");
    assert_eq!(members(&server, "queue:a%3Ab:active"), "three");
    let end_us: f64 = server.command(&["ZSCORE", "queue:active", "one"]).trim().parse().expect("a number");
    let time = server.command(&["EVAL", "return redis.call('TIME')[1]", "0"]);
    let now_secs: f64 = time.trim().parse().expect("a number");
    assert!((end_us / 1e6 - now_secs - 600.0).abs() < 60.0, "by the end of the place");
}

#[tokio::test]
async fn user_without_permission_for_rooms_can_sweep_until_rooms_are_used() {
    let server = RedisServer::start(ServerOptions::default());
    server.command(&["ACL", "SETUSER", "app", "on", ">pw", "~bulk-action:*", "+@all"]);
    let rooms = connect(&server.url().replace("://", "://app:pw@")).await;
    let engine: &dyn Engine = &*rooms.engine;
    assert_eq!(engine.call(SweepRooms { rooms_max: 1 }).await.expect("it is answered").rooms, 0);
    assert!(engine.call(joining("one")).await.is_err(), "the keys of rooms are not permitted");
}

#[tokio::test]
async fn two_processes_share_one_room() {
    let server = RedisServer::start(ServerOptions::default());
    let (first, second) = (connect(&server.url()).await, connect(&server.url()).await);
    first.set_max_active(1).await;
    assert!(is_active(&first.join("one").await));
    assert_eq!(position(&second.join("two").await), Some(1));
    first.leave_room("one").await;
    assert!(is_active(&second.show_place("two").await));
}

#[tokio::test]
async fn active_set_has_the_default_limit_and_the_rest_wait_in_order() {
    let server = RedisServer::start(ServerOptions::default());
    let rooms = connect(&server.url()).await;
    for user in 0..ROOM_MAX_ACTIVE + 3 {
        rooms.join(&format!("u{user}")).await;
    }
    assert_eq!(number(&server, &["ZCARD", "queue:active"]), u64::from(ROOM_MAX_ACTIVE));
    assert_eq!(members(&server, "queue:waiting"), "u50 u51 u52");
    assert_eq!(rooms.admit_waiters().await.admitted, 0, "no place is free");
}

#[tokio::test]
async fn admitted_token_moves_to_the_active_set_with_a_full_term() {
    let server = RedisServer::start(ServerOptions::default());
    let rooms = connect_with_clock(&server.url()).await;
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.join("two").await;
    for _ in 0..4 {
        rooms.advance_ms(ROOM_RETENTION_MS);
        assert_eq!(position(&rooms.keep_place("two").await), Some(1));
    }
    rooms.leave_room("one").await;
    assert_eq!(
        (members(&server, "queue:waiting"), members(&server, "queue:active")),
        (String::new(), "two".into())
    );
    assert_eq!(server.command(&["HGET", "queue:tokens", "two"]).trim(), "active:two");
    let until = rooms.now().plus_ms(ROOM_ACTIVE_TTL_MS);
    assert_eq!(number(&server, &["ZSCORE", "queue:active", "two"]), until.0, "however long the wait was");
}

#[tokio::test]
async fn cleanup_leaves_nothing_of_places_that_have_ended() {
    let server = RedisServer::start(ServerOptions::default());
    let rooms = connect_with_clock(&server.url()).await;
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.join("silent").await;
    assert_eq!(rooms.sweep_rooms().await.rooms, 0, "nothing has ended");
    rooms.advance_ms(ROOM_ACTIVE_TTL_MS);
    assert_eq!(rooms.sweep_rooms().await.rooms, 1);
    for set in ["waiting", "active", "silent", "users", "tokens"] {
        assert_eq!(number(&server, &["EXISTS", &format!("queue:{set}")]), 0, "{set}");
    }
    let totals = rooms.room().await.totals;
    assert_eq!((totals.expired, totals.silent), (1, 1));
    rooms.set_room(RoomSettings::default()).await;
    rooms.advance_ms(ROOM_IDLE_MS);
    assert_eq!(rooms.sweep_rooms().await.rooms, 1, "the room is forgotten");
    assert_eq!(number(&server, &["EXISTS", "room:default"]), 0);
}
