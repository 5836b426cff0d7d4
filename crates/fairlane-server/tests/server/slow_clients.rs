//! Clients that are slow to ask, slow to send and slow to read.

use std::time::Duration;

use fairlane::{Fairlane, Job};
use fairlane_server::ServerSettings;
use reqwest::{Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::leases::until;
use crate::running::Running;

/// Longer than any of these tests should take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Short enough to wait for, long enough for a busy machine to be in time.
const SHORT: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(3600);

/// Nothing ends by itself, but for what a test shortens.
fn patient() -> ServerSettings {
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

/// All that comes until the server closes.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that is cut is closed as well.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the server closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn ask(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET /api/status HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    while !answer.contains("}") {
        let mut piece = [0; 4096];
        let read = timeout(PATIENCE, stream.read(&mut piece)).await.expect("an answer comes").unwrap();
        assert_ne!(read, 0, "{answer}");
        answer.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    answer
}

#[tokio::test]
async fn who_connects_and_says_nothing_is_dropped() {
    let (_running, mut stream) = start(ServerSettings { first_head_timeout: SHORT, ..patient() }).await;
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn a_head_that_has_begun_has_to_end_also_on_a_used_connection() {
    let (_running, mut stream) = start(ServerSettings { head_timeout: SHORT, ..patient() }).await;
    for _ in 0..3 {
        assert!(ask(&mut stream).await.starts_with("HTTP/1.1 200"));
    }
    stream.write_all(b"GET /api/status HTTP/1.1\r\n").await.unwrap();
    assert_eq!(rest(&mut stream).await, "");
}

#[tokio::test]
async fn an_idle_connection_outlives_the_time_of_a_head_and_not_its_own() {
    let (_running, mut stream) =
        start(ServerSettings { head_timeout: SHORT, idle_timeout: 3 * SHORT, ..patient() }).await;
    let begun = Instant::now();
    assert!(ask(&mut stream).await.starts_with("HTTP/1.1 200"));
    assert_eq!(rest(&mut stream).await, "");
    assert!(begun.elapsed() >= 3 * SHORT, "it ended after {:?}", begun.elapsed());
}

#[tokio::test]
async fn a_body_may_take_its_time_but_not_stand_still() {
    let head = "POST /api/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 60\r\n\r\n";
    let (_running, mut stream) =
        start(ServerSettings { body_timeout: SHORT, head_timeout: SHORT, ..patient() }).await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let begun = Instant::now();
    // Slower than a piece may be in all, faster than from one to the next.
    while begun.elapsed() < 2 * SHORT {
        stream.write_all(b" ").await.unwrap();
        tokio::time::sleep(SHORT / 20).await;
    }
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("too-slow"), "{answer}");
    assert!(begun.elapsed() >= 2 * SHORT, "a piece was not waited for");
}

#[tokio::test]
async fn a_body_that_trickles_ends_as_well() {
    let (_running, mut stream) = start(ServerSettings { body_whole_timeout: SHORT, ..patient() }).await;
    let head = "POST /api/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let trickle = async {
        while writer.write_all(b" ").await.is_ok() {
            tokio::time::sleep(SHORT / 20).await;
        }
    };
    let mut answer = Vec::new();
    let mut begin = [0; 12];
    tokio::select! {
        () = trickle => {}
        read = timeout(PATIENCE, reader.read_exact(&mut begin)) => {
            read.expect("an answer comes").unwrap();
            answer.extend_from_slice(&begin);
        }
    }
    assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 408");
}

#[tokio::test]
async fn a_head_that_is_too_long_or_has_too_many_headers_is_refused() {
    let many: String = (0..200).map(|number| format!("x-{number}: 1\r\n")).collect();
    let long = format!("x-long: {}\r\n", "a".repeat(20_000));
    for headers in [many, long] {
        let (_running, mut stream) = start(patient()).await;
        let head = format!("GET /api/status HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        // The server may close before it has all of it.
        let _ = stream.write_all(head.as_bytes()).await;
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answers_is_dropped() {
    let (_running, mut stream) = start(ServerSettings { write_timeout: SHORT, ..patient() }).await;
    let request = "GET /api/status HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(64);
    // Asks and never reads: at last the server can write no more, reads no more, and ends it.
    let asking = async { while stream.write_all(request.as_bytes()).await.is_ok() {} };
    timeout(PATIENCE, asking).await.expect("the server closes");
}

#[tokio::test]
async fn more_connections_than_allowed_wait_for_one_to_end() {
    let narrow = ServerSettings { connections_max: 1, address_connections_max: Some(9), ..patient() };
    let (running, mut first) = start(narrow).await;
    // A long poll is not idle, so it does not make room.
    let body = r#"{"worker": "w", "types": ["mail"], "wait_ms": 60000}"#;
    let head = "POST /api/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    first.write_all(request.as_bytes()).await.unwrap();
    let mut second = TcpStream::connect(running.server.address()).await.unwrap();
    second.write_all(b"GET /api/status HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut begin = [0; 12];
    let early = timeout(SHORT, second.read_exact(&mut begin)).await;
    assert!(early.is_err(), "the second was not kept waiting");
    drop(first);
    timeout(PATIENCE, second.read_exact(&mut begin)).await.expect("an answer comes").unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
}

#[tokio::test]
async fn an_answer_that_is_not_read_keeps_its_place() {
    /// More than any system takes off the server's hands.
    const PIPELINED: usize = 128;
    /// So many refusals in a row are no accident.
    const REFUSALS: u32 = 50;
    let (running, mut stream) = start(ServerSettings { requests_max: 1, ..patient() }).await;
    let large = Job::new("group", "mail", &"x".repeat(500_000)).id("large");
    running.fairlane.enqueue(large).await.unwrap().accepted().unwrap();
    let request = "GET /api/jobs/group/large HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request.repeat(PIPELINED).as_bytes()).await.unwrap();
    let refused = std::cell::Cell::new(0);
    let running = &running;
    let ask = async || running.request(Method::GET, "/api/status").send().await.unwrap().status();
    until("its place is taken", async || {
        let is_refused = ask().await == StatusCode::SERVICE_UNAVAILABLE;
        refused.set(if is_refused { refused.get() + 1 } else { 0 });
        refused.get() == REFUSALS
    })
    .await;
    drop(stream);
    until("its place is free", async || ask().await == StatusCode::OK).await;
}
