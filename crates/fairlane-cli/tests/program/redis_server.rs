//! A redis-server for one test, stopped when the test ends.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::work::until;

pub struct RedisServer {
    server: Child,
    port: u16,
    folder: TempDir,
}

/// A port that is not in use.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn spawn(port: u16, folder: &TempDir, words: &[&str]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder.path())
        .args(words)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

impl RedisServer {
    /// Starts a server on a free port in a temporary folder.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a cluster with one node.
    pub fn start_cluster() -> Self {
        let server = Self::start_with(&["--cluster-enabled", "yes"]);
        assert_eq!(server.ask("CLUSTER ADDSLOTSRANGE 0 16383").unwrap().trim(), "+OK");
        until("the cluster forms", || server.ask("CLUSTER INFO").unwrap().contains("cluster_state:ok"));
        server
    }

    /// Starts a server with further arguments.
    pub fn start_with(words: &[&str]) -> Self {
        Self::start_at(free_port(), words)
    }

    /// Starts a server on a port that was free a moment ago.
    pub fn start_at(port: u16, words: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let server = Self { server: spawn(port, &folder, words), port, folder };
        server.wait();
        server
    }

    /// Kills the server and starts an empty one on the same port.
    pub fn replace_by_an_empty_one(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
        self.server = spawn(self.port, &self.folder, &[]);
        self.wait();
    }

    /// Waits until the server responds, even if it requires a password.
    fn wait(&self) {
        let is_running = |reply: &String| reply.starts_with("+PONG") || reply.starts_with("-NOAUTH");
        until("redis-server responds", || self.ask("PING").as_ref().is_some_and(is_running));
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The reply to an inline command, if the server is running.
    pub fn ask(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut reply = [0; 512];
        let length = stream.read(&mut reply).ok()?;
        Some(String::from_utf8_lossy(&reply[..length]).into_owned())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
