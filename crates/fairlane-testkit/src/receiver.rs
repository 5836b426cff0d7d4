//! An HTTP server that stands in for external services, and records the requests it receives.
//!
//! It runs on a thread and runtime of its own, so that tests without a runtime can use it. It reads
//! requests and sends responses byte for byte, so that a test can also send broken ones.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// A received request.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// The request line and the headers.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl ReceivedRequest {
    /// The path that the request was sent to.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut named = lines.filter_map(|line| line.split_once(": "));
        named.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }
}

/// A server that runs until it is dropped.
pub struct Receiver {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    connections: Arc<AtomicUsize>,
    _stop: oneshot::Sender<()>,
}

impl Receiver {
    /// Sends these bytes in response to each request, and keeps the connection open.
    pub fn responding(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::handling(move |_| std::future::ready(response.clone()))
    }

    /// Sends the response that `handle` returns for each request, and keeps the connection open.
    pub fn handling<F, Fut, R>(handle: F) -> Self
    where
        F: Fn(&ReceivedRequest) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: AsRef<[u8]> + Send,
    {
        Self::start(move |request, mut stream| {
            let response = handle(request);
            async move { stream.write_all(response.await.as_ref()).await.is_ok().then_some(stream) }
        })
    }

    /// Calls `respond` with the connection after each request; it returns the connection to keep
    /// it.
    pub fn start<F, Fut>(respond: F) -> Self
    where
        F: Fn(&ReceivedRequest, TcpStream) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<TcpStream>> + Send + 'static,
    {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), respond)
    }

    /// As [`start`](Self::start), at this address.
    pub fn start_at<F, Fut>(address: SocketAddr, respond: F) -> Self
    where
        F: Fn(&ReceivedRequest, TcpStream) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<TcpStream>> + Send + 'static,
    {
        let listener = std::net::TcpListener::bind(address).expect("the port is free");
        listener.set_nonblocking(true).expect("a listener can be asynchronous");
        let address = listener.local_addr().expect("a listener has an address");
        let (requests, connections) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (_stop, stopped) = oneshot::channel();
        let accepting = accept(listener, requests.clone(), connections.clone(), respond);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime starts").block_on(async {
                tokio::select! {
                    () = accepting => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, requests, connections, _stop }
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().expect("no holder of the lock panics").clone()
    }

    /// The requests to this path.
    pub fn requests_to(&self, path: &str) -> Vec<ReceivedRequest> {
        self.requests().into_iter().filter(|request| request.path() == path).collect()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn accept<F, Fut>(
    listener: std::net::TcpListener,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
    connections: Arc<AtomicUsize>,
    respond: F,
) where
    F: Fn(&ReceivedRequest, TcpStream) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<TcpStream>> + Send + 'static,
{
    let listener = TcpListener::from_std(listener).expect("a runtime accepts connections");
    let respond = Arc::new(respond);
    while let Ok((mut stream, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::SeqCst);
        let (requests, respond) = (requests.clone(), respond.clone());
        tokio::spawn(async move {
            while let Some(request) = read_request(&mut stream).await {
                requests.lock().expect("no holder of the lock panics").push(request.clone());
                match respond(&request, stream).await {
                    Some(kept) => stream = kept,
                    None => return,
                }
            }
        });
    }
}

/// A response with this status line, these header lines and this body.
pub fn response(status: &str, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

async fn read_request(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let mut request = ReceivedRequest { head, body: bytes.split_off(end + 4) };
            let length = request.header("content-length").and_then(|length| length.parse().ok());
            let have = request.body.len();
            request.body.resize(length.unwrap_or(0).max(have), 0);
            stream.read_exact(&mut request.body[have..]).await.ok()?;
            return Some(request);
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
