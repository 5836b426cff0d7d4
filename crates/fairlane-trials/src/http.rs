//! A small HTTP server that stands for services outside: one handler, one response per request,
//! keep-alive.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request that was received.
pub struct Request {
    /// The path it was sent to.
    pub path: String,
    /// The header `webhook-id`.
    pub webhook_id: Option<String>,
    /// The body of the request.
    pub body: Vec<u8>,
}

/// The server; it stops when dropped.
pub struct Server {
    pub address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Server {
    /// Responds to every request with the status that `handler` returns.
    pub async fn start<F, Fut>(handler: F) -> Self
    where
        F: Fn(Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = u16> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the listener is bound");
        let handler = Arc::new(handler);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let handler = handler.clone();
                tokio::spawn(async move {
                    // A client may close the connection at any time.
                    let _ = serve(stream, &*handler).await;
                });
            }
        });
        Self { address, accepting }
    }
}

async fn serve<F, Fut>(stream: TcpStream, handler: &F) -> std::io::Result<()>
where
    F: Fn(Request) -> Fut,
    Fut: Future<Output = u16>,
{
    let mut stream = BufReader::new(stream);
    loop {
        let (mut length, mut webhook_id, mut line) = (0, None, String::new());
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        loop {
            line.clear();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "webhook-id" => webhook_id = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let status = handler(Request { path, webhook_id, body }).await;
        let head = format!("HTTP/1.1 {status} Status\r\ncontent-length: 0\r\n\r\n");
        stream.get_mut().write_all(head.as_bytes()).await?;
    }
}
