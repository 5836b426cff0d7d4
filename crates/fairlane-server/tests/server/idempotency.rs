//! Repeated requests: the same job is found, and another one is refused.

use fairlane::Settings;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{Running, json as with_json, problem, send};

#[tokio::test]
async fn another_job_with_an_existing_id_is_refused_with_the_difference() {
    let running = Running::start().await;
    let job = json!({"group": "g", "type": "mail", "id": "a", "payload": 1, "level": "low", "cost": 2});
    let (status, value) = running.post("/api/jobs", job.clone()).await;
    assert_eq!((status, &value["backlog"]), (StatusCode::CREATED, &json!(1)), "{value}");
    let with = |key: &str, value: Value| {
        let mut other = job.clone();
        other[key] = value;
        other
    };
    let (status, value) = running.post("/api/jobs", with("delay_ms", json!(1000))).await;
    assert_eq!((status, &value["created"], &value["backlog"]), (StatusCode::OK, &json!(false), &json!(1)));
    for (key, other) in
        [("type", json!("text")), ("payload", json!(2)), ("level", json!("high")), ("cost", json!(3))]
    {
        let (status, value) = running.post("/api/jobs", with(key, other)).await;
        assert_eq!((status, problem(&value)), (StatusCode::CONFLICT, "job-differs"), "{value}");
        assert!(value["detail"].as_str().unwrap().contains(&format!("another {key}")), "{value}");
    }
    assert_eq!(running.get("/api/jobs/g/a").await.1["payload"], 1);
    assert_eq!(running.fairlane.queue_view().await.unwrap().types.len(), 1);
}

#[tokio::test]
async fn a_repeated_request_with_an_idempotency_key_finds_the_same_job() {
    let running = Running::start().await;
    let job = |payload: Value| json!({"group": "g", "type": "mail", "payload": payload});
    let send = |key: &'static str, body: Value| {
        send(with_json(running.request(Method::POST, "/api/jobs").header("idempotency-key", key), &body))
    };
    let (status, first) = send("key-1", job(json!(1))).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, second) = send("key-1", job(json!(1))).await;
    assert_eq!((status, &second["id"]), (StatusCode::OK, &first["id"]));
    assert_eq!(send("key-2", job(json!(1))).await.0, StatusCode::CREATED);
    let (status, value) = send("key-1", job(json!(2))).await;
    assert_eq!((status, problem(&value)), (StatusCode::CONFLICT, "idempotency-key-reused"), "{value}");
    let other_type = json!({"group": "g", "type": "text", "payload": 1});
    assert_eq!(problem(&send("key-1", other_type).await.1), "idempotency-key-reused");
    let other_level = json!({"group": "g", "type": "mail", "payload": 1, "level": "high"});
    assert_eq!(problem(&send("key-1", other_level).await.1), "idempotency-key-reused");
    // The id of a job takes precedence over the key.
    assert_eq!(
        send("key-1", json!({"group": "g", "type": "mail", "id": "named", "payload": 1})).await.1["id"],
        "named"
    );
    for wrong in ["", "two words", "schlüssel"] {
        let (status, value) = send(wrong, job(json!(1))).await;
        assert_eq!(
            (status, problem(&value)),
            (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            "{wrong}: {value}"
        );
    }
    assert_eq!(running.fairlane.queue_view().await.unwrap().backlog, 3);
}

#[tokio::test]
async fn a_repeated_batch_with_an_idempotency_key_adds_nothing_twice() {
    let settings = Settings { group_backlog_max: 250, ..Settings::default() };
    let running = Running::over("memory:", settings).await;
    let batch = |payload: &str| {
        let jobs: Vec<Value> = (0..300)
            .map(|n| json!({"group": "g", "type": "mail", "payload": format!("{payload} {n}")}))
            .collect();
        let request = running.request(Method::POST, "/api/jobs/batch").header("idempotency-key", "batch");
        send(with_json(request, &json!({"jobs": jobs})))
    };
    let (_, first) = batch("hello").await;
    assert_eq!((&first["created"], &first["refused"]), (&json!(250), &json!(50)));
    assert_eq!(
        (&first["receipts"][299]["reason"], &first["receipts"][299]["retry_after_ms"]),
        (&json!("group-full"), &json!(1000))
    );
    let cancelled: Vec<Value> =
        (0..60).map(|n| json!({"group": "g", "id": first["receipts"][n]["id"]})).collect();
    running.post("/api/jobs/cancel", json!({"jobs": cancelled})).await;
    let (_, second) = batch("hello").await;
    assert_eq!(
        (&second["created"], &second["existing"], &second["refused"]),
        (&json!(50), &json!(250), &json!(0))
    );
    let (status, value) = batch("good-bye").await;
    assert_eq!((status, &value["differing"]), (StatusCode::OK, &json!(300)), "{value}");
    assert_eq!(value["receipts"][299]["reason"], "other-payload");
}

#[tokio::test]
async fn a_batch_whose_key_was_used_for_another_batch_reports_which_jobs_differ() {
    let running = Running::start().await;
    let batch = |payloads: Value| {
        let jobs: Vec<Value> = payloads
            .as_array()
            .unwrap()
            .iter()
            .map(|payload| json!({"group": "g", "type": "mail", "payload": payload}))
            .collect();
        let request = running.request(Method::POST, "/api/jobs/batch").header("idempotency-key", "batch");
        send(with_json(request, &json!({"jobs": jobs})))
    };
    assert_eq!(batch(json!([1, 2, 3])).await.1["created"], 3);
    let (status, value) = batch(json!(["other", 2, 3, 4, 5])).await;
    assert_eq!(status, StatusCode::OK, "{value}");
    let statuses = |value: &Value| -> Vec<String> {
        let receipts = value["receipts"].as_array().unwrap().iter();
        receipts.map(|receipt| receipt["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(statuses(&value), ["differs", "exists", "exists", "created", "created"]);
    // A difference in the middle too.
    assert_eq!(statuses(&batch(json!([1, "other", 3])).await.1), ["exists", "differs", "exists"]);
    assert_eq!(running.fairlane.queue_view().await.unwrap().backlog, 5);
}
