//! An engine that never answers, or panics: what its clients are told.

use std::sync::Arc;
use std::time::Duration;

use fairlane::{Fairlane, Job};
use fairlane_conformance::servers::{RedisServer, ServerOptions};
use fairlane_core::TypeId;
use fairlane_core::queue::{Command, Inspect, Reply};
use fairlane_engine::{BoxFuture, Engine, EngineError, WalkPage};
use fairlane_server::ServerSettings;
use reqwest::StatusCode;
use serde_json::json;
use tokio::sync::mpsc;

use crate::leases::until;
use crate::running::{Running, problem};

/// Long enough for a busy machine, short enough to wait for.
const SHORT: Duration = Duration::from_millis(500);

/// Hangs or panics where a job's group says so, and is a real engine otherwise.
struct Odd(Arc<dyn Engine>);

impl Odd {
    async fn start() -> Running {
        let settings =
            ServerSettings { request_timeout: SHORT, body_whole_timeout: SHORT, ..ServerSettings::default() };
        let engine = Fairlane::open("memory:").await.unwrap().engine().clone();
        Running::start_with(Fairlane::from_engine(Arc::new(Self(engine))), None, settings).await
    }
}

impl Engine for Odd {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        let group = match &command {
            Command::Enqueue(enqueue) => enqueue.jobs[0].job.group.to_string(),
            Command::Inspect(Inspect::Job(job)) => job.group.to_string(),
            _ => String::new(),
        };
        match &*group {
            "hangs" => Box::pin(std::future::pending()),
            "panics" => Box::pin(async { panic!("planted by a test") }),
            "full" => Box::pin(async {
                Err(EngineError::Refused { reason: "no space is left for \"/srv/fairlane.db\"".to_owned() })
            }),
            _ => self.0.execute(command),
        }
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.0.wait(types, at_most)
    }

    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        self.0.walk(pages)
    }
}

#[tokio::test]
async fn a_request_that_ran_out_of_time_is_not_said_to_be_safe_to_repeat() {
    let running = Odd::start().await;
    let job = json!({"group": "hangs", "id": "1", "type": "mail", "payload": {}});
    let ((status, told), (looked, seen)) =
        tokio::join!(running.post("/api/jobs", job), running.get("/api/jobs/hangs/1"));
    assert_eq!((status, problem(&told)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"), "{told}");
    let detail = told["detail"].as_str().unwrap();
    assert!(detail.contains("may have been added") && !detail.contains("is safe"), "{detail}");
    assert!(told["retry_after_ms"].is_null(), "{told}");
    assert_eq!(looked, StatusCode::SERVICE_UNAVAILABLE);
    assert!(seen["detail"].as_str().unwrap().ends_with("try again"), "{seen}");
}

#[tokio::test]
async fn a_panic_is_answered() {
    let running = Odd::start().await;
    for _ in 0..3 {
        let (status, told) = running.get("/api/jobs/panics/1").await;
        assert_eq!((status, problem(&told)), (StatusCode::INTERNAL_SERVER_ERROR, "broken"), "{told}");
        assert!(!told.to_string().contains("planted"), "{told}");
    }
    let job = json!({"group": "g", "id": "1", "type": "mail", "payload": {}});
    assert_eq!(running.post("/api/jobs", job).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn a_refusal_of_the_store_names_no_file_of_the_server() {
    let running = Odd::start().await;
    let job = json!({"group": "full", "id": "1", "type": "mail", "payload": {}});
    let (status, told) = running.post("/api/jobs", job).await;
    assert_eq!((status, problem(&told)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"), "{told}");
    assert!(!told.to_string().contains("/srv") && told["retry_after_ms"] == 5000, "{told}");
    let over_http = Fairlane::open(&running.url("")).await.unwrap();
    let error = over_http.enqueue(Job::new("full", "mail", &1)).await.unwrap_err().to_string();
    assert!(error.contains("the server's log says why") && !error.contains("/srv"), "{error}");
}

/// Answers looks, and takes no changes for this reason.
struct Refusing(Arc<dyn Engine>, EngineError);

impl Engine for Refusing {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn check_writes(&self) -> BoxFuture<'_, Result<(), EngineError>> {
        Box::pin(std::future::ready(Err(self.1.clone())))
    }

    fn execute(&self, command: Command) -> BoxFuture<'_, Result<Reply, EngineError>> {
        self.0.execute(command)
    }

    fn wait<'a>(
        &'a self,
        types: &'a [TypeId],
        at_most: Duration,
    ) -> BoxFuture<'a, Result<bool, EngineError>> {
        self.0.wait(types, at_most)
    }

    fn walk(&self, pages: mpsc::Sender<WalkPage>) -> BoxFuture<'_, Result<(), EngineError>> {
        self.0.walk(pages)
    }
}

#[tokio::test]
async fn a_server_whose_engine_takes_no_changes_is_not_ready_and_says_why() {
    let full = "no space is left for \"/srv/queue/fairlane.db\"; changes are taken again once there is space";
    let refused = EngineError::Refused { reason: full.to_owned() };
    let lost = EngineError::Broken { reason: "the file is damaged".to_owned() };
    for (error, told) in [(refused, "no space is left"), (lost, "stopped")] {
        let engine = Fairlane::open("memory:").await.unwrap().engine().clone();
        let engine = Fairlane::from_engine(Arc::new(Refusing(engine, error)));
        let running = Running::start_with(engine, None, ServerSettings::default()).await;
        assert_eq!(running.get("/healthz").await.0, StatusCode::OK, "the server lives");
        let (status, answer) = running.get("/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
        let detail = answer["detail"].as_str().unwrap();
        assert!(detail.contains(told) && !detail.contains("/srv"), "{detail}");
        let figures = running.request(reqwest::Method::GET, "/metrics").send().await.unwrap();
        let figures = figures.text().await.unwrap();
        assert!(figures.contains("\nfairlane_engine_up 0\n"), "{figures}");
        assert!(
            figures.contains("\nfairlane_backlog_jobs"),
            "how the queue stands is still shown: {figures}"
        );
    }
}

#[tokio::test]
async fn a_redis_that_takes_no_writes_makes_the_server_not_ready() {
    let redis = RedisServer::start(ServerOptions::default());
    let fairlane = Fairlane::open(&redis.url()).await.unwrap();
    let running = Running::start_with(fairlane, None, ServerSettings::default()).await;
    assert_eq!(running.get("/readyz").await.0, StatusCode::OK);
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    until("writes are refused for want of replicas", async || {
        running.get("/readyz").await.0 == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    until("writes are taken again", async || running.get("/readyz").await.0 == StatusCode::OK).await;
}
