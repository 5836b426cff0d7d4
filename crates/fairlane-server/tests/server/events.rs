//! Server-sent events of bulk actions and of the queue.

use std::collections::VecDeque;
use std::time::Duration;

use fairlane::{Bulk, Context, Job, Pool, Settings};
use fairlane_testkit::redis::{RedisServer, ServerOptions};
use fairlane_testkit::wait::until_async as until;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::gate::Gate;
use crate::running::{Running, problem};

/// Longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An event as a client receives it.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub name: String,
    pub id: String,
    pub data: Value,
}

/// A stream as a client reads it.
pub struct Events {
    response: Response,
    text: String,
    ready: VecDeque<Event>,
}

impl Events {
    /// Follows a path, from the event after `last`.
    pub async fn follow(server: &Running, path: &str, last: Option<&str>) -> Self {
        let mut request = server.request(Method::GET, path);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new(), ready: VecDeque::new() }
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        tokio::time::timeout(TIMEOUT, self.read()).await.expect("an event or the end in time")
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let chunk = self.response.chunk().await.expect("a stream that ends cleanly")?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                self.ready.extend(parse(block));
                self.text = rest.to_owned();
            }
        }
    }
}

fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let lines = block.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let event = Event { name: field("event"), id: field("id"), data: Value::Null };
    (!event.name.is_empty()).then(|| Event { data: serde_json::from_str(&field("data")).unwrap(), ..event })
}

const PATH: &str = "/api/bulks/group/bulk/events";

/// A sealed bulk action with this many jobs, and a pool that runs the maintenance loops.
async fn bulk(server: &Running, jobs: usize) -> (Bulk, Pool) {
    let bulk = server.fairlane.bulk("group", "bulk").open().await.unwrap();
    let added = bulk.add_all((0..jobs).map(|number| bulk.job("mail", &number))).await.unwrap();
    bulk.seal(Some(added.jobs)).await.unwrap();
    (bulk, server.fairlane.worker().start().unwrap())
}

/// Leases this many jobs and settles them as succeeded, over HTTP.
async fn work(server: &Running, count: usize) {
    let body = json!({"worker": "worker", "types": ["mail"], "count": count});
    let (_, leased) = server.post("/api/leases", body).await;
    let jobs = leased["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), count);
    let settlements: Vec<Value> = jobs
        .iter()
        .map(|job| json!({"group": job["group"], "id": job["id"], "fence": job["fence"], "outcome": "succeeded"}))
        .collect();
    let (status, response) = server.post("/api/leases/settle", json!({"settlements": settlements})).await;
    assert_eq!(status, StatusCode::OK, "{response}");
}

#[tokio::test]
async fn a_bulk_action_is_followed_to_its_end() {
    let redis = RedisServer::start(ServerOptions::default());
    for url in ["memory:", &redis.url()] {
        follow_to_the_end(Running::over(url, Settings::default()).await).await;
    }
}

async fn follow_to_the_end(server: Running) {
    let (_bulk, pool) = bulk(&server, 3).await;
    let mut events = Events::follow(&server, PATH, None).await;
    let first = events.next().await.unwrap();
    assert_eq!(
        (first.name.as_str(), &first.data["succeeded"], &first.data["state"]),
        ("progress", &json!(0), &json!("created"))
    );
    work(&server, 2).await;
    let mut last = first.clone();
    while last.data["succeeded"] != 2 {
        let next = events.next().await.unwrap();
        assert_ne!(next.id, last.id, "each state is sent once");
        assert_eq!(next.name, "progress");
        last = next;
    }
    work(&server, 1).await;
    while last.name != "ended" {
        last = events.next().await.unwrap();
    }
    assert_eq!((&last.data["state"], &last.data["succeeded"]), (&json!("completed"), &json!(3)));
    assert_eq!(events.next().await, None, "the stream has ended");
    let mut again = Events::follow(&server, PATH, Some(&first.id)).await;
    assert_eq!(again.next().await.unwrap().id, last.id, "the last event is sent at once");
    assert_eq!(again.next().await, None);
    let request = server.request(Method::GET, PATH).header("last-event-id", &last.id);
    assert_eq!(request.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    let by_query = format!("{PATH}?last_event_id={}", last.id);
    assert_eq!(server.get(&by_query).await.0, StatusCode::NO_CONTENT);
    pool.stop().await;
}

#[tokio::test]
async fn a_state_that_the_client_has_received_is_not_sent_again() {
    let server = Running::start().await;
    let (bulk, pool) = bulk(&server, 1).await;
    let first = Events::follow(&server, PATH, None).await.next().await.unwrap();
    let mut again = Events::follow(&server, PATH, Some(&first.id)).await;
    bulk.cancel().await.unwrap();
    let next = again.next().await.unwrap();
    assert_eq!((next.name.as_str(), &next.data["state"]), ("ended", &json!("cancelled")));
    pool.stop().await;
}

#[tokio::test]
async fn an_unknown_bulk_action_cannot_be_followed() {
    let server = Running::start().await;
    let (status, response) = server.get(PATH).await;
    assert_eq!((status, problem(&response)), (StatusCode::NOT_FOUND, "not-found"));
}

#[tokio::test]
async fn many_listeners_share_one_watcher_that_ends_with_the_last_of_them() {
    let (server, gate) = Gate::start().await;
    let (_bulk, pool) = bulk(&server, 10).await;
    let mut listeners = Vec::new();
    for _ in 0..50 {
        let mut events = Events::follow(&server, PATH, None).await;
        events.next().await.unwrap();
        listeners.push(events);
    }
    let (before, start) = (gate.reads(), tokio::time::Instant::now());
    work(&server, 5).await;
    for events in &mut listeners {
        while events.next().await.unwrap().data["succeeded"] != 5 {}
    }
    let most = 3 + start.elapsed().as_millis() as usize / 100;
    assert!(gate.reads() - before <= most, "{} reads, not one for each listener", gate.reads() - before);
    drop(listeners);
    until("the reads end", || async {
        let before = gate.reads();
        tokio::time::sleep(Duration::from_millis(1500)).await;
        gate.reads() == before
    })
    .await;
    pool.stop().await;
}

#[tokio::test]
async fn a_change_of_one_bulk_action_wakes_no_watcher_of_another() {
    let (server, gate) = Gate::start().await;
    let start = tokio::time::Instant::now();
    let mut followed = Vec::new();
    for id in ["busy", "idle"] {
        server.fairlane.bulk("group", id).open().await.unwrap();
        let path = format!("/api/bulks/group/{id}/events");
        let mut events = Events::follow(&server, &path, None).await;
        events.next().await.unwrap();
        followed.push(events);
    }
    for total in 1..=12 {
        let job = json!({"group": "group", "type": "mail", "bulk": "busy", "payload": total});
        assert_eq!(server.post("/api/jobs", job).await.0, StatusCode::CREATED);
        while followed[0].next().await.unwrap().data["total"] != total {}
    }
    // The first read, and one each second for changes by other processes.
    let most = 2 + start.elapsed().as_secs() as usize;
    let (busy, idle) = (gate.reads_of("busy"), gate.reads_of("idle"));
    assert!(
        busy >= 12 && idle <= most,
        "{busy} reads of the busy one, and {idle} of the idle one, not {most}"
    );
}

fn number(event: &Event) -> u64 {
    event.id.split_once('-').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn queue_events_include_those_that_the_client_has_missed() {
    let server = Running::start().await;
    let mut events = Events::follow(&server, "/api/events", None).await;
    let first = events.next().await.unwrap();
    assert_eq!((first.name.as_str(), &first.data["backlog"]), ("figures", &json!(0)));
    bulk(&server, 4).await.1.stop().await;
    work(&server, 1).await;
    let mut last = first.clone();
    while last.data["backlog"] != 3 || last.data["active_groups"] != 1 {
        let next = events.next().await.unwrap();
        assert_eq!(number(&next), number(&last) + 1);
        last = next;
    }
    for count in ["waiting", "in_flight", "dead", "enqueued_per_second", "settled_per_second", "over_ms"] {
        assert!(last.data[count].is_number(), "{count}: {last:?}");
    }
    drop(events);
    let mut again = Events::follow(&server, "/api/events", Some(&first.id)).await;
    let mut missed = again.next().await.unwrap();
    assert_eq!(number(&missed), number(&first) + 1);
    while number(&missed) <= number(&last) {
        let next = again.next().await.unwrap();
        assert_eq!(number(&next), number(&missed) + 1, "each event once, and then the new ones");
        missed = next;
    }
}

#[tokio::test]
async fn queue_events_contain_the_throughput_of_the_server() {
    let server = Running::start().await;
    bulk(&server, 3).await.1.stop().await;
    let mut events = Events::follow(&server, "/api/events", None).await;
    assert_eq!(events.next().await.unwrap().data["settled_per_second"], 0.0);
    work(&server, 3).await;
    while events.next().await.unwrap().data["settled_per_second"] == 0.0 {}
}

#[tokio::test]
async fn queue_events_contain_the_throughput_of_workers_in_the_same_process() {
    let server = Running::start().await;
    let pool =
        server.server.uncharged().worker().process("mail", |_: Value, _: Context| async {}).start().unwrap();
    let mut events = Events::follow(&server, "/api/events", None).await;
    assert_eq!(events.next().await.unwrap().data["settled_per_second"], 0.0);
    server.fairlane.enqueue(Job::new("customer-7", "mail", &1)).await.unwrap().accepted().unwrap();
    while events.next().await.unwrap().data["settled_per_second"] == 0.0 {}
    pool.stop().await;
}

#[tokio::test]
async fn a_job_is_followed_from_its_lane_over_its_progress_to_its_end() {
    let server = Running::start().await;
    server.fairlane.enqueue(Job::new("group", "mail", &1).id("one")).await.unwrap().accepted().unwrap();
    let path = "/api/jobs/group/one/events";
    let mut events = Events::follow(&server, path, None).await;
    let first = events.next().await.unwrap();
    assert_eq!((first.name.as_str(), &first.data["state"]), ("progress", &json!("pending")));
    assert_eq!(first.data["payload"], Value::Null, "events have no payload");
    let lease = json!({"worker": "w", "types": ["mail"], "lease_ms": 60_000});
    let (_, leased) = server.post("/api/leases", lease).await;
    let fence = &leased["jobs"][0]["fence"];
    let name = json!({"group": "group", "id": "one", "fence": fence});
    let with_progress = |done: u64| {
        let mut lease = name.clone();
        lease["progress"] = json!({"done": done, "total": 20});
        json!({"leases": [lease]})
    };
    let (status, extended) = server.post("/api/leases/extend", with_progress(12)).await;
    assert_eq!((status, &extended["leases"][0]["status"]), (StatusCode::OK, &json!("extended")));
    let (_, job) = server.get("/api/jobs/group/one").await;
    assert_eq!(job["progress"], json!({"done": 12, "total": 20}));
    // States in between may be skipped.
    loop {
        let event = events.next().await.unwrap();
        if event.data["progress"] == json!({"done": 12, "total": 20}) {
            assert_eq!((event.name.as_str(), &event.data["state"]), ("progress", &json!("in_flight")));
            break;
        }
    }
    let (status, refused) = server.post("/api/leases/extend", with_progress(21)).await;
    assert_eq!((status, problem(&refused)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{refused}");
    let mut settlement = name.clone();
    settlement["outcome"] = "succeeded".into();
    server.post("/api/leases/settle", json!({"settlements": [settlement]})).await;
    let last = loop {
        match events.next().await {
            Some(event) if event.name == "ended" => break event,
            event => drop(event.expect("the end comes first")),
        }
    };
    assert_eq!((&last.data["state"], &last.data["progress"]), (&json!("completed"), &Value::Null));
    assert!(events.next().await.is_none());
    let again = server.request(Method::GET, path).header("last-event-id", &last.id).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NO_CONTENT);
    assert_eq!(server.get("/api/jobs/group/none/events").await.0, StatusCode::NOT_FOUND);
}
