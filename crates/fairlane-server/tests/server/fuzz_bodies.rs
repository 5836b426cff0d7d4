//! Random bodies and headers, sent to every route with a body.
//!
//! The server always responds, and never with a server error; the jobs it acknowledges were added,
//! and no others. `FAIRLANE_FUZZ_ROUNDS` and `FAIRLANE_FUZZ_SEED` set the number of rounds and the
//! seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane::{Fairlane, GroupId, JobId, JobRef};
use fairlane_conformance::dice::Dice;
use fairlane_core::kernel::Registered;
use fairlane_core::queue::{self, CancelJob, Explain, InspectJob, JobReceipt, ListGroups};
use fairlane_core::{Command, Reply};
use fairlane_engine::{BoxFuture, Engine, EngineError, Hooks, layer, wire};
use fairlane_server::ServerSettings;
use fairlane_server::access::{ROUTES, Route, Verb};
use reqwest::header::HeaderValue;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::running::{Running, problem};

/// The default number of rounds.
const ROUNDS: u64 = 2000;
/// Rounds with one server: the requests change its state.
const ROUNDS_A_SERVER: u64 = 200;
/// Longer than any response takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A real engine, and the jobs that were created through it.
struct Recorder {
    engine: Arc<dyn Engine>,
    created: Mutex<Vec<JobRef>>,
}

impl Recorder {
    /// The recorder, and its engine with a layer that records created jobs.
    fn wrap(engine: Arc<dyn Engine>) -> (Arc<Self>, Arc<dyn Engine>) {
        let recorder = Arc::new(Self { engine: engine.clone(), created: Mutex::default() });
        let record = {
            let recorder = recorder.clone();
            move |engine: Arc<dyn Engine>, command: Command| -> BoxFuture<'static, Submitted> {
                let recorder = recorder.clone();
                Box::pin(async move { recorder.submit(engine, command).await })
            }
        };
        (recorder, layer(engine, Hooks::default().submit(record)))
    }

    async fn submit(&self, engine: Arc<dyn Engine>, command: Command) -> Submitted {
        let jobs: Vec<JobRef> = match &command {
            Command::Queue(queue::Command::Enqueue(enqueue)) => {
                enqueue.jobs.iter().map(|new| new.job.clone()).collect()
            }
            _ => Vec::new(),
        };
        let reply = engine.submit(command).await?;
        if let Reply::Queue(queue::Reply::Enqueue(enqueued)) = &reply {
            let receipts = jobs.into_iter().zip(&enqueued.receipts);
            let created =
                receipts.filter(|(_, receipt)| **receipt == JobReceipt::Created).map(|(job, _)| job);
            self.created.lock().unwrap().extend(created);
        }
        Ok(reply)
    }

    async fn exists(&self, job: &JobRef) -> bool {
        self.engine.call(InspectJob { job: job.clone() }).await.unwrap().is_some()
    }
}

/// What an engine returns for a command.
type Submitted = Result<Reply, EngineError>;

/// A request.
#[derive(Debug)]
struct Sent {
    route: &'static Route,
    path: String,
    headers: Vec<(&'static str, HeaderValue)>,
    body: Vec<u8>,
}

#[tokio::test]
async fn random_requests_cause_no_server_error_and_acknowledged_jobs_exist() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = number("FAIRLANE_FUZZ_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("FAIRLANE_FUZZ_SEED").unwrap_or(1);
    let mut acknowledged = 0;
    for first in (0..rounds).step_by(ROUNDS_A_SERVER as usize) {
        let (recorder, engine) = Recorder::wrap(Fairlane::open("memory:").await.unwrap().engine().clone());
        let settings = ServerSettings {
            poll_max: Duration::from_millis(20),
            stream_patience: Duration::from_millis(20),
            body_timeout: Duration::from_secs(2),
            key_rate: None,
            ..ServerSettings::default()
        };
        let running = Running::start_with(Fairlane::from_engine(engine), None, settings).await;
        for round in first..rounds.min(first + ROUNDS_A_SERVER) {
            let sent = Sent::new(&mut Dice::new(seed.wrapping_mul(1_000_003).wrapping_add(round)));
            acknowledged += play(&running, &recorder, &sent, &format!("seed {seed}, round {round}")).await;
        }
    }
    // Otherwise the rounds test too little.
    assert!(acknowledged > rounds / 20, "{acknowledged}");
}

/// Sends a request and checks the response; returns the number of acknowledged jobs.
async fn play(running: &Running, recorder: &Recorder, sent: &Sent, round: &str) -> u64 {
    let method = Method::from_bytes(sent.route.method.as_str().as_bytes()).unwrap();
    let mut request = running.request(method, &sent.path).body(sent.body.clone());
    for (name, value) in &sent.headers {
        request = request.header(*name, value);
    }
    let exchange = tokio::time::timeout(TIMEOUT, async {
        let response = request.send().await.unwrap_or_else(|error| panic!("{round}: {error:?}: {sent:?}"));
        let (status, headers) = (response.status(), response.headers().clone());
        (status, headers, response.bytes().await.unwrap())
    });
    let (status, headers, body) =
        exchange.await.unwrap_or_else(|_| panic!("{round}: no response to {sent:?}"));
    let text = String::from_utf8_lossy(&body);
    assert!(!status.is_server_error(), "{round}: {status} {text} to {sent:?}");
    let is_json = headers.get("content-type").is_some_and(|value| value.to_str().unwrap().ends_with("json"));
    let value = if is_json { serde_json::from_slice(&body).unwrap() } else { Value::Null };
    // Pages for people show errors as pages.
    let is_page = !sent.path.starts_with("/api/") && text.starts_with("<!DOCTYPE html>");
    let is_explained = is_page || problem(&value) != "none";
    assert!(!status.is_client_error() || is_explained, "{round}: {status} {text} to {sent:?}");
    let created = std::mem::take(&mut *recorder.created.lock().unwrap());
    for job in &created {
        assert!(recorder.exists(job).await, "{round}: {job:?} is missing after {sent:?}");
    }
    let count = match acknowledged(sent, status, &value) {
        Acknowledged::Jobs(new, old) => {
            // Jobs of one group are added in the order of the request.
            let by_group = |jobs: &[JobRef]| {
                let mut jobs = jobs.to_vec();
                jobs.sort_by(|a, b| a.group.cmp(&b.group));
                jobs
            };
            assert_eq!(by_group(&created), by_group(&new), "{round}: {text} to {sent:?}");
            for job in &old {
                assert!(recorder.exists(job).await, "{round}: {job:?} is missing after {sent:?}");
            }
            new.len() + old.len()
        }
        Acknowledged::Count(count) => {
            assert_eq!(created.len() as u64, count, "{round}: {text} to {sent:?}");
            created.len()
        }
        Acknowledged::Unknown => 0,
    };
    count as u64
}

/// The jobs that a response acknowledges.
enum Acknowledged {
    /// The new ones, and those that existed before.
    Jobs(Vec<JobRef>, Vec<JobRef>),
    /// The number of new ones.
    Count(u64),
    /// The response does not say which jobs were added.
    Unknown,
}

fn acknowledged(sent: &Sent, status: StatusCode, value: &Value) -> Acknowledged {
    let job = |value: &Value| JobRef {
        group: GroupId::new(value["group"].as_str().unwrap()).unwrap(),
        id: JobId::new(value["id"].as_str().unwrap()).unwrap(),
    };
    match sent.route.path {
        // The reply to a command is not JSON.
        path if path.starts_with("/engine") => Acknowledged::Unknown,
        "/api/jobs" if status == StatusCode::CREATED => Acknowledged::Jobs(vec![job(value)], Vec::new()),
        "/api/jobs" if status == StatusCode::OK => Acknowledged::Jobs(Vec::new(), vec![job(value)]),
        "/api/jobs/batch" if status == StatusCode::OK => {
            let with = |status: &str| {
                let receipts = value["receipts"].as_array().unwrap().iter();
                receipts.filter(|receipt| receipt["status"] == status).map(job).collect()
            };
            Acknowledged::Jobs(with("created"), with("exists"))
        }
        "/api/jobs/stream" if status == StatusCode::OK => {
            Acknowledged::Count(value["created"].as_u64().unwrap())
        }
        _ => Acknowledged::Count(0),
    }
}

impl Sent {
    fn new(dice: &mut Dice) -> Self {
        let takes_body = |route: &&Route| matches!(route.method, Verb::Post | Verb::Patch);
        let routes: Vec<&'static Route> = ROUTES.iter().filter(takes_body).collect();
        let adding: Vec<&'static Route> =
            routes.iter().copied().filter(|route| ADDING.contains(&route.path)).collect();
        let route = if dice.one_in(2) { dice.pick(&adding) } else { dice.pick(&routes) };
        let is_stream = route.path == "/api/jobs/stream";
        let (content_type, body) = match route.path {
            _ if is_stream => ("application/x-ndjson", lines(dice)),
            path if path.starts_with("/engine") => (wire::CONTENT_TYPE, command(dice)),
            path => ("application/json", document(dice, path)),
        };
        let content_type = if dice.one_in(30) { dice.pick(&ODD_VALUES) } else { content_type.as_bytes() };
        let mut headers = vec![("content-type", value_of(content_type))];
        if dice.one_in(4) {
            let keys = [&b"key-1"[..], b"key-2", b"\"quoted\"", b"two words", b"", b"\xff\xfe", &[b'k'; 300]];
            headers.push(("idempotency-key", value_of(dice.pick(&keys))));
        }
        if dice.one_in(10) {
            let names = [
                "accept",
                "authorization",
                "content-encoding",
                "idempotency-key",
                "traceparent",
                "range",
                "cookie",
            ];
            headers.push((dice.pick(&names), value_of(dice.pick(&ODD_VALUES))));
        }
        Self { route, path: path(dice, route), headers, body }
    }
}

/// Routes that add jobs.
const ADDING: [&str; 3] = ["/api/jobs", "/api/jobs/batch", "/api/jobs/stream"];
/// Values of headers that HTTP allows.
const ODD_VALUES: [&[u8]; 8] = [
    b"",
    b"text/plain",
    b"application/json; charset=latin1",
    b"*/*",
    b"\xe9\xff",
    b"gzip",
    b"Bearer x",
    b"0",
];
/// Names in a path or a query.
const NAMES: [&str; 12] = [
    "customer-7",
    "customer-7",
    "customer-8",
    "news",
    "mail",
    "job-1",
    "%00",
    "%F0%9F%98%80",
    "a%2Fb%3Ac%25",
    "%FF",
    "%20",
    "",
];
/// Keys of objects and contents of strings.
const WORDS: [&str; 24] = [
    "group",
    "type",
    "id",
    "payload",
    "payload_base64",
    "level",
    "cost",
    "delay_ms",
    "run_at",
    "bulk",
    "jobs",
    "customer-7",
    "mail",
    "news",
    "job-1",
    "high",
    "100/s",
    "2026-01-31T08:30:00Z",
    "AA==",
    "",
    "\0",
    "\u{1f600}",
    "a:b%c",
    "\u{feff}",
];

fn value_of(bytes: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(bytes).expect("HTTP allows it")
}

fn path(dice: &mut Dice, route: &Route) -> String {
    let named = |part: &str, dice: &mut Dice| match part {
        "{group}" if !dice.one_in(4) => "customer-7".to_owned(),
        "{bulk}" if !dice.one_in(4) => "news".to_owned(),
        _ if part.starts_with('{') => dice.pick(&NAMES).to_owned(),
        _ => part.to_owned(),
    };
    let parts: Vec<String> = route.path.split('/').map(|part| named(part, dice)).collect();
    let mut query = Vec::new();
    if route.path == "/api/jobs/stream" {
        query.extend(["group=customer-7".to_owned(), "type=mail".to_owned()]);
        let more = [
            "bulk=news&open=true",
            "on_error=stop",
            "payload_lines=true",
            "first_line=7",
            "seal=true",
            "level=low",
        ];
        query.extend((0..dice.below(3)).map(|_| dice.pick(&more).to_owned()));
        if dice.one_in(10) {
            query.remove(0);
        }
    }
    if dice.one_in(10) {
        query.push(format!(
            "{}={}",
            dice.pick(&["group", "limit", "cursor", "first_line", "x"]),
            dice.pick(&NAMES)
        ));
    }
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{}{mark}{}", parts.join("/"), query.join("&"))
}

/// A JSON body, often damaged.
fn document(dice: &mut Dice, path: &str) -> Vec<u8> {
    let mut value = template(dice, path);
    spoil(dice, &mut value);
    let mut bytes = value.to_string().into_bytes();
    garble(dice, &mut bytes);
    bytes
}

/// A command of the engine RPC, often damaged.
fn command(dice: &mut Dice) -> Vec<u8> {
    let group = GroupId::new("customer-7").unwrap();
    let job = JobRef { group: group.clone(), id: JobId::new("job-1").unwrap() };
    let mut bytes = wire::encode(&dice.pick(&[
        InspectJob { job: job.clone() }.into_command(),
        ListGroups { after: Some(group), limit: 10, all: true }.into_command(),
        CancelJob { jobs: vec![job.clone()] }.into_command(),
        Explain { job }.into_command(),
    ]));
    garble(dice, &mut bytes);
    bytes
}

/// NDJSON, often damaged.
fn lines(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..dice.below(12) {
        let mut line = job(dice);
        if let Value::Object(line) = &mut line {
            line.retain(|key, _| !["group", "bulk"].contains(&key.as_str()));
        }
        spoil(dice, &mut line);
        bytes.extend(line.to_string().into_bytes());
        bytes.extend(dice.pick(&[&b"\n"[..], b"\n", b"\r\n", b"\n\n", b"\0", b""]));
    }
    garble(dice, &mut bytes);
    bytes
}

fn job(dice: &mut Dice) -> Value {
    let mut job =
        json!({"group": dice.pick(&["customer-7", "customer-8"]), "type": "mail", "payload": odd(dice, 3)});
    let id = format!("job-{}", dice.below(40));
    let more = [
        ("id", json!(id)),
        ("id", json!(id)),
        ("level", json!("low")),
        ("cost", json!(3)),
        ("delay_ms", json!(1000)),
        ("run_at", json!("2026-01-31T08:30:00Z")),
        ("bulk", json!("news")),
    ];
    for _ in 0..dice.below(3) {
        let (key, value) = dice.pick(&more);
        job[key] = value;
    }
    job
}

/// A valid body for a route.
fn template(dice: &mut Dice, path: &str) -> Value {
    let name = json!({"group": "customer-7", "id": format!("job-{}", dice.below(40))});
    match path.rsplit('/').next().unwrap_or_default() {
        "jobs" => job(dice),
        "batch" => json!({"jobs": (0..dice.below(30)).map(|_| job(dice)).collect::<Vec<_>>()}),
        "leases" => {
            json!({"worker": "w", "types": ["mail"], "count": 5, "lease_ms": 1000, "wait_ms": 5, "request": 1})
        }
        "extend" => {
            json!({"jobs": [{"group": "customer-7", "id": name["id"], "fence": 1}], "lease_ms": 1000})
        }
        "settle" => {
            json!({"settlements": [{"group": "customer-7", "id": name["id"], "fence": 1, "outcome": "succeeded"}]})
        }
        "bulks" => json!({"group": "customer-7", "id": "news", "deadline_ms": 100_000, "failures_max": 7}),
        "seal" => json!({"expected": dice.below(3)}),
        "requeue" | "discard" if dice.one_in(2) => json!({"jobs": [name]}),
        "requeue" | "discard" => json!({"filter": {"group": "customer-7"}}),
        "cancel" => json!({"jobs": [name]}),
        "settings" => json!({"rate": "1000/s", "max_retry_count": 5, "levels": "weighted"}),
        "{group}" => json!({"weight": 3, "rate": "100/s", "concurrency": null, "paused": false}),
        "{type}" => json!({"rate": "500/s burst 20", "concurrency": 50, "max_retry_count": null}),
        "audit" => json!({"repair": true}),
        _ => odd(dice, 3),
    }
}

/// Random JSON.
fn odd(dice: &mut Dice, depth: u64) -> Value {
    match dice.below(if depth == 0 { 7 } else { 9 }) {
        0 => Value::Null,
        1 => json!(dice.one_in(2)),
        2 => json!(dice.below(20)),
        3 => dice.pick(&[
            json!(-1),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(1e308),
            json!(0.5),
            json!(1u64 << 53),
        ]),
        4..=5 => json!(dice.pick(&WORDS)),
        6 => json!("x".repeat(dice.below(300) as usize)),
        7 => (0..dice.below(4)).map(|_| odd(dice, depth - 1)).collect(),
        _ => {
            let members = (0..dice.below(4)).map(|_| (dice.pick(&WORDS).to_owned(), odd(dice, depth - 1)));
            Value::Object(members.collect::<Map<_, _>>())
        }
    }
}

/// Changes parts of a value, two times out of three.
fn spoil(dice: &mut Dice, value: &mut Value) {
    for _ in 0..dice.below(3) {
        spoil_part(dice, value);
    }
}

fn spoil_part(dice: &mut Dice, value: &mut Value) {
    match value {
        Value::Array(items) if !items.is_empty() && !dice.one_in(6) => {
            let at = dice.below(items.len() as u64) as usize;
            spoil_part(dice, &mut items[at]);
        }
        Value::Object(members) if !members.is_empty() && !dice.one_in(6) => {
            let keys: Vec<String> = members.keys().cloned().collect();
            let key = dice.pick(&keys);
            match dice.below(6) {
                0 => drop(members.remove(&key)),
                1 => drop(members.insert(dice.pick(&WORDS).to_owned(), odd(dice, 2))),
                _ => spoil_part(dice, &mut members[&key]),
            }
        }
        other => *other = odd(dice, 2),
    }
}

/// Changes some bytes, one time out of four.
fn garble(dice: &mut Dice, bytes: &mut Vec<u8>) {
    if !dice.one_in(4) {
        return;
    }
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len() as u64 + 1) as usize;
        let until = (at + dice.below(20) as usize).min(bytes.len());
        match dice.below(5) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..until)),
            2 => bytes.insert(at, dice.below(256) as u8),
            3 => {
                let chunk = bytes[at..until].to_vec();
                bytes.splice(at..at, chunk);
            }
            _ => bytes.splice(at..at, vec![b'['; dice.below(2000) as usize]).for_each(drop),
        }
    }
}
