//! Types are few and everybody's: a key that is bound to groups uses those that are there, and adds none.

use std::sync::Arc;

use fairlane::Fairlane;
use fairlane_core::queue::{Command, Enqueue, JobRef, NewJob, SetType, TypePatch};
use fairlane_core::{Cost, GroupId, JobId, Level, TypeId};
use fairlane_engine::wire;
use fairlane_server::ServerSettings;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, Keys, NewKey};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{Running, answer, problem};

/// A server whose queue knows the type `mail`, asked by a producer that is bound to `own`.
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

/// Adds a type, as whoever is not bound can.
async fn add(fairlane: &Fairlane, name: &str) {
    let command = SetType { type_id: TypeId::new(name).unwrap(), patch: TypePatch::default() };
    fairlane.engine().set_type(command).await.unwrap();
}

async fn types(running: &Running) -> Vec<String> {
    running.fairlane.whole().await.unwrap().types.iter().map(ToString::to_string).collect()
}

fn job(job_type: &str) -> Value {
    json!({"group": "own", "type": job_type, "payload": 1})
}

fn is_told((status, value): (StatusCode, Value)) {
    assert_eq!((status, problem(&value)), (StatusCode::CONFLICT, "conflict"), "{value}");
    assert!(value["detail"].as_str().unwrap().contains("PATCH /api/types/new"), "{value}");
}

#[tokio::test]
async fn a_new_type_is_refused_and_one_that_is_there_is_used() {
    let running = bound().await;
    is_told(running.post("/api/jobs", job("new")).await);
    is_told(running.post("/api/jobs/batch", json!({"jobs": [job("mail"), job("new")]})).await);
    assert_eq!(
        (running.fairlane.whole().await.unwrap().backlog, types(&running).await),
        (0, vec!["mail".into()])
    );
    assert_eq!(running.post("/api/jobs", job("mail")).await.0, StatusCode::CREATED);
    let (_, batch) = running.post("/api/jobs/batch", json!({"jobs": [job("mail"), job("mail")]})).await;
    assert_eq!(batch["created"], 2, "{batch}");
    // Somebody who may has added it.
    add(&running.fairlane, "new").await;
    assert_eq!(running.post("/api/jobs", job("new")).await.0, StatusCode::CREATED);
}

#[tokio::test]
async fn in_a_stream_a_new_type_is_a_wrong_line() {
    let running = bound().await;
    let send = |query: &str| {
        let lines = "{\"payload\":1}\n{\"type\":\"new\",\"payload\":2}\n{\"payload\":3}\n";
        let request = running.request(Method::POST, &format!("/api/jobs/stream?group=own&{query}"));
        answer(request.header("content-type", "application/x-ndjson").body(lines))
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
async fn nor_is_one_added_by_the_engine_over_http() {
    let running = bound().await;
    let enqueue = |job_type: &str| {
        let job = JobRef { group: GroupId::new("own").unwrap(), id: JobId::new(job_type).unwrap() };
        Command::Enqueue(Enqueue {
            jobs: vec![NewJob {
                job,
                type_id: TypeId::new(job_type).unwrap(),
                level: Level::Normal,
                cost: Cost::default(),
                payload: b"1"[..].into(),
                delay_ms: 0,
                bulk: None,
                trace: None,
            }],
        })
    };
    let send = |command: Command| {
        let request = running.request(Method::POST, wire::EXECUTE_PATH);
        request.header("content-type", wire::CONTENT_TYPE).body(wire::encode(&command)).send()
    };
    let set = SetType { type_id: TypeId::new("new").unwrap(), patch: TypePatch::default() };
    assert_eq!(send(enqueue("new")).await.unwrap().status(), StatusCode::CONFLICT);
    assert_eq!(send(Command::SetType(set)).await.unwrap().status(), StatusCode::FORBIDDEN);
    assert_eq!(types(&running).await, ["mail"]);
    assert_eq!(send(enqueue("mail")).await.unwrap().status(), StatusCode::OK);
    assert_eq!(running.fairlane.whole().await.unwrap().backlog, 1);
}
