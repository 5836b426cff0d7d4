//! Bodies that are refused before they have come as a whole.

use std::time::Duration;

use fairlane::Fairlane;
use fairlane_server::ServerSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

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
