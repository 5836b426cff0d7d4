//! A way to a server that can be cut, also between a command and its reply.
//!
//! Bytes pass as they come. A cut closes both sides of a connection at once: what went to the server before
//! has been carried out or will be, and the client never sees an answer. It can also answer itself for a while.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// No cut is due.
const NEVER: u64 = u64::MAX;
const CHUNK_BYTES: usize = 64 * 1024;

#[derive(Debug)]
struct Cutter {
    /// Chunks of replies that still pass before one is held back for good.
    passes: AtomicU64,
    cuts: AtomicU64,
    connections: AtomicU64,
    /// Where new connections lead.
    port: AtomicU16,
    /// What it answers itself, instead of asking the server.
    answer: Mutex<Option<&'static [u8]>>,
    /// Changes when everything is to be cut.
    all: watch::Sender<u64>,
}

impl Cutter {
    /// Counts one chunk of replies; true if it must not pass.
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

    fn own_answer(&self) -> Option<&'static [u8]> {
        *self.answer.lock().expect("nothing panics while it holds the answer")
    }
}

/// A listener whose connections lead to one server. Dropping it closes all of them.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    cutter: Arc<Cutter>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port and leads to `port` on this machine.
    pub async fn start(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let all = watch::channel(0).0;
        let (passes, answer) = (AtomicU64::new(NEVER), Mutex::new(None));
        let (cuts, connections) = (AtomicU64::new(0), AtomicU64::new(0));
        let cutter = Cutter { passes, cuts, connections, port: AtomicU16::new(port), answer, all };
        let cutter = Arc::new(cutter);
        let accepting = tokio::spawn(accept(listener, cutter.clone()));
        Self { address, cutter, accepting }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The address clients of a Redis use.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Lets `passes` more chunks of replies through, then cuts the connection on which the next one comes,
    /// instead of passing it on.
    pub fn cut_before_reply(&self, passes: u64) {
        self.cutter.passes.store(passes, Ordering::SeqCst);
    }

    /// Leads new connections to another port; those that are open stay, as behind a name or a balancer.
    pub fn lead_to(&self, port: u16) {
        self.cutter.port.store(port, Ordering::SeqCst);
    }

    /// Cuts every connection now.
    pub fn cut_all(&self) {
        self.cutter.all.send_modify(|generation| *generation += 1);
    }

    /// Cuts every connection, and answers itself whatever comes on new ones; with nothing, leads to the server again.
    pub fn answer_itself(&self, answer: Option<&'static [u8]>) {
        *self.cutter.answer.lock().expect("nothing panics while it holds the answer") = answer;
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
    let mut all = cutter.all.subscribe();
    if let Some(answer) = cutter.own_answer() {
        // Whoever is gone does not hear it.
        let _ = client.read(&mut vec![0; CHUNK_BYTES]).await;
        let _ = client.write_all(answer).await;
        return;
    }
    let port = cutter.port.load(Ordering::SeqCst);
    // A server that is down is a connection that closes at once.
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        () = pass_replies(&mut from_server, &mut to_client, &cutter) => {}
        _ = all.changed() => cutter.count_cut(),
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
    use crate::servers::{RedisServer, ServerOptions};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_command_whose_reply_is_cut_off_has_been_carried_out() {
        let server = RedisServer::start(ServerOptions::default());
        let proxy = Proxy::start(server.port()).await;
        let client = redis::Client::open(proxy.url()).expect("an address");
        let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
        let set = |value: &str| redis::cmd("SET").arg("key").arg(value).to_owned();
        set("1").query_async::<()>(&mut connection).await.expect("it passes");
        proxy.cut_before_reply(1);
        set("2").query_async::<()>(&mut connection).await.expect("it still passes");
        set("3").query_async::<()>(&mut connection).await.expect_err("its reply is cut off");
        assert_eq!((server.command(&["GET", "key"]).as_str(), proxy.cuts()), ("3", 1));
        let mut another = client.get_multiplexed_async_connection().await.expect("the way is open again");
        set("4").query_async::<()>(&mut another).await.expect("it passes");
        proxy.cut_all();
        set("5").query_async::<()>(&mut another).await.expect_err("every connection was cut");
        assert_eq!(proxy.cuts(), 2);
    }
}
