//! Quotas: the jobs of a request are charged to its key.

use std::time::Duration;

use fairlane::Job;
use fairlane_server::ServerSettings;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::floods::limited_key;
use crate::keys::{one_key, start};
use crate::running::{Running, problem, send};

/// A server whose requests have a key with this rate.
async fn limited(rate: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, _) = one_key(folder.path(), "other");
    let key = limited_key(&file, rate);
    let mut running = start(&file, ServerSettings::default()).await;
    running.set_token(key);
    running
}

async fn stream(running: &Running, lines: &str) -> Value {
    let request = running
        .request(Method::POST, "/api/jobs/stream?group=g&type=mail")
        .header("content-type", "application/x-ndjson");
    let (status, body) = send(request.body(lines.to_owned())).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    body
}

async fn list(running: &Running) -> StatusCode {
    running.get("/api/jobs?state=waiting&limit=500").await.0
}

async fn assert_used_up(running: &Running) {
    let (status, body) = running.get("/api/status").await;
    assert_eq!((status, problem(&body)), (StatusCode::TOO_MANY_REQUESTS, "rate-limited"), "{body}");
}

#[tokio::test]
async fn two_long_lists_cost_as_much_as_twenty_small_requests() {
    let (small, lists) = (limited("1/min burst 20").await, limited("1/min burst 20").await);
    for _ in 0..20 {
        assert_eq!(small.get("/api/status").await.0, StatusCode::OK);
    }
    for _ in 0..2 {
        assert_eq!(list(&lists).await, StatusCode::OK);
    }
    tokio::join!(assert_used_up(&small), assert_used_up(&lists));
}

#[tokio::test]
async fn a_large_batch_costs_as_much_as_many_requests() {
    let running = limited("1/min burst 20").await;
    let jobs = vec![json!({"group": "g", "type": "mail", "payload": 1}); 1000];
    let (status, body) = running.post("/api/jobs/batch", json!({"jobs": jobs})).await;
    assert_eq!((status, &body["created"]), (StatusCode::OK, &json!(1000)));
    assert_used_up(&running).await;
}

#[tokio::test]
async fn a_stream_costs_as_much_as_many_requests() {
    let running = limited("1/min burst 20").await;
    assert_eq!(stream(&running, &"{\"payload\":1}\n".repeat(1000)).await["created"], 1000);
    assert_used_up(&running).await;
}

#[tokio::test]
async fn lines_without_jobs_are_charged() {
    let (wrong, empty) = (limited("1/min burst 20").await, limited("1/min burst 20").await);
    assert_eq!(stream(&wrong, &"?\n".repeat(1000)).await["errors_total"], 1000);
    assert_eq!(stream(&empty, &"\n".repeat(9000)).await["empty_lines"], 9000);
    tokio::join!(assert_used_up(&wrong), assert_used_up(&empty));
}

#[tokio::test]
async fn a_stream_is_slowed_down_to_the_rate_of_its_key_and_not_refused() {
    let running = limited("20/s burst 20").await;
    let start = Instant::now();
    let body = stream(&running, &"{\"payload\":1}\n".repeat(2000)).await;
    assert_eq!((&body["created"], &body["complete"]), (&json!(2000), &json!(true)), "{body}");
    // The stream costs more than forty requests, of which twenty run ahead of the rate.
    assert!(start.elapsed() >= Duration::from_secs(1), "it took {:?}", start.elapsed());
}

#[tokio::test]
async fn a_lease_is_charged_for_the_jobs_it_gets() {
    let running = limited("1/min burst 6").await;
    let lease = async |count: u64| {
        let (status, body) =
            running.post("/api/leases", json!({"worker": "w", "types": ["mail"], "count": count})).await;
        (status, body["jobs"].as_array().map_or(0, Vec::len))
    };
    for _ in 0..4 {
        assert_eq!(lease(500).await, (StatusCode::OK, 0));
    }
    let jobs = (0..400).map(|number| Job::new("g", "mail", &number));
    running.fairlane.enqueue_all(jobs).await.unwrap();
    assert_eq!(lease(500).await, (StatusCode::OK, 400));
    assert_used_up(&running).await;
}

#[tokio::test]
async fn without_a_rate_nothing_is_charged() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, key) = one_key(folder.path(), "k");
    let mut running = start(&file, ServerSettings { key_rate: None, ..ServerSettings::default() }).await;
    running.set_token(key);
    for _ in 0..100 {
        assert_eq!(list(&running).await, StatusCode::OK);
    }
    assert_eq!(stream(&running, &"?\n".repeat(20_000)).await["errors_total"], 20_000);
}
