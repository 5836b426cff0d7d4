//! Bodies that are refused before they have come as a whole.

use std::time::Duration;

use fairlane::Fairlane;
use fairlane_server::ServerSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::keys::{one_key, start};
use crate::running::Running;

/// More than the system keeps for a connection.
const LARGE: usize = 32 * 1024 * 1024;
/// Longer than this test should take.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_client_that_sends_all_before_it_reads_gets_the_answer() {
    let settings = ServerSettings { body_bytes_max: 64 * 1024, ..ServerSettings::default() };
    let running = Running::start_with(Fairlane::open("memory:").await.unwrap(), None, settings).await;
    for (content_type, status) in [("application/json", "413"), ("text/plain", "415")] {
        let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
        let head = format!(
            "POST /api/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {content_type}\r\n\
             content-length: {LARGE}\r\n\r\n"
        );
        let mut answer = String::new();
        let exchange = async {
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&vec![b' '; LARGE]).await.expect("the server takes the rest");
            stream.read_to_string(&mut answer).await.unwrap();
        };
        timeout(PATIENCE, exchange).await.expect("an answer comes");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

/// A head that says what follows.
fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn who_is_refused_while_it_sends_gets_the_answer_when_it_has_sent_all() {
    let folder = tempfile::tempdir().unwrap();
    let (file, ..) = one_key(folder.path(), "k");
    let running = start(&file, ServerSettings::default()).await;
    for (path, status) in [("/api/jobs", "401"), ("/nowhere", "404"), ("/healthz", "405")] {
        let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
        let mut answer = String::new();
        let exchange = async {
            stream.write_all(head(path, LARGE).as_bytes()).await.unwrap();
            stream.write_all(&[b' '; 1024]).await.unwrap();
            // The answer is there; now the server would have closed.
            stream.peek(&mut [0; 1]).await.unwrap();
            stream.write_all(&vec![b' '; LARGE - 1024]).await.expect("the server takes the rest");
            stream.read_to_string(&mut answer).await.unwrap();
        };
        timeout(PATIENCE, exchange).await.expect("an answer comes");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
}

#[tokio::test]
async fn a_refusal_of_a_body_that_is_not_very_large_keeps_the_connection() {
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
            let mut answer = Vec::new();
            while !answer.ends_with(b"}") {
                assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "the server has closed");
            }
            String::from_utf8(answer).unwrap()
        };
        let answer = timeout(PATIENCE, exchange).await.expect("an answer comes");
        assert!(answer.starts_with("HTTP/1.1 415 "), "{answer}");
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
            let mut answer = String::new();
            let read = timeout(PATIENCE, stream.read_to_string(&mut answer)).await;
            read.expect("the server closes").unwrap();
            let last = answer.rfind("HTTP/1.1 ").unwrap();
            assert!(answer[last..].starts_with("HTTP/1.1 400 "), "{answer}");
            assert!(answer.contains("both Content-Length and Transfer-Encoding"), "{answer}");
        }
    }
    assert_eq!(running.fairlane.whole().await.unwrap().backlog, 0);
    let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
    stream.write_all(format!("{head}{coding}connection: close\r\n\r\n{chunked}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
}
