//! A redis-server of the test's own, stopped when the test ends.

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

/// A port nobody listens on.
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
    /// Starts one on a free port in a folder of its own.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a cluster of one.
    pub fn start_cluster() -> Self {
        let server = Self::start_with(&["--cluster-enabled", "yes"]);
        assert_eq!(server.ask("CLUSTER ADDSLOTSRANGE 0 16383").unwrap().trim(), "+OK");
        until("the cluster forms", || server.ask("CLUSTER INFO").unwrap().contains("cluster_state:ok"));
        server
    }

    /// Starts one with these further words of configuration.
    pub fn start_with(words: &[&str]) -> Self {
        Self::start_at(free_port(), words)
    }

    /// Starts one on a port that was free a moment ago.
    pub fn start_at(port: u16, words: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let server = Self { server: spawn(port, &folder, words), port, folder };
        server.wait();
        server
    }

    /// Kills it and starts another one in its place, which knows nothing.
    pub fn replace_by_an_empty_one(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
        self.server = spawn(self.port, &self.folder, &[]);
        self.wait();
    }

    /// A server that wants a password answers too.
    fn wait(&self) {
        let is_there = |answer: &String| answer.starts_with("+PONG") || answer.starts_with("-NOAUTH");
        until("redis-server answers", || self.ask("PING").as_ref().is_some_and(is_there));
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The answer to an inline command, if the server is there.
    pub fn ask(&self, command: &str) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
        let mut answer = [0; 512];
        let length = stream.read(&mut answer).ok()?;
        Some(String::from_utf8_lossy(&answer[..length]).into_owned())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
