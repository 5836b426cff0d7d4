//! Clients that are slow to send or to read.

use std::time::Duration;

use fairlane::{Fairlane, Job};
use fairlane_server::ServerSettings;
use fairlane_testkit::wait::until_async as until;
use reqwest::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::running::Running;

/// Longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Short enough to wait for, long enough for a busy machine.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3600);

/// Long timeouts, except those that a test shortens.
fn long_timeouts() -> ServerSettings {
    ServerSettings {
        head_timeout: LONG,
        first_head_timeout: LONG,
        idle_timeout: LONG,
        body_timeout: LONG,
        body_whole_timeout: LONG,
        write_timeout: LONG,
        ..ServerSettings::default()
    }
}

async fn start(settings: ServerSettings) -> (Running, TcpStream) {
    let running = Running::start_with(Fairlane::open("memory:").await.unwrap(), None, settings).await;
    let stream = TcpStream::connect(running.server.address()).await.unwrap();
    (running, stream)
}

/// Everything that arrives until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // An aborted connection is closed too.
    let _ = timeout(TIMEOUT, stream.read_to_end(&mut bytes)).await.expect("the server closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn get(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET /api/status HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut response = String::new();
    while !response.contains("}") {
        let mut chunk = [0; 4096];
        let read = timeout(TIMEOUT, stream.read(&mut chunk)).await.expect("a response comes").unwrap();
        assert_ne!(read, 0, "{response}");
        response.push_str(&String::from_utf8_lossy(&chunk[..read]));
    }
    response
}

#[tokio::test]
async fn a_client_that_connects_and_sends_nothing_is_disconnected() {
    let (_running, mut stream) = start(ServerSettings { first_head_timeout: SHORT, ..long_timeouts() }).await;
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn a_head_that_has_begun_must_end_also_on_a_used_connection() {
    let (_running, mut stream) = start(ServerSettings { head_timeout: SHORT, ..long_timeouts() }).await;
    for _ in 0..3 {
        assert!(get(&mut stream).await.starts_with("HTTP/1.1 200"));
    }
    stream.write_all(b"GET /api/status HTTP/1.1\r\n").await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn an_idle_connection_ends_after_the_idle_timeout_and_not_the_head_timeout() {
    let (_running, mut stream) =
        start(ServerSettings { head_timeout: SHORT, idle_timeout: 3 * SHORT, ..long_timeouts() }).await;
    let start = Instant::now();
    assert!(get(&mut stream).await.starts_with("HTTP/1.1 200"));
    assert_eq!(rest(&mut stream).await, "");
    assert!(start.elapsed() >= 3 * SHORT, "it ended after {:?}", start.elapsed());
}

#[tokio::test]
async fn a_body_may_be_slow_but_not_pause_for_too_long() {
    let head = "POST /api/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 60\r\n\r\n";
    let (_running, mut stream) =
        start(ServerSettings { body_timeout: SHORT, head_timeout: SHORT, ..long_timeouts() }).await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let start = Instant::now();
    // Longer than the timeout in total, shorter between two chunks.
    while start.elapsed() < 2 * SHORT {
        stream.write_all(b" ").await.unwrap();
        tokio::time::sleep(SHORT / 20).await;
    }
    let response = rest(&mut stream).await;
    assert!(response.starts_with("HTTP/1.1 408") && response.contains("too-slow"), "{response}");
    assert!(start.elapsed() >= 2 * SHORT, "the body was refused between two chunks");
}

#[tokio::test]
async fn a_body_that_trickles_is_refused() {
    let (_running, mut stream) = start(ServerSettings { body_whole_timeout: SHORT, ..long_timeouts() }).await;
    let head = "POST /api/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let trickle = async {
        while writer.write_all(b" ").await.is_ok() {
            tokio::time::sleep(SHORT / 20).await;
        }
    };
    let mut response = Vec::new();
    let mut begin = [0; 12];
    tokio::select! {
        () = trickle => {}
        read = timeout(TIMEOUT, reader.read_exact(&mut begin)) => {
            read.expect("a response comes").unwrap();
            response.extend_from_slice(&begin);
        }
    }
    assert_eq!(String::from_utf8_lossy(&response), "HTTP/1.1 408");
}

#[tokio::test]
async fn a_head_that_is_too_long_or_has_too_many_headers_is_refused() {
    let many: String = (0..200).map(|number| format!("x-{number}: 1\r\n")).collect();
    let long = format!("x-long: {}\r\n", "a".repeat(20_000));
    for headers in [many, long] {
        let (_running, mut stream) = start(long_timeouts()).await;
        let head = format!("GET /api/status HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        // The server may close the connection before it has read all of it.
        let _ = stream.write_all(head.as_bytes()).await;
        let response = rest(&mut stream).await;
        assert!(response.starts_with("HTTP/1.1 431"), "{response}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_its_responses_is_disconnected() {
    let (_running, mut stream) = start(ServerSettings { write_timeout: SHORT, ..long_timeouts() }).await;
    let request = "GET /api/status HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(64);
    // Sends and never reads: the server can write no more, stops reading, and closes the
    // connection.
    let sending = async { while stream.write_all(request.as_bytes()).await.is_ok() {} };
    timeout(TIMEOUT, sending).await.expect("the server closes");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_one_to_end() {
    let narrow = ServerSettings { connections_max: 1, address_connections_max: Some(9), ..long_timeouts() };
    let (running, mut first) = start(narrow).await;
    // A long poll is not idle, so its connection is not closed.
    let body = r#"{"worker": "w", "types": ["mail"], "wait_ms": 60000}"#;
    let head = "POST /api/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    first.write_all(request.as_bytes()).await.unwrap();
    let mut second = TcpStream::connect(running.server.address()).await.unwrap();
    second.write_all(b"GET /api/status HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut begin = [0; 12];
    let early = timeout(SHORT, second.read_exact(&mut begin)).await;
    assert!(early.is_err(), "the second one did not wait");
    drop(first);
    timeout(TIMEOUT, second.read_exact(&mut begin)).await.expect("a response comes").unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
}

#[tokio::test]
async fn a_response_that_is_not_read_holds_its_permit() {
    /// More responses than the buffers of a connection hold.
    const PIPELINED: usize = 128;
    /// Refusals in a row that are no coincidence.
    const REFUSALS: u32 = 50;
    let (running, mut stream) = start(ServerSettings { requests_max: 1, ..long_timeouts() }).await;
    let large = Job::new("group", "mail", &"x".repeat(500_000)).id("large");
    running.fairlane.enqueue(large).await.unwrap().accepted().unwrap();
    let request = "GET /api/jobs/group/large HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request.repeat(PIPELINED).as_bytes()).await.unwrap();
    let refused = std::cell::Cell::new(0);
    let running = &running;
    let get = async || running.request(Method::GET, "/api/status").send().await.unwrap().status();
    until("its permit is taken", async || {
        let is_refused = get().await == StatusCode::SERVICE_UNAVAILABLE;
        refused.set(if is_refused { refused.get() + 1 } else { 0 });
        refused.get() == REFUSALS
    })
    .await;
    drop(stream);
    until("its permit is released", async || get().await == StatusCode::OK).await;
}
