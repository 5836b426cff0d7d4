//! Bulk actions: opened, sealed, held, cancelled, and their results as a stream.

use fairlane::{Context, Fairlane, Job, Outcome};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::running::{Running, json, problem, send};

async fn post(running: &Running, path: &str) -> (StatusCode, Value) {
    send(running.request(Method::POST, path)).await
}

/// A bulk action whose jobs have ended: every third failed, the others returned their number.
async fn ended(running: &Running, jobs: u32) {
    let bulk = running.fairlane.bulk("a", "b").open().await.unwrap();
    bulk.add_all((0..jobs).map(|number| Job::new("a", "mail", &number))).await.unwrap();
    bulk.seal(Some(jobs.into())).await.unwrap();
    let pool = at_work(&running.fairlane);
    bulk.finished().await.unwrap();
    pool.stop().await;
}

fn at_work(fairlane: &Fairlane) -> fairlane::Pool {
    let work = |number: u32, _: Context| async move {
        if number.is_multiple_of(3) { Outcome::failed("third", "no") } else { Outcome::done(&number) }
    };
    fairlane.worker().process("mail", work).start().unwrap()
}

#[tokio::test]
async fn a_bulk_action_is_opened_once() {
    let running = Running::start().await;
    let new = json!({
        "group": "a", "id": "b", "deadline_ms": 60_000, "failures_max": 5,
        "callback": "https://example.com/callback", "fold": "sum",
    });
    let (status, bulk) = running.post("/api/bulks", new.clone()).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!((&bulk["group"], &bulk["id"], &bulk["state"]), (&json!("a"), &json!("b"), &json!("created")));
    assert_eq!((&bulk["failures_max"], &bulk["fold"]), (&json!(5), &json!("sum")));
    assert_eq!(bulk["callback"]["url"], "https://example.com/callback");
    assert!(bulk["deadline"].is_string());
    assert_eq!(running.post("/api/bulks", new).await, (StatusCode::OK, bulk.clone()));
    let found = running.post("/api/bulks", json!({"group": "a", "id": "b"})).await;
    assert_eq!(found, (StatusCode::OK, bulk.clone()), "a request without settings finds it unchanged");
    for (key, other) in [
        ("deadline_ms", json!(60_001)),
        ("failures_max", json!(6)),
        ("callback", json!("https://example.com/other")),
        ("fold", json!("product")),
    ] {
        let (status, body) = running.post("/api/bulks", json!({"group": "a", "id": "b", key: other})).await;
        assert_eq!((status, problem(&body)), (StatusCode::CONFLICT, "conflict"), "{key}");
        assert_eq!(body["errors"][0]["pointer"], format!("/{key}"));
    }
    assert_eq!(running.get("/api/bulks/a/b").await, (StatusCode::OK, bulk));
}

#[tokio::test]
async fn without_an_id_each_request_opens_another_bulk_action() {
    let running = Running::start().await;
    let (_, first) = running.post("/api/bulks", json!({"group": "a"})).await;
    let (status, second) = running.post("/api/bulks", json!({"group": "a"})).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_ne!(first["id"], second["id"]);
}

#[tokio::test]
async fn an_idempotency_key_opens_the_same_bulk_action() {
    let running = Running::start().await;
    let open = |body: Value| {
        let request = running.request(Method::POST, "/api/bulks").header("idempotency-key", "k-1");
        async move { send(json(request, &body)).await }
    };
    let new = json!({"group": "a", "failures_max": 5, "deadline_ms": 1000});
    let (status, first) = open(new.clone()).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(open(new).await, (StatusCode::OK, first.clone()));
    for other in [json!({"group": "a"}), json!({"group": "a", "failures_max": 5, "deadline_ms": 1001})] {
        let (status, body) = open(other).await;
        assert_eq!((status, problem(&body)), (StatusCode::CONFLICT, "idempotency-key-reused"));
    }
    let (status, elsewhere) = open(json!({"group": "c"})).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_ne!(elsewhere["id"], first["id"]);
}

#[tokio::test]
async fn an_invalid_bulk_action_is_not_opened() {
    let running = Running::start().await;
    for new in [
        json!({}),
        json!({"group": ""}),
        json!({"group": "a", "id": "x".repeat(129)}),
        json!({"group": "a", "deadline_ms": 0}),
        json!({"group": "a", "deadline_ms": 315_360_000_001_u64}),
        json!({"group": "a", "failures_max": 4_294_967_296_u64}),
        json!({"group": "a", "callback": "ftp://example.com"}),
        json!({"group": "a", "callback": format!("http://{}", "x".repeat(2048))}),
        json!({"group": "a", "fold": "x".repeat(129)}),
        json!({"group": "a", "name": "b"}),
    ] {
        let (status, body) = running.post("/api/bulks", new.clone()).await;
        assert_eq!((status, problem(&body)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{new}");
    }
    assert_eq!(running.get("/api/bulks/a").await, (StatusCode::OK, json!({"bulks": []})));
}

#[tokio::test]
async fn bulk_actions_are_listed_page_by_page() {
    let running = Running::start().await;
    for id in ["x", "y", "z"] {
        running.post("/api/bulks", json!({"group": "a", "id": id})).await;
    }
    let (_, first) = running.get("/api/bulks/a?limit=2").await;
    assert_eq!((&first["bulks"][0]["id"], &first["bulks"][1]["id"]), (&json!("x"), &json!("y")));
    let next = first["next"].as_str().unwrap();
    let (_, second) = running.get(&format!("/api/bulks/a?limit=2&cursor={next}")).await;
    assert_eq!((&second["bulks"][0]["id"], &second["next"]), (&json!("z"), &Value::Null));
    for query in ["cursor=x", "limit=0", "limit=501", "cursor=99999999999999999"] {
        let (status, _) = running.get(&format!("/api/bulks/a?{query}")).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{query}");
    }
}

#[tokio::test]
async fn a_seal_with_another_number_of_jobs_is_refused_and_names_both() {
    let running = Running::start().await;
    let bulk = running.fairlane.bulk("a", "b").open().await.unwrap();
    bulk.add_all((0..3).map(|number| Job::new("a", "mail", &number))).await.unwrap();
    let (status, body) = running.post("/api/bulks/a/b/seal", json!({"expected": 4})).await;
    assert_eq!((status, problem(&body)), (StatusCode::CONFLICT, "conflict"));
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains("has 3 jobs, not 4"), "{detail}");
    let (status, sealed) = running.post("/api/bulks/a/b/seal", json!({"expected": 3})).await;
    assert_eq!((status, &sealed["sealed"], &sealed["total"]), (StatusCode::OK, &json!(true), &json!(3)));
    let again = running.post("/api/bulks/a/b/seal", json!({})).await;
    assert_eq!(again, (StatusCode::OK, sealed));
    let (status, body) = running.post("/api/bulks/a/b/seal", json!({"expected": 5})).await;
    assert_eq!((status, problem(&body)), (StatusCode::CONFLICT, "conflict"));
    assert!(body["detail"].as_str().unwrap().contains("sealed with 3 jobs, not 5"), "{body}");
    let (status, _) = running.post("/api/bulks/a/b/seal", json!({"expected": 3})).await;
    assert_eq!(status, StatusCode::OK);
    let (status, _) = running.post("/api/bulks/a/b/seal", json!({"expected": -1})).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_bulk_action_is_held_resumed_and_cancelled() {
    let running = Running::start().await;
    let bulk = running.fairlane.bulk("a", "b").open().await.unwrap();
    bulk.add_all((0..3).map(|number| Job::new("a", "mail", &number))).await.unwrap();
    for (action, mode) in [("hold", "hold"), ("hold", "hold"), ("resume", "run"), ("cancel", "drop")] {
        let (status, bulk) = post(&running, &format!("/api/bulks/a/b/{action}")).await;
        assert_eq!((status, &bulk["mode"]), (StatusCode::OK, &json!(mode)), "{action}");
    }
    let (_, bulk) = post(&running, "/api/bulks/a/b/cancel").await;
    assert_eq!(bulk["state"], "cancelled");
    for action in ["hold", "resume"] {
        let (status, body) = post(&running, &format!("/api/bulks/a/b/{action}")).await;
        assert_eq!((status, problem(&body)), (StatusCode::CONFLICT, "conflict"), "{action}");
        let detail = format!("bulk action b is cancelled: it has ended, and there is nothing to {action}");
        assert_eq!(body["detail"], detail);
    }
}

#[tokio::test]
async fn an_unknown_bulk_action_is_not_found() {
    let running = Running::start().await;
    for action in ["hold", "resume", "cancel"] {
        let (status, body) = post(&running, &format!("/api/bulks/a/nothing/{action}")).await;
        assert_eq!((status, problem(&body)), (StatusCode::NOT_FOUND, "not-found"), "{action}");
    }
    assert_eq!(running.post("/api/bulks/a/nothing/seal", json!({})).await.0, StatusCode::NOT_FOUND);
    for path in ["/api/bulks/a/nothing", "/api/bulks/a/nothing/results"] {
        assert_eq!(running.get(path).await.0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[tokio::test]
async fn an_ended_bulk_action_has_a_summary() {
    let running = Running::start().await;
    ended(&running, 9).await;
    let (status, bulk) = running.get("/api/bulks/a/b").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&bulk["state"], &bulk["progress"]), (&json!("completed"), &json!(1.0)));
    assert_eq!((&bulk["succeeded"], &bulk["failed"], &bulk["unfinished"]), (&json!(6), &json!(3), &json!(0)));
    assert_eq!(bulk["summary"]["errors"][0]["code"], "third");
}

async fn results(running: &Running, query: &str) -> Response {
    running.request(Method::GET, &format!("/api/bulks/a/b/results{query}")).send().await.unwrap()
}

async fn lines(response: Response) -> Vec<Value> {
    let text = response.text().await.unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn results_of_many_jobs_are_streamed() {
    let running = Running::start().await;
    ended(&running, 6000).await;
    let response = results(&running, "").await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let all = lines(response).await;
    assert_eq!(all.len(), 6000);
    let sum: u64 = all.iter().filter_map(|line| line["result"].as_u64()).sum();
    assert_eq!(sum, (0..6000).filter(|number| number % 3 > 0).sum::<u64>());
    let failed = lines(results(&running, "?filter=failed").await).await;
    assert_eq!(failed.len(), 2000);
    assert_eq!(failed[0]["error"], json!({"code": "third", "reason": "no"}));
    assert_eq!(lines(results(&running, "?filter=succeeded").await).await.len(), 4000);
    assert_eq!(lines(results(&running, "?filter=all").await).await.len(), 6000);
    assert_eq!(results(&running, "?filter=some").await.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_client_that_disconnects_does_no_harm() {
    let running = Running::start().await;
    ended(&running, 3000).await;
    for _ in 0..5 {
        let mut response = results(&running, "").await;
        assert!(response.chunk().await.unwrap().is_some());
        drop(response);
    }
    assert_eq!(lines(results(&running, "").await).await.len(), 3000);
}

#[tokio::test]
async fn a_bulk_action_without_ended_jobs_has_no_results() {
    let running = Running::start().await;
    running.post("/api/bulks", json!({"group": "a", "id": "b"})).await;
    assert_eq!(lines(results(&running, "").await).await, [] as [Value; 0]);
}
