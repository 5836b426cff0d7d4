//! Clients that hold idle connections, and other clients that must not wait for them.

use std::net::SocketAddr;
use std::time::Duration;

use fairlane_server::ServerSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::keys::{one_key, start};
use crate::running::Running;

/// Longer than any response of these tests takes, and shorter than any timeout of the server.
const TIMEOUT: Duration = Duration::from_secs(30);
const CONNECTIONS_MAX: usize = 12;

/// Few connections, and no timeouts.
fn narrow() -> ServerSettings {
    let long = Duration::from_secs(3600);
    ServerSettings {
        connections_max: CONNECTIONS_MAX,
        head_timeout: long,
        first_head_timeout: long,
        idle_timeout: long,
        ..ServerSettings::default()
    }
}

/// A connection from this loopback address.
async fn connect(running: &Running, from: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    socket.connect(running.server.address()).await.unwrap()
}

/// The status of the response to a GET request, and whether its connection is closed after it;
/// `None` if the server has closed it instead.
async fn get(stream: &mut TcpStream, path: &str, key: Option<&str>) -> Option<(String, bool)> {
    let key = key.map_or(String::new(), |key| format!("authorization: Bearer {key}\r\n"));
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{key}\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut response = String::new();
    while !response.contains('}') {
        let mut chunk = [0; 4096];
        let read = timeout(TIMEOUT, stream.read(&mut chunk)).await.expect("a response comes").ok()?;
        if read == 0 {
            return None;
        }
        response.push_str(&String::from_utf8_lossy(&chunk[..read]));
    }
    Some((response[9..12].to_owned(), response.to_lowercase().contains("connection: close")))
}

#[tokio::test]
async fn idle_connections_after_a_public_request_do_not_block_other_clients() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, key) = one_key(folder.path(), "admin");
    let running = start(&file, narrow()).await;
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut stream = connect(&running, [127, 0, 0, 1]).await;
        assert_eq!(get(&mut stream, "/healthz", None).await, Some(("200".to_owned(), true)));
        silent.push(stream);
    }
    let mut other = connect(&running, [127, 0, 0, 2]).await;
    for _ in 0..2 {
        assert_eq!(get(&mut other, "/api/status", Some(&key)).await, Some(("200".to_owned(), false)));
    }
    assert_eq!(
        get(&mut other, "/healthz", None).await,
        Some(("200".to_owned(), false)),
        "the connection has a key"
    );
}

#[tokio::test]
async fn one_address_cannot_take_all_connections() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, key) = one_key(folder.path(), "admin");
    let running = start(&file, narrow()).await;
    let mut silent = Vec::new();
    for _ in 0..2 * CONNECTIONS_MAX {
        // Connections beyond its share are closed; which of them does not matter.
        silent.push(connect(&running, [127, 0, 0, 1]).await);
    }
    let mut other = connect(&running, [127, 0, 0, 2]).await;
    assert_eq!(get(&mut other, "/api/status", Some(&key)).await, Some(("200".to_owned(), false)));
}

#[tokio::test]
async fn idle_connections_are_closed_for_new_ones_at_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, key) = one_key(folder.path(), "admin");
    let running =
        start(&file, ServerSettings { address_connections_max: Some(CONNECTIONS_MAX), ..narrow() }).await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        let mut stream = connect(&running, [127, 0, 0, 1]).await;
        assert_eq!(get(&mut stream, "/api/status", Some(&key)).await, Some(("200".to_owned(), false)));
        idle.push(stream);
    }
    for from in 2..5 {
        let mut other = connect(&running, [127, 0, 0, from]).await;
        assert_eq!(get(&mut other, "/api/status", Some(&key)).await, Some(("200".to_owned(), false)));
        idle.push(other);
    }
}
