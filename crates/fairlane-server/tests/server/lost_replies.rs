//! Replies of the engine that are lost: jobs with random ids are added once nevertheless.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlane::Fairlane;
use fairlane_core::{Command, Reply, queue};
use fairlane_engine::{BoxFuture, Engine, EngineError, Hooks, layer};
use fairlane_server::ServerSettings;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{Running, json as with_json, problem, send};

/// A server over a real engine that carries out commands and loses its first replies to those that
/// add something. If it loses very many, the server gives up soon.
async fn start(lost: usize) -> Running {
    let engine = Fairlane::open("memory:").await.unwrap().engine().clone();
    let left = Arc::new(AtomicUsize::new(lost));
    let submit = move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Submitted> {
        Box::pin(submit(engine, command, left.clone()))
    };
    let timeout = Duration::from_secs(if lost > 100 { 1 } else { 60 });
    let settings =
        ServerSettings { request_timeout: timeout, stream_patience: timeout, ..ServerSettings::default() };
    let engine = layer(engine, Hooks::default().submit(submit));
    Running::start_with(Fairlane::from_engine(engine), None, settings).await
}

/// What an engine returns for a command.
type Submitted = Result<Reply, EngineError>;

async fn submit(engine: Arc<dyn Engine>, command: Command, left: Arc<AtomicUsize>) -> Submitted {
    let adds = matches!(command, Command::Queue(queue::Command::Enqueue(_) | queue::Command::OpenBulk(_)));
    let reply = engine.submit(command).await?;
    let one_less = |left: usize| left.checked_sub(1);
    if adds && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
        return Err(EngineError::Unavailable { engine: "lossy", reason: "lost".into() });
    }
    Ok(reply)
}

fn job() -> Value {
    json!({"group": "g", "type": "mail", "payload": 1})
}

async fn stream(running: &Running) -> (StatusCode, Value) {
    let request = running.request(Method::POST, "/api/jobs/stream?group=g&type=mail");
    send(request.header("content-type", "application/x-ndjson").body("{\"payload\":1}\n{\"payload\":2}\n"))
        .await
}

async fn backlog(running: &Running) -> u64 {
    running.fairlane.queue_view().await.unwrap().backlog
}

#[tokio::test]
async fn jobs_without_ids_are_added_once_and_reported_as_created() {
    let running = start(2).await;
    let (status, value) = running.post("/api/jobs", job()).await;
    assert_eq!((status, &value["created"]), (StatusCode::CREATED, &json!(true)), "{value}");
    assert_eq!(backlog(&running).await, 1);

    let running = start(2).await;
    let named = json!({"group": "g", "type": "mail", "id": "named", "payload": 1});
    let (status, value) = running.post("/api/jobs/batch", json!({"jobs": [job(), named, job()]})).await;
    assert_eq!(
        (status, &value["created"], &value["existing"]),
        (StatusCode::OK, &json!(2), &json!(1)),
        "{value}"
    );
    assert_eq!(backlog(&running).await, 3);

    let running = start(2).await;
    let (status, value) = stream(&running).await;
    assert_eq!(
        (status, &value["created"], &value["complete"]),
        (StatusCode::OK, &json!(2), &json!(true)),
        "{value}"
    );
    assert_eq!(backlog(&running).await, 2);

    let running = start(2).await;
    let (status, value) = running.post("/api/bulks", json!({"group": "g"})).await;
    assert_eq!(status, StatusCode::CREATED, "{value}");
    assert_eq!(running.get("/api/bulks/g").await.1["bulks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_uncertain_outcome_is_not_reported_as_safe_to_repeat() {
    let running = start(usize::MAX).await;
    for (path, body) in [
        ("/api/jobs", job()),
        ("/api/jobs/batch", json!({"jobs": [job(), job()]})),
        ("/api/bulks", json!({"group": "g"})),
    ] {
        let (status, value) = running.post(path, body).await;
        assert_eq!((status, problem(&value)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"), "{value}");
        let detail = value["detail"].as_str().unwrap();
        assert!(
            detail.contains("may have been carried out") && !detail.contains("safe to repeat"),
            "{path}: {detail}"
        );
        assert_eq!(value.get("retry_after_ms"), None, "{path}: {value}");
    }
    assert_eq!(
        (backlog(&running).await, running.get("/api/bulks/g").await.1["bulks"].as_array().unwrap().len()),
        (3, 1)
    );
    let (_, value) = stream(&running).await;
    assert_eq!((&value["next_line"], &value["complete"]), (&json!(1), &json!(false)), "{value}");
    let detail = value["stopped"]["detail"].as_str().unwrap();
    assert!(detail.contains("for the lines 1 to 2; the request may have been carried out"), "{detail}");
    assert_eq!(backlog(&running).await, 5);
}

#[tokio::test]
async fn an_idempotent_request_fails_at_once_and_finds_its_jobs_when_repeated() {
    let running = start(2).await;
    let named = json!({"group": "g", "type": "mail", "id": "named", "payload": 1});
    let (status, value) = running.post("/api/jobs", named.clone()).await;
    assert_eq!((status, problem(&value)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"), "{value}");
    assert!(value["detail"].as_str().unwrap().contains("safe to repeat"), "{value}");
    let keyed = || {
        let request = running.request(Method::POST, "/api/jobs").header("idempotency-key", "k");
        send(with_json(request, &job()))
    };
    assert!(keyed().await.1["detail"].as_str().unwrap().contains("safe to repeat"));
    assert_eq!((running.post("/api/jobs", named).await.0, keyed().await.0), (StatusCode::OK, StatusCode::OK));
    assert_eq!(backlog(&running).await, 2);
}
