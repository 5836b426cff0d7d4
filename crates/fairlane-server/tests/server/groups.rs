//! Groups: listed, shown, changed, and their waiting jobs made due.

use fairlane::Job;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::running::{Running, problem, send};

async fn with_jobs(groups: &[&str]) -> Running {
    let running = Running::start().await;
    let jobs = groups.iter().map(|group| Job::new(*group, "mail", &1));
    running.fairlane.enqueue_all(jobs).await.unwrap();
    running
}

#[tokio::test]
async fn groups_with_unfinished_jobs_are_listed_page_by_page() {
    let running = with_jobs(&["a", "b", "b", "c:d"]).await;
    running.fairlane.group("idle").weight(2).apply().await.unwrap();
    let (status, first) = running.get("/api/groups?limit=2").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(first["groups"][0]["group"], "a");
    assert_eq!(first["groups"][1]["backlog"], 2);
    let next = first["next"].as_str().unwrap();
    let (_, second) = running.get(&format!("/api/groups?limit=2&cursor={next}")).await;
    assert_eq!(second["groups"].as_array().unwrap().len(), 1);
    assert_eq!((&second["groups"][0]["group"], &second["next"]), (&json!("c:d"), &Value::Null));
    let (_, all) = running.get("/api/groups?all=true&cursor=b").await;
    let names: Vec<&Value> = all["groups"].as_array().unwrap().iter().map(|line| &line["group"]).collect();
    assert_eq!(names, ["c:d", "idle"]);
    assert_eq!(all["groups"][1]["settings"]["weight"], 2);
    assert_eq!(running.get("/api/groups?all=false&cursor=b").await.1["groups"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_page_out_of_bounds_is_refused() {
    let running = Running::start().await;
    for query in ["limit=0", "limit=501", "limit=many", "cursor=", "all=maybe", "other=1"] {
        let (status, _) = running.get(&format!("/api/groups?{query}")).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
    }
}

#[tokio::test]
async fn a_group_is_shown_with_settings_counts_lanes_and_congestion() {
    let running = with_jobs(&["a", "a"]).await;
    running.fairlane.group("a").rate("1/h").pause().apply().await.unwrap();
    let (status, group) = running.get("/api/groups/a").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        group["settings"],
        json!({"weight": 1, "base_priority": 0, "rate": "1/h", "concurrency": null, "paused": true})
    );
    assert_eq!((&group["backlog"], &group["total"], &group["done"]), (&json!(2), &json!(2), &json!(0)));
    let lane = &group["lanes"][0];
    assert_eq!(
        (&lane["type"], &lane["level"], &lane["backlog"]),
        (&json!("mail"), &json!("normal"), &json!(2))
    );
    // A lane stays active until its turn comes.
    assert_eq!(lane["standing"], "active");
    assert_eq!(group["congestion"]["level"], "NONE");
}

#[tokio::test]
async fn an_unknown_group_is_not_found() {
    let running = Running::start().await;
    for path in ["/api/groups/unknown", "/api/groups/unknown/congestion"] {
        let (status, body) = running.get(path).await;
        assert_eq!((status, problem(&body)), (StatusCode::NOT_FOUND, "not-found"), "{path}");
    }
    let (status, _) = running.delete("/api/groups/unknown/congestion").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_change_keeps_absent_settings_and_removes_null_ones() {
    let running = Running::start().await;
    let all =
        json!({"weight": 3, "base_priority": -5, "rate": "100/s burst 7", "concurrency": 4, "paused": true});
    let (status, settings) = running.patch("/api/groups/a%20b", all.clone()).await;
    assert_eq!((status, &settings), (StatusCode::OK, &all));
    let (_, settings) = running.patch("/api/groups/a%20b", json!({"rate": null, "paused": false})).await;
    assert_eq!(
        settings,
        json!({"weight": 3, "base_priority": -5, "rate": null, "concurrency": 4, "paused": false})
    );
    let (_, settings) = running.patch("/api/groups/a%20b", json!({"concurrency": null})).await;
    assert_eq!((&settings["concurrency"], &settings["weight"]), (&Value::Null, &json!(3)));
    let view = running.fairlane.group("a b").view().await.unwrap().unwrap();
    assert_eq!((view.settings.rate, view.settings.concurrency), (None, None));
}

#[tokio::test]
async fn an_invalid_change_changes_nothing() {
    let running = Running::start().await;
    for change in [
        json!({}),
        json!({"weight": 0}),
        json!({"weight": 1001}),
        json!({"rate": "fast"}),
        json!({"rate": 5}),
        json!({"concurrency": 0}),
        json!({"base_priority": 1_000_000_000_001_i64}),
        json!({"paused": "yes"}),
        json!({"waight": 3}),
        json!([]),
    ] {
        let (status, body) = running.patch("/api/groups/a", change.clone()).await;
        assert_eq!((status, problem(&body)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{change}");
    }
    let (status, body) = running.patch("/api/groups/a", json!({"weight": 2, "rate": "fast"})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(body["errors"][0]["pointer"], "/rate");
    assert!(running.fairlane.group("a").view().await.unwrap().is_none());
}

#[tokio::test]
async fn waiting_jobs_of_a_group_are_made_due() {
    let running = Running::start().await;
    let later = std::time::Duration::from_secs(3600);
    let jobs = (0..700).map(|number| {
        let group = if number < 600 { "a" } else { "b" };
        Job::new(group, "mail", &number).delay(later)
    });
    running.fairlane.enqueue_all(jobs).await.unwrap();
    let make_due = |group: &str| {
        let path = format!("/api/groups/{group}/make-due");
        send(running.request(reqwest::Method::POST, &path))
    };
    assert_eq!(make_due("a").await, (StatusCode::OK, json!({"moved": 600})));
    assert_eq!(make_due("a").await, (StatusCode::OK, json!({"moved": 0})));
    assert_eq!(make_due("unknown").await, (StatusCode::OK, json!({"moved": 0})));
    assert_eq!(running.fairlane.group("b").view().await.unwrap().unwrap().waiting, 100);
    let path = "/api/groups/a/make-due?cursor=x";
    let (status, _) = send(running.request(reqwest::Method::POST, path)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}
