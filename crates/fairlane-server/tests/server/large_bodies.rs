//! Large bodies: their memory is limited, and small requests pass nevertheless.

use std::time::Duration;

use fairlane::Fairlane;
use fairlane_engine::wire::CONTENT_TYPE;
use fairlane_server::ServerSettings;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::gate::Gate;
use crate::keys::one_key;
use crate::running::{Running, problem, send};

const KIB: usize = 1024;
const LONG: Duration = Duration::from_secs(3600);
/// Attempts at something that succeeds as soon as the server has processed earlier requests.
const TRIES: usize = 500;

/// Memory for a little more than one large body, and no timeouts.
fn narrow() -> ServerSettings {
    ServerSettings {
        body_bytes_max: 512 * KIB,
        bodies_bytes_max: 600 * KIB,
        body_timeout: LONG,
        body_whole_timeout: LONG,
        ..ServerSettings::default()
    }
}

async fn start() -> Running {
    Running::start_with(Fairlane::open("memory:").await.unwrap(), None, narrow()).await
}

/// Enqueues a job with a payload of this many bytes.
async fn add(running: &Running, id: &str, bytes: usize) -> (StatusCode, Value) {
    let job = json!({"group": "g", "type": "t", "id": id, "payload": "x".repeat(bytes)});
    running.post("/api/jobs", job).await
}

/// Sends a body of 500 KiB without its last byte.
async fn stall(running: &Running, path: &str, content_type: &str) -> TcpStream {
    stall_as(running, path, content_type, "none").await
}

async fn stall_as(running: &Running, path: &str, content_type: &str, key: &str) -> TcpStream {
    let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
    let length = 500 * KIB;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: {content_type}\r\n\
         content-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; length - 1]).await.unwrap();
    stream
}

/// Adds large jobs until a response has this status; returns that response.
async fn until(running: &Running, wanted: StatusCode) -> Value {
    for number in 0..TRIES {
        let (status, body) = add(running, &format!("large-{number}"), 300 * KIB).await;
        if status == wanted {
            return body;
        }
    }
    panic!("no response to a large body has the status {wanted}");
}

/// A stalled body that has taken the memory, and the response to the next large body. A stalled
/// body may be refused itself while another one is in memory; then the next one is tried.
async fn taken(running: &Running, path: &str, content_type: &str) -> (TcpStream, Value) {
    for _ in 0..50 {
        let stalled = stall(running, path, content_type).await;
        for _ in 0..50 {
            let (status, body) = add(running, "large", 300 * KIB).await;
            if status == StatusCode::SERVICE_UNAVAILABLE {
                return (stalled, body);
            }
            tokio::task::yield_now().await;
        }
    }
    panic!("no stalled body takes the memory");
}

#[tokio::test]
async fn stalled_bodies_take_the_memory_of_large_bodies_and_not_of_small_ones() {
    for (path, content_type) in [("/api/jobs", "application/json"), ("/engine/execute", CONTENT_TYPE)] {
        let running = start().await;
        let (stalled, body) = taken(&running, path, content_type).await;
        assert_eq!(problem(&body), "overloaded");
        assert!(body["retry_after_ms"].as_u64().unwrap() > 0, "{body}");
        assert_eq!(add(&running, "small", 8 * KIB).await.0, StatusCode::CREATED);
        drop(stalled);
        until(&running, StatusCode::CREATED).await;
    }
}

#[tokio::test]
async fn a_content_length_alone_takes_no_memory() {
    let running = start().await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
        let head = "POST /api/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 500000\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    for number in 0..20 {
        assert_eq!(add(&running, &format!("large-{number}"), 300 * KIB).await.0, StatusCode::CREATED);
    }
}

#[tokio::test]
async fn a_body_holds_its_memory_until_the_response() {
    let (running, gate) = Gate::start_with(narrow()).await;
    gate.close();
    let body = format!(r#"{{"worker": "w", "types": ["t"], "count": 1{}}}"#, " ".repeat(500 * KIB));
    let request = running.request(Method::POST, "/api/leases").header("content-type", "application/json");
    let request = tokio::spawn(request.body(body).send());
    gate.leased(1).await;
    let (status, body) = add(&running, "large", 300 * KIB).await;
    assert_eq!((status, problem(&body)), (StatusCode::SERVICE_UNAVAILABLE, "overloaded"));
    gate.open();
    assert_eq!(request.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(add(&running, "large", 300 * KIB).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn large_bodies_of_one_key_leave_memory_for_those_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, greedy) = one_key(folder.path(), "greedy");
    let (_, _, other) = one_key(folder.path(), "other");
    // The quarter of one key is a little more than one large body.
    let settings = ServerSettings { bodies_bytes_max: 4 * 600 * KIB, ..narrow() };
    let mut running = crate::keys::start(&file, settings).await;
    let mut stalled = Vec::new();
    // The second of these at the latest finds no memory, and is refused.
    for _ in 0..4 {
        stalled.push(stall_as(&running, "/api/jobs", "application/json", &greedy).await);
    }
    running.set_token(greedy);
    let body = until(&running, StatusCode::TOO_MANY_REQUESTS).await;
    assert_eq!(problem(&body), "rate-limited");
    assert!(body["detail"].as_str().unwrap().contains("large bodies"), "{body}");
    running.set_token(other);
    for number in 0..3 {
        assert_eq!(add(&running, &format!("other-{number}"), 300 * KIB).await.0, StatusCode::CREATED);
    }
}

#[tokio::test]
async fn the_response_to_many_unknown_fields_has_a_few_faults() {
    let running = Running::start().await;
    let mut body = r#"{"group":"g","type":"t","payload":0"#.to_owned();
    for number in 0.. {
        if body.len() > 8 * 1024 * 1024 - 20 {
            break;
        }
        body.push_str(&format!(r#","{number}":0"#));
    }
    body.push('}');
    let request = running.request(Method::POST, "/api/jobs").header("content-type", "application/json");
    let (status, body) = send(request.body(body)).await;
    assert_eq!((status, problem(&body)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{body}");
    let faults = body["errors"].as_array().unwrap();
    assert!((1..=20).contains(&faults.len()), "{} faults", faults.len());
    assert!(body["detail"].as_str().unwrap().contains("5 values are invalid"), "{}", body["detail"]);
}
