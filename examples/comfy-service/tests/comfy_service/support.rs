//! The service with all that it needs, in one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use comfy_service::client::{Part, Response, send, submit};
use comfy_service::demo::parse_options;
use comfy_service::options::Options;
use comfy_service::role::{self, Queue, Roles, Running};
use fairlane::Fairlane;
use fairlane_postgres::sqlx::{self, Row};
use fairlane_testkit::comfyui::{ComfyUi as StandIn, Generation};
use fairlane_testkit::postgres::PostgresServer;
use fairlane_testkit::receiver::{ReceivedRequest, Receiver, response};
use fairlane_testkit::wait::eventually;
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tempfile::TempDir;

/// The secret that signs callbacks.
pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// How often the path `/failing` of the receiver fails: more often than other jobs are retried.
pub const FAILURES: usize = 5;
/// The beginning of a picture.
pub const PICTURE: &[u8] = b"\x89PNG\r\n\x1a\n and the rest";

/// A service that can be used.
pub struct Service {
    pub postgres: PostgresServer,
    pub stand_in: StandIn,
    pub receiver: Receiver,
    pub fairlane: Fairlane,
    pub options: Options,
    pub running: Running,
    folder: TempDir,
}

impl Service {
    /// A service with all roles.
    pub async fn start() -> Self {
        Self::start_with(Roles::ALL, &[]).await
    }

    /// A service with these roles and further files of services.
    pub async fn start_with(roles: Roles, services: &[(&str, &str)]) -> Self {
        let postgres = PostgresServer::start();
        let stand_in = StandIn::start(Generation::New);
        let receiver = receiver();
        let folder = tempfile::tempdir().expect("a folder");
        let [files, catalogue] = ["files", "services"].map(|name| folder.path().join(name));
        std::fs::create_dir(&catalogue).expect("a folder");
        let built_in = include_str!("../../services/multi-style.json");
        for (name, text) in [("multi-style", built_in)].iter().chain(services) {
            std::fs::write(catalogue.join(format!("{name}.json")), text).expect("a file");
        }
        let options = parse_options(&[
            ["--listen", "127.0.0.1:0"],
            ["--database", &postgres.url()],
            ["--engine", "memory:"],
            ["--files", &files.display().to_string()],
            ["--services", &catalogue.display().to_string()],
            ["--comfyui", &stand_in.url()],
            ["--poll-every", "20ms"],
            ["--lease", "6s"],
            ["--reconcile-every", "200ms"],
            ["--callback-secret", SECRET],
            ["--callback-host", "127.0.0.1"],
            ["--callback-retry", "10ms"],
        ]);
        let fairlane = Fairlane::open("memory:").await.expect("a queue in memory");
        let queue = Queue::opened(fairlane.clone());
        let running = role::start_on(queue, roles, &options).await.expect("the roles start");
        Self { postgres, stand_in, receiver, fairlane, options, running, folder }
    }

    pub fn api(&self) -> SocketAddr {
        self.running.address.expect("the API runs")
    }

    pub fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    pub async fn submit(&self, key: Option<&str>, parts: &[Part<'_>]) -> Response {
        submit(self.api(), key, parts).await.expect("a response")
    }

    /// Submits a portrait with a callback; returns its id.
    pub async fn portrait(&self) -> i64 {
        self.job_of("multi-style").await
    }

    /// Submits a job of this service with a callback; returns its id.
    pub async fn job_of(&self, service: &str) -> i64 {
        self.job_with_callback(service, &self.receiver.url("/hook")).await
    }

    /// Submits a job of this service with a callback to this URL; returns its id.
    pub async fn job_with_callback(&self, service: &str, url: &str) -> i64 {
        let answer = self
            .submit(
                None,
                &[
                    Part::Text("service_type", service),
                    Part::Text("parameters", r#"{"gender": "male"}"#),
                    Part::Text("callback_url", url),
                    Part::File("image", PICTURE),
                ],
            )
            .await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["job_id"].as_i64().expect("an id")
    }

    pub async fn send(&self, method: &str, path: &str) -> Response {
        send(self.api(), method, path, &[], b"").await.expect("a response")
    }

    pub async fn job(&self, id: i64) -> Value {
        self.send("GET", &format!("/jobs/{id}")).await.json()
    }

    /// Waits until a job has this status, and returns it.
    pub async fn until(&self, id: i64, status: &str) -> Value {
        eventually(async || {
            let job = self.job(id).await;
            if job["status"] == status { Ok(job) } else { Err(job) }
        })
        .await
    }

    /// Waits for a callback with this number, counted from 1, and returns all of them.
    pub async fn callbacks(&self, count: usize) -> Vec<ReceivedRequest> {
        eventually(async || {
            let requests = self.receiver.requests();
            if requests.len() >= count { Ok(requests) } else { Err(requests.len()) }
        })
        .await
    }

    /// The columns of a job as JSON.
    pub async fn row(&self, id: i64) -> Value {
        let row = sqlx::query("SELECT to_jsonb(j)::text AS row FROM comfy_jobs j WHERE id = $1").bind(id);
        let row = row.fetch_one(self.running.outbox.pool()).await.expect("a row");
        serde_json::from_str(row.get("row")).expect("JSON")
    }

    pub async fn stop(self) {
        self.running.stop().await;
    }
}

/// A receiver whose path `/failing` fails a few times before it accepts a callback.
fn receiver() -> Receiver {
    let failures = AtomicUsize::new(0);
    Receiver::handling(move |request: &ReceivedRequest| {
        let fails = request.path() == "/failing" && failures.fetch_add(1, Ordering::SeqCst) < FAILURES;
        let status = if fails { "500 Internal Server Error" } else { "204 No Content" };
        std::future::ready(response(status, &[], ""))
    })
}

/// The body of a callback, if its signature is valid.
pub fn verified(request: &ReceivedRequest) -> Value {
    let header = |name: &str| request.header(name).expect("a header");
    let timestamp = header("webhook-timestamp").parse().expect("a number");
    let signed = Webhook::new(SECRET).expect("a secret").sign(header("webhook-id"), timestamp, &request.body);
    assert_eq!(signed.expect("a signature"), header("webhook-signature"));
    serde_json::from_slice(&request.body).expect("JSON")
}

/// A service whose workflow ends with a node of this class.
pub fn service_with(class: &str) -> String {
    json!({
        "parameters": {"gender": {"type": "text"}, "image": {"type": "file", "types": ["image/png"]}},
        "template": {
            "1": {"class_type": "LoadImage", "inputs": {"image": "$image"}},
            "2": {"class_type": class, "inputs": {"images": ["1", 0], "filename_prefix": "$job"}},
        },
    })
    .to_string()
}
