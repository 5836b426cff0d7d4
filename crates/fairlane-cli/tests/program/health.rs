//! `fairlane health`.

use fairlane_testkit::receiver::{Receiver, response};
use fairlane_testkit::redis::{RedisServer, ServerOptions, free_port};

use super::running::fairlane;
use super::served::Served;
use super::work::until;

#[test]
fn a_server_is_ready_while_it_and_its_engine_respond() {
    let redis = RedisServer::start(ServerOptions::default());
    let served = Served::in_folder(tempfile::TempDir::new().unwrap(), &["--engine", &redis.url()]);
    let ended = fairlane(&["health", &served.address]);
    assert_eq!((ended.code, ended.stdout), (0, format!("{} is ready\n", served.address)));
    let health = fairlane(&["health", &served.address, "--json"]).json();
    assert_eq!(health, serde_json::json!({ "server": served.address, "ready": true }));
    drop(redis);
    until("the server is not ready", || fairlane(&["health", &served.address]).code == 1);
    fairlane(&["health", &served.address]).failed(1, &["is not ready", "the engine cannot be reached"]);
}

#[test]
fn an_unreachable_address_and_another_server_are_not_ready() {
    let unused = format!("http://127.0.0.1:{}", free_port());
    fairlane(&["health", &unused]).failed(1, &["is not ready", "no connection"]);
    let web = Receiver::responding(response("200 OK", &[], "<html></html>"));
    fairlane(&["health", &web.url("")]).failed(1, &["is not ready", "Fairlane server"]);
    fairlane(&["health", "127.0.0.1:8080"]).failed(2, &["http://host:port"]);
    fairlane(&["health", "redis://127.0.0.1:6379"]).failed(2, &["http://host:port"]);
}
