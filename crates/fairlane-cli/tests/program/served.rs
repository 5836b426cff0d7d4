//! A server for one test: the real program in a temporary folder.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::running::Ended;
use super::work::until;

pub struct Served {
    program: Child,
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
        until("the server prints its address", || {
            assert!(served.program.try_wait().unwrap().is_none(), "it exited: {}", served.read("stderr"));
            let line = served.events().into_iter().find(|event| event["event"] == "serving");
            line.inspect(|line| served.address = line["address"].as_str().unwrap().to_owned()).is_some()
        });
        served
    }

    /// Starts a server without waiting for its address.
    pub fn spawned(folder: TempDir, words: &[&str]) -> Self {
        let file = |name: &str| File::create(folder.path().join(name)).unwrap();
        let program = Command::new(env!("CARGO_BIN_EXE_fairlane"))
            .args([&["serve", "--json"], words].concat())
            .current_dir(folder.path())
            .env_remove("FAIRLANE_ENGINE")
            // An empty variable counts as not set.
            .env("FAIRLANE_LOG", "")
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
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
        // The last line may be incomplete.
        self.read("stdout").lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.program.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits until the server exits.
    pub fn ended(mut self) -> (Ended, TempDir) {
        let mut status = None;
        until("the server exits", || {
            status = self.program.try_wait().unwrap();
            status.is_some()
        });
        let code = status.and_then(|status| status.code()).expect("the server exits without a signal");
        let ended = Ended { code, stdout: self.read("stdout"), stderr: self.read("stderr") };
        let folder = std::mem::replace(&mut self.folder, TempDir::new().unwrap());
        (ended, folder)
    }

    /// Sends a request; returns status and body, or none without a complete response.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        ask(&self.address, method, path, body)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
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
