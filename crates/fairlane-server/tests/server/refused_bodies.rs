//! Bodies that are refused before they have arrived completely.

use std::time::Duration;

use fairlane::Fairlane;
use fairlane_server::ServerSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::keys::{one_key, start};
use crate::running::Running;

/// More than the buffers of a connection hold.
const LARGE: usize = 32 * 1024 * 1024;
/// Longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_client_that_sends_its_body_before_it_reads_gets_the_response() {
    let settings = ServerSettings { body_bytes_max: 64 * 1024, ..ServerSettings::default() };
    let running = Running::start_with(Fairlane::open("memory:").await.unwrap(), None, settings).await;
    for (content_type, status) in [("application/json", "413"), ("text/plain", "415")] {
        let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
        let head = format!(
            "POST /api/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {content_type}\r\n\
             content-length: {LARGE}\r\n\r\n"
        );
        let mut response = String::new();
        let exchange = async {
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&vec![b' '; LARGE]).await.expect("the server drains the rest");
            stream.read_to_string(&mut response).await.unwrap();
        };
        timeout(TIMEOUT, exchange).await.expect("a response comes");
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    }
}

/// The head of a request with a body of this length.
fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn a_client_that_is_refused_while_it_sends_gets_the_response_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let (file, ..) = one_key(folder.path(), "k");
    let running = start(&file, ServerSettings::default()).await;
    for (path, status) in [("/api/jobs", "401"), ("/nowhere", "404"), ("/healthz", "405")] {
        let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
        let mut response = String::new();
        let exchange = async {
            stream.write_all(head(path, LARGE).as_bytes()).await.unwrap();
            stream.write_all(&[b' '; 1024]).await.unwrap();
            // The response has arrived; without draining, the server would have closed the
            // connection.
            stream.peek(&mut [0; 1]).await.unwrap();
            stream.write_all(&vec![b' '; LARGE - 1024]).await.expect("the server drains the rest");
            stream.read_to_string(&mut response).await.unwrap();
        };
        timeout(TIMEOUT, exchange).await.expect("a response comes");
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    }
}

#[tokio::test]
async fn the_refusal_of_a_medium_body_keeps_the_connection() {
    const MEDIUM: usize = 40 * 1024;
    let folder = tempfile::tempdir().unwrap();
    let (file, _, key) = one_key(folder.path(), "k");
    let running = start(&file, ServerSettings::default()).await;
    let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
    let head = format!(
        "POST /api/jobs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: text/plain\r\n\
         content-length: {MEDIUM}\r\n\r\n"
    );
    for _ in 0..3 {
        let exchange = async {
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&vec![b' '; MEDIUM]).await.unwrap();
            let mut response = Vec::new();
            while !response.ends_with(b"}") {
                assert_ne!(stream.read_buf(&mut response).await.unwrap(), 0, "the server has closed");
            }
            String::from_utf8(response).unwrap()
        };
        let response = timeout(TIMEOUT, exchange).await.expect("a response comes");
        assert!(response.starts_with("HTTP/1.1 415 "), "{response}");
    }
}

#[tokio::test]
async fn a_request_with_both_content_length_and_transfer_encoding_is_refused() {
    let running = Running::start().await;
    let body = r#"{"group": "g", "type": "mail", "payload": 1}"#;
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let length = format!("content-length: {}\r\n", chunked.len());
    let coding = "transfer-encoding: chunked\r\n".to_owned();
    let head = "POST /api/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let before = "GET /api/status HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for headers in [format!("{length}{coding}"), format!("{coding}{length}")] {
        for before in ["", before] {
            let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
            stream.write_all(format!("{before}{head}{headers}\r\n{chunked}").as_bytes()).await.unwrap();
            let mut response = String::new();
            let read = timeout(TIMEOUT, stream.read_to_string(&mut response)).await;
            read.expect("the server closes").unwrap();
            let last = response.rfind("HTTP/1.1 ").unwrap();
            assert!(response[last..].starts_with("HTTP/1.1 400 "), "{response}");
            assert!(response.contains("both Content-Length and Transfer-Encoding"), "{response}");
        }
    }
    assert_eq!(running.fairlane.queue_view().await.unwrap().backlog, 0);
    let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
    stream.write_all(format!("{head}{coding}connection: close\r\n\r\n{chunked}").as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 201 "), "{response}");
}
