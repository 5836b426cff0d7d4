//! Audits: clean, with findings, one at a time, and ended with their client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlane::{Fairlane, Job, Settings, TypeId};
use fairlane_core::queue::{Command, Reply};
use fairlane_engine::{BoxFuture, Engine, EngineError, WalkPage};
use fairlane_server::ServerSettings;
use reqwest::{Method, StatusCode};
use rusqlite::Connection;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use crate::running::{Running, answer, json, problem};

#[tokio::test]
async fn a_sound_queue_is_clean() {
    let running = Running::start().await;
    running
        .fairlane
        .enqueue_all((0..3).map(|number| Job::new(format!("g{number}"), "mail", &1)))
        .await
        .unwrap();
    let (status, report) = running.post("/api/audit", json!({})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        (&report["clean"], &report["groups"], &report["findings"]),
        (&json!(true), &json!(3), &json!([]))
    );
    for order in [json!({"repair": "yes"}), json!({"fix": true})] {
        assert_eq!(running.post("/api/audit", order).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    }
}

#[tokio::test]
async fn what_is_wrong_is_found_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("dir:{}", folder.path().display());
    let fairlane = Fairlane::open(&address).await.unwrap();
    fairlane.enqueue(Job::new("g", "mail", &1)).await.unwrap().accepted().unwrap();
    drop(fairlane);
    let file = Connection::open(folder.path().join("fairlane.db")).unwrap();
    assert_eq!(file.execute("UPDATE lanes SET standing = 'paused'", []).unwrap(), 1);
    drop(file);
    let running = Running::over(&address, Settings::default()).await;
    let (_, report) = running.post("/api/audit", json!({"repair": false})).await;
    assert_eq!((&report["clean"], &report["remaining"]), (&json!(false), &json!(1)));
    let finding = &report["findings"][0];
    assert_eq!((&finding["word"], &finding["kind"]), (&json!("lane-out-of-order"), &json!("group")));
    assert_eq!((&finding["name"], &finding["repaired"]), (&json!("g"), &json!(false)));
    let (_, report) = running.post("/api/audit", json!({"repair": true})).await;
    assert_eq!(
        (&report["clean"], &report["found"], &report["repaired"]),
        (&json!(true), &json!(1), &json!(1))
    );
    let (_, report) = running.post("/api/audit", json!({})).await;
    assert_eq!((&report["clean"], &report["found"]), (&json!(true), &json!(0)));
}

/// An engine whose walks wait until they may go on.
struct Gated {
    engine: Arc<dyn Engine>,
    walks: AtomicUsize,
    /// Walks that were left before they ended.
    left: Arc<AtomicUsize>,
    gate: Semaphore,
}

struct Leaving(Arc<AtomicUsize>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Engine for Gated {
    fn name(&self) -> &'static str {
        self.engine.name()
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        self.engine.execute(command)
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.engine.wait(types, at_most)
    }

    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            let leaving = Leaving(self.left.clone());
            self.walks.fetch_add(1, Ordering::SeqCst);
            self.gate.acquire().await.unwrap().forget();
            std::mem::forget(leaving);
            self.engine.walk(pages).await
        })
    }
}

async fn gated() -> (Running, Arc<Gated>) {
    let engine = fairlane_engine::open("memory:", Settings::default()).await.unwrap();
    let left = Arc::new(AtomicUsize::new(0));
    let gated = Arc::new(Gated { engine, walks: AtomicUsize::new(0), left, gate: Semaphore::new(0) });
    let fairlane = Fairlane::from_engine(gated.clone());
    (Running::start_with(fairlane, None, ServerSettings::default()).await, gated)
}

async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("it comes true");
}

#[tokio::test]
async fn a_second_audit_is_refused_while_one_runs() {
    let (running, gated) = gated().await;
    let first = tokio::spawn(answer(json(running.request(Method::POST, "/api/audit"), &json!({}))));
    until(|| gated.walks.load(Ordering::SeqCst) == 1).await;
    let (status, body) = running.post("/api/audit", json!({})).await;
    assert_eq!((status, problem(&body)), (StatusCode::CONFLICT, "conflict"));
    assert!(body["detail"].as_str().unwrap().starts_with("an audit is running"));
    gated.gate.add_permits(2);
    assert_eq!(first.await.unwrap().0, StatusCode::OK);
    assert_eq!(running.post("/api/audit", json!({})).await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_audit_ends_with_its_client() {
    let (running, gated) = gated().await;
    let first = tokio::spawn(answer(json(running.request(Method::POST, "/api/audit"), &json!({}))));
    until(|| gated.walks.load(Ordering::SeqCst) == 1).await;
    first.abort();
    until(|| gated.left.load(Ordering::SeqCst) == 1).await;
    gated.gate.add_permits(1);
    assert_eq!(running.post("/api/audit", json!({})).await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_audit_ends_when_the_server_stops() {
    let (running, gated) = gated().await;
    let audit = tokio::spawn(answer(json(running.request(Method::POST, "/api/audit"), &json!({}))));
    until(|| gated.walks.load(Ordering::SeqCst) == 1).await;
    running.server.stop().await;
    let (status, body) = audit.await.unwrap();
    assert_eq!((status, problem(&body)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"));
}
