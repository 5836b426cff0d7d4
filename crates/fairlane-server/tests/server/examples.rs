//! The examples in other languages, run against a real server, and against one that will have none of them.

use std::fs::{File, read_to_string};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fairlane::{BulkState, JobState};
use fairlane_core::queue::{Inspect, Inspected};
use fairlane_core::{BulkId, GroupId};

use crate::running::Running;

/// They take a few seconds, and longer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const EXAMPLES: [&str; 3] = ["worker.sh", "worker.py", "worker.mjs"];

/// How an example ended.
struct Ended {
    is_well: bool,
    said: String,
    complained: String,
}

/// Starts an example by its path, as its README does, where a proxy of the environment leads nowhere.
async fn run(url: &str, file: &str) -> Ended {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/http").join(file);
    let folder = tempfile::tempdir().unwrap();
    let [said, complained] = ["said", "complained"].map(|name| folder.path().join(name));
    let mut child = Command::new(&path)
        .env("FAIRLANE_URL", url)
        .env_remove("FAIRLANE_KEY")
        .env_remove("no_proxy")
        .env("http_proxy", "http://127.0.0.1:1")
        .stdin(Stdio::null())
        .stdout(File::create(&said).unwrap())
        .stderr(File::create(&complained).unwrap())
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
    let ended = tokio::time::timeout(PATIENCE, ending).await;
    let _ = child.kill();
    let (said, complained) = (read_to_string(said).unwrap(), read_to_string(complained).unwrap());
    let is_well = ended.unwrap_or_else(|_| panic!("{file} does not end: {said}{complained}"));
    Ended { is_well, said, complained }
}

/// A proxy that cannot reach the server at first, and says so in its own way.
fn behind_a_proxy(server: SocketAddr) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().flatten().enumerate() {
            std::thread::spawn(move || match number {
                0 => drop(
                    path_of(&client).and_then(|_| answer(client, "502 Bad Gateway", "<html>no way</html>")),
                ),
                _ => pass(client, server),
            });
        }
    });
    address
}

fn pass(client: TcpStream, server: SocketAddr) {
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

/// Answers a request that was read, and closes.
fn answer(mut client: TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(client, "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// Reads a request to its end.
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

/// A server that takes jobs and leases none.
fn one_that_refuses_leases() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            std::thread::spawn(move || -> std::io::Result<()> {
                let (status, body) = match path_of(&client)?.as_str() {
                    // Says nothing until the other side goes.
                    path if path.ends_with("/events") => return client.read(&mut [0]).map(drop),
                    "/api/leases" => ("403 Forbidden", "<html>not you</html>"),
                    _ => ("200 OK", r#"{"created":10,"existing":0,"refused":0}"#),
                };
                answer(client, status, body)
            });
        }
    });
    address
}

/// What must be so behind an example, whatever it says.
async fn check(server: &Running, prefix: &str, said: &str) {
    let last = said.lines().last().unwrap();
    let id = last.split(':').next().unwrap();
    assert!(id.starts_with(prefix) && last.contains("COMPLETED, 10 of 10 succeeded"), "{said}");
    let group = GroupId::new("example").unwrap();
    let bulk = fairlane::BulkRef { group, id: BulkId::new(id).unwrap() };
    let Inspected::Bulk(Some(view)) = server.fairlane.engine().inspect(Inspect::Bulk(bulk)).await.unwrap()
    else {
        panic!("{id} is not there");
    };
    assert_eq!((view.state, view.total, view.succeeded), (BulkState::Completed, 10, 10));
    let job = async |name: &str| {
        let view = server.fairlane.job("example", format!("{id}-{name}")).view().await.unwrap().unwrap();
        assert_eq!(view.state, JobState::Completed, "{name}");
        (view.attempts, view.throttles, view.losses)
    };
    assert_eq!(job("busy").await, (1, 1, 0), "throttled once, which costs no attempt");
    assert_eq!(job("shaky").await, (2, 0, 0), "failed once");
    assert_eq!(job("slow").await, (1, 0, 0), "its lease was kept");
    assert_eq!(job("ada").await, (1, 0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_workers_in_shell_python_and_javascript_do_what_they_show() {
    let server = Running::start().await;
    let pool = server.fairlane.worker().start().unwrap();
    let urls = EXAMPLES.map(|_| behind_a_proxy(server.server.address()));
    let (shell, python, javascript) =
        tokio::join!(run(&urls[0], EXAMPLES[0]), run(&urls[1], EXAMPLES[1]), run(&urls[2], EXAMPLES[2]),);
    for (prefix, ended) in [("sh-", shell), ("py-", python), ("js-", javascript)] {
        assert!(ended.is_well, "{prefix}: {}{}", ended.said, ended.complained);
        check(&server, prefix, &ended.said).await;
    }
    let whole = server.fairlane.whole().await.unwrap();
    assert_eq!((whole.backlog, whole.in_flight, whole.failed), (0, 0, 0));
    pool.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_worker_may_not_do_ends_it() {
    let urls = EXAMPLES.map(|_| one_that_refuses_leases());
    let (shell, python, javascript) =
        tokio::join!(run(&urls[0], EXAMPLES[0]), run(&urls[1], EXAMPLES[1]), run(&urls[2], EXAMPLES[2]),);
    for ended in [shell, python, javascript] {
        assert!(!ended.is_well && ended.complained.contains("/api/leases: 403"), "{}", ended.complained);
    }
}
