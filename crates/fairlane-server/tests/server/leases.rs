//! Jobs leased, kept and settled over HTTP.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fairlane::{Fairlane, Job, JobState, Settings};
use fairlane_conformance::servers::{RedisServer, ServerOptions};
use fairlane_engine::{Clock, DirectoryOptions, EmbeddedEngine};
use fairlane_server::ServerSettings;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::gated::Gate;
use crate::running::{Running, problem};

/// Nothing here takes as long.
const PATIENCE: Duration = Duration::from_secs(30);
/// A number that clients who count milliseconds will reach in a few centuries.
const REQUEST_MAX: u64 = 1 << 42;
/// A lease that does not run out while a test runs.
const LONG_MS: u64 = 900_000;

/// Looks again and again until it is so.
pub async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("in vain: {what}"));
}

async fn add(fairlane: &Fairlane, ids: std::ops::Range<usize>) {
    let jobs = ids.map(|id| Job::new("group", "mail", &id).id(format!("job-{id}")));
    for receipt in fairlane.enqueue_all(jobs).await.unwrap() {
        receipt.accepted().unwrap();
    }
}

fn ids(answer: &Value) -> Vec<String> {
    let jobs = answer["jobs"].as_array().unwrap_or_else(|| panic!("{answer}"));
    jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

/// A request for jobs of the type `mail`, with these fields beside.
fn ask(more: Value) -> Value {
    let mut body = json!({"worker": "worker", "types": ["mail"], "lease_ms": LONG_MS});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn lease(server: &Running, more: Value) -> Value {
    let (status, answer) = server.post("/api/leases", ask(more)).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    answer
}

async fn in_flight(server: &Running) -> u64 {
    server.fairlane.whole().await.unwrap().in_flight
}

/// The name of a leased job, as it is extended and settled.
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
async fn a_leased_job_comes_with_all_a_worker_needs() {
    let server = Running::start().await;
    let bulk = server.fairlane.bulk("group", "bulk").open().await.unwrap();
    let spaced: Box<serde_json::value::RawValue> =
        serde_json::from_str("{ \"to\" : 1.0 ,\n\"big\": 12345678901234567890 }").unwrap();
    bulk.add_all([bulk.job("mail", &spaced).id("first")]).await.unwrap();
    let other = Job::bytes("group", "mail", b"\xff no JSON".to_vec()).id("second");
    server.fairlane.enqueue(other).await.unwrap().accepted().unwrap();
    let raw = server.request(reqwest::Method::POST, "/api/leases");
    let raw =
        crate::running::json(raw, &ask(json!({"count": 2}))).send().await.unwrap().text().await.unwrap();
    assert!(raw.contains("\"payload\":{ \"to\" : 1.0 ,\n\"big\": 12345678901234567890 }"), "{raw}");
    let answer: Value = serde_json::from_str(&raw).unwrap();
    let jobs = answer["jobs"].as_array().unwrap();
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
async fn a_repeated_number_gives_the_same_jobs_and_a_lower_one_is_superseded() {
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
        let (status, answer) = server.post("/api/leases", ask(json!({"request": 7}))).await;
        assert_eq!((status, problem(&answer)), (StatusCode::CONFLICT, "superseded"), "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains("the number 8"), "{answer}");
        assert_eq!(answer["errors"][0]["pointer"], "/request");
    }
}

#[tokio::test]
async fn jobs_that_came_late_in_a_poll_are_given_again_when_it_is_repeated() {
    let (server, gate) = Gate::start().await;
    let polling = server.request(reqwest::Method::POST, "/api/leases");
    let body = ask(json!({"count": 3, "wait_ms": 30_000, "request": 3}));
    let polling = tokio::spawn(crate::running::answer(crate::running::json(polling, &body)));
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
async fn a_poll_is_answered_when_a_job_comes_and_with_none_when_its_time_is_over() {
    let redis = RedisServer::start(ServerOptions::default());
    for url in ["memory:", &redis.url()] {
        let server = Running::over(url, Settings::default()).await;
        assert!(ids(&lease(&server, json!({"wait_ms": 20})).await).is_empty());
        let polling = server.request(reqwest::Method::POST, "/api/leases");
        let body = ask(json!({"worker": "poller", "wait_ms": 30_000}));
        let polling = tokio::spawn(crate::running::answer(crate::running::json(polling, &body)));
        add(&server.fairlane, 0..1).await;
        let (status, answer) = polling.await.unwrap();
        assert_eq!((status, ids(&answer)), (StatusCode::OK, vec!["job-0".to_owned()]), "{url}");
    }
}

#[tokio::test]
async fn polls_of_one_worker_without_numbers_get_different_jobs() {
    let (server, gate) = Gate::start().await;
    let polls: Vec<_> = (0..8)
        .map(|_| {
            let request = server.request(reqwest::Method::POST, "/api/leases");
            let body = ask(json!({"wait_ms": 30_000}));
            tokio::spawn(crate::running::answer(crate::running::json(request, &body)))
        })
        .collect();
    gate.leased(8).await;
    add(&server.fairlane, 0..8).await;
    let mut given = BTreeSet::new();
    for poll in polls {
        given.extend(ids(&poll.await.unwrap().1));
    }
    assert_eq!(given.len(), 8);
}

#[tokio::test]
async fn the_numbers_of_a_worker_and_its_requests_without_do_not_meet() {
    let server = Running::start().await;
    add(&server.fairlane, 0..4).await;
    for more in [json!({}), json!({"request": 1}), json!({}), json!({"request": 2})] {
        assert_eq!(ids(&lease(&server, more).await).len(), 1);
    }
    let (_, job) = server.get("/api/jobs/group/job-0").await;
    assert_eq!(job["worker"], "worker", "it is shown under the name it gave");
}

/// Asks so often without a number, and gives the jobs it got.
async fn ask_often(request: reqwest::RequestBuilder, times: usize) -> Vec<String> {
    let mut given = Vec::new();
    for _ in 0..times {
        let request = crate::running::json(request.try_clone().unwrap(), &ask(json!({})));
        let (status, answer) = crate::running::answer(request).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        given.extend(ids(&answer));
    }
    given
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_is_given_to_two_requests_of_one_worker_whatever_numbers_it_has_used() {
    const ASKERS: usize = 8;
    const TIMES: usize = 30;
    let redis = RedisServer::start(ServerOptions::default());
    for url in ["memory:", &redis.url()] {
        let server = Running::over(url, Settings::default()).await;
        let second =
            Running::start_with(server.fairlane.clone(), None, fairlane_server::ServerSettings::default())
                .await;
        add(&server.fairlane, 0..ASKERS * TIMES + 1).await;
        // Far above what any clock says.
        let mut given = ids(&lease(&server, json!({"request": REQUEST_MAX})).await);
        let askers: Vec<_> = (0..ASKERS)
            .map(|asker| {
                let through = if asker % 2 == 0 { &server } else { &second };
                tokio::spawn(ask_often(through.request(reqwest::Method::POST, "/api/leases"), TIMES))
            })
            .collect();
        for asker in askers {
            given.extend(asker.await.unwrap());
        }
        let different: BTreeSet<&String> = given.iter().collect();
        assert_eq!((given.len(), different.len()), (ASKERS * TIMES + 1, ASKERS * TIMES + 1), "{url}");
    }
}

/// Sends a request for jobs, waits until the engine has leased, goes away, and waits until the server has noticed.
async fn ask_and_go(server: &Running, gate: &Gate, more: Value) {
    gate.close();
    let mut stream = TcpStream::connect(server.server.address()).await.unwrap();
    let body = ask(more).to_string();
    let head = "POST /api/leases HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    gate.leased(1).await;
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"", "the server closes without an answer");
    gate.open();
}

#[tokio::test]
async fn jobs_for_a_client_that_has_gone_are_handed_back() {
    let (server, gate) = Gate::start().await;
    add(&server.fairlane, 0..3).await;
    ask_and_go(&server, &gate, json!({"count": 2})).await;
    until("the jobs are handed back", || async { in_flight(&server).await == 0 }).await;
    let again = lease(&server, json!({"count": 3})).await;
    assert_eq!(ids(&again).len(), 3);
    assert!(again["jobs"].as_array().unwrap().iter().all(|job| job["attempt"] == 1), "it cost no attempt");
}

#[tokio::test]
async fn jobs_for_a_client_with_a_number_wait_until_it_repeats_it() {
    let (server, gate) = Gate::start().await;
    add(&server.fairlane, 0..3).await;
    ask_and_go(&server, &gate, json!({"count": 2, "request": 1})).await;
    let again = lease(&server, json!({"count": 2, "request": 1})).await;
    assert_eq!(ids(&again), ["job-0", "job-1"]);
    assert_eq!(in_flight(&server).await, 2);
}

#[tokio::test]
async fn a_lease_whose_answer_the_engine_lost_is_asked_for_again() {
    let (server, gate) = Gate::start().await;
    add(&server.fairlane, 0..4).await;
    gate.lose(1);
    assert_eq!(ids(&lease(&server, json!({"count": 2})).await).len(), 2);
    assert_eq!(in_flight(&server).await, 2, "and no others");
    gate.lose(100);
    let body = ask(json!({"count": 2, "request": 1}));
    let (status, answer) = server.post("/api/leases", body).await;
    assert_eq!((status, problem(&answer)), (StatusCode::SERVICE_UNAVAILABLE, "unavailable"));
    gate.lose(0);
    assert_eq!(ids(&lease(&server, json!({"count": 2, "request": 1})).await).len(), 2);
    assert_eq!(in_flight(&server).await, 4);
}

#[tokio::test]
async fn a_newer_request_of_a_worker_ends_one_that_still_waits() {
    let (server, gate) = Gate::start().await;
    let waiting = server.request(reqwest::Method::POST, "/api/leases");
    let waiting = crate::running::json(waiting, &ask(json!({"wait_ms": 60_000, "request": 1})));
    let waiting = tokio::spawn(crate::running::answer(waiting));
    gate.leased(1).await;
    assert!(ids(&lease(&server, json!({"request": 2})).await).is_empty());
    let (status, answer) = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert!(status == StatusCode::OK || problem(&answer) == "superseded", "{answer}");
}

#[tokio::test]
async fn without_a_job_the_answer_says_when_to_ask_again() {
    let server = Running::start().await;
    let later = Job::new("group", "mail", &0).delay(Duration::from_secs(3600));
    server.fairlane.enqueue(later).await.unwrap().accepted().unwrap();
    let answer = lease(&server, json!({})).await;
    let wake_in_ms = answer["wake_in_ms"].as_u64().unwrap();
    assert!((1..=3_600_000).contains(&wake_in_ms), "{answer}");
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
    let (status, answer) =
        server.post("/api/leases/extend", json!({"leases": leases, "lease_ms": LONG_MS})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let statuses: Vec<_> = answer["leases"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
    assert_eq!(statuses, ["extended", "lost", "cancelled"]);
    let until = answer["leases"][0]["until"].as_str().unwrap();
    let view = server.fairlane.job("group", "job-0").view().await.unwrap().unwrap();
    assert_eq!(until, fairlane::time_text(view.until.unwrap().as_millis()));
    assert!(answer["leases"][1].get("until").is_none() && answer["leases"][2]["until"].is_string());
}

#[tokio::test]
async fn every_outcome_becomes_what_a_worker_in_rust_would_have_said() {
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
    let (status, answer) = server.post("/api/leases/settle", settlements.clone()).await;
    assert_eq!((status, &answer), (StatusCode::OK, &json!({"verdicts": vec!["applied"; 7]})));
    let repeated = server.post("/api/leases/settle", settlements).await.1;
    assert_eq!(repeated["verdicts"][0], "applied", "it may be repeated");
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
async fn a_settlement_under_another_fence_is_stale_and_of_no_job_gone() {
    let server = Running::start().await;
    add(&server.fairlane, 0..1).await;
    let mut job = lease(&server, json!({})).await["jobs"][0].clone();
    job["fence"] = json!(1);
    let nobody = json!({"group": "group", "id": "nobody", "fence": 1});
    let body = json!({"settlements": [settlement(&job, "succeeded", json!({})), settlement(&nobody, "released", json!({}))]});
    assert_eq!(server.post("/api/leases/settle", body).await.1, json!({"verdicts": ["stale", "gone"]}));
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_its_place() {
    let server = Running::start().await;
    let refused = async |path: &str, body: Value, kind: &str, pointer: &str| {
        let (_, answer) = server.post(path, body).await;
        assert_eq!(
            (problem(&answer), answer["errors"][0]["pointer"].as_str()),
            (kind, Some(pointer)),
            "{answer}"
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
        refused("/api/leases", ask(more), "invalid", pointer).await;
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
    let (status, answer) = server.post("/api/leases", ask(json!({"cuont": 1}))).await;
    assert_eq!((status, problem(&answer)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"));
    let twice = json!({"settlements": [settlement(&job, "released", json!({})), settlement(&job, "released", json!({}))]});
    assert_eq!(problem(&server.post(path, twice).await.1), "invalid");
}

/// Jobs of no sense behind the last that is taken: whoever reads all of them before counting speaks of these.
#[tokio::test]
async fn no_more_jobs_are_read_than_are_taken() {
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
        let (status, answer) = server.post(path, body).await;
        assert_eq!((status, problem(&answer)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{answer}");
        assert!(answer["detail"].as_str().unwrap().contains("more than 500 jobs"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn each_leased_job_says_when_it_was_enqueued() {
    let server = Running::start().await;
    for batch in 0..3 {
        add(&server.fairlane, batch * 4..batch * 4 + 4).await;
        let begun = std::time::Instant::now();
        // Times are told to the millisecond.
        until("the next one", || async { begun.elapsed().as_millis() > 1 }).await;
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
async fn a_wake_up_is_told_in_the_engines_own_time() {
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
    let answer = lease(&server, json!({})).await;
    let wake_in_ms = answer["wake_in_ms"].as_u64().unwrap();
    assert!((1..=5000).contains(&wake_in_ms), "{answer}");
}
