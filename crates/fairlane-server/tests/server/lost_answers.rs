//! Answers of the engine that are lost: what has ids that the server drew is added once all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlane::Fairlane;
use fairlane_core::TypeId;
use fairlane_core::queue::{Command, Reply};
use fairlane_engine::{BoxFuture, Engine, EngineError, WalkPage};
use fairlane_server::ServerSettings;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::running::{Running, answer, json as with_json, problem};

/// A real engine whose answers to what adds something are lost, this many times; it has been carried out.
struct Lossy {
    engine: Arc<dyn Engine>,
    left: AtomicUsize,
}

impl Lossy {
    /// A server over it, which soon gives up.
    async fn start(lost: usize) -> Running {
        let engine = Fairlane::open("memory:").await.unwrap().engine().clone();
        let lossy = Self { engine, left: AtomicUsize::new(lost) };
        let settings = ServerSettings {
            request_timeout: Duration::from_secs(if lost > 100 { 1 } else { 60 }),
            stream_patience: Duration::from_secs(if lost > 100 { 1 } else { 60 }),
            ..ServerSettings::default()
        };
        Running::start_with(Fairlane::from_engine(Arc::new(lossy)), None, settings).await
    }
}

impl Engine for Lossy {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        Box::pin(async move {
            let adds = matches!(command, Command::Enqueue(_) | Command::OpenBulk(_));
            let reply = self.engine.execute(command).await?;
            let one_less = |left: usize| left.checked_sub(1);
            if adds && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                return Err(EngineError::Unavailable { engine: "lossy", reason: "lost".into() });
            }
            Ok(reply)
        })
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.engine.wait(types, at_most)
    }

    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        self.engine.walk(pages)
    }
}

fn job() -> Value {
    json!({"group": "g", "type": "mail", "payload": 1})
}

async fn stream(running: &Running) -> (StatusCode, Value) {
    let request = running.request(Method::POST, "/api/jobs/stream?group=g&type=mail");
    answer(request.header("content-type", "application/x-ndjson").body("{\"payload\":1}\n{\"payload\":2}\n"))
        .await
}

async fn backlog(running: &Running) -> u64 {
    running.fairlane.whole().await.unwrap().backlog
}

#[tokio::test]
async fn what_has_no_id_is_added_once_and_said_to_be_new() {
    let running = Lossy::start(2).await;
    let (status, value) = running.post("/api/jobs", job()).await;
    assert_eq!((status, &value["created"]), (StatusCode::CREATED, &json!(true)), "{value}");
    assert_eq!(backlog(&running).await, 1);

    let running = Lossy::start(2).await;
    let named = json!({"group": "g", "type": "mail", "id": "named", "payload": 1});
    let (status, value) = running.post("/api/jobs/batch", json!({"jobs": [job(), named, job()]})).await;
    assert_eq!(
        (status, &value["created"], &value["existing"]),
        (StatusCode::OK, &json!(2), &json!(1)),
        "{value}"
    );
    assert_eq!(backlog(&running).await, 3);

    let running = Lossy::start(2).await;
    let (status, value) = stream(&running).await;
    assert_eq!(
        (status, &value["created"], &value["complete"]),
        (StatusCode::OK, &json!(2), &json!(true)),
        "{value}"
    );
    assert_eq!(backlog(&running).await, 2);

    let running = Lossy::start(2).await;
    let (status, value) = running.post("/api/bulks", json!({"group": "g"})).await;
    assert_eq!(status, StatusCode::CREATED, "{value}");
    assert_eq!(running.get("/api/bulks/g").await.1["bulks"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_may_have_been_added_is_not_said_to_be_safe_to_repeat() {
    let running = Lossy::start(usize::MAX).await;
    for (path, body) in [
        ("/api/jobs", job()),
        ("/api/jobs/batch", json!({"jobs": [job(), job()]})),
        ("/api/bulks", json!({"group": "g"})),
    ] {
        let (status, value) = running.post(path, body).await;
        assert_eq!((status, problem(&value)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"), "{value}");
        let detail = value["detail"].as_str().unwrap();
        assert!(
            detail.contains("may have been added") && !detail.contains("safe to repeat"),
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
    assert!(detail.contains("of the lines 1 to 2, what was sent may have been added"), "{detail}");
    assert_eq!(backlog(&running).await, 5);
}

#[tokio::test]
async fn what_can_be_repeated_is_told_at_once_and_found_again() {
    let running = Lossy::start(2).await;
    let named = json!({"group": "g", "type": "mail", "id": "named", "payload": 1});
    let (status, value) = running.post("/api/jobs", named.clone()).await;
    assert_eq!((status, problem(&value)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"), "{value}");
    assert!(value["detail"].as_str().unwrap().contains("safe to repeat"), "{value}");
    let keyed = || {
        let request = running.request(Method::POST, "/api/jobs").header("idempotency-key", "k");
        answer(with_json(request, &job()))
    };
    assert!(keyed().await.1["detail"].as_str().unwrap().contains("safe to repeat"));
    assert_eq!((running.post("/api/jobs", named).await.0, keyed().await.0), (StatusCode::OK, StatusCode::OK));
    assert_eq!(backlog(&running).await, 2);
}
