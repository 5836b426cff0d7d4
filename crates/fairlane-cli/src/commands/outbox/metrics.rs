//! The metrics of a relay over HTTP. Every request is answered with all of them.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::failure::Failure;

/// Longest request that is read.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// Time for one request and its response. Requests are answered one after the other.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Listens at an address.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .await
        .map_err(|error| Failure::broken(format!("cannot listen at {address}: {error}; use another port")))
}

/// Answers requests for ever.
pub async fn serve(listener: TcpListener) {
    loop {
        match listener.accept().await {
            // A client that is slow or leaves gets no response.
            Ok((stream, _)) => drop(tokio::time::timeout(REQUEST_TIMEOUT, answer(stream)).await),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut request, mut chunk) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        match stream.read(&mut chunk).await? {
            0 => return Ok(()),
            bytes => request.extend_from_slice(&chunk[..bytes]),
        }
    }
    let body = fairlane_server::metrics::render();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
