//! How the engine handles responses, down to the bytes; the conformance suite uses a real server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use fairlane_core::kernel::{Invalid, Registered};
use fairlane_core::queue::{self, InspectQueue, Lease, Promote, Promoted};
use fairlane_core::{RequestNumber, WorkerId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;

const KEY: &str = "flk_hunter2";

/// Sends these responses one after the other, and closes the connection of further requests.
struct ScriptedServer {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl ScriptedServer {
    async fn start(answers: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let answers = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
        let log = seen.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, answers.clone(), log.clone()));
            }
        });
        Self { port, seen, serving }
    }

    /// A server that responds to the first request, and then with these responses.
    async fn after_info(answers: impl IntoIterator<Item = Vec<u8>>) -> (Self, HttpEngine) {
        let server = Self::start(std::iter::once(info(&[])).chain(answers)).await;
        let engine = HttpEngine::connect(&server.url(), HttpOptions::default()).await.unwrap();
        (server, engine)
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn heads(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn converse(
    mut stream: TcpStream,
    answers: Arc<Mutex<VecDeque<Vec<u8>>>>,
    seen: Arc<Mutex<Vec<String>>>,
) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            match stream.read(&mut piece).await {
                Ok(length @ 1..) => bytes.extend_from_slice(&piece[..length]),
                _ => return,
            }
            continue;
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        while bytes.len() < end + 4 + length {
            match stream.read(&mut piece).await {
                Ok(length @ 1..) => bytes.extend_from_slice(&piece[..length]),
                _ => return,
            }
        }
        bytes.drain(..end + 4 + length);
        seen.lock().unwrap().push(head);
        let answer = answers.lock().unwrap().pop_front();
        match answer {
            Some(answer) if stream.write_all(&answer).await.is_ok() => {}
            _ => return,
        }
    }
}

fn answer(status: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn wired(body: &impl serde::Serialize) -> Vec<u8> {
    answer("200 OK", &["content-type: application/x-fairlane-4"], &wire::encode(body))
}

fn info(warnings: &[&str]) -> Vec<u8> {
    let warnings = warnings.iter().map(|&warning| warning.to_owned()).collect();
    wired(&wire::ServerInfo { name: "embedded".into(), warnings })
}

fn problem(status: &str, detail: &str) -> Vec<u8> {
    let body = format!(r#"{{"type":"urn:x","title":"A title.","status":400,"detail":"{detail}"}}"#);
    answer(status, &["content-type: application/problem+json"], body.as_bytes())
}

fn promoted() -> Vec<u8> {
    let reply: Result<Reply, WireError> =
        Ok(queue::Reply::Promote(Promoted { moved: 3, wake_in_us: None }).into());
    wired(&reply)
}

fn promote() -> Command {
    Promote { jobs_max: 5 }.into_command()
}

async fn connect_error(answers: impl IntoIterator<Item = Vec<u8>>) -> EngineError {
    let server = ScriptedServer::start(answers).await;
    HttpEngine::connect(&server.url(), HttpOptions::default()).await.expect_err("it is no server")
}

async fn submit_error(answers: impl IntoIterator<Item = Vec<u8>>) -> EngineError {
    let (_server, engine) = ScriptedServer::after_info(answers).await;
    engine.submit(promote()).await.expect_err("it is no reply")
}

#[tokio::test]
async fn a_command_goes_there_and_its_reply_comes_back() {
    let (server, engine) = ScriptedServer::after_info([promoted()]).await;
    assert_eq!(engine.info().name, "http");
    let reply = engine.submit(promote()).await.unwrap();
    assert_eq!(reply, queue::Reply::Promote(Promoted { moved: 3, wake_in_us: None }).into());
    let heads = server.heads();
    assert!(heads[0].starts_with("GET /engine HTTP/1.1"), "{}", heads[0]);
    assert!(heads[1].starts_with("POST /engine/execute HTTP/1.1"), "{}", heads[1]);
    assert!(heads[1].contains("content-type: application/x-fairlane-4"), "{}", heads[1]);
    assert!(!heads[1].contains("authorization"), "{}", heads[1]);
}

#[tokio::test]
async fn the_key_of_the_address_goes_before_that_of_the_options_and_is_never_shown() {
    let server = ScriptedServer::start([info(&[]), promoted()]).await;
    let url = format!("http://{KEY}@127.0.0.1:{}/queue", server.port);
    let options = HttpOptions { key: Some(Key::new("another").unwrap()), ..HttpOptions::default() };
    assert!(!format!("{options:?}").contains("another"));
    let engine = HttpEngine::connect(&url, options).await.unwrap();
    engine.submit(promote()).await.unwrap();
    for head in server.heads() {
        assert!(head.contains(&format!("authorization: Bearer {KEY}")), "{head}");
        assert!(head.contains(" /queue/engine"), "{head}");
    }
    let error = engine.submit(promote()).await.expect_err("the server responds no more");
    let shown =
        [format!("{engine:?}"), error.to_string(), format!("{error:?}"), engine.info().warnings.join(" ")];
    for shown in shown {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[tokio::test]
async fn a_key_of_the_options_is_shown_to_the_server() {
    let server = ScriptedServer::start([info(&[])]).await;
    let options = HttpOptions { key: Some(Key::new(KEY).unwrap()), ..HttpOptions::default() };
    HttpEngine::connect(&server.url(), options).await.unwrap();
    assert!(server.heads()[0].contains(&format!("authorization: Bearer {KEY}")));
}

#[tokio::test]
async fn warnings_are_those_of_the_server() {
    let server = ScriptedServer::start([info(&["maxmemory-policy is not noeviction"])]).await;
    let url = format!("http://{KEY}@127.0.0.1:{}", server.port);
    let engine = HttpEngine::connect(&url, HttpOptions::default()).await.unwrap();
    assert_eq!(engine.info().warnings, ["maxmemory-policy is not noeviction"], "this machine is near");
}

#[test]
fn a_key_that_travels_in_the_clear_is_warned_of() {
    let warning = |url: &str| {
        let address = ServerAddress::read(url).unwrap();
        Client::new(address, &HttpOptions::default(), Reconnect::default()).unwrap().warning()
    };
    let warned = warning("http://hunter2@queue.example:7070").expect("it is seen by all on the way");
    assert!(warned.contains("http://queue.example:7070 travels in the clear"), "{warned}");
    assert!(!warned.contains("hunter2"));
    assert_eq!(warning("http://hunter2@localhost:7070"), None);
    assert_eq!(warning("http://queue.example:7070"), None, "there is no key");
}

#[tokio::test]
async fn another_program_is_reported_as_not_a_fairlane_server() {
    let html = answer("200 OK", &["content-type: text/html"], b"<html>");
    let not_found = answer("404 Not Found", &[], b"");
    for answers in [html, not_found] {
        let error = connect_error([answers]).await;
        assert!(matches!(error, EngineError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("is not a Fairlane server; check host, port and path"), "{error}");
    }
}

/// Sends this to every client that connects, before any request.
async fn speaks_first(greeting: &'static [u8]) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(greeting).await;
            open.push(stream);
        }
    });
    port
}

#[tokio::test]
async fn a_port_without_http_is_rejected_at_once() {
    let greeting = b"SSH-2.0-OpenSSH_9.6\r\n";
    let asked = ScriptedServer::start([greeting.to_vec()]).await;
    for port in [asked.port, speaks_first(greeting).await] {
        let url = format!("http://127.0.0.1:{port}");
        let error = HttpEngine::connect(&url, HttpOptions::default()).await.expect_err("it is no server");
        assert!(matches!(error, EngineError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("does not speak HTTP"), "{error}");
    }
}

#[tokio::test]
async fn https_to_a_port_without_tls_is_rejected_at_once() {
    for greeting in ["HTTP/1.1 400 Bad Request\r\n\r\n", "SSH-2.0-OpenSSH_9.6\r\n"] {
        let port = speaks_first(greeting.as_bytes()).await;
        let address = ServerAddress::read(&format!("https://127.0.0.1:{port}")).unwrap();
        // Without the certificates of this machine, because it may have none.
        client::install_provider();
        let client = reqwest::Client::builder().tls_certs_only([]).build().unwrap();
        let error = client.get(address.at("/engine")).send().await.expect_err("no TLS is spoken there");
        let refused = client::not_a_server(&address, &error).expect("it will not speak it later either");
        assert!(refused.to_string().contains("write http://"), "{refused}");
    }
}

#[test]
fn a_certificate_that_is_not_trusted_is_refused_with_what_to_do() {
    let address = ServerAddress::read("https://hunter2@queue.example").unwrap();
    let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
    let error = std::io::Error::new(std::io::ErrorKind::InvalidData, unknown);
    let refused = client::not_a_server(&address, &error).expect("it has no other certificate").to_string();
    assert!(refused.contains("https://queue.example is not trusted"), "{refused}");
    assert!(refused.contains("SSL_CERT_FILE") && !refused.contains("hunter2"), "{refused}");
}

#[tokio::test]
async fn an_unknown_host_is_retryable_and_reported_as_such() {
    // A name that is too long for any resolver.
    let url = format!("http://{}.invalid", "x".repeat(64));
    let error = HttpEngine::connect(&url, HttpOptions::default()).await.expect_err("there is no such host");
    assert!(error.is_retryable() && error.to_string().contains("check the name"), "{error}");
}

#[tokio::test]
async fn another_version_is_reported_as_such() {
    let other = answer("200 OK", &["content-type: application/x-fairlane-3"], b"\x07");
    for answers in [other, problem("415 Unsupported Media Type", "of another type")] {
        let error = connect_error([answers]).await;
        assert_eq!(
            error,
            EngineError::broken("the server speaks another version; update the older of the two")
        );
    }
    let error = submit_error([answer("200 OK", &["content-type: application/x-fairlane-4"], b"\xff")]).await;
    assert!(
        matches!(&error, EngineError::Broken { reason } if reason.contains("not a valid message")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_rejected_key_is_reported_with_the_servers_message_and_advice() {
    let unknown = ("401 Unauthorized", "refused: this needs [31ma key; set FAIRLANE_KEY");
    // The advice to set a key is omitted for a valid key that lacks a permission.
    let known = ("403 Forbidden", "refused: this needs [31ma key");
    for (status, expected) in [unknown, known] {
        let error = connect_error([problem(status, "this needs \\u001b[31ma key")]).await;
        let text = error.to_string();
        assert!(matches!(error, EngineError::Refused { .. }), "{text}");
        assert!(text.contains(expected), "{text}");
        assert_eq!(text.contains("FAIRLANE_KEY"), status.starts_with("401"), "{text}");
    }
}

#[tokio::test]
async fn transient_errors_are_retryable_and_others_are_not() {
    for (status, of_server, says) in [
        ("502 Bad Gateway", true, "too bad"),
        ("503 Service Unavailable", true, "too bad"),
        ("504 Gateway Timeout", true, "too bad"),
        ("408 Request Timeout", true, "too bad"),
        ("500 Internal Server Error", true, "too bad"),
        ("401 Unauthorized", true, "set FAIRLANE_KEY to a key of that server"),
        ("404 Not Found", true, "is not a Fairlane server"),
        ("415 Unsupported Media Type", true, "another version"),
        ("413 Payload Too Large", false, "raise its limit"),
        ("400 Bad Request", false, "too bad"),
        ("403 Forbidden", false, "too bad"),
        ("409 Conflict", false, "too bad"),
        ("422 Unprocessable Entity", false, "too bad"),
    ] {
        let error = submit_error([problem(status, "too bad")]).await;
        assert_eq!(error.is_retryable(), of_server, "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
        // A proxy knows nothing of commands except how large they may be.
        let error = submit_error([answer(status, &["content-type: text/html"], b"<h1>oops")]).await;
        assert_eq!(error.is_retryable(), !status.starts_with("413"), "{error:?}");
    }
}

#[tokio::test]
async fn an_identified_server_is_unavailable_while_another_program_responds() {
    let moved = answer("308 Permanent Redirect", &["location: https://host/"], b"");
    let html = answer("200 OK", &["content-type: text/html"], b"<html>");
    let other = answer("200 OK", &["content-type: application/x-fairlane-3"], b"\x07");
    let (server, engine) =
        ScriptedServer::after_info([moved.clone(), html, other, b"SSH-2.0\r\n".to_vec(), promoted()]).await;
    for says in
        ["https://host/", "is not a Fairlane server", "another version", "the response was incomplete"]
    {
        let error = engine.submit(promote()).await.expect_err("it is no reply");
        assert!(error.is_retryable() && error.to_string().contains(says), "{error}");
    }
    engine.submit(promote()).await.unwrap();
    assert_eq!(server.heads().len(), 6);
    let error = connect_error([moved]).await;
    assert!(!error.is_retryable() && error.to_string().contains("https://host/"), "{error}");
}

#[tokio::test]
async fn a_wait_that_ended_with_a_changed_key_is_repeated_once() {
    let ended = || problem("401 Unauthorized", "the key was changed meanwhile");
    let answers = [ended(), wired(&Ok::<_, WireError>(true)), ended(), ended(), ended()];
    let (server, engine) = ScriptedServer::after_info(answers).await;
    let types = [TypeId::new("t").unwrap()];
    assert_eq!(engine.wait(&types, Duration::from_secs(1)).await, Ok(true));
    assert_eq!(server.heads().len(), 3);
    let error = engine.wait(&types, Duration::from_secs(1)).await.expect_err("it has really ended");
    assert!(error.is_retryable() && error.to_string().contains("set FAIRLANE_KEY"), "{error}");
    assert_eq!(server.heads().len(), 5);
    engine.submit(promote()).await.expect_err("no command is held");
    assert_eq!(server.heads().len(), 6);
}

#[tokio::test]
async fn a_server_that_has_moved_is_followed() {
    let (old, new) = (ScriptedServer::start([info(&[])]).await, ScriptedServer::start([promoted()]).await);
    let address = Arc::new(Mutex::new(old.url()));
    let announced = address.clone();
    let moved = move || Some(announced.lock().unwrap().clone());
    let reconnect = Reconnect { moved: Some(Box::new(moved)), ..Reconnect::default() };
    let first = ServerAddress::read(&old.url()).unwrap();
    let engine = HttpEngine::connect_to(first, HttpOptions::default(), reconnect).await.unwrap();
    assert!(engine.submit(promote()).await.expect_err("it is stopping").is_retryable());
    *address.lock().unwrap() = new.url();
    assert!(engine.submit(promote()).await.expect_err("it has stopped").is_retryable());
    engine.submit(promote()).await.unwrap();
    assert_eq!(new.heads().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let port = ScriptedServer::start([]).await.port;
    let url = format!("http://{KEY}@127.0.0.1:{port}");
    let error = HttpEngine::connect(&url, HttpOptions::default()).await.expect_err("no server listens");
    assert!(error.is_retryable() && !error.to_string().contains("hunter2"), "{error}");
    assert!(submit_error([]).await.is_retryable(), "the connection was cut");
}

#[tokio::test]
async fn a_silent_server_is_unavailable_in_time() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let options = HttpOptions { response_timeout: Duration::from_millis(50), ..HttpOptions::default() };
    let error = HttpEngine::connect(&url, options).await.expect_err("no server responds");
    assert!(error.is_retryable() && error.to_string().contains("no response in time"), "{error}");
}

#[tokio::test]
async fn a_request_is_repeated_at_the_retry_time_of_the_server() {
    let now = answer("429 Too Many Requests", &["retry-after: 0"], b"");
    let body = br#"{"detail":"full","retry_after_ms":60}"#;
    // In milliseconds in the document, rounded up to seconds in the header.
    let soon = answer(
        "503 Service Unavailable",
        &["retry-after: 3600", "content-type: application/problem+json"],
        body,
    );
    let (server, engine) = ScriptedServer::after_info([now.clone(), now, soon, promoted()]).await;
    let asked = Instant::now();
    engine.submit(promote()).await.unwrap();
    assert_eq!(server.heads().len(), 5);
    assert!(
        asked.elapsed() >= Duration::from_millis(50 + 50 + 60),
        "the pause is never shorter than the minimum"
    );
    for status in ["429 Too Many Requests", "503 Service Unavailable"] {
        for seconds in ["3600", "18446744073709551615"] {
            let header = format!("retry-after: {seconds}");
            let error = submit_error([answer(status, &[&header], b"")]).await;
            assert!(error.is_retryable() && error.to_string().contains(&status[..3]), "{error}");
        }
    }
}

#[tokio::test]
async fn an_error_of_the_engine_behind_the_server_is_passed_on() {
    let failed = |error: WireError| wired(&Err::<Reply, _>(error));
    let error = submit_error([failed(WireError::Refused("the disk is full".into()))]).await;
    assert_eq!(error, EngineError::refused("the disk is full"));
    let error =
        submit_error([failed(WireError::Unavailable("its redis cannot be reached: gone".into()))]).await;
    assert!(error.is_retryable());
}

#[tokio::test]
async fn an_invalid_command_is_not_sent() {
    let (server, engine) = ScriptedServer::after_info([]).await;
    let lease = Lease {
        worker: WorkerId::new("w").unwrap(),
        request: RequestNumber(1),
        types: Vec::new(),
        jobs_max: 0,
        lease_ms: 1000,
    };
    let refused = engine.submit(lease.into_command()).await;
    assert!(matches!(refused, Err(EngineError::Invalid(Invalid::OutOfRange(_)))), "{refused:?}");
    let types = vec![TypeId::new("t").unwrap(); TYPES_MAX + 1];
    let refused = engine.wait(&types, Duration::ZERO).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_not_read() {
    let huge = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/x-fairlane-4\r\ncontent-length: {}\r\n\r\n",
        wire::REPLY_BYTES_MAX + 1
    );
    let error = submit_error([huge.into_bytes()]).await;
    assert!(matches!(&error, EngineError::Broken { reason } if reason.contains("more than")), "{error:?}");
    let piece = format!("{:x}\r\n{}\r\n", ANSWER_BYTES_MAX, "x".repeat(ANSWER_BYTES_MAX));
    let endless = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/x-fairlane-4\r\ntransfer-encoding: chunked\r\n\r\n{piece}{piece}"
    );
    let error = connect_error([endless.into_bytes()]).await;
    assert!(matches!(&error, EngineError::Broken { reason } if reason.contains("more than")), "{error:?}");
}

#[tokio::test]
async fn an_incomplete_scan_is_unavailable_and_a_failed_one_says_why() {
    let page = ScanStep::Page(ScanPage { suspects: Vec::new(), groups_scanned: 1, groups: 2 });
    let stream = |steps: &[ScanStep]| {
        let body: Vec<u8> = steps.iter().flat_map(wire::frame).collect();
        answer("200 OK", &["content-type: application/x-fairlane-4"], &body)
    };
    let failed = ScanStep::Failed(WireError::Refused("no room".into()));
    let (_server, engine) = ScriptedServer::after_info([
        stream(&[page.clone(), ScanStep::End]),
        stream(std::slice::from_ref(&page)),
        stream(&[page, failed]),
    ])
    .await;
    let (sender, mut pages) = mpsc::channel(9);
    assert_eq!(engine.scan(sender.clone()).await, Ok(()));
    assert_eq!(pages.recv().await.map(|page| page.groups), Some(2));
    assert!(engine.scan(sender.clone()).await.expect_err("it breaks off").is_retryable());
    assert_eq!(engine.scan(sender).await, Err(EngineError::refused("no room")));
}

#[tokio::test]
async fn a_wait_ends_when_the_server_says_so() {
    let answered = |woken: bool| wired(&Ok::<_, WireError>(woken));
    let (server, engine) = ScriptedServer::after_info([answered(true), answered(false)]).await;
    let types = [TypeId::new("t").unwrap()];
    assert_eq!(engine.wait(&types, Duration::from_secs(3600)).await, Ok(true));
    assert_eq!(engine.wait(&types, Duration::ZERO).await, Ok(false));
    assert_eq!(engine.wait(&[], Duration::ZERO).await, Ok(false), "no request is sent");
    assert_eq!(server.heads().len(), 3);
}

#[tokio::test]
async fn a_reply_to_another_operation_is_an_error() {
    let (_server, engine) = ScriptedServer::after_info([promoted()]).await;
    let engine: &dyn Engine = &engine;
    let error = engine.call(InspectQueue).await.expect_err("it is no view");
    assert!(matches!(error, EngineError::Broken { .. }), "{error:?}");
}
