//! Waiting rooms in Redis: their keys, what a user without permission for them can do, and restarts.

use std::sync::Arc;

use fairlane_conformance::subject::{Subject, is_active, joining, position, room_name};
use fairlane_core::room::{JoinRoom, SweepRooms};
use fairlane_engine::Engine;
use fairlane_engine::redis::{RedisEngine, RedisOptions};
use fairlane_testkit::redis::{RedisServer, ServerOptions};

async fn connect(url: &str) -> Subject {
    let engine = RedisEngine::connect(url, RedisOptions::default()).await.expect("Redis is there");
    Subject::new(Arc::new(engine), Arc::default())
}

#[tokio::test]
async fn waiting_and_active_sets_have_their_keys_on_one_server() {
    let server = RedisServer::start(ServerOptions::default());
    let rooms = connect(&server.url()).await;
    rooms.set_max_active(1).await;
    rooms.join("one").await;
    rooms.join("two").await;
    rooms.try_join(JoinRoom { room: room_name("a:b"), ..joining("three") }).await;
    let members = |key: &str| {
        let script = "return table.concat(redis.call('ZRANGE', KEYS[1], 0, -1), ' ')";
        server.command(&["EVAL", script, "1", key])
    };
    assert_eq!(members("queue:waiting"), "two");
    assert_eq!(members("queue:active"), "one");
    assert_eq!(members("queue:a%3Ab:active"), "three");
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
