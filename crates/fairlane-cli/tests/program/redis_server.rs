//! A redis-server of the test's own, stopped when the test ends.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub struct RedisServer {
    server: Child,
    port: u16,
    _folder: TempDir,
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
        let deadline = Instant::now() + Duration::from_secs(10);
        while !server.ask("CLUSTER INFO").unwrap().contains("cluster_state:ok") {
            assert!(Instant::now() < deadline, "the cluster did not form");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    fn start_with(words: &[&str]) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let folder = TempDir::new().unwrap();
        let server = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(folder.path())
            .args(words)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let started = Self { server, port, _folder: folder };
        let deadline = Instant::now() + Duration::from_secs(10);
        while started.ask("PING").is_none_or(|answer| !answer.starts_with("+PONG")) {
            assert!(Instant::now() < deadline, "redis-server did not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        started
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
