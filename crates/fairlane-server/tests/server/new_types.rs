//! All groups share a limited number of types: a key bound to groups uses existing ones and adds
//! none.

use std::sync::Arc;

use fairlane::Fairlane;
use fairlane_core::kernel::Registered;
use fairlane_core::queue::{Enqueue, JobRef, NewJob, SetType, TypePatch};
use fairlane_core::{Command, GroupId, JobId, TypeId};
use fairlane_engine::wire;
use fairlane_server::ServerSettings;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, Keys, NewKey};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{Running, problem, send};

/// A server whose queue has the type `mail`, with the key of a producer bound to `own`.
async fn bound() -> Running {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("keys.json"));
    let groups = Some([GroupId::new("own").unwrap()].into());
    let new = NewKey { name: "bound".into(), role: Role::Producer, groups, rate: None, expires_in: None };
    let (_, token) = file.create(new).unwrap();
    let fairlane = Fairlane::open("memory:").await.unwrap();
    add(&fairlane, "mail").await;
    let keys = Some(Arc::new(Keys::open(file.path()).unwrap()));
    let mut running = Running::start_with(fairlane, keys, ServerSettings::default()).await;
    running.set_token(token.reveal());
    running
}

/// Adds a type, as a key that is not bound can.
async fn add(fairlane: &Fairlane, name: &str) {
    let operation = SetType { type_id: TypeId::new(name).unwrap(), patch: TypePatch::default() };
    fairlane.engine().call(operation).await.unwrap();
}

async fn types(running: &Running) -> Vec<String> {
    running.fairlane.queue_view().await.unwrap().types.iter().map(ToString::to_string).collect()
}

fn job(job_type: &str) -> Value {
    json!({"group": "own", "type": job_type, "payload": 1})
}

fn assert_refused((status, value): (StatusCode, Value)) {
    assert_eq!((status, problem(&value)), (StatusCode::CONFLICT, "conflict"), "{value}");
    assert!(value["detail"].as_str().unwrap().contains("PATCH /api/types/new"), "{value}");
}

#[tokio::test]
async fn a_new_type_is_refused_and_an_existing_one_is_used() {
    let running = bound().await;
    assert_refused(running.post("/api/jobs", job("new")).await);
    assert_refused(running.post("/api/jobs/batch", json!({"jobs": [job("mail"), job("new")]})).await);
    assert_eq!(
        (running.fairlane.queue_view().await.unwrap().backlog, types(&running).await),
        (0, vec!["mail".into()])
    );
    assert_eq!(running.post("/api/jobs", job("mail")).await.0, StatusCode::CREATED);
    let (_, batch) = running.post("/api/jobs/batch", json!({"jobs": [job("mail"), job("mail")]})).await;
    assert_eq!(batch["created"], 2, "{batch}");
    // A key that is not bound has added the type.
    add(&running.fairlane, "new").await;
    assert_eq!(running.post("/api/jobs", job("new")).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn a_line_with_a_new_type_is_invalid() {
    let running = bound().await;
    let send = |query: &str| {
        let lines = "{\"payload\":1}\n{\"type\":\"new\",\"payload\":2}\n{\"payload\":3}\n";
        let request = running.request(Method::POST, &format!("/api/jobs/stream?group=own&{query}"));
        send(request.header("content-type", "application/x-ndjson").body(lines))
    };
    let (status, value) = send("type=mail").await;
    assert_eq!((status, &value["created"], &value["complete"]), (StatusCode::OK, &json!(2), &json!(true)));
    assert_eq!((&value["errors_total"], &value["errors"][0]["line"]), (&json!(1), &json!(2)), "{value}");
    assert!(value["errors"][0]["detail"].as_str().unwrap().contains("bound to groups"), "{value}");
    let (_, value) = send("type=mail&on_error=stop").await;
    assert_eq!(
        (&value["next_line"], &value["stopped"]["reason"]),
        (&json!(2), &json!("wrong-line")),
        "{value}"
    );
    let (_, value) = send("type=other").await;
    assert_eq!((&value["created"], &value["errors_total"]), (&json!(0), &json!(3)), "{value}");
    assert_eq!(types(&running).await, ["mail"]);
}

#[tokio::test]
async fn the_http_engine_adds_no_type_either() {
    let running = bound().await;
    let enqueue = |job_type: &str| {
        let job = JobRef { group: GroupId::new("own").unwrap(), id: JobId::new(job_type).unwrap() };
        let new = NewJob::new(job, TypeId::new(job_type).unwrap(), b"1"[..].into());
        Enqueue { jobs: vec![new] }.into_command()
    };
    let send = |command: Command| {
        let request = running.request(Method::POST, wire::SUBMIT_PATH);
        request.header("content-type", wire::CONTENT_TYPE).body(wire::encode(&command)).send()
    };
    let set = SetType { type_id: TypeId::new("new").unwrap(), patch: TypePatch::default() };
    assert_eq!(send(enqueue("new")).await.unwrap().status(), StatusCode::CONFLICT);
    assert_eq!(send(set.into_command()).await.unwrap().status(), StatusCode::FORBIDDEN);
    assert_eq!(types(&running).await, ["mail"]);
    assert_eq!(send(enqueue("mail")).await.unwrap().status(), StatusCode::OK);
    assert_eq!(running.fairlane.queue_view().await.unwrap().backlog, 1);
}
