//! A server that is stopped while it is busy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlane::{Fairlane, Job};
use fairlane_server::ServerSettings;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::events::Events;
use crate::gate::Gate;
use crate::running::{Running, json as with_json, send};

/// Longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn stop(server: Running) {
    let grace = ServerSettings::default().shutdown_grace_period;
    tokio::time::timeout(grace, server.server.stop()).await.expect("it stops within its grace period");
}

#[tokio::test]
async fn polls_return_without_jobs_and_streams_end_cleanly() {
    let (server, gate) = Gate::start().await;
    server.fairlane.bulk("group", "bulk").open().await.unwrap();
    let polls: Vec<_> = (0..20)
        .map(|number| {
            let body = json!({"worker": format!("worker-{number}"), "types": ["mail"], "wait_ms": 60_000});
            tokio::spawn(send(with_json(server.request(Method::POST, "/api/leases"), &body)))
        })
        .collect();
    gate.leased(20).await;
    let mut bulk = Events::follow(&server, "/api/bulks/group/bulk/events", None).await;
    let mut queue = Events::follow(&server, "/api/events", None).await;
    bulk.next().await.unwrap();
    queue.next().await.unwrap();
    stop(server).await;
    for poll in polls {
        let without_jobs = json!({"jobs": [], "unknown_types": ["mail"]});
        assert_eq!(poll.await.unwrap(), (StatusCode::OK, without_jobs));
    }
    while bulk.next().await.is_some() {}
    while queue.next().await.is_some() {}
}

#[tokio::test]
async fn a_lease_in_progress_gets_its_full_response() {
    let (server, gate) = Gate::start().await;
    let jobs =
        (0..100).map(|number| Job::new("group", "mail", &"x".repeat(20_000)).id(format!("job-{number}")));
    server.fairlane.enqueue_all(jobs).await.unwrap();
    gate.close();
    let body = json!({"worker": "worker", "types": ["mail"], "count": 100});
    let leasing = tokio::spawn(send(with_json(server.request(Method::POST, "/api/leases"), &body)));
    gate.leased(1).await;
    let stopping = tokio::spawn(stop(server));
    gate.open();
    let (status, leased) = leasing.await.unwrap();
    assert_eq!((status, leased["jobs"].as_array().unwrap().len()), (StatusCode::OK, 100));
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_body_that_is_half_sent_can_be_completed() {
    let server = Running::start().await;
    let fairlane = server.fairlane.clone();
    let mut stream = TcpStream::connect(server.server.address()).await.unwrap();
    let body = json!({"worker": "worker", "types": ["mail"]}).to_string();
    let head = "POST /api/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-continue";
    stream.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes()).await.unwrap();
    // The server asks for the body, so the request is in progress.
    let mut status = [0; 25];
    stream.read_exact(&mut status).await.unwrap();
    assert!(status.starts_with(b"HTTP/1.1 100"));
    let (first, second) = body.split_at(10);
    stream.write_all(first.as_bytes()).await.unwrap();
    let stopping = tokio::spawn(stop(server));
    fairlane.enqueue(Job::new("group", "mail", &1)).await.unwrap().accepted().unwrap();
    stream.write_all(second.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    stopping.await.unwrap();
}

/// Sends jobs one after the other until the server is gone; returns the acknowledged ids.
async fn produce(request: RequestBuilder, number: usize, enough: Arc<AtomicBool>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for job in 0.. {
        let id = format!("job-{number}-{job}");
        let body = json!({"group": format!("group-{number}"), "id": id, "type": "mail", "payload": job});
        let sent = with_json(request.try_clone().unwrap(), &body).send().await;
        let Ok(response) = sent else { break };
        let status = response.status();
        let text = response.bytes().await.expect("a response that has begun is complete");
        let value: Value = serde_json::from_slice(&text).expect("the response is JSON");
        match status {
            StatusCode::CREATED | StatusCode::OK => acknowledged.push(id),
            StatusCode::SERVICE_UNAVAILABLE => break,
            _ => panic!("{status} {value}"),
        }
        if acknowledged.len() == 20 {
            enough.store(true, Ordering::SeqCst);
        }
    }
    acknowledged
}

#[tokio::test]
async fn no_acknowledged_job_is_lost_when_the_server_stops_under_load() {
    let server = Running::start().await;
    let fairlane = server.fairlane.clone();
    let enough = Arc::new(AtomicBool::new(false));
    let producers: Vec<_> = (0..8)
        .map(|number| {
            let request = server.request(Method::POST, "/api/jobs");
            tokio::spawn(produce(request, number, enough.clone()))
        })
        .collect();
    fairlane_testkit::wait::until_async("the server is busy", || async { enough.load(Ordering::SeqCst) })
        .await;
    stop(server).await;
    let mut known = 0;
    for (number, producer) in producers.into_iter().enumerate() {
        let acknowledged = tokio::time::timeout(TIMEOUT, producer).await.unwrap().unwrap();
        let ids: BTreeSet<_> = acknowledged.into_iter().collect();
        for id in &ids {
            let view = fairlane.job(format!("group-{number}"), id).view().await.unwrap();
            assert!(view.is_some(), "{id} was acknowledged");
        }
        known += ids.len() as u64;
    }
    let queue = fairlane.queue_view().await.unwrap();
    assert!(queue.backlog >= known && known >= 20, "{} jobs, {known} acknowledged", queue.backlog);
}

/// A bulk action with more results than the buffers of a connection hold, and a client that has
/// begun to read.
async fn reading_results(settings: ServerSettings) -> (Running, TcpStream) {
    let server = Running::start_with(Fairlane::open("memory:").await.unwrap(), None, settings).await;
    let bulk = server.fairlane.bulk("group", "bulk").open().await.unwrap();
    bulk.add_all((0..300).map(|number| bulk.job("mail", &number))).await.unwrap();
    for _ in 0..3 {
        let body = json!({"worker": "worker", "types": ["mail"], "count": 100});
        let (_, leased) = server.post("/api/leases", body).await;
        let settle = |job: &Value| {
            json!({"group": "group", "id": job["id"], "fence": job["fence"], "outcome": "succeeded",
                "result": "x".repeat(60_000)})
        };
        let settlements: Vec<Value> = leased["jobs"].as_array().unwrap().iter().map(settle).collect();
        let (status, body) = server.post("/api/leases/settle", json!({"settlements": settlements})).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.server.address()).await.unwrap();
    let head = "GET /api/bulks/group/bulk/results HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).await.unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
    (server, stream)
}

#[tokio::test]
async fn results_that_are_being_read_are_aborted() {
    let (server, mut stream) = reading_results(ServerSettings::default()).await;
    let address = server.server.address();
    let stopping = tokio::spawn(stop(server));
    fairlane_testkit::wait::until_async("the server stops", || async {
        TcpStream::connect(address).await.is_err()
    })
    .await;
    let mut read = Vec::new();
    // The connection is expected to be aborted.
    let _ = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut read)).await.expect("it ends");
    assert!(!read.ends_with(b"0\r\n\r\n") && read.len() < 300 * 60_000, "{} bytes", read.len());
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_does_not_take_the_full_grace_period() {
    let shutdown_grace_period = Duration::from_secs(40);
    let write_timeout = Duration::from_secs(3600);
    let settings = ServerSettings { shutdown_grace_period, write_timeout, ..ServerSettings::default() };
    let (server, _stream) = reading_results(settings).await;
    let stopped = tokio::time::timeout(shutdown_grace_period / 2, server.server.stop()).await;
    stopped.expect("it stops long before its grace period is over");
}
