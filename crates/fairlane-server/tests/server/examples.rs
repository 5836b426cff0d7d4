//! The examples in other languages, run against a real server, and against one that refuses leases.

use std::fs::{File, read_to_string};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use fairlane::{BulkState, JobState};
use fairlane_core::queue::InspectBulk;
use fairlane_core::{BulkId, GroupId};
use fairlane_testkit::document::{blocks, page, root};

use crate::running::Running;

/// The examples take a few seconds, and longer on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

const EXAMPLES: [&str; 3] = ["worker.sh", "worker.py", "worker.mjs"];

/// The exit of an example.
struct Exited {
    is_success: bool,
    stdout: String,
    stderr: String,
}

/// The command of the README, with this server, this example and no key.
fn command(url: &str, file: &str) -> String {
    let blocks = blocks(&page("examples/http/README.md"), "sh");
    let [command] = &blocks[..] else { panic!("{blocks:?}") };
    let command = command.replace("http://127.0.0.1:8080", url).replace(" FAIRLANE_KEY=…", "");
    assert!(command.contains(url) && command.contains("./worker.py"), "{command}");
    command.replace("worker.py", file)
}

/// Runs an example as its README does, with a proxy in the environment that does not exist.
async fn run(url: &str, file: &str) -> Exited {
    let folder = tempfile::tempdir().unwrap();
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| folder.path().join(name));
    let mut child = Command::new("bash")
        .args(["-c", &format!("exec env {}", command(url, file))])
        .current_dir(root().join("examples/http"))
        .env_remove("FAIRLANE_KEY")
        .env_remove("no_proxy")
        .env("http_proxy", "http://127.0.0.1:1")
        .stdin(Stdio::null())
        .stdout(File::create(&stdout).unwrap())
        .stderr(File::create(&stderr).unwrap())
        .spawn()
        .unwrap_or_else(|error| panic!("{file} does not start: {error}"));
    let ending = async {
        loop {
            match child.try_wait().unwrap() {
                Some(status) => return status.success(),
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let ended = tokio::time::timeout(TIMEOUT, ending).await;
    let _ = child.kill();
    let (stdout, stderr) = (read_to_string(stdout).unwrap(), read_to_string(stderr).unwrap());
    let is_success = ended.unwrap_or_else(|_| panic!("{file} does not end: {stdout}{stderr}"));
    Exited { is_success, stdout, stderr }
}

/// The address of a proxy that fails to reach the server once, with an error page of its own.
fn behind_a_proxy(server: SocketAddr) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().flatten().enumerate() {
            std::thread::spawn(move || match number {
                0 => drop(
                    path_of(&client)
                        .and_then(|_| respond(client, "502 Bad Gateway", "<html>bad gateway</html>")),
                ),
                _ => forward(client, server),
            });
        }
    });
    address
}

fn forward(client: TcpStream, server: SocketAddr) {
    let upstream = TcpStream::connect(server).unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    let (mut from, mut to) = (upstream, client);
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// Sends a response and closes the connection.
fn respond(mut client: TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(client, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// Reads a request to its end and returns its path.
fn path_of(client: &TcpStream) -> std::io::Result<String> {
    let mut reader = BufReader::new(client);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().to_lowercase().split_once(": ") {
            Some(("content-length", digits)) => length = digits.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    Ok(first.split(' ').nth(1).unwrap_or_default().to_owned())
}

/// The address of a server that accepts jobs and refuses leases.
fn server_that_refuses_leases() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            std::thread::spawn(move || -> std::io::Result<()> {
                let (status, body) = match path_of(&client)?.as_str() {
                    // Sends nothing until the client disconnects.
                    path if path.ends_with("/events") => return client.read(&mut [0]).map(drop),
                    "/api/leases" => ("403 Forbidden", "<html>forbidden</html>"),
                    _ => ("200 OK", r#"{"created":10,"existing":0,"refused":0}"#),
                };
                respond(client, status, body)
            });
        }
    });
    address
}

/// Checks the bulk action of an example in the queue, whatever the example printed.
async fn check(server: &Running, prefix: &str, stdout: &str) {
    let last = stdout.lines().last().unwrap();
    let id = last.split(':').next().unwrap();
    assert!(id.starts_with(prefix) && last.contains("completed, 10 of 10 succeeded"), "{stdout}");
    let group = GroupId::new("example").unwrap();
    let bulk = fairlane::BulkRef { group, id: BulkId::new(id).unwrap() };
    let view = server.fairlane.engine().call(InspectBulk { bulk }).await.unwrap();
    let view = view.unwrap_or_else(|| panic!("{id} does not exist"));
    assert_eq!((view.state, view.total, view.succeeded), (BulkState::Completed, 10, 10));
    let job = async |name: &str| {
        let view = server.fairlane.job("example", format!("{id}-{name}")).view().await.unwrap().unwrap();
        assert_eq!(view.state, JobState::Completed, "{name}");
        (view.attempts, view.throttles, view.losses)
    };
    assert_eq!(job("busy").await, (1, 1, 0), "throttled once, which costs no attempt");
    assert_eq!(job("shaky").await, (2, 0, 0), "failed once");
    assert_eq!(job("slow").await, (1, 0, 0), "its lease was extended");
    assert_eq!(job("ada").await, (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_workers_in_shell_python_and_javascript_complete_their_jobs() {
    let server = Running::start().await;
    let pool = server.fairlane.worker().start().unwrap();
    let urls = EXAMPLES.map(|_| behind_a_proxy(server.server.address()));
    let (shell, python, javascript) =
        tokio::join!(run(&urls[0], EXAMPLES[0]), run(&urls[1], EXAMPLES[1]), run(&urls[2], EXAMPLES[2]),);
    for (prefix, exited) in [("sh-", shell), ("py-", python), ("js-", javascript)] {
        assert!(exited.is_success, "{prefix}: {}{}", exited.stdout, exited.stderr);
        check(&server, prefix, &exited.stdout).await;
    }
    let queue = server.fairlane.queue_view().await.unwrap();
    assert_eq!((queue.backlog, queue.in_flight, queue.failed), (0, 0, 0));
    pool.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_example_worker_without_permission_to_lease_fails() {
    let urls = EXAMPLES.map(|_| server_that_refuses_leases());
    let (shell, python, javascript) =
        tokio::join!(run(&urls[0], EXAMPLES[0]), run(&urls[1], EXAMPLES[1]), run(&urls[2], EXAMPLES[2]),);
    for exited in [shell, python, javascript] {
        assert!(!exited.is_success && exited.stderr.contains("/api/leases: 403"), "{}", exited.stderr);
    }
}
