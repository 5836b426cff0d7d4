use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use fairlane_testkit::receiver::{Receiver, response};
use fairlane_testkit::wait::until;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::call::example;

/// A timeout that only a failing test reaches.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

fn target(url: String) -> HttpTarget {
    HttpTarget::new(HttpSettings { timeout: WAIT_LIMIT, ..HttpSettings::new(url) }).unwrap()
}

async fn outcome_of(server: &Receiver) -> Outcome {
    target(server.url("/work")).call(example(b"{}")).await
}

/// The code of a retry.
fn retried(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Retry { after: None, problem } => &problem.code,
        other => panic!("no retry: {other:?}"),
    }
}

/// Code and message of a failure.
fn failed(outcome: &Outcome) -> (&str, &str) {
    match outcome {
        Outcome::Failed(problem) => (&problem.code, &problem.message),
        other => panic!("no failure: {other:?}"),
    }
}

#[tokio::test]
async fn the_payload_is_posted_with_headers_that_identify_the_job_and_the_body_is_the_result() {
    let server = Receiver::responding(response("201 Created", &[], r#"{"sent":true}"#));
    let settings = HttpSettings {
        headers: vec![("Authorization".into(), "Bearer t0ken".into())],
        ..HttpSettings::new(server.url("/send?fast=1"))
    };
    let target = HttpTarget::new(settings).unwrap();
    let outcome = target.call(example(br#"{"to":"ada"}"#)).await;
    assert_eq!(outcome, Outcome::done_bytes(r#"{"sent":true}"#));
    let request = &server.requests()[0];
    assert!(request.head.starts_with("POST /send?fast=1 HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.body, br#"{"to":"ada"}"#);
    for (name, value) in [
        ("content-type", "application/json"),
        ("authorization", "Bearer t0ken"),
        ("idempotency-key", "customer%2F%C3%84%3A1/invoice%204711"),
        ("fairlane-group", "customer%2F%C3%84%3A1"),
        ("fairlane-job", "invoice%204711"),
        ("fairlane-type", "mail"),
        ("fairlane-attempt", "2"),
        ("fairlane-fence", "77"),
        ("fairlane-bulk", "may"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    target.call(Call { trace: None, ..example(b"") }).await;
    assert_eq!(server.requests()[1].header("traceparent"), None);
}

#[tokio::test]
async fn each_status_has_its_outcome() {
    for (status, headers, expected) in [
        ("200 OK", &[][..], "done"),
        ("204 No Content", &[], "done"),
        ("429 Too Many Requests", &[], "throttled"),
        ("503 Service Unavailable", &["retry-after: 7"], "throttled"),
        ("503 Service Unavailable", &["retry-after: soon"], "http_503"),
        ("503 Service Unavailable", &[], "http_503"),
        ("408 Request Timeout", &[], "http_408"),
        ("500 Internal Server Error", &["retry-after: 7"], "http_500"),
        ("502 Bad Gateway", &[], "http_502"),
        ("599 Whatever", &[], "http_599"),
        ("400 Bad Request", &[], "http_400"),
        ("404 Not Found", &[], "http_404"),
        ("410 Gone", &[], "http_410"),
    ] {
        let server = Receiver::responding(response(status, headers, ""));
        let outcome = outcome_of(&server).await;
        match expected {
            "done" => assert_eq!(outcome, Outcome::done_bytes("")),
            "throttled" => assert_eq!(outcome.as_str(), "throttled", "{status}"),
            code if status.starts_with('5') || code == "http_408" => assert_eq!(retried(&outcome), code),
            code => assert_eq!(failed(&outcome).0, code),
        }
    }
}

#[tokio::test]
async fn a_throttled_outcome_has_the_delay_of_retry_after() {
    let in_a_minute = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(60));
    let date = format!("retry-after: {in_a_minute}");
    for (header, least, most) in
        [("retry-after: 30", 30, 30), (date.as_str(), 1, 60), ("retry-after: 86400", 60, 60)]
    {
        let server = Receiver::responding(response("429 Too Many Requests", &[header], "slow down"));
        let Outcome::Throttled { retry_after: Some(delay) } = outcome_of(&server).await else {
            panic!("{header}")
        };
        assert!((least..=most).contains(&delay.as_secs()), "{header} was read as {delay:?}");
    }
    let server = Receiver::responding(response("429 Too Many Requests", &[], ""));
    assert_eq!(outcome_of(&server).await, Outcome::throttled(None));
}

#[tokio::test]
async fn a_failure_shows_the_beginning_of_the_body() {
    let body = format!("no such\r\n\x1b[31mcustomer {}", "x".repeat(100_000));
    let server = Receiver::responding(response("422 Unprocessable", &[], &body));
    let outcome = outcome_of(&server).await;
    let (code, message) = failed(&outcome);
    assert_eq!(code, "http_422");
    assert!(message.contains("422") && message.contains("no such [31mcustomer xxx"), "{message}");
    assert!(message.len() < 1024, "{} bytes", message.len());
}

#[tokio::test]
async fn a_redirect_fails_with_its_location_and_is_not_followed() {
    let elsewhere = Receiver::responding(response("200 OK", &[], ""));
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent", "304 Not Modified"] {
        let location = elsewhere.url("/there");
        let server = Receiver::responding(response(status, &[&format!("location: {location}")], ""));
        let outcome = outcome_of(&server).await;
        let (code, message) = failed(&outcome);
        assert!(code == "redirect" && message.contains(&location), "{code}: {message}");
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn the_longest_result_is_stored_and_a_longer_one_fails_with_advice() {
    let longest = "x".repeat(NOTE_BYTES_MAX);
    let server = Receiver::responding(response("200 OK", &[], &longest));
    assert_eq!(outcome_of(&server).await, Outcome::done_bytes(longest));
    let server = Receiver::responding(response("200 OK", &[], &"x".repeat(NOTE_BYTES_MAX + 1)));
    let outcome = outcome_of(&server).await;
    let (code, message) = failed(&outcome);
    assert!(code == "result_too_large" && message.contains("204 is enough"), "{message}");
}

#[tokio::test]
async fn of_a_huge_body_without_a_length_only_what_can_be_stored_is_read() {
    const HUGE: usize = 50 * 1024 * 1024;
    let (sent, sending) = tokio::sync::oneshot::channel();
    let sent = Mutex::new(Some(sent));
    let server = Receiver::start(move |_, mut stream| {
        let sent = sent.lock().unwrap().take().unwrap();
        async move {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await.unwrap();
            let mut bytes = 0;
            while bytes < HUGE && stream.write_all(&[b'x'; 64 * 1024]).await.is_ok() {
                bytes += 64 * 1024;
            }
            let _ = sent.send(bytes);
            None
        }
    });
    assert_eq!(failed(&outcome_of(&server).await).0, "result_too_large");
    assert!(sending.await.unwrap() < HUGE, "the connection was not closed");
}

/// A server that writes these bytes and closes the connection.
fn closing(bytes: &'static [u8]) -> Receiver {
    Receiver::start(move |_, mut stream: TcpStream| async move {
        let _ = stream.write_all(bytes).await;
        None
    })
}

#[tokio::test]
async fn an_incomplete_response_is_retried() {
    for bytes in [
        &b""[..],
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x01\x00\x02\x02\x50",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nten bytes.",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzzz\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 999999 OK\r\n\r\n",
    ] {
        let outcome = outcome_of(&closing(bytes)).await;
        assert_eq!(retried(&outcome), "protocol", "{bytes:?}");
    }
}

#[tokio::test]
async fn a_reset_connection_is_retried() {
    let server = Receiver::start(|_, stream: TcpStream| async move {
        stream.set_zero_linger().unwrap();
        None
    });
    assert_eq!(retried(&outcome_of(&server).await), "protocol");
}

#[tokio::test]
async fn a_response_with_endless_headers_is_aborted() {
    let cut = Arc::new(AtomicBool::new(false));
    let noticed = cut.clone();
    let server = Receiver::start(move |_, mut stream| {
        let noticed = noticed.clone();
        async move {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
            while stream.write_all(b"x-more: and more and more\r\n").await.is_ok() {}
            noticed.store(true, Ordering::SeqCst);
            None
        }
    });
    assert_eq!(retried(&outcome_of(&server).await), "protocol");
    until("the server notices the closed connection", || cut.load(Ordering::SeqCst)).await;
}

#[tokio::test]
async fn a_refused_connection_and_a_timeout_have_different_codes() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = HttpSettings {
        timeout: Duration::from_millis(200),
        ..HttpSettings::new(format!("http://127.0.0.1:{port}/s3cret-path"))
    };
    let target = HttpTarget::new(settings).unwrap();
    let silent = target.call(example(b"")).await;
    assert_eq!(retried(&silent), "timeout");
    drop(listener);
    let refused = target.call(example(b"")).await;
    assert_eq!(retried(&refused), "connect");
    assert!(refused.to_string().contains("refused") && !refused.to_string().contains("s3cret"), "{refused}");
}

#[tokio::test]
async fn a_slow_response_is_aborted_after_the_timeout() {
    let server = Receiver::start(|_, mut stream: TcpStream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await.unwrap();
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    });
    let settings = HttpSettings { timeout: Duration::from_millis(300), ..HttpSettings::new(server.url("/")) };
    let outcome = HttpTarget::new(settings).unwrap().call(example(b"")).await;
    assert_eq!(retried(&outcome), "timeout");
}

#[tokio::test]
async fn one_connection_carries_many_jobs_also_refused_ones() {
    for status in ["200 OK", "429 Too Many Requests", "500 Internal Server Error", "404 Not Found"] {
        let server = Receiver::responding(response(status, &[], "a few words"));
        let target = target(server.url("/"));
        for _ in 0..5 {
            target.call(example(b"{}")).await;
        }
        assert_eq!((server.requests().len(), server.connections()), (5, 1), "{status}");
    }
}

#[test]
fn reserved_and_invalid_headers_are_rejected() {
    let refusal = |name: &str, value: &str| {
        let headers = vec![(name.to_owned(), value.to_owned())];
        HttpTarget::new(HttpSettings { headers, ..HttpSettings::new("http://localhost/") })
            .unwrap_err()
            .to_string()
    };
    for name in ["Idempotency-Key", "fairlane-group", "Fairlane-Anything", "content-length", "connection"] {
        assert!(refusal(name, "x").contains("set by the worker"), "{name}");
    }
    assert!(refusal("content-type", "text/plain").contains("content_type"));
    assert!(refusal("two words", "x").contains("not a valid header name"));
    let refused = refusal("authorization", "s3cret\nx: y");
    assert!(refused.contains("authorization") && !refused.contains("s3cret"), "{refused}");
}

#[test]
fn secrets_are_not_shown() {
    let settings = HttpSettings {
        headers: vec![("authorization".into(), "s3cret".into())],
        ..HttpSettings::new("http://s3cret:s3cret@mailer.example/s3cret?key=s3cret")
    };
    let shown = format!("{settings:?} {:?}", HttpTarget::new(settings.clone()).unwrap());
    assert!(shown.contains("http://mailer.example") && shown.contains("authorization"), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
}
