//! Locks over HTTP.

use fairlane_testkit::wait::until_async;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{Running, json as with_json};

#[tokio::test]
async fn lock_is_acquired_renewed_and_released_by_its_token() {
    let running = Running::start().await;
    let lock = "/api/locks/coupon:issue:42";
    let request = json!({"token": "mine", "holder": "app-1", "ttl_ms": 60_000});
    let (_, first) = running.post(&format!("{lock}/acquire"), request.clone()).await;
    assert_eq!((&first["held"], &first["token"]), (&json!(true), &json!("mine")));
    let (_, again) = running.post(&format!("{lock}/acquire"), request).await;
    assert_eq!(first["fence"], again["fence"], "a repeated request gets the same hold");
    let (_, other) = running.post(&format!("{lock}/acquire"), json!({})).await;
    assert_eq!(other["held"], false);
    assert_eq!(other["blocked"]["holder"]["holder"], "app-1");
    let (_, shown) = running.get(lock).await;
    assert_eq!((&shown["lock"], &shown["kind"]), (&json!("coupon:issue:42"), &json!("exclusive")));
    assert_eq!(shown["held_by"][0]["fence"], first["fence"]);
    let (_, listed) = running.get("/api/locks?group=coupon").await;
    assert_eq!(listed["locks"].as_array().unwrap().len(), 1);
    let (_, renewed) = running.post(&format!("{lock}/renew"), json!({"token": "mine"})).await;
    assert_eq!(renewed["held"], true);
    let (_, stranger) = running.post(&format!("{lock}/renew"), json!({"token": "yours"})).await;
    assert_eq!(stranger, json!({"held": false}));
    for released in [true, false] {
        let (_, reply) = running.post(&format!("{lock}/release"), json!({"token": "mine"})).await;
        assert_eq!(reply["released"], released);
    }
    assert_eq!(running.get(lock).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn waiting_request_gets_the_lock_when_it_is_released() {
    let running = Running::start().await;
    let hold = json!({"token": "mine", "ttl_ms": 60_000});
    let (_, first) = running.post("/api/locks/nightly/acquire", hold).await;
    let waiting = running.request(Method::POST, "/api/locks/nightly/acquire");
    let waiting = tokio::spawn(with_json(waiting, &json!({"wait_ms": 20_000})).send());
    until_async("it waits", async || running.get("/api/locks/nightly").await.1["waiters"] == 1).await;
    running.post("/api/locks/nightly/release", json!({"token": "mine"})).await;
    let next = waiting.await.unwrap().unwrap().text().await.unwrap();
    let next: Value = serde_json::from_str(&next).unwrap();
    assert!(next["held"] == true && next["fence"].as_u64() > first["fence"].as_u64(), "{next}");
}

#[tokio::test]
async fn client_that_hangs_up_leaves_the_waiters() {
    let running = Running::start().await;
    running.post("/api/locks/nightly/acquire", json!({"token": "mine", "ttl_ms": 60_000})).await;
    let waiting = running.request(Method::POST, "/api/locks/nightly/acquire");
    let waiting = tokio::spawn(with_json(waiting, &json!({"wait_ms": 20_000})).send());
    let waiters = async || running.get("/api/locks/nightly").await.1["waiters"].clone();
    until_async("it waits", async || waiters().await == 1).await;
    waiting.abort();
    until_async("it is gone", async || waiters().await == 0).await;
}

#[tokio::test]
async fn broken_lock_is_lost_at_the_next_renewal() {
    let running = Running::start().await;
    let (_, held) = running.post("/api/locks/nightly/acquire", json!({"token": "mine"})).await;
    let (_, other) = running.post("/api/locks/nightly/break", json!({"fence": 1})).await;
    assert_eq!(other["holders"], 0, "only the holder with this fence");
    let (_, broken) = running.post("/api/locks/nightly/break", json!({"fence": held["fence"]})).await;
    assert_eq!(broken["holders"], 1);
    let (_, renewed) = running.post("/api/locks/nightly/renew", json!({"token": "mine"})).await;
    assert_eq!(renewed["held"], false);
}

#[tokio::test]
async fn invalid_requests_say_what_is_wrong() {
    let running = Running::start().await;
    for (body, words) in [
        (json!({"mode": "permit"}), "number of permits"),
        (json!({"permits": 2}), "go with the mode permit"),
        (json!({"ttl_ms": 1}), "the ttl of a lock in ms must be between"),
        (json!({"wait_ms": 3_600_000}), "a wait in ms"),
    ] {
        let (status, problem) = running.post("/api/locks/nightly/acquire", body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    running.post("/api/locks/index/acquire", json!({"mode": "read", "ttl_ms": 60_000})).await;
    let (status, problem) = running.post("/api/locks/index/acquire", json!({})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
}
