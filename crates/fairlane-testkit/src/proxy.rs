//! A proxy in front of a server, whose connections can be cut, also between a command and its
//! reply.
//!
//! Bytes pass unchanged. A cut closes both sides of a connection at once: the server still carries
//! out the commands that were sent before, and the client never gets their replies. The proxy can
//! also respond itself for a while. A stalled connection stays open and forwards nothing, like one to
//! a host that has vanished.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The value of `passes` while no cut is due.
const NEVER: u64 = u64::MAX;
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Debug)]
struct Cutter {
    /// Number of chunks of replies that still pass before the connection is cut.
    passes: AtomicU64,
    cuts: AtomicU64,
    connections: AtomicU64,
    /// The port of the server for new connections.
    port: AtomicU16,
    /// The response of the proxy itself, instead of the server's.
    response: Mutex<Option<&'static [u8]>>,
    /// Changes when everything is to be cut.
    all: watch::Sender<u64>,
    /// Changes when every open connection is to stall.
    stall: watch::Sender<u64>,
}

impl Cutter {
    /// Counts one chunk of replies; returns true if it must not pass.
    fn holds_back(&self) -> bool {
        let count_down = |passes: u64| match passes {
            NEVER => None,
            0 => Some(NEVER),
            passes => Some(passes - 1),
        };
        let counted = self.passes.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count_down);
        counted == Ok(0)
    }

    fn count_cut(&self) {
        self.cuts.fetch_add(1, Ordering::SeqCst);
    }

    fn own_response(&self) -> Option<&'static [u8]> {
        *self.response.lock().expect("no holder of the lock panics")
    }
}

/// A listener that forwards its connections to one server. Dropping it closes all of them.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    cutter: Arc<Cutter>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port and forwards to `port` on this machine.
    pub async fn start(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let (all, stall) = (watch::channel(0).0, watch::channel(0).0);
        let (passes, response) = (AtomicU64::new(NEVER), Mutex::new(None));
        let (cuts, connections) = (AtomicU64::new(0), AtomicU64::new(0));
        let cutter = Cutter { passes, cuts, connections, port: AtomicU16::new(port), response, all, stall };
        let cutter = Arc::new(cutter);
        let accepting = tokio::spawn(accept(listener, cutter.clone()));
        Self { address, cutter, accepting }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The address clients of a Redis use.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Lets `passes` more chunks of replies through, then cuts the connection on which the next one
    /// comes, instead of passing it on.
    pub fn cut_before_reply(&self, passes: u64) {
        self.cutter.passes.store(passes, Ordering::SeqCst);
    }

    /// Forwards new connections to another port; open ones stay, as behind a DNS name or a load
    /// balancer.
    pub fn connect_to(&self, port: u16) {
        self.cutter.port.store(port, Ordering::SeqCst);
    }

    /// Cuts every connection now.
    pub fn cut_all(&self) {
        self.cutter.all.send_modify(|generation| *generation += 1);
    }

    /// Forwards nothing more on the connections that are open now, and keeps them open. New ones work.
    pub fn stall_all(&self) {
        self.cutter.stall.send_modify(|generation| *generation += 1);
    }

    /// Cuts every connection, and responds itself to each request on new ones; with `None`,
    /// forwards again.
    pub fn respond_itself(&self, response: Option<&'static [u8]>) {
        *self.cutter.response.lock().expect("no holder of the lock panics") = response;
        self.cut_all();
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.cutter.connections.load(Ordering::SeqCst)
    }

    /// Connections cut so far.
    pub fn cuts(&self) -> u64 {
        self.cutter.cuts.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, cutter: Arc<Cutter>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        connections.spawn(connect(client, cutter.clone()));
    }
}

async fn connect(mut client: TcpStream, cutter: Arc<Cutter>) {
    cutter.connections.fetch_add(1, Ordering::SeqCst);
    let (mut all, mut stall) = (cutter.all.subscribe(), cutter.stall.subscribe());
    if let Some(response) = cutter.own_response() {
        // The client may have closed the connection.
        let _ = client.read(&mut vec![0; CHUNK_BYTES]).await;
        let _ = client.write_all(response).await;
        return;
    }
    let port = cutter.port.load(Ordering::SeqCst);
    // If the server is down, the connection closes at once.
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        () = pass_replies(&mut from_server, &mut to_client, &cutter) => {}
        _ = all.changed() => cutter.count_cut(),
        _ = stall.changed() => drop(all.changed().await),
    }
}

async fn pass_replies(
    from_server: &mut (impl AsyncReadExt + Unpin),
    to_client: &mut (impl AsyncWriteExt + Unpin),
    cutter: &Cutter,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(bytes @ 1..) = from_server.read(&mut chunk).await {
        if cutter.holds_back() {
            return cutter.count_cut();
        }
        if to_client.write_all(&chunk[..bytes]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::{RedisServer, ServerOptions, connect};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_command_whose_reply_is_cut_off_has_been_carried_out() {
        let server = RedisServer::start(ServerOptions::default());
        let proxy = Proxy::start(server.port()).await;
        let mut connection = connect(&proxy.url()).await;
        let set = |value: &str| redis::cmd("SET").arg("key").arg(value).to_owned();
        set("1").query_async::<()>(&mut connection).await.expect("it passes");
        proxy.cut_before_reply(1);
        set("2").query_async::<()>(&mut connection).await.expect("it still passes");
        set("3").query_async::<()>(&mut connection).await.expect_err("its reply is cut off");
        assert_eq!((server.command(&["GET", "key"]).as_str(), proxy.cuts()), ("3", 1));
        let mut another = connect(&proxy.url()).await;
        set("4").query_async::<()>(&mut another).await.expect("it passes");
        proxy.cut_all();
        set("5").query_async::<()>(&mut another).await.expect_err("every connection was cut");
        assert_eq!(proxy.cuts(), 2);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_stalled_connection_gets_no_reply_and_a_new_one_does() {
        let server = RedisServer::start(ServerOptions::default());
        let proxy = Proxy::start(server.port()).await;
        let mut stalled = connect(&proxy.url()).await;
        proxy.stall_all();
        let ping = redis::cmd("PING");
        let reply = ping.query_async::<()>(&mut stalled);
        let waited = tokio::time::timeout(std::time::Duration::from_millis(100), reply).await;
        let failed = waited.map_or(true, |reply| reply.is_err());
        let mut another = connect(&proxy.url()).await;
        ping.query_async::<()>(&mut another).await.expect("a new connection works");
        assert!(failed, "a stalled connection has no reply");
    }
}
