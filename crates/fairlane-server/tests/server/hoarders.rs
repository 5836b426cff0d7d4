//! Clients that hold connections without using them, and others that must not wait for them.

use std::net::SocketAddr;
use std::time::Duration;

use fairlane_server::ServerSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::keys::{one_key, start};
use crate::running::Running;

/// Longer than any answer takes here, and shorter than any timeout of the server.
const PATIENCE: Duration = Duration::from_secs(30);
const PLACES: usize = 12;

/// Few places, and nothing that ends by itself.
fn narrow() -> ServerSettings {
    let long = Duration::from_secs(3600);
    ServerSettings {
        connections_max: PLACES,
        head_timeout: long,
        first_head_timeout: long,
        idle_timeout: long,
        ..ServerSettings::default()
    }
}

/// A connection from this address of the machine's loopback network.
async fn connect(running: &Running, from: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((from, 0))).unwrap();
    socket.connect(running.server.address()).await.unwrap()
}

/// The status of an answer and whether its connection ends with it; none if the server has closed instead.
async fn ask(stream: &mut TcpStream, path: &str, key: Option<&str>) -> Option<(String, bool)> {
    let key = key.map_or(String::new(), |key| format!("authorization: Bearer {key}\r\n"));
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{key}\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    while !answer.contains('}') {
        let mut piece = [0; 4096];
        let read = timeout(PATIENCE, stream.read(&mut piece)).await.expect("an answer comes").ok()?;
        if read == 0 {
            return None;
        }
        answer.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    Some((answer[9..12].to_owned(), answer.to_lowercase().contains("connection: close")))
}

#[tokio::test]
async fn silence_after_healthz_keeps_no_other_client_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, key) = one_key(folder.path(), "admin");
    let running = start(&file, narrow()).await;
    let mut silent = Vec::new();
    for _ in 0..PLACES {
        let mut stream = connect(&running, [127, 0, 0, 1]).await;
        assert_eq!(ask(&mut stream, "/healthz", None).await, Some(("200".to_owned(), true)));
        silent.push(stream);
    }
    let mut other = connect(&running, [127, 0, 0, 2]).await;
    for _ in 0..2 {
        assert_eq!(ask(&mut other, "/api/status", Some(&key)).await, Some(("200".to_owned(), false)));
    }
    assert_eq!(ask(&mut other, "/healthz", None).await, Some(("200".to_owned(), false)), "its key is known");
}

#[tokio::test]
async fn one_address_cannot_take_all_places() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, key) = one_key(folder.path(), "admin");
    let running = start(&file, narrow()).await;
    let mut silent = Vec::new();
    for _ in 0..2 * PLACES {
        // Those beyond its share are closed; which of them does not matter.
        silent.push(connect(&running, [127, 0, 0, 1]).await);
    }
    let mut other = connect(&running, [127, 0, 0, 2]).await;
    assert_eq!(ask(&mut other, "/api/status", Some(&key)).await, Some(("200".to_owned(), false)));
}

#[tokio::test]
async fn connections_that_are_idle_make_room_when_places_run_out() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, key) = one_key(folder.path(), "admin");
    let running = start(&file, ServerSettings { address_connections_max: Some(PLACES), ..narrow() }).await;
    let mut idle = Vec::new();
    for _ in 0..PLACES {
        let mut stream = connect(&running, [127, 0, 0, 1]).await;
        assert_eq!(ask(&mut stream, "/api/status", Some(&key)).await, Some(("200".to_owned(), false)));
        idle.push(stream);
    }
    for from in 2..5 {
        let mut other = connect(&running, [127, 0, 0, from]).await;
        assert_eq!(ask(&mut other, "/api/status", Some(&key)).await, Some(("200".to_owned(), false)));
        idle.push(other);
    }
}
