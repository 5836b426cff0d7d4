//! A server for one test: the real program in a temporary folder.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fairlane_testkit::program::Background;
use serde_json::Value;
use tempfile::TempDir;

use super::running::{Ended, PROGRAM};

pub struct Served {
    program: Background,
    pub folder: TempDir,
    pub address: String,
}

impl Served {
    /// Starts a server whose queue is in the subfolder `queue`.
    pub fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let engine = format!("dir:{}", folder.path().join("queue").display());
        Self::in_folder(folder, &["--engine", &engine])
    }

    /// Starts a server with these arguments in this folder, on a free port.
    pub fn in_folder(folder: TempDir, words: &[&str]) -> Self {
        let mut served = Self::spawned(folder, &[&["--listen", "127.0.0.1:0"], words].concat());
        served.address = served.program.served().unwrap();
        served
    }

    /// Starts a server without waiting for its address.
    pub fn spawned(folder: TempDir, words: &[&str]) -> Self {
        let words = [&["serve", "--json"], words].concat();
        let program = Background::start(Path::new(PROGRAM), folder.path(), &words);
        Self { program, folder, address: String::new() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The events printed so far.
    pub fn events(&self) -> Vec<Value> {
        self.program.events()
    }

    pub fn signal(&self, name: &str) {
        self.program.signal(name);
    }

    /// Waits until the server exits.
    pub fn ended(self) -> (Ended, TempDir) {
        (self.program.ended(), self.folder)
    }

    /// Sends a request; returns status and body, or none without a complete response.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        ask(&self.address, method, path, body)
    }
}

/// Sends a request on a new connection, as curl does.
pub fn ask(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let host = address.strip_prefix("http://")?;
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}
