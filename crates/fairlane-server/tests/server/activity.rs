//! The activity log: changes by operators, with who made them, in the queue itself.

use std::sync::Arc;

use fairlane::Fairlane;
use fairlane_server::ServerSettings;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, Keys, NewKey};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::Running;

fn lines(page: &Value) -> Vec<String> {
    let word = |one: &Value, field: &str| one[field].as_str().unwrap_or("–").to_owned();
    let line = |one: &Value| {
        let parts = ["actor", "kind", "name", "text"].map(|field| word(one, field));
        format!(
            "{}{}",
            parts.join(" "),
            one["jobs"].as_u64().map_or(String::new(), |jobs| format!(" {jobs}"))
        )
    };
    page["activity"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn changes_are_listed_newest_first_with_who_made_them() {
    let running = Running::start().await;
    running.patch("/api/groups/acme", json!({"weight": 3, "paused": true})).await;
    running.patch("/api/types/mail", json!({"rate": "100/s"})).await;
    running.patch("/api/settings", json!({"max_retry_count": 3})).await;
    let job = |id: &str| json!({"group": "acme", "type": "mail", "id": id, "payload": 1});
    running.post("/api/jobs/batch", json!({"jobs": [job("a"), job("b"), job("c")]})).await;
    let named = |id: &str| json!({"group": "acme", "id": id});
    running.post("/api/jobs/cancel", json!({"jobs": [named("a"), named("b")]})).await;
    let (status, page) = running.get("/api/activity").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        lines(&page),
        [
            "local group acme cancelled 2",
            "local – – settings of the queue changed",
            "local type mail rate 100/s",
            "local group acme weight 3, paused",
        ]
    );
    let (_, first) = running.get("/api/activity?limit=3").await;
    let next = first["next"].as_str().unwrap();
    let (_, second) = running.get(&format!("/api/activity?limit=3&cursor={next}")).await;
    assert_eq!((lines(&second).len(), second.get("next")), (1, None));
    let (_, of_group) = running.get("/api/activity?group=acme").await;
    assert_eq!(lines(&of_group).len(), 2);
    for query in ["limit=0", "limit=501", "cursor=x", "group="] {
        let (status, problem) = running.get(&format!("/api/activity?{query}")).await;
        assert!(status.is_client_error(), "{query}: {problem}");
    }
}

#[tokio::test]
async fn reads_and_refused_changes_are_not_listed() {
    let running = Running::start().await;
    running.patch("/api/groups/acme", json!({"weight": 0})).await;
    running.get("/api/groups/acme").await;
    running.post("/api/jobs", json!({"group": "acme", "type": "mail", "payload": 1})).await;
    assert_eq!(lines(&running.get("/api/activity").await.1), [""; 0]);
}

#[tokio::test]
async fn servers_of_one_queue_share_the_log_and_it_survives_them() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let start = || Running::start_with(fairlane.clone(), None, ServerSettings::default());
    let (one, other) = (start().await, start().await);
    one.patch("/api/groups/acme", json!({"paused": true})).await;
    other.patch("/api/groups/acme", json!({"paused": false})).await;
    one.server.stop().await;
    assert_eq!(
        lines(&other.get("/api/activity").await.1),
        ["local group acme resumed", "local group acme paused"]
    );
    let page = other.request(Method::GET, "/activity").send().await.unwrap().text().await.unwrap();
    assert!(page.contains("resumed") && page.contains("paused") && page.contains("acme"), "{page}");
}

#[tokio::test]
async fn a_change_has_the_name_of_its_key_and_producers_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("keys.json"));
    let create = |name: &str, role| {
        let new = NewKey { name: name.into(), role, groups: None, rate: None, expires_in: None };
        file.create(new).unwrap().1.reveal().to_owned()
    };
    let (admin, producer) = (create("ada", Role::Admin), create("shop", Role::Producer));
    let keys = Some(Arc::new(Keys::open(file.path()).unwrap()));
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let mut running = Running::start_with(fairlane, keys, ServerSettings::default()).await;
    running.set_token(producer);
    let new = json!({"group": "acme", "type": "mail", "id": "a", "payload": 1});
    assert_eq!(running.post("/api/jobs", new).await.0, StatusCode::CREATED);
    running.post("/api/jobs/cancel", json!({"jobs": [{"group": "acme", "id": "a"}]})).await;
    assert_eq!(running.get("/api/activity").await.0, StatusCode::FORBIDDEN);
    running.set_token(admin.clone());
    running.patch("/api/groups/acme", json!({"paused": true})).await;
    let over_http = Fairlane::open(&format!("http://{admin}@{}", running.server.address())).await.unwrap();
    over_http.recording("local").group("acme").weight(2).apply().await.unwrap();
    assert_eq!(
        lines(&running.get("/api/activity").await.1),
        ["ada group acme weight 2", "ada group acme paused"]
    );
}
