//! A separate Redis server for a benchmark.
//!
//! The server lives exactly as long as this program, however that ends: a small shell holds the
//! other end of a pipe and stops the server when the pipe closes, which happens even after a kill.
//! The server stores nothing on disk, so that the disk of the machine does not affect the results.

use crate::{Outcome, shell};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const REPLY_LIMIT: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(20);

/// Starts the server, waits until standard input closes, then stops the server and clears its
/// folder.
const SUPERVISOR_SCRIPT: &str = r#"
trap "" INT TERM HUP
folder="$1"
shift
redis-server "$@" >/dev/null &
server=$!
cat >/dev/null
kill "$server" 2>/dev/null
wait "$server"
rm -rf "$folder"
"#;

/// A running redis-server that stops when dropped.
pub struct RedisServer {
    supervisor: Child,
    port: u16,
    folder: PathBuf,
}

impl RedisServer {
    /// Starts a server on a free port and waits until it answers.
    pub fn start() -> Result<Self, String> {
        if shell::find("redis-server").is_none() {
            return Err("redis-server is not installed; `cargo xtask test` installs it".into());
        }
        let port = free_port()?;
        let folder = make_folder(port)?;
        let supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR_SCRIPT, "supervisor"])
            .arg(&folder)
            .args(server_arguments(port, &folder))
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| format!("redis-server could not be started: {error}"))?;
        let server = Self { supervisor, port, folder };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    /// The address of the server.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A temporary folder that is removed with the server.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes every key.
    pub fn flush(&self) -> Outcome {
        match is_reply(self.port, b"FLUSHALL\r\n", b"+OK") {
            true => Ok(()),
            false => Err("redis-server did not answer FLUSHALL".into()),
        }
    }

    fn wait_until_it_answers(&self) -> Outcome {
        let deadline = Instant::now() + REPLY_LIMIT;
        while !answers_ping(self.port) {
            if Instant::now() >= deadline {
                let limit_s = REPLY_LIMIT.as_secs();
                return Err(format!("redis-server did not answer within {limit_s} s"));
            }
            std::thread::sleep(START_POLL);
        }
        Ok(())
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        // An error of the wait cannot be handled here.
        let _ = self.supervisor.wait();
    }
}

fn server_arguments(port: u16, folder: &Path) -> Vec<String> {
    let port = port.to_string();
    let folder = folder.to_string_lossy();
    let pairs = [
        ("--port", port.as_str()),
        ("--bind", "127.0.0.1"),
        ("--dir", &folder),
        ("--save", ""),
        ("--appendonly", "no"),
        ("--maxmemory-policy", "noeviction"),
    ];
    let arguments = pairs.into_iter().flat_map(|(name, value)| [name, value]);
    arguments.map(String::from).collect()
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(|error| format!("no free port for redis-server: {error}"))
}

fn make_folder(port: u16) -> Result<PathBuf, String> {
    let name = format!("fairlane-bench-{}-{port}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder)
        .map_err(|error| format!("{} could not be made: {error}", folder.display()))?;
    Ok(folder)
}

fn answers_ping(port: u16) -> bool {
    is_reply(port, b"PING\r\n", b"+PONG")
}

/// Whether the reply to a command begins with `expected`.
fn is_reply(port: u16, command: &[u8], expected: &[u8]) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut reply = vec![0; expected.len()];
    let answered = TcpStream::connect_timeout(&address, REPLY_LIMIT).and_then(|mut stream| {
        stream.set_read_timeout(Some(REPLY_LIMIT))?;
        stream.write_all(command)?;
        stream.read_exact(&mut reply)
    });
    answered.is_ok() && reply == expected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_answers_while_held_and_is_gone_with_its_folder_when_dropped() {
        let server = RedisServer::start().unwrap();
        let port = server.port;
        let folder = server.folder().to_path_buf();
        assert!(answers_ping(port));
        assert_eq!(server.flush(), Ok(()));
        assert!(folder.is_dir());
        drop(server);
        assert!(!answers_ping(port));
        assert!(!folder.exists());
    }

    #[test]
    fn the_server_keeps_nothing_on_disk() {
        let arguments = server_arguments(1, Path::new("here")).join(" ");
        assert!(arguments.contains("--save  --appendonly no"));
    }
}
