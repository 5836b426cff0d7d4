//! Waiting rooms over HTTP.

use reqwest::StatusCode;
use serde_json::json;

use crate::running::Running;

#[tokio::test]
async fn place_is_joined_polled_and_left_by_its_token() {
    let running = Running::start().await;
    let (_, limits) = running.patch("/api/rooms/concert", json!({"max_active": 1})).await;
    assert_eq!((&limits["max_active"], &limits["active_ttl_ms"]), (&json!(1), &json!(600_000)));
    let (_, ada) = running.post("/api/rooms/concert/join", json!({"user": "ada"})).await;
    assert_eq!((&ada["state"], &ada["position"], &ada["active"]), (&json!("active"), &json!(0), &json!(1)));
    let (_, bob) = running.post("/api/rooms/concert/join", json!({"user": "bob"})).await;
    assert_eq!((&bob["state"], &bob["position"]), (&json!("waiting"), &json!(1)));
    let (_, again) = running.post("/api/rooms/concert/join", json!({"user": "bob"})).await;
    assert_eq!(again["token"], bob["token"], "one place per user");
    let place = |joined: &serde_json::Value| {
        format!("/api/rooms/concert/places/{}", joined["token"].as_str().unwrap())
    };
    let (_, kept) = running.post_nothing(format!("{}/keep", place(&bob))).await;
    assert_eq!((&kept["position"], &kept["next_poll_ms"]), (&json!(1), &json!(1000)));
    let leave = async || running.delete(&place(&ada)).await.0;
    assert_eq!(leave().await, StatusCode::NO_CONTENT);
    assert_eq!(leave().await, StatusCode::NOT_FOUND);
    assert_eq!(running.get(&place(&ada)).await.1["state"], "unknown");
    assert_eq!(running.get(&place(&bob)).await.1["state"], "active");
    let (_, shown) = running.get("/api/rooms/concert").await;
    assert_eq!((&shown["active"], &shown["waiting"]), (&json!(1), &json!([0])));
    let (_, listed) = running.get("/api/rooms").await;
    assert_eq!(listed["rooms"][0]["room"], "concert");
}

#[tokio::test]
async fn position_is_followed_by_events_until_the_place_is_active() {
    let running = Running::start().await;
    running.patch("/api/rooms/concert", json!({"max_active": 1})).await;
    let (_, ada) = running.post("/api/rooms/concert/join", json!({"user": "ada"})).await;
    let (_, bob) = running.post("/api/rooms/concert/join", json!({"user": "bob"})).await;
    let path = |joined: &serde_json::Value| {
        format!("/api/rooms/concert/places/{}", joined["token"].as_str().unwrap())
    };
    let events = running.request(reqwest::Method::GET, &format!("{}/events", path(&bob)));
    let mut events = events.send().await.unwrap();
    let mut text = String::new();
    while !text.contains("\"position\":1") {
        text.push_str(std::str::from_utf8(&events.chunk().await.unwrap().expect("it goes on")).unwrap());
    }
    running.delete(&path(&ada)).await;
    while let Some(chunk) = events.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(text.contains("event: progress") && text.contains("event: ended"), "{text}");
    assert!(text.ends_with("\n\n") && text.contains("\"state\":\"active\""), "{text}");
}

#[tokio::test]
async fn operators_pause_close_and_revoke() {
    let running = Running::start().await;
    running.post("/api/rooms/concert/join", json!({"user": "ada"})).await;
    let (_, paused) = running.post("/api/rooms/concert/pause", json!({"reason": "Back at noon"})).await;
    assert_eq!(paused["paused"], "Back at noon");
    let (_, bob) = running.post("/api/rooms/concert/join", json!({"user": "bob"})).await;
    assert_eq!((&bob["state"], &bob["paused"]), (&json!("waiting"), &json!("Back at noon")));
    let (_, resumed) = running.post_nothing("/api/rooms/concert/resume".into()).await;
    assert_eq!(resumed["active"], 2);
    running.post_nothing("/api/rooms/concert/close".into()).await;
    let (status, refused) = running.post("/api/rooms/concert/join", json!({"user": "cyd"})).await;
    assert_eq!((status, &refused["detail"]), (StatusCode::CONFLICT, &json!("the room is closed")));
    let (_, opened) = running.post_nothing("/api/rooms/concert/open".into()).await;
    assert_eq!(opened["phase"], "open");
    let revoke = async || running.post("/api/rooms/concert/revoke", json!({"user": "ada"})).await.0;
    assert_eq!((revoke().await, revoke().await), (StatusCode::NO_CONTENT, StatusCode::NOT_FOUND));
    let report = json!({"answered": 20, "refused": true, "retry_after_ms": 90_000});
    let (_, reported) = running.post("/api/rooms/concert/report", report).await;
    assert!(reported["rate_milli"].as_u64() > Some(0), "{reported}");
    let (_, prequeue) = running.post_nothing("/api/rooms/other/prequeue".into()).await;
    assert_eq!((&prequeue["phase"], &prequeue["draw"]["seed"]), (&json!("prequeue"), &json!(null)));
}

#[tokio::test]
async fn invalid_requests_say_what_is_wrong() {
    let running = Running::start().await;
    let (status, problem) = running.patch("/api/rooms/concert", json!({"weights": []})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("the classes of a room"), "{problem}");
    let (status, _) = running.post("/api/rooms/concert/join", json!({"user": ""})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(running.get("/api/rooms/concert").await.0, StatusCode::NOT_FOUND);
}
