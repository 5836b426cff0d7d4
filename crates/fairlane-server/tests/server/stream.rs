//! Streams of jobs, and where to resume an interrupted one.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fairlane::{Fairlane, Settings};
use fairlane_server::ServerSettings;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use hyper::body::{Body, Frame};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::running::{Running, problem, send};

/// Longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A body that is generated while it is sent.
struct Generated<F>(F);

impl<F: FnMut() -> Option<Bytes> + Unpin> Body for Generated<F> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready((self.0)().map(|chunk| Ok(Frame::data(chunk))))
    }
}

/// Lines from one number to another, a few kilobytes at a time, each with its number as payload.
fn lines(from: u64, to: u64) -> reqwest::Body {
    let mut next = from;
    reqwest::Body::wrap(Generated(move || {
        let until = to.min(next + 99);
        let chunk: String = (next..=until).map(line).collect();
        next = until + 1;
        (!chunk.is_empty()).then(|| chunk.into())
    }))
}

fn line(number: u64) -> String {
    format!("{{\"payload\":{number}}}\n")
}

/// The id of the job on a line of a bulk action of `g`: it never changes, as a stream may be
/// resumed by a later version.
fn id_of(bulk: &str, line: u64) -> String {
    let mut hash = Sha256::new();
    for part in ["g", bulk] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let hex: String = hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("line-{hex}-{line}")
}

fn path_of(bulk: &str, line: u64) -> String {
    format!("/api/jobs/g/{}", id_of(bulk, line))
}

fn stream(running: &Running, query: &str, body: impl Into<reqwest::Body>) -> RequestBuilder {
    let request = running.request(Method::POST, &format!("/api/jobs/stream?{query}"));
    request.header("content-type", "application/x-ndjson").body(body)
}

async fn streamed(running: &Running, query: &str, body: impl Into<reqwest::Body>) -> Value {
    let (status, value) = send(stream(running, query, body)).await;
    assert_eq!(status, StatusCode::OK, "{value}");
    let count = |key: &str| value[key].as_u64().unwrap();
    let counted = ["created", "existing", "empty_lines", "errors_total"].into_iter().map(count).sum::<u64>();
    assert_eq!(count("lines"), counted, "{value}");
    value
}

/// A server with short timeouts.
async fn short_timeouts(settings: Settings) -> Running {
    let fairlane = Fairlane::open_with("memory:", settings).await.unwrap();
    let settings = ServerSettings {
        stream_patience: Duration::from_millis(50),
        body_timeout: Duration::from_millis(300),
        ..ServerSettings::default()
    };
    Running::start_with(fairlane, None, settings).await
}

#[tokio::test]
async fn a_hundred_thousand_lines_are_enqueued_while_they_are_generated() {
    let running = Running::start().await;
    let query = "group=g&type=mail&bulk=news&open=true&seal=true";
    let value = streamed(&running, query, lines(1, 100_000)).await;
    assert_eq!((&value["lines"], &value["created"]), (&json!(100_000), &json!(100_000)), "{value}");
    assert_eq!((&value["complete"], &value["sealed"]), (&json!(true), &json!(true)));
    assert_eq!(value["next_line"], 100_001);
    let view = running.fairlane.bulk("g", "news").opened_before().unwrap().view().await.unwrap();
    assert_eq!((view.total, view.sealed), (100_000, true));
    let (_, last) = running.get(&path_of("news", 100_000)).await;
    assert_eq!((&last["payload"], &last["type"]), (&json!(100_000), &json!("mail")));
    assert_eq!(running.get("/api/jobs/stream?group=g&bulk=news").await.1, json!({"next_line": 100_001}));
    // The same source again adds nothing, although the bulk action is sealed.
    let again = streamed(&running, query, lines(1, 500)).await;
    assert_eq!(
        (&again["created"], &again["existing"], &again["complete"]),
        (&json!(0), &json!(500), &json!(true))
    );
}

/// Sends some complete lines and half of one, and disconnects.
async fn interrupt(running: &Running, path: &str, header: &str, from: u64, to: u64) {
    let mut connection = TcpStream::connect(running.server.address()).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n{header}transfer-encoding: chunked\r\n\r\n"
    );
    let mut body: String = (from..=to).map(line).collect();
    body.push_str("{\"payload\":");
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(format!("{:x}\r\n{body}\r\n", body.len()).as_bytes()).await.unwrap();
    connection.shutdown().await.unwrap();
}

/// Waits until the stream resumes at this line.
async fn resumes_at(request: impl Fn() -> RequestBuilder, line: u64) {
    let waited = tokio::time::timeout(TIMEOUT, async {
        while send(request()).await.1 != json!({"next_line": line}) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "{}", send(request()).await.1);
}

async fn interrupt_and_resume(running: &Running) {
    let path = "/api/jobs/stream?group=g&type=mail&bulk=news&open=true&seal=true";
    let resume = || running.request(Method::GET, "/api/jobs/stream?group=g&bulk=news");
    interrupt(running, path, "", 1, 1000).await;
    resumes_at(resume, 1001).await;
    interrupt(running, &format!("{path}&first_line=1001"), "", 1001, 1777).await;
    resumes_at(resume, 1778).await;
    let query = "group=g&type=mail&bulk=news&open=true&seal=true&first_line=1778";
    let value = streamed(running, query, lines(1778, 3000)).await;
    assert_eq!((&value["created"], &value["existing"]), (&json!(1223), &json!(0)), "{value}");
    assert_eq!((&value["next_line"], &value["sealed"]), (&json!(3001), &json!(true)));
    let view = running.fairlane.bulk("g", "news").opened_before().unwrap().view().await.unwrap();
    assert_eq!((view.total, view.sealed), (3000, true));
    for number in [1, 1000, 1001, 1777, 1778, 3000] {
        assert_eq!(running.get(&path_of("news", number)).await.1["payload"], number);
    }
}

#[tokio::test]
async fn an_interrupted_stream_is_resumed_with_every_line_once() {
    interrupt_and_resume(&Running::start().await).await;
}

#[tokio::test]
async fn an_interrupted_stream_into_redis_is_resumed_with_every_line_once() {
    let redis = RedisServer::start(ServerOptions::default());
    interrupt_and_resume(&Running::over(&redis.url(), Settings::default()).await).await;
}

#[tokio::test]
async fn a_stream_outside_a_bulk_action_is_repeated_with_an_idempotency_key() {
    let running = Running::start().await;
    let query = "group=g&type=mail";
    let send =
        |body: reqwest::Body, query: &str| send(stream(&running, query, body).header("idempotency-key", "k"));
    interrupt(&running, &format!("/api/jobs/stream?{query}"), "idempotency-key: k\r\n", 1, 300).await;
    let resume = || running.request(Method::GET, "/api/jobs/stream?group=g").header("idempotency-key", "k");
    resumes_at(resume, 301).await;
    let (_, rest) = send(lines(301, 500), "group=g&type=mail&first_line=301").await;
    assert_eq!((&rest["created"], &rest["existing"]), (&json!(200), &json!(0)), "{rest}");
    let (_, all) = send(lines(1, 500), query).await;
    assert_eq!((&all["created"], &all["existing"]), (&json!(0), &json!(500)), "{all}");
    let (status, value) = send(lines(2, 400), query).await;
    assert_eq!((status, &value["stopped"]["reason"]), (StatusCode::OK, &json!("other-source")), "{value}");
    assert_eq!((&value["created"], &value["complete"]), (&json!(0), &json!(false)), "{value}");
    assert!(value["errors"][0]["detail"].as_str().unwrap().contains("idempotency key was used"), "{value}");
    // Without a key no job is found again.
    assert_eq!(streamed(&running, query, lines(1, 500)).await["created"], 500);
    assert_eq!(running.fairlane.queue_view().await.unwrap().backlog, 1000);
}

#[tokio::test]
async fn another_source_is_detected_and_stops_the_stream() {
    let running = Running::start().await;
    let query = "group=g&type=mail&bulk=news&open=true";
    streamed(&running, query, lines(1, 50)).await;
    // Line 20 is different, and those after 50 are new.
    let changed: String = (1..=2000).map(|number| line(if number == 20 { 0 } else { number })).collect();
    let value = streamed(&running, &format!("{query}&seal=true"), changed).await;
    assert_eq!(
        (&value["differing"], &value["complete"], &value["stopped"]["reason"], &value["sealed"]),
        (&json!(1), &json!(false), &json!("other-source"), &json!(false)),
        "{value}"
    );
    assert!(value["created"].as_u64().unwrap() < 1000, "the batch with the difference was the last: {value}");
    assert_eq!((&value["errors_total"], &value["errors"][0]["line"]), (&json!(1), &json!(20)));
    assert!(value["errors"][0]["detail"].as_str().unwrap().contains("known by their line"), "{value}");
    assert_eq!(running.get(&path_of("news", 20)).await.1["payload"], 20);
    // Jobs with ids of their own are compared one by one, and the others are enqueued.
    let own = |payload: u64| format!("{{\"id\":\"own\",\"payload\":{payload}}}\n");
    let value = streamed(&running, "group=g&type=mail", [own(1), own(2), own(1)].concat()).await;
    assert_eq!(
        (&value["created"], &value["differing"], &value["existing"]),
        (&json!(1), &json!(1), &json!(1)),
        "{value}"
    );
    assert!(value["errors"][0]["detail"].as_str().unwrap().contains("with another payload"), "{value}");
}

const MIXED: &str = "\n{\"payload\":2}\n{\"payload\":3,\"cost\":0}\n{\"id\":\"own\",\"type\":\"text\",\"payload\":4}\n\n\nnonsense\n{\"payload\":8}";

#[tokio::test]
async fn invalid_lines_are_skipped_and_reported() {
    let running = Running::start().await;
    let value = streamed(&running, "group=g&type=mail&bulk=news&open=true&seal=true&level=low", MIXED).await;
    assert_eq!(
        (&value["lines"], &value["created"], &value["empty_lines"]),
        (&json!(8), &json!(3), &json!(3)),
        "{value}"
    );
    assert_eq!((&value["errors_total"], &value["complete"]), (&json!(2), &json!(true)));
    let numbers: Vec<_> =
        value["errors"].as_array().unwrap().iter().map(|error| error["line"].clone()).collect();
    assert_eq!(numbers, [json!(3), json!(7)]);
    assert!(value["errors"][0]["detail"].as_str().unwrap().contains("cost"), "{value}");
    let (_, own) = running.get("/api/jobs/g/own").await;
    assert_eq!((&own["type"], &own["level"], &own["bulk"]), (&json!("text"), &json!("low"), &json!("news")));
    assert_eq!(running.get(&path_of("news", 8)).await.1["payload"], 8);
    assert_eq!(running.get(&path_of("news", 3)).await.0, StatusCode::NOT_FOUND);

    // A corrected line is enqueued, and existing jobs stay.
    let corrected = MIXED.replace("\"cost\":0", "\"cost\":1").replace("nonsense", "{\"payload\":7}");
    let running = Running::start().await;
    streamed(&running, "group=g&type=mail&bulk=news&open=true", MIXED).await;
    let value = streamed(&running, "group=g&type=mail&bulk=news", corrected).await;
    assert_eq!((&value["created"], &value["existing"]), (&json!(2), &json!(3)), "{value}");
    assert_eq!(running.get(&path_of("news", 7)).await.1["payload"], 7);
}

#[tokio::test]
async fn only_the_first_hundred_invalid_lines_are_listed() {
    let running = Running::start().await;
    let value = streamed(&running, "group=g&type=mail", "x\n".repeat(1000)).await;
    assert_eq!((&value["errors_total"], value["errors"].as_array().unwrap().len()), (&json!(1000), 100));
    assert_eq!((&value["next_line"], &value["complete"]), (&json!(1001), &json!(true)));
    let long = format!("{}\n{}\n", "x".repeat(3_000_000), line(2).trim());
    let value = streamed(&running, "group=g&type=mail", long).await;
    assert_eq!((&value["created"], &value["errors"][0]["line"]), (&json!(1), &json!(1)), "{value}");
}

#[tokio::test]
async fn a_stream_stops_before_an_invalid_line_on_request() {
    let running = Running::start().await;
    let value = streamed(&running, "group=g&type=mail&bulk=b&open=true&seal=true&on_error=stop", MIXED).await;
    assert_eq!(
        (&value["next_line"], &value["created"], &value["empty_lines"]),
        (&json!(3), &json!(1), &json!(1)),
        "{value}"
    );
    assert_eq!((&value["complete"], &value["sealed"]), (&json!(false), &json!(false)));
    assert_eq!(value["stopped"]["reason"], "wrong-line");
    assert!(value["stopped"]["detail"].as_str().unwrap().starts_with("line 3: "), "{value}");
    let rest: String = MIXED.replace("\"cost\":0", "\"cost\":1").split_inclusive('\n').skip(2).collect();
    let query = "group=g&type=mail&bulk=b&seal=true&on_error=stop&first_line=3";
    let value = streamed(&running, query, rest).await;
    assert_eq!((&value["next_line"], &value["created"]), (&json!(7), &json!(2)), "{value}");
    // Line 4 has an id of its own, so it is not found.
    assert_eq!(running.get("/api/jobs/stream?group=g&bulk=b").await.1, json!({"next_line": 4}));
}

#[tokio::test]
async fn a_full_queue_stops_an_endless_stream_that_is_resumed_later() {
    let running = short_timeouts(Settings { group_backlog_max: 250, ..Settings::default() }).await;
    let value =
        streamed(&running, "group=g&type=mail&bulk=news&open=true&seal=true", lines(1, u64::MAX)).await;
    assert_eq!(
        (&value["next_line"], &value["created"], &value["complete"]),
        (&json!(251), &json!(250), &json!(false)),
        "{value}"
    );
    assert_eq!(
        (&value["stopped"]["reason"], &value["stopped"]["retry_after_ms"]),
        (&json!("queue-full"), &json!(1000))
    );
    let first: Vec<Value> = (1..=250).map(|n| json!({"group": "g", "id": id_of("news", n)})).collect();
    running.post("/api/jobs/cancel", json!({"jobs": first})).await;
    let query = "group=g&type=mail&bulk=news&seal=true&first_line=251";
    let value = streamed(&running, query, lines(251, 400)).await;
    assert_eq!(
        (&value["next_line"], &value["created"], &value["complete"]),
        (&json!(401), &json!(150), &json!(true)),
        "{value}"
    );
    let view = running.fairlane.bulk("g", "news").opened_before().unwrap().view().await.unwrap();
    assert_eq!((view.total, view.cancelled, view.sealed), (400, 250, true));
}

#[tokio::test]
async fn a_waiting_stream_continues_when_the_queue_has_room_again() {
    let running = Running::over("memory:", Settings { group_backlog_max: 250, ..Settings::default() }).await;
    let sending = streamed(&running, "group=g&type=mail&bulk=news&open=true", lines(1, 400));
    let making_room = async {
        let full = tokio::time::timeout(TIMEOUT, async {
            while running.fairlane.queue_view().await.unwrap().backlog < 250 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        full.await.unwrap();
        let first: Vec<Value> = (1..=250).map(|n| json!({"group": "g", "id": id_of("news", n)})).collect();
        running.post("/api/jobs/cancel", json!({"jobs": first})).await;
    };
    let (value, ()) = tokio::join!(sending, making_room);
    assert_eq!((&value["created"], &value["complete"]), (&json!(400), &json!(true)), "{value}");
}

#[tokio::test]
async fn the_response_to_a_body_that_pauses_for_too_long_counts_its_lines() {
    let running = short_timeouts(Settings::default()).await;
    let mut connection = TcpStream::connect(running.server.address()).await.unwrap();
    let head = "POST /api/jobs/stream?group=g&type=mail HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n\
                content-length: 1000\r\n\r\n";
    connection.write_all(format!("{head}{}{}{{", line(1), line(2)).as_bytes()).await.unwrap();
    let mut text = String::new();
    tokio::time::timeout(TIMEOUT, async {
        while !text.contains("too-slow") {
            let mut chunk = [0; 4096];
            let read = connection.read(&mut chunk).await.unwrap();
            assert!(read > 0, "{text}");
            text.push_str(std::str::from_utf8(&chunk[..read]).unwrap());
        }
    })
    .await
    .unwrap();
    assert!(
        text.starts_with("HTTP/1.1 200") && text.contains("\"next_line\":3,\"complete\":false"),
        "{text}"
    );
    assert_eq!(running.fairlane.queue_view().await.unwrap().backlog, 2);
}

#[tokio::test]
async fn slow_lines_are_enqueued_before_the_next_one_comes() {
    let running = Running::start().await;
    let mut connection = TcpStream::connect(running.server.address()).await.unwrap();
    let head = "POST /api/jobs/stream?group=g&type=mail HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n\
                content-length: 1000\r\n\r\n";
    connection.write_all(format!("{head}{}", line(1)).as_bytes()).await.unwrap();
    let taken = tokio::time::timeout(TIMEOUT, async {
        while running.fairlane.queue_view().await.unwrap().backlog < 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    taken.await.unwrap();
}

#[tokio::test]
async fn a_stream_stops_while_the_engine_is_unavailable_and_is_resumed_later() {
    let mut redis = RedisServer::start(ServerOptions { durable: true, ..ServerOptions::default() });
    let fairlane = Fairlane::open(&redis.url()).await.unwrap();
    let settings = ServerSettings { stream_patience: Duration::from_millis(50), ..ServerSettings::default() };
    let running = Running::start_with(fairlane, None, settings).await;
    let sending = streamed(&running, "group=g&type=mail&bulk=news&open=true", lines(1, u64::MAX));
    let killing = async {
        while running.fairlane.queue_view().await.unwrap().backlog < 1000 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        redis.kill();
    };
    let (value, ()) = tokio::time::timeout(TIMEOUT, async { tokio::join!(sending, killing) }).await.unwrap();
    assert_eq!(
        (&value["complete"], &value["stopped"]["reason"]),
        (&json!(false), &json!("unavailable")),
        "{value}"
    );
    let next = value["next_line"].as_u64().unwrap();
    redis.restart();
    let value = streamed(&running, "group=g&type=mail&bulk=news&seal=true", lines(1, next + 999)).await;
    assert_eq!((&value["lines"], &value["complete"]), (&json!(next + 999), &json!(true)), "{value}");
    let view = running.fairlane.bulk("g", "news").opened_before().unwrap().view().await.unwrap();
    assert_eq!((view.total, view.sealed), (next + 999, true));
}

#[tokio::test]
async fn a_server_that_stops_returns_where_to_resume_a_stream() {
    let running = Running::start().await;
    let mut connection = TcpStream::connect(running.server.address()).await.unwrap();
    let head = "POST /api/jobs/stream?group=g&type=mail HTTP/1.1\r\nhost: localhost\r\n\
                content-type: application/x-ndjson\r\ncontent-length: 1000\r\n\r\n";
    connection.write_all(format!("{head}{}", line(1)).as_bytes()).await.unwrap();
    while running.fairlane.queue_view().await.unwrap().backlog < 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut text = String::new();
    let stopped = tokio::time::timeout(TIMEOUT, async {
        tokio::join!(running.server.stop(), connection.read_to_string(&mut text)).1.unwrap()
    });
    stopped.await.unwrap();
    assert!(text.contains("\"next_line\":2,\"complete\":false") && text.contains("\"stopping\""), "{text}");
}

#[tokio::test]
async fn lines_may_be_payloads() {
    let running = Running::start().await;
    let body = "plain words\n\n{\"a\":1}\n";
    let value = streamed(&running, "group=g&type=mail&bulk=b&open=true&payload_lines=true", body).await;
    assert_eq!((&value["created"], &value["empty_lines"]), (&json!(2), &json!(1)), "{value}");
    assert_eq!(running.get(&path_of("b", 3)).await.1["payload"], json!({"a": 1}));
    assert_eq!(running.get(&path_of("b", 1)).await.1["payload_base64"], "cGxhaW4gd29yZHM=");
}

#[tokio::test]
async fn ids_of_other_jobs_and_sealed_bulk_actions_are_reported() {
    let running = Running::start().await;
    running.post("/api/jobs", json!({"group": "g", "type": "mail", "id": "alone", "payload": 1})).await;
    let body = "{\"id\":\"alone\",\"payload\":1}\n{\"payload\":2}\n";
    let value = streamed(&running, "group=g&type=mail&bulk=b&open=true&seal=true", body).await;
    assert_eq!(
        (&value["created"], &value["errors_total"], &value["errors"][0]["line"]),
        (&json!(1), &json!(1), &json!(1)),
        "{value}"
    );
    let value = streamed(&running, "group=g&type=mail&bulk=b", lines(1, 9)).await;
    assert_eq!(
        (&value["stopped"]["reason"], &value["next_line"]),
        (&json!("bulk-closed"), &json!(1)),
        "{value}"
    );
}

#[tokio::test]
async fn types_beyond_the_limit_are_refused_line_by_line() {
    let running = Running::start().await;
    let body: String = (1..=70).map(|n| format!("{{\"type\":\"t-{n}\",\"payload\":{n}}}\n")).collect();
    let value = streamed(&running, "group=g", body.clone()).await;
    assert_eq!(
        (&value["created"], &value["refused"], &value["errors_total"]),
        (&json!(64), &json!(6), &json!(6)),
        "{value}"
    );
    let value = streamed(&running, "group=g&on_error=stop", body).await;
    assert_eq!(
        (&value["complete"], &value["stopped"]["reason"]),
        (&json!(false), &json!("wrong-line")),
        "{value}"
    );
    assert_eq!(value["next_line"], 71);
}

#[tokio::test]
async fn an_invalid_query_is_refused() {
    let running = Running::start().await;
    for query in [
        "",
        "type=mail",
        "group=",
        "group=g&type=",
        "group=g&open=true",
        "group=g&seal=true",
        "group=g&payload_lines=true",
        "group=g&first_line=0",
        "group=g&first_line=18446744073709551615",
        "group=g&on_error=ask",
        "group=g&level=urgent",
        "group=g&open=perhaps",
        "group=g&x=1",
        "group=g&bulk=",
    ] {
        let (status, value) = send(stream(&running, query, "")).await;
        assert_eq!(
            (status, problem(&value)),
            (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            "{query}: {value}"
        );
    }
    let (status, value) = send(stream(&running, "group=g&bulk=nowhere", "")).await;
    assert_eq!((status, problem(&value)), (StatusCode::NOT_FOUND, "not-found"), "{value}");
    let (status, _) = running.post("/api/jobs/stream?group=g", json!({})).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(running.get("/api/jobs/stream?group=g").await.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(running.get("/api/jobs/stream?group=g&bulk=nowhere").await.1, json!({"next_line": 1}));
}

#[tokio::test]
async fn ids_that_resemble_line_numbers_do_not_change_where_to_resume() {
    let running = Running::start().await;
    let rows = [1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 40, 41];
    let body: String =
        rows.iter().map(|row| format!("{{\"id\":\"news-{row}\",\"payload\":{row}}}\n")).collect();
    let value = streamed(&running, "group=g&type=mail&bulk=news&open=true", body).await;
    assert_eq!((&value["created"], &value["next_line"]), (&json!(12), &json!(13)), "{value}");
    let next = running.get("/api/jobs/stream?group=g&bulk=news").await.1["next_line"].as_u64().unwrap();
    assert!(next <= 13, "{next}");
    // Lines without ids are enqueued beside them.
    let value = streamed(&running, "group=g&type=mail&bulk=news&first_line=13", lines(13, 41)).await;
    assert_eq!(value["created"], 29, "{value}");
    let bulk = "n".repeat(128);
    let value = streamed(&running, &format!("group=g&type=mail&bulk={bulk}&open=true"), lines(1, 9)).await;
    assert_eq!(value["created"], 9, "{value}");
    let (_, resume) = running.get(&format!("/api/jobs/stream?group=g&bulk={bulk}")).await;
    assert_eq!(resume, json!({"next_line": 10}));
}

#[tokio::test]
async fn a_line_may_contain_bytes_in_base64() {
    let running = Running::start().await;
    let body = "{\"id\":\"bytes\",\"payload_base64\":\"//4A\"}\n{\"payload_base64\":\"?\"}\n";
    let value = streamed(&running, "group=g&type=mail", body).await;
    assert_eq!((&value["created"], &value["errors"][0]["line"]), (&json!(1), &json!(2)), "{value}");
    assert_eq!(running.get("/api/jobs/g/bytes").await.1["payload_base64"], "//4A");
}
