//! Settings and status of the queue.

use fairlane::{Job, Settings};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::running::{Running, problem};

#[tokio::test]
async fn all_settings_are_shown() {
    let running = Running::start().await;
    let (status, settings) = running.get("/api/settings").await;
    assert_eq!(status, StatusCode::OK);
    let defaults = Settings::default();
    assert_eq!(settings["discipline"], "share");
    assert_eq!(settings["levels"], "weighted");
    assert_eq!(settings["rate"], Value::Null);
    assert_eq!(settings["max_backoff_ms"], defaults.congestion.max_backoff_ms);
    assert_eq!(settings["failed_kept_max"], defaults.failed_kept_max);
    assert_eq!(settings.as_object().unwrap().len(), 22);
}

#[tokio::test]
async fn a_change_keeps_absent_settings() {
    let running = Running::start().await;
    let (_, before) = running.get("/api/settings").await;
    let change = json!({"discipline": "classic", "levels": "strict", "rate": "1000/s", "base_backoff_ms": 5});
    let (status, after) = running.patch("/api/settings", change.clone()).await;
    assert_eq!(status, StatusCode::OK);
    let mut expected = before.clone();
    for (name, value) in change.as_object().unwrap() {
        expected[name] = value.clone();
    }
    assert_eq!(after, expected);
    assert_eq!(running.get("/api/settings").await.1, expected);
    let (_, after) = running.patch("/api/settings", json!({"rate": null})).await;
    assert_eq!((&after["rate"], &after["levels"]), (&Value::Null, &json!("strict")));
}

#[tokio::test]
async fn values_within_the_described_bounds_are_accepted_and_others_are_not() {
    let running = Running::start().await;
    let description = serde_json::to_value(fairlane_server::openapi()).unwrap();
    let properties =
        description["components"]["schemas"]["SettingsChange"]["properties"].as_object().unwrap();
    let mut bounds = 0;
    for (name, schema) in properties {
        let own = running.get("/api/settings").await.1[name].clone();
        for (bound, beyond) in [("minimum", -1), ("maximum", 1)] {
            let Some(most) = schema[bound].as_i64() else { continue };
            // The shortest and the longest backoff bound each other.
            let (low, high) = if name.ends_with("_backoff_ms") { (1, 86_400_000) } else { (0, 0) };
            if low > 0 {
                let both = json!({"base_backoff_ms": low, "max_backoff_ms": high});
                assert_eq!(running.patch("/api/settings", both).await.0, StatusCode::OK);
            }
            let (status, body) = running.patch("/api/settings", json!({ name: most })).await;
            assert_eq!(status, StatusCode::OK, "{name}: {most}: {body}");
            let (status, _) = running.patch("/api/settings", json!({ name: most + beyond })).await;
            assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{name}: {most} and beyond");
            bounds += 1;
        }
        assert!(running.get("/api/settings").await.1[name] != Value::Null || own.is_null());
    }
    assert!(bounds > 20, "{bounds} bounds");
}

#[tokio::test]
async fn an_invalid_change_changes_nothing() {
    let running = Running::start().await;
    let (_, before) = running.get("/api/settings").await;
    for change in [
        json!({}),
        json!({"discipline": "Classic"}),
        json!({"discipline": 1}),
        json!({"levels": "loose"}),
        json!({"rate": "fast"}),
        json!({"base_backoff_ms": 200_000}),
        json!({"max_retry_count": 5, "global_rps": 0}),
        json!({"strict": 1}),
    ] {
        let (status, body) = running.patch("/api/settings", change.clone()).await;
        assert_eq!((status, problem(&body)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{change}");
    }
    assert_eq!(running.get("/api/settings").await.1, before);
}

#[tokio::test]
async fn a_rate_is_removed_by_null_and_by_none() {
    let running = Running::start().await;
    for path in ["/api/settings", "/api/groups/g", "/api/types/mail"] {
        for none in [json!(null), json!("none")] {
            let (_, settings) = running.patch(path, json!({"rate": "100/s"})).await;
            assert_eq!(settings["rate"], "100/s", "{path}");
            let (status, settings) = running.patch(path, json!({"rate": none})).await;
            assert_eq!((status, &settings["rate"]), (StatusCode::OK, &json!(null)), "{path} {none}");
        }
    }
}

#[tokio::test]
async fn the_discipline_cannot_be_changed_while_it_is_in_use() {
    let running = Running::start().await;
    running.fairlane.enqueue(Job::new("a", "mail", &1)).await.unwrap().accepted().unwrap();
    let change = json!({"discipline": "classic", "max_retry_count": 9});
    let (status, body) = running.patch("/api/settings", change).await;
    assert_eq!((status, problem(&body)), (StatusCode::CONFLICT, "conflict"));
    let (_, settings) = running.get("/api/settings").await;
    assert_eq!((&settings["discipline"], &settings["max_retry_count"]), (&json!("share"), &json!(3)));
    assert_eq!(running.patch("/api/settings", json!({"max_retry_count": 9})).await.0, StatusCode::OK);
}

#[tokio::test]
async fn concurrent_changes_are_all_kept() {
    let running = Running::start().await;
    let changes = [
        json!({"max_retry_count": 7}),
        json!({"max_loss_count": 8}),
        json!({"max_throttle_count": 9}),
        json!({"alpha": 10}),
    ];
    let [one, two, three, four] = changes.clone().map(|change| running.patch("/api/settings", change));
    tokio::join!(one, two, three, four);
    let (_, settings) = running.get("/api/settings").await;
    for change in changes {
        let (name, value) = change.as_object().unwrap().iter().next().unwrap();
        assert_eq!(&settings[name], value, "{name}");
    }
}

#[tokio::test]
async fn the_status_contains_counts_warnings_and_versions() {
    let running = Running::start().await;
    running.fairlane.enqueue(Job::new("a", "mail", &1)).await.unwrap().accepted().unwrap();
    let (status, queue) = running.get("/api/status").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&queue["backlog"], &queue["active_groups"]), (&json!(1), &json!(1)));
    assert_eq!(queue["active_lanes"], json!({"high": 0, "normal": 1, "low": 0}));
    assert_eq!(queue["types"][0]["type"], "mail");
    let warning = "jobs of type mail are waiting, but no worker requests them";
    assert_eq!((&queue["discipline"], &queue["warnings"]), (&json!("share"), &json!([warning])));
    assert_eq!(queue["engine"], running.fairlane.engine().name());
    assert_eq!(queue["version"], env!("CARGO_PKG_VERSION"));
    assert!(queue["uptime_ms"].is_u64());
}
