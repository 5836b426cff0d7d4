//! Types: listed, shown, changed and removed.

use fairlane::Job;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::running::{Running, problem};

#[tokio::test]
async fn types_are_listed_and_shown() {
    let running = Running::start().await;
    running.fairlane.enqueue(Job::new("a", "text", &1)).await.unwrap().accepted().unwrap();
    running.fairlane.job_type("mail").rate("2/s").apply().await.unwrap();
    let (status, all) = running.get("/api/types").await;
    assert_eq!(status, StatusCode::OK);
    let names: Vec<&str> =
        all["types"].as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["mail", "text"]);
    let (_, text) = running.get("/api/types/text").await;
    assert_eq!(text["active_lanes"], json!({"high": 0, "normal": 1, "low": 0}));
    assert_eq!(
        text["settings"],
        json!({"rate": null, "concurrency": null, "paused": false, "max_retry_count": null})
    );
    let (_, mail) = running.get("/api/types/mail").await;
    assert_eq!((&mail["settings"]["rate"], &mail["rate_in_effect"]), (&json!("2/s"), &json!(2.0)));
}

#[tokio::test]
async fn an_unknown_type_is_not_found() {
    let running = Running::start().await;
    let (status, body) = running.get("/api/types/nothing").await;
    assert_eq!((status, problem(&body)), (StatusCode::NOT_FOUND, "not-found"));
}

#[tokio::test]
async fn a_change_keeps_absent_settings_and_removes_null_ones() {
    let running = Running::start().await;
    let all = json!({"rate": "10/min", "concurrency": 4, "paused": true, "max_retry_count": 0});
    assert_eq!(running.patch("/api/types/mail", all.clone()).await, (StatusCode::OK, all));
    let change = json!({"rate": null, "max_retry_count": null});
    let (_, settings) = running.patch("/api/types/mail", change).await;
    assert_eq!(settings, json!({"rate": null, "concurrency": 4, "paused": true, "max_retry_count": null}));
    let (_, settings) = running.patch("/api/types/mail", json!({"concurrency": null})).await;
    assert_eq!(settings["concurrency"], Value::Null);
}

#[tokio::test]
async fn an_invalid_change_changes_nothing() {
    let running = Running::start().await;
    for change in [
        json!({}),
        json!({"rate": "0/s"}),
        json!({"concurrency": 1_000_001}),
        json!({"max_retry_count": 10_001}),
        json!({"max_retry_count": -1}),
        json!({"weight": 3}),
    ] {
        let (status, body) = running.patch("/api/types/mail", change.clone()).await;
        assert_eq!((status, problem(&body)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{change}");
    }
    assert_eq!(running.get("/api/types").await.1, json!({"types": []}));
}

#[tokio::test]
async fn a_sixty_fifth_type_is_refused() {
    let running = Running::start().await;
    for number in 0..64 {
        let (status, _) = running.patch(&format!("/api/types/t{number}"), json!({"paused": true})).await;
        assert_eq!(status, StatusCode::OK);
    }
    let (status, body) = running.patch("/api/types/other", json!({"paused": true})).await;
    assert_eq!((status, problem(&body)), (StatusCode::CONFLICT, "conflict"));
    assert!(body["detail"].as_str().unwrap().contains("64 types"), "{body}");
}

#[tokio::test]
async fn a_type_without_jobs_is_removed_and_one_with_jobs_is_not() {
    let running = Running::start().await;
    running.patch("/api/types/idle", json!({"paused": true})).await;
    let new = json!({"group": "customer-7", "id": "1", "type": "busy", "payload": {}});
    assert_eq!(running.post("/api/jobs", new).await.0, StatusCode::CREATED);
    assert_eq!(running.delete("/api/types/idle").await.0, StatusCode::NO_CONTENT);
    let (status, body) = running.delete("/api/types/idle").await;
    assert_eq!((status, problem(&body)), (StatusCode::NOT_FOUND, "not-found"));
    let (status, body) = running.delete("/api/types/busy").await;
    assert_eq!((status, problem(&body)), (StatusCode::CONFLICT, "conflict"));
    assert!(body["detail"].as_str().unwrap().contains("type busy has 1 job,"), "{body}");
}
