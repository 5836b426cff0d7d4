//! A key that sends too many requests, and another that must not be affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fairlane_core::GroupId;
use fairlane_server::ServerSettings;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, NewKey};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::keys::{one_key, start};
use crate::running::{Running, json, problem, send};

pub fn limited_key(file: &KeyFile, rate: &str) -> String {
    let rate = Some(fairlane::parse_rate(rate).unwrap());
    let new = NewKey { name: "limited".into(), role: Role::Admin, groups: None, rate, expires_in: None };
    file.create(new).unwrap().1.reveal().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flooding_key_is_slowed_down_and_another_is_never_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, quiet) = one_key(folder.path(), "quiet");
    let flooding = limited_key(&file, "50/s burst 50");
    let running = Arc::new(start(&file, ServerSettings::default()).await);
    let is_over = Arc::new(AtomicBool::new(false));
    let [passed, refused] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let start = tokio::time::Instant::now();
    let flood: Vec<_> = (0..64)
        .map(|_| {
            let (running, key, is_over) = (running.clone(), flooding.clone(), is_over.clone());
            let (passed, refused) = (passed.clone(), refused.clone());
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let request = running.request(Method::GET, "/api/status").bearer_auth(&key);
                    // A refusal may close the connection of another request.
                    let Ok(response) = request.send().await else { continue };
                    match response.status() {
                        StatusCode::OK => passed.fetch_add(1, Ordering::Relaxed),
                        StatusCode::TOO_MANY_REQUESTS => {
                            assert!(response.headers().contains_key("retry-after"));
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        other => panic!("{other}"),
                    };
                }
            })
        })
        .collect();
    let mut sent = 0;
    while refused.load(Ordering::Relaxed) < 64 || sent < 300 {
        let status =
            running.request(Method::GET, "/api/status").bearer_auth(&quiet).send().await.unwrap().status();
        assert_eq!(status, StatusCode::OK);
        sent += 1;
        assert!(sent < 1_000_000, "the flood is not refused");
    }
    is_over.store(true, Ordering::Relaxed);
    for client in flood {
        client.await.unwrap();
    }
    // Requests pass and are refused at the rate of the key, however many it sends.
    let most = 50.0 + 50.0 * (start.elapsed().as_secs_f64() + 1.0);
    assert!((passed.load(Ordering::Relaxed) as f64) <= most);
    assert!((refused.load(Ordering::Relaxed) as f64) <= 2.0 * most);
}

#[tokio::test]
async fn a_request_beyond_the_rate_is_refused_late_with_a_retry_after() {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("keys.json"));
    let key = limited_key(&file, "1/min burst 3");
    let mut running = start(&file, ServerSettings::default()).await;
    running.set_token(key);
    for _ in 0..3 {
        assert_eq!(running.get("/api/status").await.0, StatusCode::OK);
    }
    let start = tokio::time::Instant::now();
    let (status, body) = running.get("/api/status").await;
    assert_eq!((status, problem(&body)), (StatusCode::TOO_MANY_REQUESTS, "rate-limited"));
    assert!(start.elapsed() >= Duration::from_secs(1), "the refusal was not delayed");
    assert!(body["retry_after_ms"].as_u64().unwrap() > 30_000, "{body}");
    assert!(body["detail"].as_str().unwrap().contains("1/min burst 3"), "{body}");
}

#[tokio::test]
async fn refusals_are_released_one_by_one_and_keep_their_connections() {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("keys.json"));
    let key = limited_key(&file, "1/min burst 1");
    let mut running = start(&file, ServerSettings::default()).await;
    running.set_token(key);
    assert_eq!(running.get("/api/status").await.0, StatusCode::OK);
    let running = Arc::new(running);
    let start = tokio::time::Instant::now();
    let mut requests = JoinSet::new();
    for _ in 0..150 {
        let running = running.clone();
        requests.spawn(async move { running.request(Method::GET, "/api/status").send().await.unwrap() });
    }
    while let Some(response) = requests.join_next().await {
        let response = response.unwrap();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(response.headers().get("connection").is_none());
    }
    // The first after a second, the others every 10 ms.
    assert!(start.elapsed() >= Duration::from_millis(2400), "all were refused after {:?}", start.elapsed());
}

#[tokio::test]
async fn one_key_cannot_take_all_long_polls() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, greedy) = one_key(folder.path(), "greedy");
    let (_, _, other) = one_key(folder.path(), "other");
    let running = Arc::new(start(&file, ServerSettings { held_max: 16, ..ServerSettings::default() }).await);
    let mut polls = JoinSet::new();
    for worker in 0..20 {
        let (running, key) = (running.clone(), greedy.clone());
        polls.spawn(async move { poll(&running, &key, worker, 60_000).await.0 });
    }
    for _ in 0..16 {
        assert_eq!(polls.join_next().await.unwrap().unwrap(), StatusCode::TOO_MANY_REQUESTS);
    }
    let (status, body) = poll(&running, &other, 0, 0).await;
    assert_eq!((status, polls.len()), (StatusCode::OK, 4), "{body}");
}

async fn poll(running: &Running, key: &str, worker: u32, wait_ms: u64) -> (StatusCode, serde_json::Value) {
    let body = json!({"worker": format!("w-{worker}"), "types": ["mail"], "count": 1, "wait_ms": wait_ms});
    send(json(running.request(Method::POST, "/api/leases").bearer_auth(key), &body)).await
}

#[tokio::test]
async fn a_key_bound_to_groups_has_a_smaller_share_of_event_streams() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, free) = one_key(folder.path(), "free");
    let groups = Some([GroupId::new("g").unwrap()].into());
    let new = NewKey { name: "bound".into(), role: Role::Viewer, groups, rate: None, expires_in: None };
    let bound = file.create(new).unwrap().1;
    let running = start(&file, ServerSettings { held_max: 32, ..ServerSettings::default() }).await;
    running.fairlane.bulk("g", "b").open().await.unwrap();
    let watch = async |key: &str| {
        let request = running.request(Method::GET, "/api/bulks/g/b/events").bearer_auth(key);
        request.send().await.unwrap()
    };
    let (mut watching, mut counts) = (Vec::new(), Vec::new());
    for key in [bound.reveal(), &free] {
        let mut count = 0;
        loop {
            let response = watch(key).await;
            if response.status() == StatusCode::TOO_MANY_REQUESTS {
                break;
            }
            assert_eq!(response.status(), StatusCode::OK);
            watching.push(response);
            count += 1;
        }
        counts.push(count);
    }
    assert_eq!(counts, [2, 8]);
}

#[tokio::test]
async fn event_streams_leave_long_polls_for_workers() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, worker) = one_key(folder.path(), "worker");
    let watchers: Vec<String> = (0..4).map(|_| one_key(folder.path(), "watcher").2).collect();
    let running = start(&file, ServerSettings { held_max: 16, ..ServerSettings::default() }).await;
    let mut watching = Vec::new();
    for key in watchers.iter().flat_map(|key| [key; 4]) {
        let request = running.request(Method::GET, "/api/events").bearer_auth(key);
        watching.push(request.send().await.unwrap());
    }
    let count = |status| watching.iter().filter(|response| response.status() == status).count();
    assert_eq!((count(StatusCode::OK), count(StatusCode::SERVICE_UNAVAILABLE)), (14, 2));
    assert_eq!(poll(&running, &worker, 0, 0).await.0, StatusCode::OK);
}

#[tokio::test]
async fn an_event_stream_holds_its_permit_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, key) = one_key(folder.path(), "k");
    let mut running = start(&file, ServerSettings { held_max: 4, ..ServerSettings::default() }).await;
    running.set_token(key);
    let stream = running.request(Method::GET, "/api/events").send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    assert_eq!(running.get("/api/events").await.0, StatusCode::TOO_MANY_REQUESTS);
    drop(stream);
    for _ in 0..60 {
        let status = running.request(Method::GET, "/api/events").send().await.unwrap().status();
        if status == StatusCode::OK {
            return;
        }
    }
    panic!("the permit of the stream is not released");
}

/// Sends the head of a stream of jobs, and returns the connection and the first status: 100 or a
/// refusal.
pub async fn upload(running: &Running, key: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(running.server.address()).await.unwrap();
    let head = format!(
        "POST /api/jobs/stream?group=group&type=mail HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    (stream, String::from_utf8_lossy(&status).into_owned())
}

#[tokio::test]
async fn uploads_have_a_limit_of_their_own_and_one_key_a_quarter_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (file, _, greedy) = one_key(folder.path(), "greedy");
    let (_, _, other) = one_key(folder.path(), "other");
    let running = start(&file, ServerSettings { streams_max: 4, ..ServerSettings::default() }).await;
    let (first, status) = upload(&running, &greedy).await;
    assert_eq!(status, "HTTP/1.1 100");
    assert_eq!(upload(&running, &greedy).await.1, "HTTP/1.1 429");
    assert_eq!(poll(&running, &greedy, 0, 0).await.0, StatusCode::OK);
    assert_eq!(upload(&running, &other).await.1, "HTTP/1.1 100");
    drop(first);
    for _ in 0..60 {
        if upload(&running, &greedy).await.1 == "HTTP/1.1 100" {
            return;
        }
    }
    panic!("the permit of the upload is not released");
}

#[test]
fn routes_that_take_much_memory_have_a_limit_of_their_own() {
    use fairlane_server::access::{Pace, ROUTES};
    let mut streams: Vec<&str> =
        ROUTES.iter().filter(|route| route.pace == Pace::Stream).map(|route| route.path).collect();
    let mut expected = [
        "/api/jobs/stream",
        "/api/bulks/{group}/{bulk}/results",
        "/api/audit",
        "/api/rankings/{board}/rebuild",
        "/api/rankings/{board}/audit",
        "/engine/walk",
        "/bulks/{group}/{bulk}/results",
        "/audit",
    ];
    expected.sort_unstable();
    streams.sort_unstable();
    assert_eq!(streams, expected);
}
