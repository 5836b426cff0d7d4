//! Rankings over HTTP.

use std::time::{Duration, SystemTime};

use fairlane::{Fairlane, time_text};
use fairlane_server::{ServerSettings, metrics};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{Running, send};

/// A time that lies this many seconds in the past.
fn ago(seconds: u64) -> String {
    let at = SystemTime::now() - Duration::from_secs(seconds);
    time_text(at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64)
}

async fn lines(running: &Running, path: &str, lines: &str) -> (StatusCode, Value) {
    let request = running.request(Method::POST, path).header("content-type", "application/x-ndjson");
    send(request.body(lines.to_owned())).await
}

fn members(page: &Value) -> Vec<(&str, i64)> {
    let entries = page["entries"].as_array().unwrap();
    entries.iter().map(|one| (one["member"].as_str().unwrap(), one["score"].as_i64().unwrap())).collect()
}

#[tokio::test]
async fn events_count_once_and_are_read_as_top_ranks_and_neighbours() {
    let running = Running::start().await;
    let board = "/api/rankings/popular";
    let (_, made) = running.patch(board, json!({"windows": ["hour", "day"]})).await;
    assert_eq!(
        (&made["created"], &made["rule"], &made["season"]),
        (&json!(true), &json!("count"), &json!(1))
    );
    let (_, again) = running.patch(board, json!({})).await;
    assert_eq!((&again["created"], &again["windows"]), (&json!(false), &json!(["hour", "day"])));
    let event = json!({"id": "r1", "member": "a", "at": ago(60)});
    let (_, first) = running.post(&format!("{board}/events?rank=true"), event.clone()).await;
    assert_eq!((&first["outcome"], &first["rank"]["rank"]), (&json!("applied"), &json!(1)));
    let (_, repeated) = running.post(&format!("{board}/events"), event).await;
    assert_eq!(repeated, json!({"outcome": "repeated"}));
    let event =
        |number: u64, member: &str| json!({"id": format!("b{number}"), "member": member, "at": ago(50)});
    let mut events: Vec<Value> = (0..4).map(|number| event(number, "b")).collect();
    events.extend([event(7, "c"), json!({"id": "old", "member": "c", "at": ago(8 * 86_400)})]);
    let (_, batch) = running.post(&format!("{board}/events/batch"), json!({"events": events})).await;
    assert_eq!((&batch["refused"], &batch["outcomes"][5]["outcome"]), (&json!(1), &json!("too_old")));
    assert!(batch["outcomes"][5]["reason"].as_str().unwrap().contains("rebuild"), "{batch}");
    let cancelled = json!({"events": [{"id": "b3", "at": ago(50)}, {"id": "later", "at": ago(5)}]});
    let (_, cancelled) = running.post(&format!("{board}/events/cancel"), cancelled).await;
    let outcomes = [&cancelled["outcomes"][0]["outcome"], &cancelled["outcomes"][1]["outcome"]];
    assert_eq!(outcomes, [&json!("applied"), &json!("pending")]);

    let (_, top) = running.get(&format!("{board}/top")).await;
    assert_eq!((members(&top), &top["members"]), (vec![("b", 3), ("a", 1), ("c", 1)], &json!(3)));
    let (_, second) = running.get(&format!("{board}/top?behind=1&limit=1")).await;
    assert_eq!(members(&second), [("a", 1)]);
    let (_, day) = running.get(&format!("{board}/top?window=day&at={}", ago(50))).await;
    assert_eq!(members(&day), members(&top));
    for path in ["top", "around/a", "ranks/a"] {
        let (status, refused) = running.get(&format!("{board}/{path}?window=week")).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {refused}");
        assert!(refused["detail"].as_str().unwrap().contains("windows are hour and day"), "{refused}");
    }
    let friends = json!({"members": ["a"], "window": "week"});
    let (status, _) = running.post(&format!("{board}/ranks"), friends).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let (_, rank) = running.get(&format!("{board}/ranks/c")).await;
    assert_eq!((&rank["position"], &rank["rank"]), (&json!(3), &json!(2)), "equal scores share a rank");
    assert!((rank["percentile"].as_f64().unwrap() - 200.0 / 3.0).abs() < 1e-9, "{rank}");
    let (_, around) = running.get(&format!("{board}/around/a?before=1&limit=2")).await;
    assert_eq!(members(&around), [("b", 3), ("a", 1)]);
    let (_, friends) =
        running.post(&format!("{board}/ranks"), json!({"members": ["c", "nobody", "b"]})).await;
    assert_eq!(members(&friends), [("c", 1), ("b", 3)]);
    let (_, shown) = running.get(board).await;
    let totals = &shown["totals"];
    assert_eq!((&totals["recorded"], &totals["too_old"]), (&json!(6), &json!(1)));
    assert_eq!(shown["readable"][0]["sealed"], false);
    let (_, listed) = running.get("/api/rankings").await;
    assert_eq!(listed["boards"][0]["board"], "popular");
}

#[tokio::test]
async fn values_have_versions_and_decimal_places() {
    let running = Running::start().await;
    let board = "/api/rankings/fastest";
    running.patch(board, json!({"rule": "latest", "order": "ascending", "decimals": 3})).await;
    let score = |member: &str, value: i64, version: u64| json!({"member": member, "value": value, "version": version, "at": ago(9)});
    let scores = json!({"scores": [score("s1", 30_500, 2), score("s1", 9, 1), score("s2", 100, 1)]});
    let (_, set) = running.post(&format!("{board}/scores"), scores).await;
    assert_eq!((&set["outcomes"][1]["outcome"], &set["refused"]), (&json!("repeated"), &json!(0)));
    let (_, top) = running.get(&format!("{board}/top")).await;
    let shown: Vec<_> = top["entries"].as_array().unwrap().iter().map(|one| one["score"].as_f64()).collect();
    assert_eq!(shown, [Some(0.1), Some(30.5)], "the fastest is first");
    let (status, wrong) =
        running.post(&format!("{board}/events"), json!({"id": "e", "member": "s1", "at": ago(9)})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{wrong}");
    assert!(wrong["detail"].as_str().unwrap().contains("take scores"), "{wrong}");
}

#[tokio::test]
async fn season_closes_once_with_one_job_and_stays_readable() {
    let running = Running::start().await;
    let board = "/api/rankings/popular";
    running.patch(board, json!({})).await;
    running.post(&format!("{board}/events"), json!({"id": "r1", "member": "a", "at": ago(60)})).await;
    let close = async || {
        let job = json!({"group": "system", "type": "season-closed"});
        running.post(&format!("{board}/seasons/1/close"), job).await.1
    };
    let (first, again) = (close().await, close().await);
    assert_eq!((&first["announced_now"], &again["announced_now"]), (&json!(true), &json!(false)));
    assert_eq!((members(&first), &first["closed_at"]), (members(&again), &again["closed_at"]));
    let (_, job) = running.get("/api/jobs/system/season-popular-1").await;
    assert_eq!((&job["type"], &job["payload"]["season"]), (&json!("season-closed"), &json!(1)));
    assert_eq!(members(&running.get(&format!("{board}/top?season=1")).await.1), [("a", 1)]);
    assert_eq!(members(&running.get(&format!("{board}/top")).await.1), []);
    let half = running.post(&format!("{board}/seasons/2/close"), json!({"group": "system"})).await;
    assert_eq!(half.0, StatusCode::UNPROCESSABLE_ENTITY, "{}", half.1);
    assert_eq!(running.post(&format!("{board}/seasons/9/close"), json!({})).await.0, StatusCode::CONFLICT);
}

#[tokio::test]
async fn board_is_rebuilt_from_lines_and_compared_with_them() {
    let running = Running::start().await;
    let board = "/api/rankings/popular";
    running.patch(board, json!({})).await;
    running.post(&format!("{board}/events"), json!({"id": "wrong", "member": "x", "at": ago(60)})).await;
    let source: String = (0..250)
        .map(|number| {
            format!("{{\"id\": \"r{number}\", \"member\": \"s{}\", \"at\": 1700000000000}}\n", number % 3)
        })
        .collect();
    let (_, audit) = lines(&running, &format!("{board}/audit"), &source).await;
    assert_eq!((&audit["rows"], &audit["differing"]), (&json!(250), &json!(4)), "{audit}");
    // A source with an invalid line leaves the board as it is, and the rebuild continues.
    let valid: Vec<&str> = source.lines().take(120).collect();
    let broken = format!("{}\n{{\"member\": \"s1\", \"at\": 1}}\n", valid.join("\n"));
    let (status, refused) = lines(&running, &format!("{board}/rebuild?id=one"), &broken).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
    assert!(refused["detail"].as_str().unwrap().starts_with("line 121:"), "{refused}");
    assert_eq!(members(&running.get(&format!("{board}/top")).await.1), [("x", 1)]);
    for _ in 0..2 {
        let (status, rebuilt) = lines(&running, &format!("{board}/rebuild?id=one"), &source).await;
        assert_eq!((status, &rebuilt["members"]), (StatusCode::OK, &json!(3)), "{rebuilt}");
    }
    let (_, audit) = lines(&running, &format!("{board}/audit"), &source).await;
    assert_eq!((&audit["differing"], &audit["differences"]), (&json!(0), &json!([])));
    assert_eq!(running.get(&format!("{board}/ranks/s0")).await.1["score"], 84);
    let request = running.request(Method::POST, &format!("{board}/rebuild?id=two"));
    let (status, _) = send(request.header("content-type", "application/json").body(source)).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn invalid_requests_say_what_is_wrong() {
    let running = Running::start().await;
    let board = "/api/rankings/popular";
    let (status, unknown) = running.get(&format!("{board}/top")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(unknown["detail"].as_str().unwrap().contains("create it first"), "{unknown}");
    running.patch(board, json!({})).await;
    let (status, other) = running.patch(board, json!({"rule": "sum"})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{other}");
    for (method, path, body, words) in [
        (Method::POST, "events", json!({"id": "e", "member": "m"}), "at"),
        (Method::POST, "events", json!({"id": "e", "member": "m", "at": "noon"}), "2026"),
        (Method::POST, "events", json!({"id": "", "member": "m", "at": ago(1)}), "event id"),
        (Method::POST, "events/batch", json!({"events": []}), "empty"),
        (Method::POST, "scores", json!({"scores": [{"member": "m", "value": 1.5, "at": ago(1)}]}), "integer"),
        (Method::GET, "top?limit=501", json!(null), "between 1 and 500"),
        (Method::GET, "top?at=2026-11-17T09:30:00Z", json!(null), "window"),
        (Method::GET, "top?window=day&season=1", json!(null), "exclude"),
        (Method::GET, "top?window=month", json!(null), "month"),
    ] {
        let path = format!("{board}/{path}");
        let (status, problem) = match method {
            Method::GET => running.get(&path).await,
            _ => running.post(&path, body).await,
        };
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{path}: {problem}");
    }
    assert_eq!(running.get(&format!("{board}/ranks/nobody")).await.0, StatusCode::NOT_FOUND);
    assert_eq!(running.delete(board).await.0, StatusCode::NO_CONTENT);
    assert_eq!(running.delete(board).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn boards_have_metrics() {
    metrics::install();
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let running = Running::start_with(fairlane, None, ServerSettings::default()).await;
    running.patch("/api/rankings/popular", json!({"events_max": 5})).await;
    let events = json!({"events": [
        {"id": "e1", "member": "a", "at": ago(1)}, {"id": "e1", "member": "a", "at": ago(1)},
        {"id": "e2", "member": "a", "at": ago(9 * 86_400)},
    ]});
    running.post("/api/rankings/popular/events/batch", events).await;
    let text = running.request(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    for line in [
        "fairlane_board_members{board=\"popular\"} 1",
        "fairlane_board_remembered_events{board=\"popular\"} 1",
        "fairlane_board_remembered_events_limit{board=\"popular\"} 5",
        "fairlane_board_updates_total{board=\"popular\",outcome=\"recorded\"} 1",
        "fairlane_board_updates_total{board=\"popular\",outcome=\"repeated\"} 1",
        "fairlane_board_updates_total{board=\"popular\",outcome=\"too_old\"} 1",
        "fairlane_board_late_updates_total{board=\"popular\"} 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
