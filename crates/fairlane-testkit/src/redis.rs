//! Real Redis servers for tests: each a child process with a free port and a folder of its own.
//!
//! Invariant: a server ends when its value is dropped. Before that it can be killed and started
//! again on the same port and folder, as after a crash.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::Process;
use crate::wait::until_blocking;

const START_LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);
const START_ATTEMPTS: usize = 5;
const SLOTS: u32 = 16_384;

/// The kind of server to start.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerOptions {
    /// Whether every write is on disk before its reply is sent.
    pub durable: bool,
    /// Whether the server is a node of a cluster.
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
    process: Process,
    setup: Setup,
}

/// The parameters with which a server is started and restarted.
#[derive(Debug)]
struct Setup {
    port: u16,
    /// The port of the cluster's bus, or of TLS.
    second_port: u16,
    folder: TempDir,
    options: ServerOptions,
    tls: Option<ServerTls>,
    arguments: Vec<String>,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    pub fn start(options: ServerOptions) -> Self {
        Self::start_on(free_ports, options, None, &[])
    }

    /// Starts a server that also listens with TLS.
    pub fn start_tls(tls: ServerTls) -> Self {
        Self::start_on(free_ports, ServerOptions::default(), Some(tls), &[])
    }

    /// Starts a server with further arguments.
    pub fn start_with(arguments: &[&str]) -> Self {
        Self::start_on(free_ports, ServerOptions::default(), None, arguments)
    }

    /// Starts a server with further arguments on a port that was free a moment ago.
    pub fn start_at(port: u16, arguments: &[&str]) -> Self {
        Self::start_on(|| (port, 0), ServerOptions::default(), None, arguments)
    }

    fn start_on(
        ports: impl Fn() -> (u16, u16),
        options: ServerOptions,
        tls: Option<ServerTls>,
        arguments: &[&str],
    ) -> Self {
        let folder = tempfile::Builder::new().prefix("fairlane-redis-").tempdir();
        let folder = folder.expect("a folder can be made");
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut setup = Setup { port: 0, second_port: 0, folder, options, tls, arguments };
        for _ in 0..START_ATTEMPTS {
            (setup.port, setup.second_port) = ports();
            if let Some(process) = setup.started() {
                return Self { process, setup };
            }
        }
        panic!("redis-server did not start; its log is in {:?}", setup.folder.keep());
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.setup.port
    }

    /// The address with its port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The TLS port on 127.0.0.1.
    pub fn tls_port(&self) -> u16 {
        self.setup.second_port
    }

    /// Kills the server (SIGKILL).
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Refuses functions from now on, so that engines run scripts instead.
    pub fn refuse_functions(&self) {
        self.command(&["ACL", "SETUSER", "default", "-fcall", "-function"]);
    }

    /// Kills the server if it runs, and starts it again from its files; it has none unless it is
    /// durable.
    pub fn restart(&mut self) {
        self.kill();
        self.process = self.setup.started().expect("redis-server comes back");
    }

    /// Sends one command and returns the reply as text.
    pub fn command(&self, arguments: &[&str]) -> String {
        send(self.port(), arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
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
            let (port, bus_port) = (nodes[0].port().to_string(), nodes[0].setup.second_port.to_string());
            other.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]);
        }
        let known = format!("cluster_known_nodes:{count}\r");
        let is_complete = |node: &RedisServer| {
            let info = node.command(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains(&known)
        };
        until_blocking("the cluster is complete", || nodes.iter().all(is_complete));
        Self { nodes }
    }

    /// The URL of the cluster, with all its nodes.
    pub fn url(&self) -> String {
        let nodes: Vec<String> = self.nodes.iter().map(RedisServer::address).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }
}

/// Ports that Linux and macOS give neither to a listener without a port nor to an outgoing connection.
const STATIC_PORTS: Range<u16> = 20_000..32_768;

/// A port that is not in use. It stays free until a caller of this function draws it again.
pub fn free_port() -> u16 {
    free_ports().0
}

fn free_ports() -> (u16, u16) {
    let listen = || {
        let draws = std::iter::repeat_with(|| RandomState::new().hash_one(()) % STATIC_PORTS.len() as u64);
        let mut ports = draws.map(|draw| STATIC_PORTS.start + draw as u16).take(STATIC_PORTS.len());
        let listener = ports.find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
        listener.expect("a port is free")
    };
    let port = |listener: &TcpListener| listener.local_addr().expect("a listener has an address").port();
    let (first, second) = (listen(), listen());
    (port(&first), port(&second))
}

impl Setup {
    /// The process, once it replies; `None` if it ended or another process uses the port.
    fn started(&self) -> Option<Process> {
        let mut process = Process::start(&mut self.command());
        let own = format!("process_id:{}\r", process.id());
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            if process.try_wait().expect("a child can be asked").is_some() {
                return None;
            }
            match send(self.port, &["INFO", "server"]) {
                Ok(info) if send(self.port, &["PING"]).is_ok_and(|reply| reply == "PONG") => {
                    return info.contains(&own).then_some(process);
                }
                // A server with a password does not reveal its process id.
                Err(error) if error.code() == Some("NOAUTH") => return Some(process),
                _ => std::thread::sleep(POLL),
            }
        }
        None
    }

    fn command(&self) -> Command {
        let second_port = self.second_port.to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.arg("--dir").arg(self.folder.path());
        command.arg("--logfile").arg(self.folder.path().join("redis.log"));
        command.args(["--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0"]);
        if self.options.durable {
            command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        }
        if self.options.cluster {
            command.args(["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"]);
            command.args(["--cluster-port", &second_port]);
        }
        if let Some(ServerTls { ca, certificate, key, asks_clients }) = &self.tls {
            command.args(["--tls-port", &second_port]).arg("--tls-cert-file").arg(certificate);
            command.arg("--tls-key-file").arg(key).arg("--tls-ca-cert-file").arg(ca);
            command.args(["--tls-auth-clients", if *asks_clients { "yes" } else { "no" }]);
        }
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

/// A connection to a server that runs. It waits for every reply, however busy the machine is.
pub async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(url).expect("the address is valid");
    let config = redis::AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(Some(START_LIMIT));
    client.get_multiplexed_async_connection_with_config(&config).await.expect("the server runs")
}

fn send(port: u16, arguments: &[&str]) -> redis::RedisResult<String> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}"))?;
    let mut connection = client.get_connection_with_timeout(START_LIMIT)?;
    let mut command = redis::cmd(arguments[0]);
    command.arg(&arguments[1..]).query(&mut connection)
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
        let info = cluster.nodes()[1].command(&["CLUSTER", "INFO"]);
        assert!(info.contains("cluster_slots_ok:16384"), "{info}");
    }
}
