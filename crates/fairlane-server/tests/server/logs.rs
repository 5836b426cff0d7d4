//! The log of the server.

use std::collections::BTreeSet;
use std::fmt::{Debug, Write};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use fairlane::{Fairlane, Job};
use fairlane_core::GroupId;
use fairlane_server::ServerSettings;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, Keys, NewKey};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tracing::Level;

use crate::dead::fail_all;
use crate::gate::Gate;
use crate::keys::{one_key, start};
use crate::running::{json as with_json, send};

/// A subscriber that collects all events up to a level.
#[derive(Clone)]
pub struct Log {
    text: Arc<Mutex<String>>,
    level: Level,
}

impl Log {
    /// An empty log.
    pub fn up_to(level: Level) -> Self {
        Self { text: Arc::default(), level }
    }

    /// The full text.
    pub fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }

    /// The events of this name, with their fields.
    pub fn lines(&self, event: &str) -> Vec<String> {
        let text = self.text();
        let lines = text.lines().filter(|line| line.starts_with(&format!(" message={event} ")));
        lines.map(str::to_owned).collect()
    }

    fn end(&self) {
        self.text.lock().unwrap().push_str(" \n");
    }
}

impl tracing::field::Visit for Log {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn Debug) {
        write!(self.text.lock().unwrap(), " {field}={value:?}").unwrap();
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, event: &tracing::Metadata<'_>) -> bool {
        *event.level() <= self.level
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut self.clone());
        self.end();
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut self.clone());
        self.end();
    }
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
        self.end();
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// On one thread, so that the log of the test is that of the server.
#[tokio::test]
async fn changes_of_settings_are_logged_with_the_key() {
    let log = Log::up_to(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    let folder = tempfile::tempdir().unwrap();
    let (file, id, key) = one_key(folder.path(), "k");
    let mut running = start(&file, ServerSettings::default()).await;
    running.set_token(key.clone());
    running.patch("/api/settings", json!({"max_retry_count": 3})).await;
    running.patch("/api/groups/customer-7", json!({"paused": true})).await;
    running.get("/api/status").await;
    assert_eq!(running.patch("/api/groups/customer-7", json!({})).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let over_http = Fairlane::open(&format!("http://{key}@{}", running.server.address())).await.unwrap();
    over_http.group("customer-8").weight(2).rate("50/s").apply().await.unwrap();
    let set = log.lines("group set");
    assert!(set.iter().any(|line| line.contains(" weight=2 rate=50/s concurrency=none ")), "{set:?}");
    let lines = log.lines("operated");
    let named = |path: &str| lines.iter().filter(|line| line.contains(&format!("path=\"{path}\""))).count();
    assert_eq!([named("/api/settings"), named("/api/groups/customer-7")], [1, 1], "{lines:?}");
    assert_eq!(named("/engine/execute\" operation=\"set_group"), 1, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains(&format!("key=\"{id}\""))), "{lines:?}");
    assert!(!log.text().contains(&key[13..]), "the log contains no secret");
}

#[tokio::test]
async fn a_failed_request_is_logged_with_its_trace_and_many_of_them_once() {
    let log = Log::up_to(Level::WARN);
    let _guard = tracing::subscriber::set_default(log.clone());
    let (running, gate) = Gate::start().await;
    gate.set_away(true);
    let start = tokio::time::Instant::now();
    for _ in 0..20 {
        let request = running.request(Method::GET, "/api/groups/customer-7");
        let request = request.header("traceparent", format!("00-{TRACE}-00f067aa0ba902b7-01"));
        assert_eq!(send(request).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }
    let (lines, most) = (log.lines("request failed"), 1 + start.elapsed().as_secs() as usize);
    assert!((1..=most).contains(&lines.len()), "{lines:?}");
    for word in [TRACE, "key=\"anonymous\"", "problem=\"unavailable\"", "route=\"/api/groups/{group}\""] {
        assert!(lines[0].contains(word), "{word}: {lines:?}");
    }
}

#[tokio::test]
async fn a_request_is_logged_with_its_key_and_problem() {
    let log = Log::up_to(Level::DEBUG);
    let _guard = tracing::subscriber::set_default(log.clone());
    let folder = tempfile::tempdir().unwrap();
    let (file, id, key) = one_key(folder.path(), "k");
    let running = start(&file, ServerSettings::default()).await;
    let request = running.request(Method::POST, "/api/jobs").bearer_auth(&key);
    assert_eq!(send(with_json(request, &json!({}))).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    let lines: Vec<String> =
        log.lines("request").into_iter().filter(|line| line.contains("route=\"/api/jobs\"")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(&id) && lines[0].contains("problem=\"invalid\""), "{lines:?}");
}

#[tokio::test]
async fn destructive_commands_are_logged_with_the_key_and_what_they_changed() {
    let log = Log::up_to(Level::INFO);
    let _guard = tracing::subscriber::set_default(log.clone());
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("keys.json"));
    let groups = Some(BTreeSet::from([GroupId::new("g").unwrap()]));
    let new = NewKey { name: "p".into(), role: Role::Producer, groups, rate: None, expires_in: None };
    let (record, token) = file.create(new).unwrap();
    let mut running = start(&file, ServerSettings::default()).await;
    running.set_token(token.reveal());
    let fairlane = &running.fairlane;
    for id in ["1", "2", "3", "dead"] {
        fairlane.enqueue(Job::new("g", "mail", &"code").id(id)).await.unwrap().accepted().unwrap();
    }
    assert_eq!(running.post("/api/bulks", json!({"group": "g", "id": "b"})).await.0, StatusCode::CREATED);
    let jobs =
        json!({"jobs": [{"group": "g", "id": "1"}, {"group": "g", "id": "2"}, {"group": "g", "id": "none"}]});
    assert_eq!(running.post("/api/jobs/cancel", jobs).await.0, StatusCode::OK);
    assert_eq!(running.post_nothing("/api/jobs/g/3/cancel".into()).await.0, StatusCode::OK);
    assert_eq!(running.post_nothing("/api/bulks/g/b/cancel".into()).await.0, StatusCode::OK);
    fail_all(fairlane, 1).await;
    assert_eq!(running.post_nothing("/api/jobs/g/dead/requeue".into()).await.0, StatusCode::OK);
    fail_all(fairlane, 1).await;
    let all = json!({"filter": {"group": "g"}});
    assert_eq!(running.post("/api/dead/discard", all).await.0, StatusCode::OK);
    for (event, fields) in [
        ("jobs cancelled", "groups=\"g (2)\" jobs=2"),
        ("jobs cancelled", "groups=\"g (1)\" jobs=1"),
        ("bulk action cancelled", "group=g bulk=b"),
        ("dead jobs requeued", "groups=\"g (1)\" jobs=1"),
        ("dead jobs discarded", "groups=\"g (1)\" jobs=1"),
    ] {
        let lines = log.lines(event);
        let key = format!("key=\"{}\"", record.id);
        assert!(
            lines.iter().any(|line| line.contains(&key) && line.contains(fields)),
            "{event}: {}",
            log.text()
        );
    }
}

#[tokio::test]
async fn keys_in_a_directory_that_others_can_write_cause_a_warning() {
    let log = Log::up_to(Level::WARN);
    let _guard = tracing::subscriber::set_default(log.clone());
    let folder = tempfile::tempdir().unwrap();
    let (file, ..) = one_key(folder.path(), "k");
    assert_eq!(log.text(), "");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    Keys::open(file.path()).unwrap();
    assert!(log.text().contains("others can replace or remove the file of keys"), "{}", log.text());
}
