//! Jobs leased, extended and settled over HTTP.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane::{Fairlane, Job, JobState, Settings};
use fairlane_core::queue::{self, Leased};
use fairlane_core::{Command, Reply};
use fairlane_engine::{Clock, DirectoryOptions, EmbeddedEngine, Hooks, layer};
use fairlane_server::ServerSettings;
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until_async as until;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::gate::Gate;
use crate::running::{Running, problem};

/// Longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A number far above the milliseconds since 1970.
const REQUEST_MAX: u64 = 1 << 42;
/// A lease that does not end while a test runs.
const LONG_MS: u64 = 900_000;

async fn add(fairlane: &Fairlane, ids: std::ops::Range<usize>) {
    let jobs = ids.map(|id| Job::new("group", "mail", &id).id(format!("job-{id}")));
    for receipt in fairlane.enqueue_all(jobs).await.unwrap() {
        receipt.accepted().unwrap();
    }
}

fn ids(response: &Value) -> Vec<String> {
    let jobs = response["jobs"].as_array().unwrap_or_else(|| panic!("{response}"));
    jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

/// The body of a request for jobs of the type `mail`, with these fields added.
fn lease_body(more: Value) -> Value {
    let mut body = json!({"worker": "worker", "types": ["mail"], "lease_ms": LONG_MS});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn lease(server: &Running, more: Value) -> Value {
    let (status, response) = server.post("/api/leases", lease_body(more)).await;
    assert_eq!(status, StatusCode::OK, "{response}");
    response
}

async fn in_flight(server: &Running) -> u64 {
    server.fairlane.queue_view().await.unwrap().in_flight
}

/// The group, id and fence of a leased job.
fn name(job: &Value) -> Value {
    json!({"group": job["group"], "id": job["id"], "fence": job["fence"]})
}

/// A settlement of a leased job.
fn settlement(job: &Value, outcome: &str, more: Value) -> Value {
    let mut body = name(job);
    body["outcome"] = outcome.into();
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn a_leased_job_has_all_its_fields() {
    let server = Running::start().await;
    let bulk = server.fairlane.bulk("group", "bulk").open().await.unwrap();
    let spaced: Box<serde_json::value::RawValue> =
        serde_json::from_str("{ \"to\" : 1.0 ,\n\"big\": 12345678901234567890 }").unwrap();
    bulk.add_all([bulk.job("mail", &spaced).id("first")]).await.unwrap();
    let other = Job::bytes("group", "mail", b"\xff no JSON".to_vec()).id("second");
    server.fairlane.enqueue(other).await.unwrap().accepted().unwrap();
    let raw = server.request(reqwest::Method::POST, "/api/leases");
    let raw = crate::running::json(raw, &lease_body(json!({"count": 2})))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(raw.contains("\"payload\":{ \"to\" : 1.0 ,\n\"big\": 12345678901234567890 }"), "{raw}");
    let response: Value = serde_json::from_str(&raw).unwrap();
    let jobs = response["jobs"].as_array().unwrap();
    let first = jobs.iter().find(|job| job["id"] == "first").unwrap();
    assert_eq!(
        (&first["group"], &first["type"], &first["level"], &first["cost"], &first["attempt"], &first["bulk"]),
        (&json!("group"), &json!("mail"), &json!("normal"), &json!(1), &json!(1), &json!("bulk"))
    );
    assert!(first["fence"].as_u64().unwrap() > 0 && first["created_at"].as_str().unwrap().ends_with('Z'));
    let second = jobs.iter().find(|job| job["id"] == "second").unwrap();
    assert_eq!((&second["payload_base64"], &second["payload"]), (&json!("/yBubyBKU09O"), &Value::Null));
}

#[tokio::test]
async fn a_response_without_jobs_names_types_that_do_not_exist() {
    let server = Running::start().await;
    let types = json!({"types": ["mail", "mial"]});
    assert_eq!(lease(&server, types.clone()).await["unknown_types"], json!(["mail", "mial"]));
    add(&server.fairlane, 0..1).await;
    let leased = lease(&server, types.clone()).await;
    assert!(ids(&leased).len() == 1 && leased.get("unknown_types").is_none(), "{leased}");
    assert_eq!(lease(&server, types).await["unknown_types"], json!(["mial"]));
    let known = lease(&server, json!({"types": ["mail"]})).await;
    assert!(ids(&known).is_empty() && known.get("unknown_types").is_none(), "{known}");
}

#[tokio::test]
async fn a_repeated_number_returns_the_same_jobs_and_a_lower_one_is_superseded() {
    let redis = RedisServer::start(ServerOptions::default());
    for url in ["memory:", &redis.url()] {
        let server = Running::over(url, Settings::default()).await;
        add(&server.fairlane, 0..5).await;
        let first = lease(&server, json!({"count": 2, "request": 7})).await;
        assert_eq!(ids(&first), ["job-0", "job-1"]);
        assert_eq!(lease(&server, json!({"count": 5, "request": 7})).await, first, "{url}");
        assert_eq!(in_flight(&server).await, 2);
        let next = lease(&server, json!({"count": 1, "request": 8})).await;
        assert_eq!(ids(&next), ["job-2"]);
        let (status, response) = server.post("/api/leases", lease_body(json!({"request": 7}))).await;
        assert_eq!((status, problem(&response)), (StatusCode::CONFLICT, "superseded"), "{response}");
        assert!(response["detail"].as_str().unwrap().contains("the number 8"), "{response}");
        assert_eq!(response["errors"][0]["pointer"], "/request");
    }
}

#[tokio::test]
async fn a_repeated_poll_returns_jobs_that_came_late_in_the_first_one() {
    let (server, gate) = Gate::start().await;
    let polling = server.request(reqwest::Method::POST, "/api/leases");
    let body = lease_body(json!({"count": 3, "wait_ms": 30_000, "request": 3}));
    let polling = tokio::spawn(crate::running::send(crate::running::json(polling, &body)));
    gate.leased(1).await;
    add(&server.fairlane, 0..2).await;
    let (status, first) = polling.await.unwrap();
    assert_eq!(status, StatusCode::OK, "{first}");
    assert!(!ids(&first).is_empty());
    let taken = in_flight(&server).await;
    assert_eq!(lease(&server, json!({"count": 3, "request": 3})).await["jobs"], first["jobs"]);
    assert_eq!(
        lease(&server, json!({"count": 3, "wait_ms": 30_000, "request": 3})).await["jobs"],
        first["jobs"]
    );
    assert_eq!(in_flight(&server).await, taken, "and no others");
}

#[tokio::test]
async fn a_poll_returns_when_a_job_comes_and_without_jobs_when_its_time_is_over() {
    let redis = RedisServer::start(ServerOptions::default());
    for url in ["memory:", &redis.url()] {
        let server = Running::over(url, Settings::default()).await;
        assert!(ids(&lease(&server, json!({"wait_ms": 20})).await).is_empty());
        let polling = server.request(reqwest::Method::POST, "/api/leases");
        let body = lease_body(json!({"worker": "poller", "wait_ms": 30_000}));
        let polling = tokio::spawn(crate::running::send(crate::running::json(polling, &body)));
        add(&server.fairlane, 0..1).await;
        let (status, response) = polling.await.unwrap();
        assert_eq!((status, ids(&response)), (StatusCode::OK, vec!["job-0".to_owned()]), "{url}");
    }
}

#[tokio::test]
async fn polls_of_one_worker_without_numbers_get_different_jobs() {
    let (server, gate) = Gate::start().await;
    let polls: Vec<_> = (0..8)
        .map(|_| {
            let request = server.request(reqwest::Method::POST, "/api/leases");
            let body = lease_body(json!({"wait_ms": 30_000}));
            tokio::spawn(crate::running::send(crate::running::json(request, &body)))
        })
        .collect();
    gate.leased(8).await;
    add(&server.fairlane, 0..8).await;
    let mut leased = BTreeSet::new();
    for poll in polls {
        leased.extend(ids(&poll.await.unwrap().1));
    }
    assert_eq!(leased.len(), 8);
}

#[tokio::test]
async fn numbered_and_unnumbered_requests_of_a_worker_are_independent() {
    let server = Running::start().await;
    add(&server.fairlane, 0..4).await;
    for more in [json!({}), json!({"request": 1}), json!({}), json!({"request": 2})] {
        assert_eq!(ids(&lease(&server, more).await).len(), 1);
    }
    let (_, job) = server.get("/api/jobs/group/job-0").await;
    assert_eq!(job["worker"], "worker", "the job shows the name that the worker sent");
}

/// Leases this many times without a number, and returns the ids of the jobs.
async fn lease_often(request: reqwest::RequestBuilder, times: usize) -> Vec<String> {
    let mut leased = Vec::new();
    for _ in 0..times {
        let request = crate::running::json(request.try_clone().unwrap(), &lease_body(json!({})));
        let (status, response) = crate::running::send(request).await;
        assert_eq!(status, StatusCode::OK, "{response}");
        leased.extend(ids(&response));
    }
    leased
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_leased_to_two_requests_of_one_worker_whatever_numbers_it_has_used() {
    const CLIENTS: usize = 8;
    const TIMES: usize = 30;
    let redis = RedisServer::start(ServerOptions::default());
    for url in ["memory:", &redis.url()] {
        let server = Running::over(url, Settings::default()).await;
        let second =
            Running::start_with(server.fairlane.clone(), None, fairlane_server::ServerSettings::default())
                .await;
        add(&server.fairlane, 0..CLIENTS * TIMES + 1).await;
        // Far above any clock.
        let mut leased = ids(&lease(&server, json!({"request": REQUEST_MAX})).await);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let through = if client % 2 == 0 { &server } else { &second };
                tokio::spawn(lease_often(through.request(reqwest::Method::POST, "/api/leases"), TIMES))
            })
            .collect();
        for client in clients {
            leased.extend(client.await.unwrap());
        }
        let distinct: BTreeSet<&String> = leased.iter().collect();
        assert_eq!((leased.len(), distinct.len()), (CLIENTS * TIMES + 1, CLIENTS * TIMES + 1), "{url}");
    }
}

/// Sends a request for jobs, disconnects when the engine has leased, and waits until the server has
/// noticed.
async fn lease_and_disconnect(server: &Running, gate: &Gate, more: Value) {
    gate.close();
    let mut stream = TcpStream::connect(server.server.address()).await.unwrap();
    let body = lease_body(more).to_string();
    let head = "POST /api/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    gate.leased(1).await;
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"", "the server closes without a response");
    gate.open();
}

#[tokio::test]
async fn jobs_for_a_client_that_is_gone_are_released() {
    let (server, gate) = Gate::start().await;
    add(&server.fairlane, 0..3).await;
    lease_and_disconnect(&server, &gate, json!({"count": 2})).await;
    until("the jobs are released", || async { in_flight(&server).await == 0 }).await;
    let again = lease(&server, json!({"count": 3})).await;
    assert_eq!(ids(&again).len(), 3);
    assert!(again["jobs"].as_array().unwrap().iter().all(|job| job["attempt"] == 1), "it cost no attempt");
}

#[tokio::test]
async fn jobs_of_a_numbered_request_stay_leased_until_it_is_repeated() {
    let (server, gate) = Gate::start().await;
    add(&server.fairlane, 0..3).await;
    lease_and_disconnect(&server, &gate, json!({"count": 2, "request": 1})).await;
    let again = lease(&server, json!({"count": 2, "request": 1})).await;
    assert_eq!(ids(&again), ["job-0", "job-1"]);
    assert_eq!(in_flight(&server).await, 2);
}

#[tokio::test]
async fn a_lease_without_a_reply_of_the_engine_is_repeated() {
    let (server, gate) = Gate::start().await;
    add(&server.fairlane, 0..4).await;
    gate.lose(1);
    assert_eq!(ids(&lease(&server, json!({"count": 2})).await).len(), 2);
    assert_eq!(in_flight(&server).await, 2, "and no others");
    gate.lose(100);
    let body = lease_body(json!({"count": 2, "request": 1}));
    let (status, response) = server.post("/api/leases", body).await;
    assert_eq!((status, problem(&response)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"));
    gate.lose(0);
    assert_eq!(ids(&lease(&server, json!({"count": 2, "request": 1})).await).len(), 2);
    assert_eq!(in_flight(&server).await, 4);
}

#[tokio::test]
async fn a_newer_request_of_a_worker_ends_one_that_is_waiting() {
    let (server, gate) = Gate::start().await;
    let waiting = server.request(reqwest::Method::POST, "/api/leases");
    let waiting = crate::running::json(waiting, &lease_body(json!({"wait_ms": 60_000, "request": 1})));
    let waiting = tokio::spawn(crate::running::send(waiting));
    gate.leased(1).await;
    assert!(ids(&lease(&server, json!({"request": 2})).await).is_empty());
    let (status, response) = tokio::time::timeout(TIMEOUT, waiting).await.unwrap().unwrap();
    assert!(status == StatusCode::OK || problem(&response) == "superseded", "{response}");
}

#[tokio::test]
async fn a_response_without_jobs_contains_when_to_ask_again() {
    let server = Running::start().await;
    let later = Job::new("group", "mail", &0).delay(Duration::from_secs(3600));
    server.fairlane.enqueue(later).await.unwrap().accepted().unwrap();
    let response = lease(&server, json!({})).await;
    let wake_in_ms = response["wake_in_ms"].as_u64().unwrap();
    assert!((1..=3_600_000).contains(&wake_in_ms), "{response}");
}

/// A time is waited for at least as long as the waits before it yielded nothing.
#[tokio::test]
async fn a_poll_waits_no_longer_than_to_a_time_that_it_learns_after_many_waits() {
    const EMPTY: usize = 10;
    const TIME: Duration = Duration::from_millis(5);
    let (leases, waits) = (AtomicUsize::new(0), Arc::new(Mutex::new(Vec::new())));
    let seen = waits.clone();
    let hooks = Hooks::default()
        .submit(move |inner, command: Command| {
            let is_lease = matches!(command, Command::Queue(queue::Command::Lease(_)));
            let names_time = is_lease && leases.fetch_add(1, Ordering::SeqCst) == EMPTY;
            Box::pin(async move {
                let mut reply = inner.submit(command).await?;
                if let Reply::Queue(queue::Reply::Lease(Leased::Jobs { wake_in_us, .. })) = &mut reply
                    && names_time
                {
                    *wake_in_us = Some(TIME.as_micros() as u64);
                }
                Ok(reply)
            })
        })
        .wait(move |_, _, at_most| {
            let mut seen = seen.lock().unwrap();
            seen.push(at_most);
            let is_last = seen.len() > EMPTY;
            Box::pin(async move { if is_last { std::future::pending().await } else { Ok(false) } })
        });
    let engine = Fairlane::open("memory:").await.unwrap().engine().clone();
    let fairlane = Fairlane::from_engine(layer(engine, hooks));
    let server = Running::start_with(fairlane, None, ServerSettings::default()).await;
    let poll = server.request(reqwest::Method::POST, "/api/leases");
    let poll = crate::running::json(poll, &lease_body(json!({"wait_ms": 20_000})));
    tokio::select! {
        (status, response) = crate::running::send(poll) => panic!("{status}: {response}"),
        () = until("the wait for the time", async || waits.lock().unwrap().len() > EMPTY) => {}
    }
    let waits = waits.lock().unwrap();
    assert!(waits[..EMPTY].iter().all(|wait| *wait > TIME) && waits[EMPTY] <= TIME, "{waits:?}");
}

#[tokio::test]
async fn leases_are_extended_lost_or_cancelled() {
    let server = Running::start().await;
    add(&server.fairlane, 0..3).await;
    let leased = lease(&server, json!({"count": 3})).await;
    let [kept, settled, unwanted] = [0, 1, 2].map(|at| leased["jobs"][at].clone());
    server
        .post("/api/leases/settle", json!({"settlements": [settlement(&settled, "succeeded", json!({}))]}))
        .await;
    server.fairlane.job("group", "job-2").cancel().await.unwrap();
    let leases = [&kept, &settled, &unwanted].map(name);
    let (status, response) =
        server.post("/api/leases/extend", json!({"leases": leases, "lease_ms": LONG_MS})).await;
    assert_eq!(status, StatusCode::OK, "{response}");
    let statuses: Vec<_> = response["leases"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
    assert_eq!(statuses, ["extended", "lost", "cancelled"]);
    let until = response["leases"][0]["until"].as_str().unwrap();
    let view = server.fairlane.job("group", "job-0").view().await.unwrap().unwrap();
    assert_eq!(until, fairlane::time_text(view.until.unwrap().as_millis()));
    assert!(response["leases"][1].get("until").is_none() && response["leases"][2]["until"].is_string());
}

#[tokio::test]
async fn every_outcome_equals_that_of_a_worker_in_rust() {
    let server = Running::start().await;
    add(&server.fairlane, 0..7).await;
    let leased = lease(&server, json!({"count": 7})).await;
    let job = |at: usize| &leased["jobs"][at];
    let settlements = json!({"settlements": [
        settlement(job(0), "succeeded", json!({"result": {"sent": [1, 2]}})),
        settlement(job(1), "succeeded", json!({"result_base64": "/w=="})),
        settlement(job(2), "failed", json!({"reason": "no such address", "code": "bounced"})),
        settlement(job(3), "retry", json!({"reason": "no answer", "attempt": 5})),
        settlement(job(4), "throttled", json!({"retry_after_ms": 60_000})),
        settlement(job(5), "released", json!({})),
        settlement(job(6), "cancelled", json!({"reason": "not wanted"})),
    ]});
    let (status, response) = server.post("/api/leases/settle", settlements.clone()).await;
    assert_eq!((status, &response), (StatusCode::OK, &json!({"verdicts": vec!["applied"; 7]})));
    let repeated = server.post("/api/leases/settle", settlements).await.1;
    assert_eq!(repeated["verdicts"][0], "applied", "a settlement is idempotent");
    let view =
        async |at: usize| server.fairlane.job("group", format!("job-{at}")).view().await.unwrap().unwrap();
    let note = |bytes: &[u8]| fairlane::Problem::from_bytes(bytes).to_string();
    let done = view(0).await;
    assert_eq!((done.state, &*done.note), (JobState::Completed, &b"{\"sent\":[1,2]}"[..]));
    assert_eq!(&*view(1).await.note, b"\xff");
    let failed = view(2).await;
    assert_eq!((failed.state, note(&failed.note)), (JobState::Failed, "bounced: no such address".into()));
    let retried = view(3).await;
    assert_eq!((retried.attempts, note(&retried.note)), (1, "error: no answer".into()));
    let longest = fairlane::RetryPolicy::default().longest(5).as_micros() as u64;
    assert!(retried.until.is_none_or(|due| due.since(retried.settled_at.unwrap()) <= longest));
    let throttled = view(4).await;
    assert_eq!((throttled.state, throttled.throttles, throttled.attempts), (JobState::Waiting, 1, 0));
    assert!(throttled.until.unwrap().since(throttled.settled_at.unwrap()) >= 60_000_000);
    assert_eq!((view(5).await.state, view(5).await.attempts), (JobState::Pending, 0));
    let cancelled = view(6).await;
    assert_eq!(
        (cancelled.state, note(&cancelled.note)),
        (JobState::Cancelled, "cancelled: not wanted".into())
    );
}

#[tokio::test]
async fn a_settlement_with_another_fence_is_stale_and_of_an_unknown_job_gone() {
    let server = Running::start().await;
    add(&server.fairlane, 0..1).await;
    let mut job = lease(&server, json!({})).await["jobs"][0].clone();
    job["fence"] = json!(1);
    let unknown = json!({"group": "group", "id": "unknown", "fence": 1});
    let body = json!({"settlements": [settlement(&job, "succeeded", json!({})), settlement(&unknown, "released", json!({}))]});
    assert_eq!(server.post("/api/leases/settle", body).await.1, json!({"verdicts": ["stale", "gone"]}));
}

#[tokio::test]
async fn an_invalid_request_is_refused_with_the_position() {
    let server = Running::start().await;
    let refused = async |path: &str, body: Value, kind: &str, pointer: &str| {
        let (_, response) = server.post(path, body).await;
        assert_eq!(
            (problem(&response), response["errors"][0]["pointer"].as_str()),
            (kind, Some(pointer)),
            "{response}"
        );
    };
    for (more, pointer) in [
        (json!({"count": 0}), "/count"),
        (json!({"count": 501}), "/count"),
        (json!({"lease_ms": 99}), "/lease_ms"),
        (json!({"wait_ms": 60_001}), "/wait_ms"),
        (json!({"request": 0}), "/request"),
        (json!({"request": 1_u64 << 43}), "/request"),
        (json!({"types": []}), "/types"),
        (json!({"types": vec!["type"; 65]}), "/types"),
        (json!({"types": ["mail", ""]}), "/types/1"),
        (json!({"worker": ""}), "/worker"),
    ] {
        refused("/api/leases", lease_body(more), "invalid", pointer).await;
    }
    let job = json!({"group": "group", "id": "job", "fence": 1});
    let settle = |outcome, more| json!({"settlements": [settlement(&job, outcome, more)]});
    let path = "/api/leases/settle";
    refused(path, settle("failed", json!({"result": 1})), "invalid", "/settlements/0").await;
    refused(
        path,
        settle("succeeded", json!({"result": 1, "result_base64": ""})),
        "invalid",
        "/settlements/0",
    )
    .await;
    refused(path, settle("succeeded", json!({"result_base64": "?"})), "invalid", "/settlements/0").await;
    let long = "x".repeat(64 * 1024);
    refused(path, settle("succeeded", json!({"result": long})), "too-large", "/settlements/0").await;
    refused(
        "/api/leases/extend",
        json!({"leases": [{"group": "g", "id": "j", "fence": 0}]}),
        "invalid",
        "/leases/0",
    )
    .await;
    let (status, response) = server.post("/api/leases", lease_body(json!({"cuont": 1}))).await;
    assert_eq!((status, problem(&response)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"));
    let twice = json!({"settlements": [settlement(&job, "released", json!({})), settlement(&job, "released", json!({}))]});
    assert_eq!(problem(&server.post(path, twice).await.1), "invalid");
}

/// The list ends with an invalid item: if all items were parsed before they are counted, the error
/// would be about it.
#[tokio::test]
async fn no_more_jobs_are_parsed_than_are_accepted() {
    let server = Running::start().await;
    let job =
        |id: usize| json!({"group": "group", "id": format!("job-{id}"), "fence": 1, "outcome": "released"});
    let name = |id: usize| json!({"group": "group", "id": format!("job-{id}")});
    let lease = |id: usize| json!({"group": "group", "id": format!("job-{id}"), "fence": 1});
    let many =
        |one: &dyn Fn(usize) -> Value| (0..501).map(one).chain([json!("nonsense")]).collect::<Vec<_>>();
    for (path, body) in [
        ("/api/leases/settle", json!({"settlements": many(&job)})),
        ("/api/leases/extend", json!({"leases": many(&lease)})),
        ("/api/dead/requeue", json!({"jobs": many(&name)})),
        ("/api/dead/discard", json!({"jobs": many(&name)})),
    ] {
        let (status, response) = server.post(path, body).await;
        assert_eq!((status, problem(&response)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{response}");
        assert!(response["detail"].as_str().unwrap().contains("more than 500 items"), "{path}: {response}");
    }
}

#[tokio::test]
async fn each_leased_job_contains_when_it_was_enqueued() {
    let server = Running::start().await;
    for batch in 0..3 {
        add(&server.fairlane, batch * 4..batch * 4 + 4).await;
        let start = std::time::Instant::now();
        // Times have a resolution of a millisecond.
        until("the next millisecond", || async { start.elapsed().as_millis() > 1 }).await;
    }
    let leased = lease(&server, json!({"count": 12})).await;
    let jobs = leased["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 12);
    let times: BTreeSet<&str> = jobs.iter().map(|job| job["created_at"].as_str().unwrap()).collect();
    assert_eq!(times.len(), 3);
    for job in jobs {
        let path = format!("/api/jobs/group/{}", job["id"].as_str().unwrap());
        assert_eq!(server.get(&path).await.1["created_at"], job["created_at"]);
    }
}

#[tokio::test]
async fn the_time_of_a_wake_up_is_relative_to_the_clock_of_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let hour_ahead = Clock::System.now().plus_ms(3_600_000).0;
    let options = |clock| DirectoryOptions { clock, ..DirectoryOptions::default() };
    let ahead = Clock::Given(Arc::new(AtomicU64::new(hour_ahead)));
    let engine = Arc::new(EmbeddedEngine::open(folder.path(), options(ahead)).unwrap());
    let earlier = Fairlane::from_engine(engine);
    earlier.enqueue(Job::new("group", "other", &0)).await.unwrap().accepted().unwrap();
    drop(earlier);
    let engine = EmbeddedEngine::open(folder.path(), options(Clock::System)).unwrap();
    let fairlane = Fairlane::from_engine(Arc::new(engine));
    let server = Running::start_with(fairlane, None, ServerSettings::default()).await;
    let later = Job::new("group", "mail", &0).delay(Duration::from_secs(5));
    server.fairlane.enqueue(later).await.unwrap().accepted().unwrap();
    let response = lease(&server, json!({})).await;
    let wake_in_ms = response["wake_in_ms"].as_u64().unwrap();
    assert!((1..=5000).contains(&wake_in_ms), "{response}");
}
