//! Congestion: of one group, its history, and the summary.

use fairlane::{Discipline, Job, Settings};
use fairlane_core::queue::Admit;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::running::Running;

/// Under `classic` with one job a second, so that all jobs but one are refused when they are
/// admitted.
async fn congested(groups: &[(&str, u32)]) -> Running {
    let settings = Settings { discipline: Discipline::Classic, global_rps: 1, ..Settings::default() };
    let running = Running::over("memory:", settings).await;
    let mut jobs = 0;
    for (group, count) in groups {
        let of_group = (0..*count).map(|number| Job::new(*group, "mail", &number));
        running.fairlane.enqueue_all(of_group).await.unwrap();
        jobs += *count as usize;
    }
    running.fairlane.engine().call(Admit { jobs_max: jobs }).await.unwrap();
    running
}

#[tokio::test]
async fn the_congestion_of_a_group_is_shown() {
    let running = congested(&[("a", 40)]).await;
    let (status, congestion) = running.get("/api/groups/a/congestion").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&congestion["group"], &congestion["held_back"]), (&json!("a"), &json!(39)));
    assert_eq!((&congestion["speed"], &congestion["level"]), (&json!(1), &json!("CRITICAL")));
    assert!(congestion["backoff_ms"].as_u64().unwrap() >= 30_000, "{congestion}");
    assert_eq!(congestion["estimated_completion_ms"], 39_000);
    assert_eq!(congestion["throttles_per_job"], 0.0);
}

#[tokio::test]
async fn the_completion_time_is_not_estimated_before_any_job_ran() {
    let running = Running::start().await;
    running.fairlane.enqueue_all((0..6).map(|number| Job::new("a", "mail", &number))).await.unwrap();
    let (_, group) = running.get("/api/groups/a").await;
    let congestion = &group["congestion"];
    assert_eq!((&group["waiting"], &congestion["held_back"]), (&json!(0), &json!(6)), "two different counts");
    assert_eq!((&congestion["speed"], congestion.get("estimated_completion_ms")), (&json!(0), None));
}

#[tokio::test]
async fn the_history_of_a_group_is_kept_and_can_be_reset() {
    let running = congested(&[("a", 40)]).await;
    let (status, history) = running.get("/api/groups/a/congestion/history?limit=5").await;
    assert_eq!(status, StatusCode::OK);
    let snapshot = &history["snapshots"][0];
    assert!(snapshot["at"].as_str().unwrap().ends_with('Z'), "{history}");
    assert!(snapshot["speed"].is_u64() && snapshot["backoff_ms"].is_u64() && snapshot["held_back"].is_u64());
    assert_eq!(running.delete("/api/groups/a/congestion").await, (StatusCode::NO_CONTENT, Value::Null));
    let (_, history) = running.get("/api/groups/a/congestion/history").await;
    assert_eq!(history, json!({"snapshots": []}));
    let (_, congestion) = running.get("/api/groups/a/congestion").await;
    assert_eq!((&congestion["backoff_ms"], &congestion["held_back"]), (&json!(0), &json!(39)));
    for limit in ["0", "86401", "x"] {
        let (status, _) = running.get(&format!("/api/groups/a/congestion/history?limit={limit}")).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{limit}");
    }
}

#[tokio::test]
async fn the_summary_lists_the_most_congested_groups_first() {
    let running = congested(&[("a", 5), ("b", 60), ("c", 20)]).await;
    let (status, summary) = running.get("/api/congestion").await;
    assert_eq!(status, StatusCode::OK);
    let names: Vec<&str> =
        summary["groups"].as_array().unwrap().iter().map(|group| group["group"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "c", "a"]);
    assert_eq!((&summary["active_groups"], &summary["groups_scanned"]), (&json!(3), &json!(3)));
    let held_back: u64 =
        summary["groups"].as_array().unwrap().iter().map(|group| group["held_back"].as_u64().unwrap()).sum();
    assert_eq!(summary["held_back"], held_back);
    let levels = summary["levels"].as_object().unwrap();
    assert_eq!(levels.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 3);
    assert_eq!(summary["next"], Value::Null);
    let (_, short) = running.get("/api/congestion?limit=1").await;
    assert_eq!(short["groups"].as_array().unwrap().len(), 1);
    assert_eq!(short["levels"], summary["levels"]);
}

#[tokio::test]
async fn a_summary_of_very_many_groups_continues_with_a_cursor() {
    let running = Running::start().await;
    let jobs = (0..10_100).map(|number| Job::new(format!("g{number:05}"), "mail", &number));
    running.fairlane.enqueue_all(jobs).await.unwrap();
    let (_, first) = running.get("/api/congestion?limit=2").await;
    assert_eq!((&first["active_groups"], &first["groups_scanned"]), (&json!(10_100), &json!(10_000)));
    assert_eq!(first["held_back"], 10_100);
    let next = first["next"].as_str().unwrap();
    let (_, second) = running.get(&format!("/api/congestion?cursor={next}")).await;
    assert_eq!((&second["groups_scanned"], &second["next"]), (&json!(100), &Value::Null));
}
