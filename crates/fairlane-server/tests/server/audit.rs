//! Audits: without findings, with findings, one at a time, and ended with their client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fairlane::{Fairlane, Job, Settings, TypeId};
use fairlane_core::{Command, ProcessId, Reply};
use fairlane_engine::{Admin, BoxFuture, Engine, EngineError, EngineInfo, ScanPage, Signals, Space};
use fairlane_server::ServerSettings;
use fairlane_testkit::wait::until;
use reqwest::{Method, StatusCode};
use rusqlite::Connection;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use crate::running::{Running, json, problem, send};

#[tokio::test]
async fn a_consistent_queue_has_no_findings() {
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
    for invalid in [json!({"repair": "yes"}), json!({"fix": true})] {
        assert_eq!(running.post("/api/audit", invalid).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    }
}

#[tokio::test]
async fn an_inconsistency_is_found_and_repaired() {
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
    assert_eq!((&finding["code"], &finding["kind"]), (&json!("lane-out-of-order"), &json!("group")));
    assert_eq!((&finding["name"], &finding["repaired"]), (&json!("g"), &json!(false)));
    let (_, report) = running.post("/api/audit", json!({"repair": true})).await;
    assert_eq!(
        (&report["clean"], &report["found"], &report["repaired"]),
        (&json!(true), &json!(1), &json!(1))
    );
    let (_, report) = running.post("/api/audit", json!({})).await;
    assert_eq!((&report["clean"], &report["found"]), (&json!(true), &json!(0)));
}

/// An engine whose scans wait for permits.
struct GatedScans {
    engine: Arc<dyn Engine>,
    started: AtomicUsize,
    /// Scans that were dropped before they ended.
    dropped: Arc<AtomicUsize>,
    permits: Semaphore,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Engine for GatedScans {
    fn info(&self) -> EngineInfo {
        self.engine.info()
    }

    fn submit(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        self.engine.submit(command)
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.engine.wait(types, at_most)
    }

    fn submit_when_woken<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
        command: Command,
    ) -> BoxFuture<'a, Result<Reply, EngineError>> {
        self.engine.submit_when_woken(types, at_most, command)
    }

    fn subscribe<'a>(&'a self, process: &'a ProcessId) -> BoxFuture<'a, Result<Signals, EngineError>> {
        self.engine.subscribe(process)
    }

    fn admin(&self) -> &dyn Admin {
        self
    }
}

impl Admin for GatedScans {
    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>> {
        self.engine.admin().space()
    }

    fn check_writes(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        self.engine.admin().check_writes()
    }

    fn lost(&self) -> BoxFuture<'_, EngineError> {
        self.engine.admin().lost()
    }

    fn announce(&self, address: String) -> BoxFuture<'_, Result<(), EngineError>> {
        self.engine.admin().announce(address)
    }

    fn scan(&self, pages: mpsc::Sender<ScanPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(async move {
            let dropped = CountDrop(self.dropped.clone());
            self.started.fetch_add(1, Ordering::SeqCst);
            self.permits.acquire().await.unwrap().forget();
            std::mem::forget(dropped);
            self.engine.admin().scan(pages).await
        })
    }
}

async fn start() -> (Running, Arc<GatedScans>) {
    let engine = fairlane_engine::open("memory:", Settings::default()).await.unwrap();
    let gated = Arc::new(GatedScans {
        engine,
        started: AtomicUsize::new(0),
        dropped: Arc::new(AtomicUsize::new(0)),
        permits: Semaphore::new(0),
    });
    let fairlane = Fairlane::from_engine(gated.clone());
    (Running::start_with(fairlane, None, ServerSettings::default()).await, gated)
}

#[tokio::test]
async fn a_second_audit_is_refused_while_one_runs() {
    let (running, scans) = start().await;
    let first = tokio::spawn(send(json(running.request(Method::POST, "/api/audit"), &json!({}))));
    until("the audit scans", || scans.started.load(Ordering::SeqCst) == 1).await;
    let (status, body) = running.post("/api/audit", json!({})).await;
    assert_eq!((status, problem(&body)), (StatusCode::CONFLICT, "conflict"));
    assert!(body["detail"].as_str().unwrap().starts_with("an audit is running"));
    scans.permits.add_permits(2);
    assert_eq!(first.await.unwrap().0, StatusCode::OK);
    assert_eq!(running.post("/api/audit", json!({})).await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_audit_ends_with_its_client() {
    let (running, scans) = start().await;
    let first = tokio::spawn(send(json(running.request(Method::POST, "/api/audit"), &json!({}))));
    until("the audit scans", || scans.started.load(Ordering::SeqCst) == 1).await;
    first.abort();
    until("the scan ends", || scans.dropped.load(Ordering::SeqCst) == 1).await;
    scans.permits.add_permits(1);
    assert_eq!(running.post("/api/audit", json!({})).await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_audit_ends_when_the_server_stops() {
    let (running, scans) = start().await;
    let audit = tokio::spawn(send(json(running.request(Method::POST, "/api/audit"), &json!({}))));
    until("the audit scans", || scans.started.load(Ordering::SeqCst) == 1).await;
    running.server.stop().await;
    let (status, body) = audit.await.unwrap();
    assert_eq!((status, problem(&body)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"));
}
