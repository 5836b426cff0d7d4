//! Dead jobs: listed, requeued, discarded.

use std::collections::BTreeSet;

use fairlane::{Context, Fairlane, Job, Outcome, Settings};
use fairlane_core::queue::SetQueue;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::running::{Running, problem};

/// Runs all jobs until this many are dead, each with its payload as the error code.
pub async fn fail_all(fairlane: &Fairlane, count: u64) {
    let fail = |code: String, _: Context| async move { Outcome::failed(code, "it never works") };
    let pool = fairlane.worker().process("mail", fail).process("text", fail).start().unwrap();
    while fairlane.queue_view().await.unwrap().failed < count {
        tokio::task::yield_now().await;
    }
    pool.stop().await;
}

/// 700 dead mails of one group, every seventh of them with a rare code, and 10 dead texts of
/// another.
async fn with_dead_jobs() -> Running {
    let running = Running::start().await;
    let code = |number: u32| if number.is_multiple_of(7) { "rare" } else { "frequent" };
    let mails = (0..700).map(|number| Job::new("a", "mail", &code(number)).id(format!("mail-{number}")));
    let texts = (0..10).map(|number| Job::new("b", "text", &"rare").id(format!("text-{number}")));
    running.fairlane.enqueue_all(mails.chain(texts)).await.unwrap();
    fail_all(&running.fairlane, 710).await;
    running
}

/// The ids of all jobs on all pages.
async fn all(running: &Running, query: &str) -> BTreeSet<String> {
    let (mut ids, mut cursor) = (BTreeSet::new(), None::<String>);
    loop {
        let from = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let (status, page) = running.get(&format!("/api/dead?{query}{from}")).await;
        assert_eq!(status, StatusCode::OK, "{page}");
        for job in page["jobs"].as_array().unwrap() {
            assert!(ids.insert(job["id"].as_str().unwrap().to_owned()), "{job} is listed twice");
        }
        let Some(next) = page["next"].as_str() else { return ids };
        cursor = Some(next.to_owned());
    }
}

#[tokio::test]
async fn dead_jobs_are_listed_with_their_errors() {
    let running = with_dead_jobs().await;
    let (status, page) = running.get("/api/dead?group=b&limit=3").await;
    assert_eq!(status, StatusCode::OK);
    let job = &page["jobs"][0];
    assert_eq!((&job["group"], &job["type"], &job["state"]), (&json!("b"), &json!("text"), &json!("dead")));
    assert_eq!(job["error"], json!({"code": "rare", "reason": "it never works"}));
    assert_eq!(job["payload"], Value::Null);
    assert_eq!(all(&running, "limit=500").await.len(), 710);
    assert_eq!(all(&running, "limit=7").await.len(), 710);
}

#[tokio::test]
async fn filters_narrow_the_list_on_every_page() {
    let running = with_dead_jobs().await;
    assert_eq!(all(&running, "group=b").await.len(), 10);
    assert_eq!(all(&running, "group=a&type=text").await.len(), 0);
    assert_eq!(all(&running, "type=mail&code=rare&limit=30").await.len(), 100);
    assert_eq!(all(&running, "code=unknown").await.len(), 0);
    assert_eq!(all(&running, "older_than_ms=3600000").await.len(), 0);
    assert_eq!(all(&running, "older_than_ms=0&group=b").await.len(), 10);
    for query in
        ["limit=0", "limit=501", "group=", "cursor=x", "cursor=-1", "older_than_ms=x", "code=a&other=b"]
    {
        let (status, body) = running.get(&format!("/api/dead?{query}")).await;
        assert_eq!((status, problem(&body)), (StatusCode::UNPROCESSABLE_ENTITY, "invalid"), "{query}");
    }
}

#[tokio::test]
async fn named_jobs_are_requeued_and_counted_by_outcome() {
    let running = with_dead_jobs().await;
    running.fairlane.enqueue(Job::new("a", "mail", &"x").id("alive")).await.unwrap().accepted().unwrap();
    let job = |id: &str| json!({"group": "a", "id": id});
    let jobs = json!({"jobs": [job("mail-1"), job("mail-1"), job("mail-2"), job("alive"), job("unknown")]});
    let response = running.post("/api/dead/requeue", jobs).await;
    let counts = json!({"requeued": 2, "full": 0, "not_dead": 1, "unknown": 1});
    assert_eq!(response, (StatusCode::OK, counts));
    let queue = running.fairlane.queue_view().await.unwrap();
    assert_eq!((queue.failed, queue.backlog), (708, 3));
}

#[tokio::test]
async fn jobs_that_match_a_filter_are_requeued_on_every_page() {
    let running = with_dead_jobs().await;
    let (status, counts) = running.post("/api/dead/requeue", json!({"filter": {"code": "frequent"}})).await;
    assert_eq!((status, &counts["requeued"], &counts["next"]), (StatusCode::OK, &json!(600), &Value::Null));
    let queue = running.fairlane.queue_view().await.unwrap();
    assert_eq!((queue.failed, queue.backlog), (110, 600));
}

#[tokio::test]
async fn jobs_stay_dead_while_their_group_is_full() {
    let running = with_dead_jobs().await;
    let settings = Settings { group_backlog_max: 100, ..Settings::default() };
    running.fairlane.engine().call(SetQueue { settings }).await.unwrap();
    let (_, counts) = running.post("/api/dead/requeue", json!({"filter": {"group": "a"}})).await;
    assert_eq!((&counts["requeued"], &counts["full"]), (&json!(100), &json!(600)));
}

#[tokio::test]
async fn jobs_are_discarded_by_name_by_filter_and_all() {
    let running = with_dead_jobs().await;
    let one = json!({"jobs": [{"group": "b", "id": "text-1"}]});
    let (status, counts) = running.post("/api/dead/discard", one.clone()).await;
    assert_eq!((status, counts), (StatusCode::OK, json!({"discarded": 1, "not_dead": 0, "unknown": 0})));
    assert_eq!(running.post("/api/dead/discard", one).await.1["unknown"], 1);
    let (_, counts) =
        running.post("/api/dead/discard", json!({"filter": {"type": "mail", "code": "rare"}})).await;
    assert_eq!(counts["discarded"], 100);
    let (_, counts) = running.post("/api/dead/discard", json!({"filter": {}, "all": true})).await;
    assert_eq!(counts["discarded"], 609);
    assert_eq!(running.fairlane.queue_view().await.unwrap().failed, 0);
}

#[tokio::test]
async fn a_request_scans_a_bounded_number_of_jobs_and_returns_a_cursor() {
    let running = Running::start().await;
    let code = |number: u32| if number < 10_300 { "first" } else { "last" };
    let jobs = (0..10_500).map(|number| Job::new("a", "mail", &code(number)));
    running.fairlane.enqueue_all(jobs).await.unwrap();
    fail_all(&running.fairlane, 10_500).await;
    let filter = json!({"code": "last"});
    let (_, first) = running.post("/api/dead/discard", json!({"filter": filter})).await;
    let next = first["next"].as_str().unwrap();
    let (_, second) = running.post("/api/dead/discard", json!({"filter": filter, "cursor": next})).await;
    assert_eq!(second["next"], Value::Null);
    let both = first["discarded"].as_u64().unwrap() + second["discarded"].as_u64().unwrap();
    assert_eq!((both, running.fairlane.queue_view().await.unwrap().failed), (200, 10_300));
}

#[tokio::test]
async fn an_invalid_selection_changes_nothing() {
    let running = with_dead_jobs().await;
    let many: Vec<Value> = (0..501).map(|id| json!({"group": "a", "id": id.to_string()})).collect();
    for selection in [
        json!({}),
        json!({"all": true}),
        json!({"filter": {}}),
        json!({"filter": {}, "all": false}),
        json!({"jobs": [], "filter": {"group": "a"}}),
        json!({"jobs": [], "all": true}),
        json!({"jobs": [{"group": "a"}]}),
        json!({"jobs": [{"group": "", "id": "x"}]}),
        json!({"jobs": many}),
        json!({"filter": {"color": "red"}}),
        json!({"filter": {"older_than_ms": 315_360_000_001_u64}}),
        json!({"filter": {"group": "a"}, "cursor": "5"}),
    ] {
        for action in ["requeue", "discard"] {
            let (status, body) = running.post(&format!("/api/dead/{action}"), selection.clone()).await;
            assert_eq!(
                (status, problem(&body)),
                (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
                "{selection}"
            );
        }
    }
    assert_eq!(running.fairlane.queue_view().await.unwrap().failed, 710);
}
