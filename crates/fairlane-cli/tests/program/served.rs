//! A server of the test's own: the real program, in a folder of its own.

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
    /// One that keeps its queue in `queue` of its folder.
    pub fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let engine = format!("dir:{}", folder.path().join("queue").display());
        Self::in_folder(folder, &["--engine", &engine])
    }

    /// One with these words, in this folder, on a free port.
    pub fn in_folder(folder: TempDir, words: &[&str]) -> Self {
        let mut served = Self::spawned(folder, &[&["--listen", "127.0.0.1:0"], words].concat());
        until("the server says where it is", || {
            assert!(served.program.try_wait().unwrap().is_none(), "it ended: {}", served.read("stderr"));
            let line = served.events().into_iter().find(|event| event["event"] == "serving");
            line.inspect(|line| served.address = line["address"].as_str().unwrap().to_owned()).is_some()
        });
        served
    }

    /// One that need not come so far.
    pub fn spawned(folder: TempDir, words: &[&str]) -> Self {
        let file = |name: &str| File::create(folder.path().join(name)).unwrap();
        let program = Command::new(env!("CARGO_BIN_EXE_fairlane"))
            .args([&["serve", "--json"], words].concat())
            .current_dir(folder.path())
            .env_remove("FAIRLANE_ENGINE")
            // It is not set.
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

    /// What it has said.
    pub fn events(&self) -> Vec<Value> {
        // The last line may be half written.
        self.read("stdout").lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.program.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for its end.
    pub fn ended(mut self) -> (Ended, TempDir) {
        let mut status = None;
        until("the server ends", || {
            status = self.program.try_wait().unwrap();
            status.is_some()
        });
        let code = status.and_then(|status| status.code()).expect("it ends by itself");
        let ended = Ended { code, stdout: self.read("stdout"), stderr: self.read("stderr") };
        let folder = std::mem::replace(&mut self.folder, TempDir::new().unwrap());
        (ended, folder)
    }

    /// The status and body of the answer to a request; none if there was no whole answer.
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

/// As curl would, on a connection of its own.
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
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}
