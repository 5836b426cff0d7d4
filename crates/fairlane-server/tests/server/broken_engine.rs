//! An engine that never replies, panics or refuses: the error responses.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use fairlane::{Fairlane, Job};
use fairlane_core::{Command, ProcessId, Reply, TypeId, queue};
use fairlane_engine::{
    Admin, BoxFuture, Engine, EngineError, EngineInfo, Hooks, ScanPage, Signals, Space, layer,
};
use fairlane_server::ServerSettings;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until_async as until;
use reqwest::StatusCode;
use serde_json::json;
use tokio::sync::mpsc;

use crate::running::{Running, problem};

/// Long enough for a busy machine, short enough to wait for.
const SHORT: Duration = Duration::from_millis(500);

/// A server over a real engine that hangs, panics or refuses commands for groups of these names.
async fn start() -> Running {
    let settings =
        ServerSettings { request_timeout: SHORT, body_whole_timeout: SHORT, ..ServerSettings::default() };
    let engine = Fairlane::open("memory:").await.unwrap().engine().clone();
    let submit = |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Submitted> {
        let group = match &command {
            Command::Queue(queue::Command::Enqueue(enqueue)) => enqueue.jobs[0].job.group.to_string(),
            Command::Queue(queue::Command::InspectJob(inspect)) => inspect.job.group.to_string(),
            _ => String::new(),
        };
        match &*group {
            "hangs" => Box::pin(pending()),
            "panics" => Box::pin(async { panic!("planted by a test") }),
            "full" => Box::pin(async {
                Err(EngineError::Refused { reason: "no space is left for \"/srv/fairlane.db\"".to_owned() })
            }),
            _ => Box::pin(async move { engine.submit(command).await }),
        }
    };
    let engine = layer(engine, Hooks::default().submit(submit));
    Running::start_with(Fairlane::from_engine(engine), None, settings).await
}

/// What an engine returns for a command.
type Submitted = Result<Reply, EngineError>;

#[tokio::test]
async fn a_request_that_timed_out_is_not_reported_as_safe_to_repeat() {
    let running = start().await;
    let job = json!({"group": "hangs", "id": "1", "type": "mail", "payload": {}});
    let ((status, enqueued), (read_status, read)) =
        tokio::join!(running.post("/api/jobs", job), running.get("/api/jobs/hangs/1"));
    assert_eq!((status, problem(&enqueued)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"), "{enqueued}");
    let detail = enqueued["detail"].as_str().unwrap();
    assert!(detail.contains("may have been carried out") && !detail.contains("is safe"), "{detail}");
    assert!(enqueued["retry_after_ms"].is_null(), "{enqueued}");
    assert_eq!(read_status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(read["detail"].as_str().unwrap().ends_with("try again"), "{read}");
}

#[tokio::test]
async fn a_panic_is_an_error_response() {
    let running = start().await;
    for _ in 0..3 {
        let (status, body) = running.get("/api/jobs/panics/1").await;
        assert_eq!((status, problem(&body)), (StatusCode::INTERNAL_SERVER_ERROR, "broken"), "{body}");
        assert!(!body.to_string().contains("planted"), "{body}");
    }
    let job = json!({"group": "g", "id": "1", "type": "mail", "payload": {}});
    assert_eq!(running.post("/api/jobs", job).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn a_refusal_of_the_store_contains_no_path_of_the_server() {
    let running = start().await;
    let job = json!({"group": "full", "id": "1", "type": "mail", "payload": {}});
    let (status, body) = running.post("/api/jobs", job).await;
    assert_eq!((status, problem(&body)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"), "{body}");
    assert!(!body.to_string().contains("/srv") && body["retry_after_ms"] == 5000, "{body}");
    let over_http = Fairlane::open(&running.url("")).await.unwrap();
    let error = over_http.enqueue(Job::new("full", "mail", &1)).await.unwrap_err().to_string();
    assert!(error.contains("the server's log says why") && !error.contains("/srv"), "{error}");
}

/// An engine that serves commands and reports that it accepts no writes, with this error.
struct ReadOnly(Arc<dyn Engine>, EngineError);

impl Engine for ReadOnly {
    fn info(&self) -> EngineInfo {
        self.0.info()
    }

    fn submit(&self, command: Command) -> BoxFuture<'_, Submitted> {
        self.0.submit(command)
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.0.wait(types, at_most)
    }

    fn submit_when_woken<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
        command: Command,
    ) -> BoxFuture<'a, Submitted> {
        self.0.submit_when_woken(types, at_most, command)
    }

    fn subscribe<'a>(&'a self, process: &'a ProcessId) -> BoxFuture<'a, Result<Signals, EngineError>> {
        self.0.subscribe(process)
    }

    fn admin(&self) -> &dyn Admin {
        self
    }
}

impl Admin for ReadOnly {
    fn space(&self) -> BoxFuture<'_, Result<Option<Space>, EngineError>> {
        self.0.admin().space()
    }

    fn check_writes(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(std::future::ready(Err(self.1.clone())))
    }

    fn lost(&self) -> BoxFuture<'_, EngineError> {
        self.0.admin().lost()
    }

    fn announce(&self, address: String) -> BoxFuture<'_, Result<(), EngineError>> {
        self.0.admin().announce(address)
    }

    fn scan(&self, pages: mpsc::Sender<ScanPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        self.0.admin().scan(pages)
    }
}

#[tokio::test]
async fn a_server_whose_engine_accepts_no_writes_is_not_ready_and_gives_the_reason() {
    let full = "no space is left for \"/srv/queue/fairlane.db\"; changes are taken again once there is space";
    let refused = EngineError::Refused { reason: full.to_owned() };
    let lost = EngineError::Broken { reason: "the file is damaged".to_owned() };
    for (error, reason) in [(refused, "no space is left"), (lost, "stopped")] {
        let engine = Fairlane::open("memory:").await.unwrap().engine().clone();
        let fairlane = Fairlane::from_engine(Arc::new(ReadOnly(engine, error)));
        let running = Running::start_with(fairlane, None, ServerSettings::default()).await;
        assert_eq!(running.get("/healthz").await.0, StatusCode::OK, "the server is alive");
        let (status, body) = running.get("/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
        let detail = body["detail"].as_str().unwrap();
        assert!(detail.contains(reason) && !detail.contains("/srv"), "{detail}");
        let metrics = running.request(reqwest::Method::GET, "/metrics").send().await.unwrap();
        let metrics = metrics.text().await.unwrap();
        assert!(metrics.contains("\nfairlane_engine_up 0\n"), "{metrics}");
        assert!(
            metrics.contains("\nfairlane_backlog_jobs"),
            "gauges of the queue are still shown: {metrics}"
        );
    }
}

#[tokio::test]
async fn a_redis_that_accepts_no_writes_makes_the_server_not_ready() {
    let redis = RedisServer::start(ServerOptions::default());
    let fairlane = Fairlane::open(&redis.url()).await.unwrap();
    let running = Running::start_with(fairlane, None, ServerSettings::default()).await;
    assert_eq!(running.get("/readyz").await.0, StatusCode::OK);
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    until("writes are refused for lack of replicas", async || {
        running.get("/readyz").await.0 == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    until("writes are accepted again", async || running.get("/readyz").await.0 == StatusCode::OK).await;
}
