//! Bodies that can be read and do not fit: refused, with the place and in plain words.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane::Job;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{Running, answer, problem};

/// JSON that is nested this deep.
fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

async fn send(running: &Running, path: &str, content_type: &str, body: String) -> (StatusCode, Value) {
    answer(running.request(Method::POST, path).header("content-type", content_type).body(body)).await
}

fn errors(answer: &Value) -> Vec<(&str, &str)> {
    let errors = answer["errors"].as_array().into_iter().flatten();
    errors.map(|error| (error["pointer"].as_str().unwrap(), error["detail"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_list_of_values_is_not_taken_for_an_object() {
    let running = Running::start().await;
    for (path, body, pointer) in [
        ("/api/jobs", json!(["arr", "mail", "arr1", 5]), ""),
        ("/api/jobs/batch", json!([[]]), ""),
        ("/api/jobs/batch", json!({"jobs": [["arr", "mail", "arr1", 5]]}), "/jobs/0"),
        ("/api/jobs/cancel", json!({"jobs": [["g", "j"]]}), "/jobs/0"),
        ("/api/leases", json!(["w", ["mail"]]), ""),
        ("/api/leases/extend", json!({"leases": [["g", "j", 1]]}), "/leases/0"),
        ("/api/leases/settle", json!({"settlements": [["g", "j", 1, "released"]]}), "/settlements/0"),
        ("/api/dead/requeue", json!({"jobs": [["g", "j"]]}), "/jobs/0"),
        ("/api/dead/discard", json!({"filter": ["g"]}), "/filter"),
        ("/api/bulks", json!(["g", "b"]), ""),
    ] {
        let (status, answer) = running.post(path, body).await;
        assert_eq!(
            (status, problem(&answer)),
            (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            "{path}: {answer}"
        );
        assert_eq!(errors(&answer), [(pointer, "an object is wanted, not a list")], "{path}: {answer}");
    }
    for path in ["/api/groups/pos", "/api/types/pos", "/api/settings"] {
        let (status, answer) = running.patch(path, json!([7, 0, null, null, true])).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {answer}");
    }
    assert_eq!(running.fairlane.whole().await.unwrap().backlog, 0);
}

#[tokio::test]
async fn what_does_not_fit_is_named_with_its_place_and_in_plain_words() {
    let running = Running::start().await;
    for (path, body, pointer, words) in [
        ("/api/leases", json!({"types": ["mail"]}), "", "worker is missing"),
        ("/api/leases", json!({"worker": "w", "types": "mail"}), "/types", "a list is wanted, not \"mail\""),
        ("/api/leases", json!({"worker": "w", "types": [7]}), "/types/0", "a string is wanted, not 7"),
        (
            "/api/leases",
            json!({"worker": "w", "types": [], "cuont": 1}),
            "/cuont",
            "\"cuont\" is not known here",
        ),
        (
            "/api/leases/extend",
            json!({"leases": [{"group": "g", "id": "j"}]}),
            "/leases/0",
            "fence is missing",
        ),
        (
            "/api/leases/settle",
            json!({"settlements": [{"group": "g", "id": "j", "fence": "1", "outcome": "released"}]}),
            "/settlements/0/fence",
            "a whole number from 0 on is wanted, not \"1\"",
        ),
        (
            "/api/leases/settle",
            json!({"settlements": [{"group": "g", "id": "j", "fence": 1, "outcome": "done"}]}),
            "/settlements/0/outcome",
            "\"done\" is none of succeeded, failed, retry, throttled, released, cancelled",
        ),
        (
            "/api/leases/settle",
            json!({"settlements": [{"group": "g", "id": "j", "fence": 1, "outcome": 1}]}),
            "/settlements/0/outcome",
            "a word is wanted",
        ),
        (
            "/api/bulks",
            json!({"group": "g", "failures_max": -1}),
            "/failures_max",
            "a whole number from 0 on",
        ),
    ] {
        let (status, answer) = running.post(path, body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        let found = errors(&answer);
        assert!(found.len() == 1 && found[0].0 == pointer && found[0].1.starts_with(words), "{answer}");
        assert!(!answer["detail"].as_str().unwrap().contains("column"), "{answer}");
    }
    let (_, answer) = running.patch("/api/groups/g", json!({"concurrency": "none"})).await;
    let words = "a whole number from 0 to 4294967295 is wanted, not \"none\"";
    assert_eq!(errors(&answer), [("/concurrency", words)]);
    let (status, answer) = send(&running, "/api/leases", "application/json", "{\"worker\"".into()).await;
    assert_eq!((status, problem(&answer)), (StatusCode::BAD_REQUEST, "malformed"));
}

#[tokio::test]
async fn a_query_that_does_not_fit_is_told_in_plain_words() {
    let running = Running::start().await;
    for (path, words) in [
        ("/api/jobs/stream", "the query does not fit: group is missing"),
        ("/api/jobs?state=pending&limit=x", "the query does not fit: limit: a whole number is wanted"),
        (
            "/api/jobs?state=nowhere",
            "the query does not fit: state: \"nowhere\" is none of PENDING, pending, READY",
        ),
        ("/api/jobs?stat=dead", "the query does not fit: \"stat\" is not known here; known are state, group"),
        ("/api/jobs", "held (with group= and bulk=)"),
    ] {
        let (status, answer) = running.get(path).await;
        let detail = answer["detail"].as_str().unwrap();
        assert!(status == StatusCode::UNPROCESSABLE_ENTITY && detail.contains(words), "{path}: {detail}");
    }
}

#[tokio::test]
async fn a_batch_names_all_its_wrong_jobs_whatever_is_wrong_with_them() {
    let running = Running::start().await;
    let ok = json!({"group": "g", "type": "mail", "payload": 1});
    let bodies = [ok, json!({"group": "g", "type": "mail"}), json!({"grou": 1})];
    let (_, answer) = running.post("/api/jobs/batch", json!({"jobs": bodies})).await;
    let pointers: Vec<&str> = errors(&answer).into_iter().map(|(pointer, _)| pointer).collect();
    assert_eq!(pointers, ["/jobs/1", "/jobs/2", "/jobs/2", "/jobs/2/grou"], "{answer}");
}

#[tokio::test]
async fn a_job_twice_in_a_call_is_named_as_people_write_it() {
    let running = Running::start().await;
    let job = json!({"group": "s", "id": "j0", "fence": 1, "outcome": "released"});
    let (_, answer) = running.post("/api/leases/settle", json!({"settlements": [job, job]})).await;
    assert_eq!(answer["detail"], "job j0 of s stands twice in one call; name it once");
}

#[tokio::test]
async fn json_that_many_cannot_read_comes_in_nowhere() {
    let running = Running::start().await;
    let (deep, fine) = (nested(97), nested(96));
    let job =
        |id: &str, payload: &str| format!(r#"{{"group":"g","type":"mail","id":"{id}","payload":{payload}}}"#);
    let settlement = r#"{"group":"g","id":"j","fence":1,"outcome":"succeeded","result":"#;
    for (path, body, pointer) in [
        ("/api/jobs", job("a", &deep), "/payload"),
        (
            "/api/jobs/batch",
            format!(r#"{{"jobs":[{},{}]}}"#, job("a", "1"), job("b", &deep)),
            "/jobs/1/payload",
        ),
        (
            "/api/leases/settle",
            format!(r#"{{"settlements":[{settlement}{deep}}}]}}"#),
            "/settlements/0/result",
        ),
    ] {
        let (status, answer) = send(&running, path, "application/json", body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {answer}");
        let found = errors(&answer);
        assert!(found.len() == 1 && found[0].0 == pointer && found[0].1.contains("96 levels"), "{answer}");
    }
    let lines = format!("{{\"payload\":{deep}}}\n{{\"payload\":{fine}}}\n");
    let path = "/api/jobs/stream?group=g&type=mail";
    let (_, answer) = send(&running, path, "application/x-ndjson", lines).await;
    assert_eq!((&answer["created"], &answer["errors"][0]["line"]), (&json!(1), &json!(1)), "{answer}");
    assert!(answer["errors"][0]["detail"].as_str().unwrap().contains("deeper than 96 levels"), "{answer}");
    let (status, _) = send(&running, "/api/jobs", "application/json", job("c", &fine)).await;
    assert_eq!(status, StatusCode::CREATED);
    let body = format!(r#"{{"settlements":[{settlement}{fine}}}]}}"#);
    let (status, _) = send(&running, "/api/leases/settle", "application/json", body).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn json_that_many_cannot_read_is_handed_out_in_base64() {
    let running = Running::start().await;
    let deep = nested(100_000);
    let job = Job::bytes("g", "mail", deep.as_bytes()).id("deep");
    running.fairlane.enqueue(job).await.unwrap().accepted().unwrap();
    let (_, shown) = running.get("/api/jobs/g/deep").await;
    assert_eq!(shown["payload_base64"], BASE64.encode(&deep));
    let (status, leased) = running.post("/api/leases", json!({"worker": "w", "types": ["mail"]})).await;
    assert_eq!(status, StatusCode::OK);
    let job = &leased["jobs"][0];
    assert_eq!((&job["payload_base64"], job.get("payload")), (&json!(BASE64.encode(&deep)), None));
}

#[tokio::test]
async fn a_settlement_says_nothing_that_would_be_passed_over() {
    let running = Running::start().await;
    for (outcome, more) in [
        ("succeeded", "code"),
        ("succeeded", "reason"),
        ("succeeded", "delay_ms"),
        ("succeeded", "retry_after_ms"),
        ("released", "code"),
        ("released", "delay_ms"),
        ("failed", "delay_ms"),
        ("retry", "retry_after_ms"),
    ] {
        let value = if more.ends_with("_ms") { json!(5) } else { json!("x") };
        let sent = json!({"group": "g", "id": "j", "fence": 1, "outcome": outcome, more: value});
        let (status, answer) = running.post("/api/leases/settle", json!({"settlements": [sent]})).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{outcome} {more}");
        assert_eq!(errors(&answer)[0].0, format!("/settlements/0/{more}"), "{answer}");
    }
}

#[tokio::test]
async fn a_path_that_is_not_there_points_to_the_pages() {
    let running = Running::start().await;
    let (status, answer) = running.get("/").await;
    let detail = answer["detail"].as_str().unwrap();
    assert!(status == StatusCode::NOT_FOUND && detail.contains("/docs") && detail.contains("/openapi.json"));
}

#[tokio::test]
async fn an_empty_body_is_said_to_be_empty() {
    let running = Running::start().await;
    for path in ["/api/jobs", "/api/jobs/batch", "/api/leases", "/api/leases/settle"] {
        let (status, told) = send(&running, path, "application/json", String::new()).await;
        assert_eq!((status, problem(&told)), (StatusCode::BAD_REQUEST, "malformed"), "{path}");
        assert!(told["detail"].as_str().unwrap().starts_with("the body is empty"), "{path}: {told}");
    }
}
