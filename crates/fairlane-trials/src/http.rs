//! A small HTTP server that stands for the outside: one handler, one answer a request, keep-alive.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What came in.
pub struct Request {
    /// The path it was sent to.
    pub path: String,
    /// The header `webhook-id`.
    pub webhook_id: Option<String>,
    /// The body.
    pub body: Vec<u8>,
}

/// Ends with the value.
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
    /// Answers every request with the status that `answer` gives.
    pub async fn start<F, Fut>(answer: F) -> Self
    where
        F: Fn(Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = u16> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let answer = Arc::new(answer);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = answer.clone();
                tokio::spawn(async move {
                    // A client that goes away in the middle is its own affair.
                    let _ = serve(stream, &*answer).await;
                });
            }
        });
        Self { address, accepting }
    }
}

async fn serve<F, Fut>(stream: TcpStream, answer: &F) -> std::io::Result<()>
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
        let status = answer(Request { path, webhook_id, body }).await;
        let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: 0\r\n\r\n");
        stream.get_mut().write_all(head.as_bytes()).await?;
    }
}
