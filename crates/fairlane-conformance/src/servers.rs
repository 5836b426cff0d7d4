//! Real Redis servers for tests: each a child process with a free port and a folder of its own.
//!
//! Invariant: a server ends when its value is dropped. Before that it can be killed and started
//! again on the same port and folder, as after a crash.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const START_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);
const START_ATTEMPTS: usize = 5;
const SLOTS: u32 = 16_384;

/// The kind of server to start.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerOptions {
    /// Every write is on disk before it is answered.
    pub durable: bool,
    /// A node of a cluster.
    pub cluster: bool,
}

/// The certificates of a server that also listens with TLS.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// The CA whose clients it trusts, as a file.
    pub ca: PathBuf,
    /// Its certificate, as a file.
    pub certificate: PathBuf,
    /// The key of the certificate, as a file.
    pub key: PathBuf,
    /// Whether clients must have a certificate.
    pub asks_clients: bool,
}

/// One running redis-server.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    /// The port of the cluster's bus, or of TLS.
    second_port: u16,
    folder: TempDir,
    options: ServerOptions,
    tls: Option<ServerTls>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    pub fn start(options: ServerOptions) -> Self {
        Self::start_with(options, None)
    }

    /// Starts a server that also listens with TLS.
    pub fn start_tls(tls: ServerTls) -> Self {
        Self::start_with(ServerOptions::default(), Some(tls))
    }

    fn start_with(options: ServerOptions, tls: Option<ServerTls>) -> Self {
        let folder =
            tempfile::Builder::new().prefix("fairlane-redis-").tempdir().expect("a folder can be made");
        for _ in 0..START_ATTEMPTS {
            let (port, second_port) = free_ports();
            let mut child = spawn(port, second_port, &folder, options, tls.as_ref());
            if wait_until_it_answers(&mut child, port) {
                return Self { child, port, second_port, folder, options, tls };
            }
            end(&mut child);
        }
        panic!("redis-server did not start; its log is in {:?}", folder.keep());
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of the server.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The TLS port on 127.0.0.1.
    pub fn tls_port(&self) -> u16 {
        self.second_port
    }

    /// Ends it at once (SIGKILL).
    pub fn kill(&mut self) {
        end(&mut self.child);
    }

    /// Kills it if it runs and starts it again with what it left on disk.
    pub fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.port, self.second_port, &self.folder, self.options, self.tls.as_ref());
        assert!(wait_until_it_answers(&mut self.child, self.port), "redis-server comes back");
    }

    /// Sends one command and returns the reply as text.
    pub fn command(&self, arguments: &[&str]) -> String {
        send(self.port, arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Nodes that together own all slots.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts a cluster of this many nodes and waits until every node knows all others.
    pub fn start(count: u32) -> Self {
        let options = ServerOptions { cluster: true, ..ServerOptions::default() };
        let nodes: Vec<RedisServer> = (0..count).map(|_| RedisServer::start(options)).collect();
        for (number, node) in (0..count).zip(&nodes) {
            let (first, last) = (number * SLOTS / count, (number + 1) * SLOTS / count - 1);
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
        }
        for other in &nodes[1..] {
            let (port, bus_port) = (nodes[0].port.to_string(), nodes[0].second_port.to_string());
            other.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]);
        }
        let cluster = Self { nodes };
        cluster.wait_until_complete();
        cluster
    }

    /// The address of the cluster, with all its nodes.
    pub fn url(&self) -> String {
        let nodes: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }

    /// The nodes of the cluster.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    fn wait_until_complete(&self) {
        let known = format!("cluster_known_nodes:{}\r", self.nodes.len());
        let is_complete = |node: &RedisServer| {
            let info = node.command(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains(&known)
        };
        let deadline = Instant::now() + START_LIMIT;
        while !self.nodes.iter().all(is_complete) {
            assert!(Instant::now() < deadline, "the cluster is not complete");
            std::thread::sleep(POLL);
        }
    }
}

fn free_ports() -> (u16, u16) {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let port = |listener: &TcpListener| listener.local_addr().expect("a listener has an address").port();
    let (first, second) = (listen(), listen());
    (port(&first), port(&second))
}

fn spawn(
    port: u16,
    second_port: u16,
    folder: &TempDir,
    options: ServerOptions,
    tls: Option<&ServerTls>,
) -> Child {
    let log = folder.path().join("redis.log");
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]).arg("--dir");
    command.arg(folder.path()).arg("--logfile").arg(log).args(["--maxmemory-policy", "noeviction"]);
    command.args(["--repl-diskless-sync-delay", "0"]);
    if options.durable {
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    }
    if options.cluster {
        command.args(["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"]);
        command.args(["--cluster-port", &second_port.to_string()]);
    }
    if let Some(ServerTls { ca, certificate, key, asks_clients }) = tls {
        command.args(["--tls-port", &second_port.to_string()]).arg("--tls-cert-file").arg(certificate);
        command.arg("--tls-key-file").arg(key).arg("--tls-ca-cert-file").arg(ca);
        command.args(["--tls-auth-clients", if *asks_clients { "yes" } else { "no" }]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let spawned = command.spawn();
    spawned.unwrap_or_else(|error| {
        panic!("redis-server could not be started ({error}); these tests need Redis 7.0 or newer in the PATH")
    })
}

/// Whether the child answers; false if it ended or another process has the port.
fn wait_until_it_answers(child: &mut Child, port: u16) -> bool {
    let own = format!("process_id:{}\r", child.id());
    let deadline = Instant::now() + START_LIMIT;
    while Instant::now() < deadline {
        if child.try_wait().expect("a child can be asked").is_some() {
            return false;
        }
        if let Ok(info) = send(port, &["INFO", "server"]) {
            let loaded = send(port, &["PING"]).is_ok_and(|reply| reply == "PONG");
            if loaded {
                return info.contains(&own);
            }
        }
        std::thread::sleep(POLL);
    }
    false
}

fn send(port: u16, arguments: &[&str]) -> redis::RedisResult<String> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let mut connection = client.get_connection_with_timeout(START_LIMIT)?;
    let mut command = redis::cmd(arguments[0]);
    command.arg(&arguments[1..]).query(&mut connection)
}

fn end(child: &mut Child) {
    // It may have ended by itself; then there is nothing to kill, and waiting only clears it away.
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durable_server_that_is_killed_comes_back_with_what_it_had() {
        let mut server = RedisServer::start(ServerOptions { durable: true, ..ServerOptions::default() });
        assert_eq!(server.command(&["SET", "key", "value"]), "OK");
        server.restart();
        assert_eq!(server.command(&["GET", "key"]), "value");
    }

    #[test]
    fn a_cluster_owns_all_slots() {
        let cluster = RedisCluster::start(3);
        let info = cluster.nodes[1].command(&["CLUSTER", "INFO"]);
        assert!(info.contains("cluster_slots_ok:16384"), "{info}");
    }
}
