//! A server for tests that answers what it is told to, down to the bytes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Request line and headers.
    pub head: String,
    /// What came behind them.
    pub body: Vec<u8>,
}

impl Seen {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut named = lines.filter_map(|line| line.split_once(": "));
        named.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Answers until it is dropped.
pub struct TestServer {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl TestServer {
    /// Answers each request with these bytes, and keeps the connection.
    pub async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        Self::start(move |mut stream| {
            let answer = answer.clone();
            async move { stream.write_all(&answer).await.is_ok().then_some(stream) }
        })
        .await
    }

    /// Calls `answer` with the connection after each request; it gives it back to be used for another.
    pub async fn start<F, Fut>(answer: F) -> Self
    where
        F: Fn(TcpStream) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<TcpStream>> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, connections) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (log, count, answer) = (seen.clone(), connections.clone(), Arc::new(answer));
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let (log, answer) = (log.clone(), answer.clone());
                tokio::spawn(async move {
                    while let Some(request) = read_request(&mut stream).await {
                        log.lock().unwrap().push(request);
                        match answer(stream).await {
                            Some(kept) => stream = kept,
                            None => return,
                        }
                    }
                });
            }
        });
        Self { address, seen, connections, serving }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An answer with this status line, these header lines and this body.
pub fn answer(status: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

async fn read_request(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let mut seen = Seen { head, body: bytes.split_off(end + 4) };
            let length: usize = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
            let have = seen.body.len();
            seen.body.resize(length, 0);
            stream.read_exact(&mut seen.body[have..]).await.ok()?;
            return Some(seen);
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => return None,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
        }
    }
}
