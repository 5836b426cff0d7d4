//! What a key bound to one group can do with data of its own group and of others.

use std::sync::Arc;

use fairlane::{Context, Fairlane, Job, Outcome};
use fairlane_core::GroupId;
use fairlane_server::ServerSettings;
use fairlane_server::access::Role;
use fairlane_server::keys::{KeyFile, Keys, NewKey};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::running::{Running, problem};

/// A dead job of `own` and one of `other`, and a key bound to `own`.
async fn bound() -> Running {
    bound_with_key().await.0
}

async fn bound_with_key() -> (Running, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = KeyFile::at(folder.path().join("keys.json"));
    let groups = Some([GroupId::new("own").unwrap()].into());
    let new = NewKey { name: "bound".into(), role: Role::Producer, groups, rate: None, expires_in: None };
    let (_, token) = file.create(new).unwrap();
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let jobs = ["own", "other"].map(|group| Job::new(group, "mail", &1).id("dead"));
    fairlane.enqueue_all(jobs).await.unwrap();
    let fail = |_: u32, _: Context| async move { Outcome::failed("code", "no") };
    let pool = fairlane.worker().process("mail", fail).start().unwrap();
    while fairlane.queue_view().await.unwrap().failed < 2 {
        tokio::task::yield_now().await;
    }
    pool.stop().await;
    let keys = Some(Arc::new(Keys::open(file.path()).unwrap()));
    let mut running = Running::start_with(fairlane, keys, ServerSettings::default()).await;
    running.set_token(token.reveal());
    (running, token.reveal().to_owned())
}

fn is_forbidden((status, body): (StatusCode, Value)) -> bool {
    (status, problem(&body)) == (StatusCode::FORBIDDEN, "forbidden")
}

#[tokio::test]
async fn it_must_name_its_group_to_list_or_change_dead_jobs() {
    let running = bound().await;
    assert!(is_forbidden(running.get("/api/dead").await));
    assert!(is_forbidden(running.get("/api/dead?group=other").await));
    let (status, page) = running.get("/api/dead?group=own").await;
    assert_eq!((status, page["jobs"].as_array().unwrap().len()), (StatusCode::OK, 1));
    let own = json!({"group": "own", "id": "dead"});
    let other = json!({"group": "other", "id": "dead"});
    for action in ["requeue", "discard"] {
        for selection in [
            json!({"jobs": [own, other]}),
            json!({"filter": {"code": "code"}}),
            json!({"filter": {"group": "other"}}),
            json!({"filter": {}, "all": true}),
        ] {
            assert!(is_forbidden(running.post(&format!("/api/dead/{action}"), selection).await));
        }
    }
    assert_eq!(running.fairlane.queue_view().await.unwrap().failed, 2);
    let (status, counts) = running.post("/api/dead/requeue", json!({"filter": {"group": "own"}})).await;
    assert_eq!((status, &counts["requeued"]), (StatusCode::OK, &json!(1)));
    assert_eq!(running.fairlane.queue_view().await.unwrap().failed, 1);
}

#[tokio::test]
async fn it_may_open_bulk_actions_of_its_group_only() {
    let running = bound().await;
    assert!(is_forbidden(running.post("/api/bulks", json!({"group": "other", "id": "b"})).await));
    assert!(is_forbidden(running.get("/api/bulks/other").await));
    let (status, _) = running.post("/api/bulks", json!({"group": "own", "id": "b"})).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(running.get("/api/bulks/own/b").await.0, StatusCode::OK);
}

#[tokio::test]
async fn it_may_not_read_the_queue_or_other_groups() {
    let running = bound().await;
    for path in
        ["/api/status", "/api/groups", "/api/congestion", "/api/groups/other", "/api/groups/other/congestion"]
    {
        assert!(is_forbidden(running.get(path).await), "{path}");
    }
    for path in ["/api/settings", "/api/types", "/api/types/mail", "/api/groups/own"] {
        assert_eq!(running.get(path).await.0, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn it_has_the_same_permissions_through_the_http_engine() {
    let (running, key) = bound_with_key().await;
    let engine = running.url("").replace("http://", &format!("http://{key}@"));
    let fairlane = Fairlane::attach(&engine).await.unwrap();
    assert_eq!(fairlane.dead().group("own").list(10).await.unwrap().len(), 1);
    assert_eq!(fairlane.dead().group("own").requeue().await.unwrap().requeued, 1);
    for refused in [fairlane.dead().group("other"), fairlane.dead().group("other").code("code")] {
        assert!(refused.requeue().await.unwrap_err().to_string().contains("bound to other groups"));
    }
    let (all, read) = (running.fairlane.queue_view().await.unwrap(), fairlane.queue_view().await.unwrap());
    assert_eq!((all.failed, read.failed, all.backlog, read.backlog), (1, 0, 1, 0));
    assert_eq!((read.settings, read.types), (all.settings, all.types));
    assert!(fairlane.groups(None, 1).await.unwrap_err().to_string().contains("all groups"));
}
