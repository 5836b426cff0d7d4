//! Real PostgreSQL servers for tests, and PgBouncer before one.
//!
//! Invariant: a server ends when its value is dropped. Before that it can be killed and started
//! again on the same port and folder, as after a crash. PostgreSQL refuses to run as root, so root
//! runs it as the user `postgres`, which its package creates.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::Process;
use crate::redis::free_port;

const START_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
const START_ATTEMPTS: usize = 5;
/// The user that runs the servers for root.
const USER: &str = "postgres";
/// Where Debian keeps the programs of each major version.
const DEBIAN_PROGRAMS: &str = "/usr/lib/postgresql";

/// Whether the programs of a PostgreSQL server are installed.
pub fn is_installed() -> bool {
    ["initdb", "postgres"].into_iter().all(|name| {
        program(name).arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    })
}

/// One running PostgreSQL server with the database `postgres`.
#[derive(Debug)]
pub struct PostgresServer {
    process: Process,
    port: u16,
    folder: TempDir,
    arguments: Vec<String>,
}

impl PostgresServer {
    /// Starts a server and waits until it accepts connections. It does not wait for the disk, which
    /// matters only in a crash of the machine.
    pub fn start() -> Self {
        Self::start_with(&["-c", "fsync=off"])
    }

    /// Starts a server with further arguments, such as `-c name=value`.
    pub fn start_with(arguments: &[&str]) -> Self {
        let folder = owned_folder("fairlane-postgres-");
        let mut initdb = unprivileged("initdb");
        initdb.arg("--pgdata").arg(folder.path().join("data"));
        initdb.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        let made = initdb.output().expect("initdb starts");
        assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        for _ in 0..START_ATTEMPTS {
            let port = free_port();
            if let Some(process) = started(port, folder.path(), &arguments) {
                return Self { process, port, folder, arguments };
            }
        }
        panic!("postgres did not start; its log is in {:?}", folder.keep());
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of its database.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Kills the server (SIGKILL).
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills the server if it runs, and starts it again with its committed data.
    pub fn restart(&mut self) {
        self.kill();
        let deadline = Instant::now() + START_LIMIT;
        // The processes of its connections end shortly after the first process.
        while Instant::now() < deadline {
            if let Some(process) = started(self.port, self.folder.path(), &self.arguments) {
                self.process = process;
                return;
            }
            std::thread::sleep(POLL);
        }
        panic!("postgres does not come back: {}", read(&self.folder.path().join("log")));
    }

    /// The log of the server since its last start.
    pub fn log(&self) -> String {
        read(&self.folder.path().join("log"))
    }

    /// Runs SQL in `psql` and returns its rows, with `|` between columns.
    pub fn sql(&self, sql: &str) -> String {
        let mut command = program("psql");
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &self.url(), "-c", sql]);
        let output = command.output().expect("psql starts");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }
}

/// A PgBouncer in transaction mode before a server.
#[derive(Debug)]
pub struct PgBouncer {
    _process: Process,
    port: u16,
    _folder: TempDir,
}

impl PgBouncer {
    /// Starts a PgBouncer with few connections to the server, so that its clients share them.
    pub fn start(server: &PostgresServer) -> Self {
        for _ in 0..START_ATTEMPTS {
            let (port, folder) = (free_port(), owned_folder("fairlane-pgbouncer-"));
            let config = folder.path().join("pgbouncer.ini");
            let text = format!(
                "[databases]\n* = host=127.0.0.1 port={} user={USER}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                 listen_port = {port}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 3\n\
                 max_client_conn = 500\nunix_socket_dir =\nignore_startup_parameters = extra_float_digits\n",
                server.port
            );
            std::fs::write(&config, text).expect("the folder can be written");
            let mut command = unprivileged("pgbouncer");
            command.arg("--quiet").arg(&config).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut process = Process::start(&mut command);
            if is_ready(port, &mut process) {
                return Self { _process: process, port, _folder: folder };
            }
        }
        panic!("pgbouncer did not start");
    }

    /// The URL of the server's database behind it.
    pub fn url(&self) -> String {
        url(self.port)
    }
}

fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable")
}

/// The process, once it accepts connections; `None` if it ended, for instance because the port is
/// in use.
fn started(port: u16, folder: &Path, arguments: &[String]) -> Option<Process> {
    let log = std::fs::File::create(folder.join("log")).expect("the folder can be written");
    let mut command = unprivileged("postgres");
    command.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string(), "-h", "127.0.0.1"]);
    command.args(["-k", "", "-c", "max_connections=300", "-c", "max_prepared_transactions=4"]);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut process = Process::start(&mut command);
    is_ready(port, &mut process).then_some(process)
}

fn is_ready(port: u16, process: &mut Process) -> bool {
    let deadline = Instant::now() + START_LIMIT;
    while Instant::now() < deadline {
        if process.try_wait().expect("a child can be asked").is_some() {
            return false;
        }
        let mut command = program("pg_isready");
        command.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string(), "-d", "postgres"]);
        if command.status().expect("pg_isready starts").success() {
            return process.try_wait().expect("a child can be asked").is_none();
        }
        std::thread::sleep(POLL);
    }
    false
}

/// A folder that the user who runs the servers owns.
fn owned_folder(prefix: &str) -> TempDir {
    let folder = tempfile::Builder::new().prefix(prefix).tempdir().expect("a folder can be made");
    if is_root() {
        let status = Command::new("chown").arg(USER).arg(folder.path()).status();
        assert!(status.expect("chown starts").success(), "the user {USER} exists: its package makes it");
    }
    folder
}

/// A program, run as another user by root.
fn unprivileged(name: &str) -> Command {
    if !is_root() {
        return program(name);
    }
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "--"]);
    command.arg(program(name).get_program()).current_dir("/");
    command
}

fn program(name: &str) -> Command {
    Command::new(debian_program(name).unwrap_or_else(|| name.into()))
}

/// The program in the folder of the newest version that Debian has installed.
fn debian_program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN_PROGRAMS).ok()?.flatten();
    let programs = versions.map(|version| version.path().join("bin").join(name));
    let number = |path: &PathBuf| path.iter().rev().nth(2)?.to_str()?.parse::<u32>().ok();
    programs.filter(|path| path.is_file()).max_by_key(number)
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_killed_comes_back_with_what_it_has_committed() {
        let mut server = PostgresServer::start();
        server.sql("CREATE TABLE kept (id int); INSERT INTO kept VALUES (42)");
        let bouncer = PgBouncer::start(&server);
        server.restart();
        assert_eq!(server.sql("SELECT id FROM kept"), "42");
        let mut through = program("psql");
        through.args(["-X", "-A", "-t", "-d", &bouncer.url(), "-c", "SELECT id FROM kept"]);
        let output = through.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "42");
    }
}
