//! Invalid bodies: refused, with the position and a plain message.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use fairlane::Job;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::running::{Running, problem, send};

/// JSON that is nested this deep.
fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

async fn post_text(running: &Running, path: &str, content_type: &str, body: String) -> (StatusCode, Value) {
    send(running.request(Method::POST, path).header("content-type", content_type).body(body)).await
}

fn errors(response: &Value) -> Vec<(&str, &str)> {
    let errors = response["errors"].as_array().into_iter().flatten();
    errors.map(|error| (error["pointer"].as_str().unwrap(), error["detail"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn a_list_of_values_is_not_accepted_as_an_object() {
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
        let (status, response) = running.post(path, body).await;
        assert_eq!(
            (status, problem(&response)),
            (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
            "{path}: {response}"
        );
        assert_eq!(
            errors(&response),
            [(pointer, "invalid type: sequence, expected an object")],
            "{path}: {response}"
        );
    }
    for path in ["/api/groups/pos", "/api/types/pos", "/api/settings"] {
        let (status, response) = running.patch(path, json!([7, 0, null, null, true])).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {response}");
    }
    assert_eq!(running.fairlane.queue_view().await.unwrap().backlog, 0);
}

#[tokio::test]
async fn an_invalid_value_is_reported_with_its_position_and_a_plain_message() {
    let running = Running::start().await;
    for (path, body, pointer, message) in [
        ("/api/leases", json!({"types": ["mail"]}), "", "missing field `worker`"),
        (
            "/api/leases",
            json!({"worker": "w", "types": "mail"}),
            "/types",
            "invalid type: string \"mail\", expected a sequence",
        ),
        (
            "/api/leases",
            json!({"worker": "w", "types": [7]}),
            "/types/0",
            "invalid type: integer `7`, expected a string",
        ),
        ("/api/leases", json!({"worker": "w", "types": [], "cuont": 1}), "/cuont", "unknown field `cuont`"),
        (
            "/api/leases/extend",
            json!({"leases": [{"group": "g", "id": "j"}]}),
            "/leases/0",
            "missing field `fence`",
        ),
        (
            "/api/leases/settle",
            json!({"settlements": [{"group": "g", "id": "j", "fence": "1", "outcome": "released"}]}),
            "/settlements/0/fence",
            "invalid type: string \"1\", expected a non-negative integer",
        ),
        (
            "/api/leases/settle",
            json!({"settlements": [{"group": "g", "id": "j", "fence": 1, "outcome": "done"}]}),
            "/settlements/0/outcome",
            "unknown variant `done`, expected one of `succeeded`, `failed`, `retry`",
        ),
        (
            "/api/leases/settle",
            json!({"settlements": [{"group": "g", "id": "j", "fence": 1, "outcome": 1}]}),
            "/settlements/0/outcome",
            "expected value",
        ),
        (
            "/api/bulks",
            json!({"group": "g", "failures_max": -1}),
            "/failures_max",
            "invalid value: integer `-1`, expected a non-negative integer",
        ),
    ] {
        let (status, response) = running.post(path, body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{response}");
        let found = errors(&response);
        assert!(found.len() == 1 && found[0].0 == pointer && found[0].1.starts_with(message), "{response}");
        assert!(!response["detail"].as_str().unwrap().contains("column"), "{response}");
    }
    let (_, response) = running.patch("/api/groups/g", json!({"concurrency": "none"})).await;
    let message = "invalid type: string \"none\", expected an integer from 0 to 4294967295";
    assert_eq!(errors(&response), [("/concurrency", message)]);
    let (status, response) =
        post_text(&running, "/api/leases", "application/json", "{\"worker\"".into()).await;
    assert_eq!((status, problem(&response)), (StatusCode::BAD_REQUEST, "malformed"));
}

#[tokio::test]
async fn an_invalid_query_is_reported_with_a_plain_message() {
    let running = Running::start().await;
    for (path, message) in [
        ("/api/jobs/stream", "query string: missing field `group`"),
        ("/api/jobs?state=pending&limit=x", "query string: limit: invalid digit found in string"),
        (
            "/api/jobs?state=nowhere",
            "query string: state: unknown variant `nowhere`, expected one of `pending`, `ready`",
        ),
        ("/api/jobs?stat=dead", "unknown field `stat`, expected one of `state`, `group`"),
        ("/api/jobs?state=held", "name it with group= and bulk="),
    ] {
        let (status, response) = running.get(path).await;
        let detail = response["detail"].as_str().unwrap();
        assert!(status == StatusCode::UNPROCESSABLE_ENTITY && detail.contains(message), "{path}: {detail}");
    }
}

#[tokio::test]
async fn a_batch_reports_all_its_invalid_jobs() {
    let running = Running::start().await;
    let ok = json!({"group": "g", "type": "mail", "payload": 1});
    let both = json!({"group": "g", "type": "mail", "payload": 1, "payload_base64": "AA=="});
    let bodies = [ok, both, json!({"grou": 1})];
    let (_, response) = running.post("/api/jobs/batch", json!({"jobs": bodies})).await;
    let pointers: Vec<&str> = errors(&response).into_iter().map(|(pointer, _)| pointer).collect();
    assert_eq!(pointers, ["/jobs/1/payload_base64", "/jobs/2", "/jobs/2", "/jobs/2/grou"], "{response}");
}

#[tokio::test]
async fn a_job_that_appears_twice_in_a_request_is_refused_by_name() {
    let running = Running::start().await;
    let job = json!({"group": "s", "id": "j0", "fence": 1, "outcome": "released"});
    let (_, response) = running.post("/api/leases/settle", json!({"settlements": [job, job]})).await;
    assert_eq!(response["detail"], "job j0 of s stands twice in one call; name it once");
}

#[tokio::test]
async fn deeply_nested_json_is_refused() {
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
        let (status, response) = post_text(&running, path, "application/json", body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {response}");
        let found = errors(&response);
        assert!(found.len() == 1 && found[0].0 == pointer && found[0].1.contains("96 levels"), "{response}");
    }
    let lines = format!("{{\"payload\":{deep}}}\n{{\"payload\":{fine}}}\n");
    let path = "/api/jobs/stream?group=g&type=mail";
    let (_, response) = post_text(&running, path, "application/x-ndjson", lines).await;
    assert_eq!((&response["created"], &response["errors"][0]["line"]), (&json!(1), &json!(1)), "{response}");
    assert!(
        response["errors"][0]["detail"].as_str().unwrap().contains("deeper than 96 levels"),
        "{response}"
    );
    let (status, _) = post_text(&running, "/api/jobs", "application/json", job("c", &fine)).await;
    assert_eq!(status, StatusCode::CREATED);
    let body = format!(r#"{{"settlements":[{settlement}{fine}}}]}}"#);
    let (status, _) = post_text(&running, "/api/leases/settle", "application/json", body).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn deeply_nested_json_is_returned_in_base64() {
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
async fn a_settlement_with_a_field_of_another_outcome_is_refused() {
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
        let (status, response) = running.post("/api/leases/settle", json!({"settlements": [sent]})).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{outcome} {more}");
        assert_eq!(errors(&response)[0].0, format!("/settlements/0/{more}"), "{response}");
    }
}

#[tokio::test]
async fn the_response_for_an_unknown_path_points_to_the_documentation() {
    let running = Running::start().await;
    let (status, response) = running.get("/nothing").await;
    let detail = response["detail"].as_str().unwrap();
    assert!(status == StatusCode::NOT_FOUND && detail.contains("/docs") && detail.contains("/openapi.json"));
}

#[tokio::test]
async fn an_empty_body_is_reported_as_empty() {
    let running = Running::start().await;
    for path in ["/api/jobs", "/api/jobs/batch", "/api/leases", "/api/leases/settle"] {
        let (status, body) = post_text(&running, path, "application/json", String::new()).await;
        assert_eq!((status, problem(&body)), (StatusCode::BAD_REQUEST, "malformed"), "{path}");
        assert!(body["detail"].as_str().unwrap().starts_with("the body is empty"), "{path}: {body}");
    }
}
