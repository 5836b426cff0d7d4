//! Jobs, one or many: enqueued, read, cancelled and requeued.

use fairlane::{Settings, TypeId};
use fairlane_core::WorkerId;
use fairlane_core::queue::{Lease, Leased, LeasedJob, Outcome, SetQueue, Settle, Settlement};
use fairlane_core::{Level, RequestNumber};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{Running, json as with_json, problem, send};

/// Leases jobs of the type `mail` as a worker does.
async fn lease(running: &Running, request: u64, jobs_max: usize) -> Vec<LeasedJob> {
    let lease = Lease {
        worker: WorkerId::new("worker").unwrap(),
        request: RequestNumber::new(request).unwrap(),
        types: vec![TypeId::new("mail").unwrap()],
        jobs_max,
        lease_ms: 60_000,
    };
    match running.fairlane.engine().call(lease).await.unwrap() {
        Leased::Jobs { jobs, .. } => jobs,
        other => panic!("{other:?}"),
    }
}

/// Settles a job.
async fn settle(running: &Running, job: &LeasedJob, outcome: Outcome) {
    let settlement = Settlement { job: job.job.clone(), fence: job.fence, outcome };
    running.fairlane.engine().call(Settle { settlements: vec![settlement] }).await.unwrap();
}

fn mail(id: &str) -> Value {
    json!({"group": "customer-7", "type": "mail", "id": id, "payload": {"to": id}})
}

fn pointers(value: &Value) -> Vec<&str> {
    value["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_job_is_added_once_and_shown_byte_for_byte() {
    let running = Running::start().await;
    let body = r#"{"group":"customer:7","type":"mail","id":"a/b","level":"high","cost":3,"delay_ms":60000,
        "payload":{"n": 1.000, "big": 12345678901234567890123, "u":"\u00e9"}}"#;
    let send = || {
        let request = running.request(Method::POST, "/api/jobs");
        send(request.header("content-type", "application/json").body(body))
    };
    let (status, created) = send().await;
    assert_eq!((status, &created["created"]), (StatusCode::CREATED, &json!(true)), "{created}");
    let (status, again) = send().await;
    assert_eq!((status, &again["created"]), (StatusCode::OK, &json!(false)), "{again}");

    let response = running.request(Method::GET, "/api/jobs/customer%3A7/a%2Fb").send().await.unwrap();
    let text = response.text().await.unwrap();
    let payload = r#""payload":{"n": 1.000, "big": 12345678901234567890123, "u":"\u00e9"}"#;
    assert!(text.contains(payload), "{text}");
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&shown["group"], &shown["id"], &shown["type"]),
        (&json!("customer:7"), &json!("a/b"), &json!("mail"))
    );
    assert_eq!(
        (&shown["state"], &shown["level"], &shown["cost"]),
        (&json!("waiting"), &json!("high"), &json!(3))
    );
    assert!(shown["until"].as_str().unwrap().ends_with('Z') && shown.get("bulk").is_none(), "{shown}");
}

#[tokio::test]
async fn a_payload_that_is_not_json_is_sent_and_returned_in_base64() {
    let running = Running::start().await;
    for (id, base64) in [("bytes", "//4A"), ("empty", "")] {
        let job = json!({"group": "g", "type": "mail", "id": id, "payload_base64": base64});
        assert_eq!(running.post("/api/jobs", job).await.0, StatusCode::CREATED);
        let (_, shown) = running.get(&format!("/api/jobs/g/{id}")).await;
        assert_eq!(shown["payload_base64"], base64, "{shown}");
        assert!(shown.get("payload").is_none(), "{shown}");
    }
}

#[tokio::test]
async fn a_job_without_a_payload_has_the_payload_null() {
    let running = Running::start().await;
    let absent = json!({"group": "g", "type": "mail", "id": "absent"});
    let explicit = json!({"group": "g", "type": "mail", "id": "explicit", "payload": null});
    let (status, response) = running.post("/api/jobs/batch", json!({"jobs": [absent, explicit]})).await;
    assert_eq!(status, StatusCode::OK, "{response}");
    for id in ["absent", "explicit"] {
        let (_, shown) = running.get(&format!("/api/jobs/g/{id}")).await;
        assert_eq!(shown.get("payload"), Some(&Value::Null), "{shown}");
    }
}

#[tokio::test]
async fn an_invalid_job_is_reported_with_the_position() {
    let running = Running::start().await;
    for (body, pointer) in [
        (json!({"type": "mail", "payload": 1}), ""),
        (json!({"group": "", "type": "mail", "payload": 1}), "/group"),
        (json!({"group": "g", "type": "a\nb", "payload": 1}), "/type"),
        (json!({"group": "g", "type": 7, "payload": 1}), "/type"),
        (json!({"group": "g", "type": "mail", "payload": 1, "payload_base64": "AA=="}), "/payload_base64"),
        (json!({"group": "g", "type": "mail", "payload_base64": "?"}), "/payload_base64"),
        (json!({"group": "g", "type": "mail", "payload": 1, "id": "x".repeat(129)}), "/id"),
        (json!({"group": "g", "type": "mail", "payload": 1, "level": "urgent"}), "/level"),
        (json!({"group": "g", "type": "mail", "payload": 1, "cost": 0}), "/cost"),
        (json!({"group": "g", "type": "mail", "payload": 1, "delay_ms": -1}), "/delay_ms"),
        (json!({"group": "g", "type": "mail", "payload": 1, "delay_ms": u64::MAX}), "/delay_ms"),
        (json!({"group": "g", "type": "mail", "payload": 1, "run_at": "noon"}), "/run_at"),
        (json!({"group": "g", "type": "mail", "payload": 1, "run_at": "2500-01-01T00:00:00Z"}), "/run_at"),
        (
            json!({"group": "g", "type": "mail", "payload": 1, "run_at": "2026-01-01T00:00:00Z", "delay_ms": 1}),
            "/run_at",
        ),
        (json!({"group": "g", "type": "mail", "payload": 1, "tenant/x": 1}), "/tenant~1x"),
        (json!({"group": "g", "type": "mail", "payload": "x".repeat(600_000)}), "/payload"),
        (json!({"group": "g", "type": "mail", "payload": 1, "trace": "garbage"}), "/trace"),
        (json!([1]), ""),
    ] {
        let (status, value) = running.post("/api/jobs", body.clone()).await;
        assert_eq!(
            (status, problem(&value)),
            (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            "{body}: {value}"
        );
        assert_eq!(pointers(&value), [pointer], "{body}: {value}");
        let detail = value["detail"].as_str().unwrap();
        assert!(!detail.contains(": :"), "{detail}");
        assert_eq!(detail.contains("is not a known field"), pointer == "/tenant~1x", "{detail}");
    }
    let broken = running.request(Method::POST, "/api/jobs").header("content-type", "application/json");
    let (status, value) = send(broken.body("{\"group\":")).await;
    assert_eq!((status, problem(&value)), (StatusCode::BAD_REQUEST, "malformed"), "{value}");
    let (status, value) = send(running.request(Method::POST, "/api/jobs").body("{}")).await;
    assert_eq!(
        (status, problem(&value)),
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-type"),
        "{value}"
    );
    assert_eq!(running.fairlane.queue_view().await.unwrap().backlog, 0);
}

#[tokio::test]
async fn a_full_queue_and_a_sealed_bulk_action_are_different_problems() {
    let settings = Settings { group_backlog_max: 2, ..Settings::default() };
    let running = Running::over("memory:", settings).await;
    for id in ["a", "b"] {
        assert_eq!(running.post("/api/jobs", mail(id)).await.0, StatusCode::CREATED);
    }
    let full = with_json(running.request(Method::POST, "/api/jobs"), &mail("c")).send().await.unwrap();
    assert_eq!(
        (full.status(), full.headers()["retry-after"].to_str().unwrap()),
        (StatusCode::TOO_MANY_REQUESTS, "1")
    );
    let (status, again) = running.post("/api/jobs", mail("a")).await;
    assert_eq!((status, &again["created"]), (StatusCode::OK, &json!(false)));

    let settings = Settings { group_backlog_max: 9, group_stored_bytes_max: 1, ..Settings::default() };
    running.fairlane.engine().call(SetQueue { settings }).await.unwrap();
    let (status, value) = running.post("/api/jobs", mail("c")).await;
    assert_eq!((status, problem(&value)), (StatusCode::TOO_MANY_REQUESTS, "queue-full"), "{value}");
    assert!(value["detail"].as_str().unwrap().contains("raise group_stored_bytes_max"), "{value}");
    let (_, shown) = running.get("/api/status").await;
    assert!(shown["stored_bytes"].as_u64().unwrap() > 0, "{shown}");
    running.fairlane.engine().call(SetQueue { settings: Settings::default() }).await.unwrap();

    let job = |bulk: &str, id: &str| json!({"group": "other", "type": "mail", "id": id, "bulk": bulk, "payload": 1});
    let (status, value) = running.post("/api/jobs", job("nowhere", "x")).await;
    assert_eq!((status, problem(&value)), (StatusCode::CONFLICT, "conflict"), "{value}");
    assert!(value["detail"].as_str().unwrap().contains("open it first"), "{value}");
    let bulk = running.fairlane.bulk("other", "news").open().await.unwrap();
    assert_eq!(running.post("/api/jobs", job("news", "x")).await.0, StatusCode::CREATED);
    bulk.seal(Some(1)).await.unwrap();
    let (status, value) = running.post("/api/jobs", job("news", "y")).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(value["detail"].as_str().unwrap().contains("sealed"), "{value}");
    let (status, existing) = running.post("/api/jobs", job("news", "x")).await;
    assert_eq!((status, &existing["bulk"]), (StatusCode::OK, &json!("news")));
    let alone = json!({"group": "other", "type": "mail", "id": "x", "payload": 1});
    let (status, value) = running.post("/api/jobs", alone).await;
    assert_eq!((status, problem(&value)), (StatusCode::CONFLICT, "job-differs"), "{value}");
    assert!(value["detail"].as_str().unwrap().contains("in bulk action news"), "{value}");
}

async fn enqueue_batch(running: &Running) {
    running.fairlane.bulk("g-1", "news").open().await.unwrap();
    let jobs: Vec<Value> = (0..450)
        .map(|n| json!({"group": format!("g-{}", n % 3), "type": "mail", "id": format!("j-{n}"), "payload": n}))
        .chain([
            json!({"group": "g-1", "type": "mail", "id": "in", "bulk": "news", "payload": 1}),
            json!({"group": "g-1", "type": "mail", "id": "out", "bulk": "nowhere", "payload": 1}),
            json!({"group": "g-1", "type": "mail", "id": "in", "bulk": "news", "payload": 1}),
            json!({"group": "g-1", "type": "mail", "id": "in", "payload": 1}),
            json!({"group": "g-0", "type": "mail", "id": "j-0", "payload": 1}),
        ])
        .collect();
    let (status, value) = running.post("/api/jobs/batch", json!({"jobs": jobs})).await;
    assert_eq!(status, StatusCode::OK, "{value}");
    assert_eq!(
        (&value["created"], &value["existing"], &value["refused"]),
        (&json!(451), &json!(1), &json!(1))
    );
    let receipts = value["receipts"].as_array().unwrap();
    assert_eq!(value["differing"], 2);
    let expected = |at: usize, id: &str, backlog: u64, rest: Value| {
        let mut expected = json!({"group": "g-1", "id": id, "backlog": backlog});
        expected.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        assert_eq!(receipts[at], expected);
    };
    expected(4, "j-4", 2, json!({"status": "created"}));
    expected(451, "out", 151, json!({"status": "refused", "reason": "bulk-unknown"}));
    expected(452, "in", 151, json!({"status": "exists", "bulk": "news"}));
    expected(453, "in", 151, json!({"status": "differs", "reason": "other-bulk", "bulk": "news"}));
    let other =
        json!({"group": "g-0", "id": "j-0", "status": "differs", "reason": "other-payload", "backlog": 150});
    assert_eq!(receipts[454], other);
    let (_, again) = running.post("/api/jobs/batch", json!({"jobs": jobs[..450]})).await;
    assert_eq!((&again["created"], &again["existing"]), (&json!(0), &json!(450)));
    assert_eq!(running.fairlane.queue_view().await.unwrap().backlog, 451);
}

#[tokio::test]
async fn a_batch_is_added_in_order_with_a_receipt_for_each_job() {
    enqueue_batch(&Running::start().await).await;
}

#[tokio::test]
async fn a_batch_is_added_to_redis() {
    let redis = RedisServer::start(ServerOptions::default());
    enqueue_batch(&Running::over(&redis.url(), Settings::default()).await).await;
}

#[tokio::test]
async fn no_job_of_a_batch_is_added_if_one_is_invalid() {
    let running = Running::start().await;
    let wrong = json!({"jobs": [mail("a"), {"group": "", "type": 1, "payload": 1}, 7, mail("b")]});
    let (status, value) = running.post("/api/jobs/batch", wrong).await;
    assert_eq!((status, problem(&value)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"));
    assert_eq!(pointers(&value), ["/jobs/1/group", "/jobs/1/type", "/jobs/2"]);
    let invalid = json!({"group": "g", "type": "mail", "payload_base64": "?"});
    let (_, value) = running.post("/api/jobs/batch", json!({"jobs": vec![invalid; 50]})).await;
    assert_eq!(pointers(&value).len(), 20);
    let many: Vec<Value> = (0..1001).map(|n| mail(&format!("{n}"))).collect();
    let (status, value) = running.post("/api/jobs/batch", json!({"jobs": many})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(value["detail"].as_str().unwrap().contains("more than 1000"), "{value}");
    let large: Vec<Value> = (0..20)
        .map(|n| json!({"group": "g", "type": "t", "id": n.to_string(), "payload": "x".repeat(500_000)}))
        .collect();
    let (status, value) = running.post("/api/jobs/batch", json!({"jobs": large})).await;
    assert_eq!((status, problem(&value)), (StatusCode::PAYLOAD_TOO_LARGE, "too-large"));
    assert_eq!(running.fairlane.queue_view().await.unwrap().backlog, 0);
}

#[tokio::test]
async fn jobs_are_listed_by_state() {
    let running = Running::start().await;
    let delayed = |id: &str| json!({"group": "customer-8", "type": "mail", "id": id, "delay_ms": 3_600_000, "payload": 1});
    let jobs: Vec<Value> = (0..5).map(|n| mail(&format!("p-{n}"))).chain([delayed("w")]).collect();
    running.post("/api/jobs/batch", json!({"jobs": jobs})).await;
    let leased = lease(&running, 1, 3).await;
    settle(&running, &leased[0], Outcome::Succeeded { result: b"{\"ok\" : true}"[..].into() }).await;
    settle(
        &running,
        &leased[1],
        Outcome::Failed { reason: b"{\"code\":\"bounced\",\"message\":\"no\"}"[..].into() },
    )
    .await;
    let ids = |value: &Value| -> Vec<String> {
        value["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
    };
    for (query, expected) in [
        ("state=pending&group=customer-7", &["p-3", "p-4"][..]),
        ("state=in_flight", &["p-2"]),
        ("state=waiting", &["w"]),
        ("state=waiting&group=customer-7", &[]),
        ("state=waiting&type=text", &[]),
        ("state=dead", &["p-1"]),
        ("state=finished&group=customer-7", &["p-0"]),
        ("state=ready", &[]),
        ("state=completed", &["p-0"]),
        ("state=cancelled", &[]),
    ] {
        let (status, value) = running.get(&format!("/api/jobs?{query}")).await;
        assert_eq!(
            (status, ids(&value)),
            (StatusCode::OK, expected.iter().map(ToString::to_string).collect()),
            "{query}"
        );
    }
    let (_, page) = running.get("/api/jobs?state=pending&group=customer-7&limit=1").await;
    let next = page["next"].as_str().unwrap();
    let (_, page) = running.get(&format!("/api/jobs?state=pending&group=customer-7&cursor={next}")).await;
    assert_eq!((ids(&page), page.get("next")), (vec!["p-4".to_owned()], None));

    let (_, done) = running.get("/api/jobs/customer-7/p-0").await;
    assert_eq!((&done["state"], &done["result"]), (&json!("completed"), &json!({"ok": true})));
    let (_, dead) = running.get("/api/jobs/customer-7/p-1").await;
    assert_eq!(
        (&dead["state"], &dead["error"]),
        (&json!("dead"), &json!({"code": "bounced", "reason": "no"}))
    );
}

#[tokio::test]
async fn ended_and_held_jobs_of_a_bulk_action_are_listed() {
    let running = Running::start().await;
    let bulk = running.fairlane.bulk("customer-7", "news").open().await.unwrap();
    bulk.add_all((0..3).map(|n| bulk.job("mail", &n))).await.unwrap();
    let leased = lease(&running, 1, 1).await;
    settle(&running, &leased[0], Outcome::Succeeded { result: b""[..].into() }).await;
    bulk.hold().await.unwrap();
    assert!(lease(&running, 2, 10).await.is_empty());
    let (_, ended) = running.get("/api/jobs?group=customer-7&bulk=news").await;
    assert_eq!((&ended["jobs"][0]["id"], ended["jobs"].as_array().unwrap().len()), (&json!("news-1"), 1));
    for (state, count) in [("completed", 1), ("finished", 1), ("dead", 0), ("cancelled", 0)] {
        let (_, page) = running.get(&format!("/api/jobs?group=customer-7&bulk=news&state={state}")).await;
        assert_eq!(page["jobs"].as_array().unwrap().len(), count, "{state}: {page}");
    }
    let (_, held) = running.get("/api/jobs?group=customer-7&bulk=news&state=held").await;
    assert_eq!(held["jobs"].as_array().unwrap().len(), 2, "{held}");
    for query in [
        "",
        "?state=pending",
        "?state=held",
        "?state=gone",
        "?bulk=news",
        "?group=customer-7&bulk=news&state=waiting",
        "?state=dead&limit=0",
        "?state=dead&limit=501",
        "?state=dead&cursor=x",
        "?state=dead&cursor=9007199254740992",
        "?state=dead&page=1",
        "?state=dead&group=",
        "?state=dead&limit=-1",
    ] {
        let (status, value) = running.get(&format!("/api/jobs{query}")).await;
        assert_eq!(
            (status, problem(&value)),
            (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            "{query}: {value}"
        );
    }
}

#[tokio::test]
async fn the_reason_why_a_job_is_not_running_is_explained() {
    let running = Running::start().await;
    running.post("/api/jobs/batch", json!({"jobs": [mail("a"), mail("b")]})).await;
    let (status, why) = running.get("/api/jobs/customer-7/b/why").await;
    assert_eq!(
        (status, &why["reason"], &why["state"], &why["ahead"]),
        (StatusCode::OK, &json!("no-worker"), &json!("pending"), &json!(1))
    );
    assert!(why["sentence"].as_str().unwrap().contains("no worker"), "{why}");
    assert!(!why["facts"].as_array().unwrap().is_empty());
    for path in ["/api/jobs/customer-7/c", "/api/jobs/customer-7/c/why"] {
        let (status, value) = running.get(path).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(value["detail"].as_str().unwrap().contains("past its retention"), "{value}");
    }
    let (status, _) = running.get(&format!("/api/jobs/customer-7/{}", "x".repeat(129))).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_job_is_cancelled_in_any_state() {
    let running = Running::start().await;
    running.post("/api/jobs/batch", json!({"jobs": [mail("a"), mail("b"), mail("c")]})).await;
    assert_eq!(lease(&running, 1, 1).await[0].level, Level::Normal);
    let cancel = |id: &'static str| running.post_nothing(format!("/api/jobs/customer-7/{id}/cancel"));
    let outcome = |id: &str, outcome: &str| {
        (StatusCode::OK, json!({"group": "customer-7", "id": id, "outcome": outcome}))
    };
    assert_eq!(cancel("a").await, outcome("a", "requested"));
    assert_eq!(cancel("b").await, outcome("b", "cancelled"));
    assert_eq!(cancel("b").await, outcome("b", "ended"));
    assert_eq!(cancel("d").await.0, StatusCode::NOT_FOUND);
    let name = |id: &str| json!({"group": "customer-7", "id": id});
    let (status, value) =
        running.post("/api/jobs/cancel", json!({"jobs": [name("b"), name("c"), name("d")]})).await;
    let states: Vec<_> = value["jobs"].as_array().unwrap().iter().map(|job| job["outcome"].clone()).collect();
    assert_eq!(
        (status, states),
        (StatusCode::OK, vec![json!("ended"), json!("cancelled"), json!("unknown")])
    );
    let many: Vec<Value> = (0..501).map(|n| name(&n.to_string())).collect();
    for wrong in
        [json!({"jobs": many}), json!({"jobs": [name("x"), name("x")]}), json!({"jobs": [{"id": "x"}]})]
    {
        let (status, value) = running.post("/api/jobs/cancel", wrong).await;
        assert_eq!((status, problem(&value)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"));
    }
}

#[tokio::test]
async fn a_dead_job_is_requeued() {
    let settings = Settings { group_backlog_max: 1, ..Settings::default() };
    let running = Running::over("memory:", settings).await;
    running.post("/api/jobs", mail("a")).await;
    let requeue = |id: &'static str| running.post_nothing(format!("/api/jobs/customer-7/{id}/requeue"));
    assert_eq!(problem(&requeue("a").await.1), "conflict");
    let leased = lease(&running, 1, 1).await;
    settle(&running, &leased[0], Outcome::Failed { reason: b"no"[..].into() }).await;
    running.post("/api/jobs", mail("b")).await;
    let (status, value) = requeue("a").await;
    assert_eq!((status, problem(&value)), (StatusCode::TOO_MANY_REQUESTS, "queue-full"));
    running.post_nothing("/api/jobs/customer-7/b/cancel".to_owned()).await;
    assert_eq!(
        requeue("a").await,
        (StatusCode::OK, json!({"group": "customer-7", "id": "a", "requeued": true}))
    );
    assert_eq!(running.get("/api/jobs/customer-7/a").await.1["state"], "pending");
    assert_eq!(requeue("c").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn jobs_get_the_trace_of_their_request_unless_they_have_their_own() {
    const OUTER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const OWN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let running = Running::start().await;
    let send = |path: &str, trace: &str, content_type: &str, body: String| {
        let request = running.request(Method::POST, path).header("traceparent", trace);
        send(request.header("content-type", content_type).body(body))
    };
    let batch = json!({"jobs": [
        {"group": "g", "type": "t", "id": "outer", "payload": 1},
        {"group": "g", "type": "t", "id": "own", "payload": 1, "trace": OWN},
    ]});
    let json = "application/json";
    let one = json!({"group": "g", "type": "t", "id": "one", "payload": 1}).to_string();
    assert_eq!(send("/api/jobs", OUTER, json, one).await.0, StatusCode::CREATED);
    assert_eq!(send("/api/jobs/batch", OUTER, json, batch.to_string()).await.0, StatusCode::OK);
    let lines = "{\"id\":\"line\",\"payload\":1}\n".to_owned();
    assert_eq!(
        send("/api/jobs/stream?group=g&type=t", OUTER, "application/x-ndjson", lines).await.0,
        StatusCode::OK
    );
    let unread = json!({"group": "g", "type": "t", "id": "unread", "payload": 1}).to_string();
    assert_eq!(send("/api/jobs", "garbage", json, unread).await.0, StatusCode::CREATED);
    let wrong = json!({"group": "g", "type": "t", "payload": 1, "trace": "garbage"});
    assert_eq!(running.post("/api/jobs", wrong).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let lease = json!({"worker": "w", "types": ["t"], "count": 10});
    let (_, leased) = running.post("/api/leases", lease).await;
    let mut traces: Vec<(String, Value)> = leased["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (job["id"].as_str().unwrap().to_owned(), job["trace"].clone()))
        .collect();
    traces.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = [
        ("line", json!(OUTER)),
        ("one", json!(OUTER)),
        ("outer", json!(OUTER)),
        ("own", json!(OWN)),
        ("unread", Value::Null),
    ];
    assert_eq!(traces, expected.map(|(id, trace)| (id.to_owned(), trace)));
}

#[tokio::test]
async fn a_compressed_body_is_refused() {
    let running = Running::start().await;
    let line = "{\"id\":\"line\",\"type\":\"mail\",\"payload\":1}\n".to_owned();
    for (path, content_type, body) in [
        ("/api/jobs", "application/json", mail("one").to_string()),
        ("/api/jobs/batch", "application/json", json!({"jobs": [mail("two")]}).to_string()),
        ("/api/jobs/stream?group=g", "application/x-ndjson", line),
    ] {
        let send = |coding: &'static str| {
            let request = running.request(Method::POST, path).header("content-type", content_type);
            send(request.header("content-encoding", coding).body(body.clone()))
        };
        let (status, value) = send("gzip").await;
        assert_eq!(
            (status, problem(&value)),
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-type"),
            "{path}: {value}"
        );
        assert!(send("Identity").await.0.is_success(), "{path}");
    }
    assert_eq!(running.fairlane.queue_view().await.unwrap().backlog, 3);
}

#[tokio::test]
async fn responses_forbid_caching_and_content_sniffing() {
    let running = Running::start().await;
    for (method, path) in [
        (Method::GET, "/api/status"),
        (Method::GET, "/api/events"),
        (Method::GET, "/api/jobs/g/unknown"),
        (Method::POST, "/api/jobs"),
        (Method::PUT, "/api/jobs"),
        (Method::GET, "/nowhere"),
        (Method::GET, "/healthz"),
        (Method::GET, "/openapi.json"),
        (Method::GET, "/metrics"),
    ] {
        let response = running.request(method.clone(), path).send().await.unwrap();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!(
            (header("cache-control"), header("x-content-type-options")),
            (Some("no-store"), Some("nosniff")),
            "{method} {path}"
        );
    }
    let page = running.request(Method::GET, "/docs/").send().await.unwrap();
    assert_eq!((page.status(), page.headers().get("cache-control")), (StatusCode::OK, None));
}
