//! What is accepted, and what is refused.

use comfy_service::api::FILE_BYTES_MAX;
use comfy_service::client::{Part, send};
use comfy_service::role::Roles;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::support::{PICTURE, Service};

const GENDER: &str = r#"{"gender": "male", "seed": 7}"#;

fn parts(url: &str) -> [Part<'_>; 4] {
    [
        Part::File("image", PICTURE),
        Part::Text("service_type", "multi-style"),
        Part::Text("parameters", GENDER),
        Part::Text("callback_url", url),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_job_has_its_id_the_status_queued_and_the_fields_of_the_document() {
    let service = Service::start_with(Roles::API, &[]).await;
    let url = service.receiver.url("/hook");
    let answer = service.submit(None, &parts(&url)).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"job_id": 1, "status": "queued"})));
    let row = service.row(1).await;
    assert_eq!((&row["status"], &row["retry_count"]), (&json!("QUEUED"), &json!(0)));
    assert_eq!((&row["service_type"], &row["callback_url"]), (&json!("multi-style"), &json!(url)));
    let sha256: String = Sha256::digest(PICTURE).iter().map(|byte| format!("{byte:02x}")).collect();
    let parameters = &row["parameters"];
    assert_eq!((&parameters["gender"], &parameters["image"]["sha256"]), (&json!("male"), &json!(sha256)));
    assert_eq!(row["execution_bundle"]["template"]["6"]["inputs"]["seed"], 7);
    let queue_id = row["queue_id"].as_str().unwrap();
    assert!(queue_id.len() == 36 && queue_id != "1", "the queue has an id of its own: {queue_id}");
    // The job is committed with its row, and complete: what a worker gets is what stands here.
    let waiting = service.postgres.sql("SELECT job FROM fairlane_outbox");
    let job: serde_json::Value = serde_json::from_str(&waiting).unwrap();
    assert_eq!((&job["id"], &job["type"]), (&json!(queue_id), &json!("comfyui")));
    let payload = &job["payload"];
    for field in ["service_type", "parameters", "execution_bundle", "callback_url"] {
        assert_eq!(payload[field], row[field], "{field}");
    }
    assert_eq!(payload["id"], 1);
    let file = service.files().join(&sha256[..2]).join(&sha256);
    assert_eq!(std::fs::read(file).unwrap(), PICTURE);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_submissions_are_refused_with_the_cure_and_store_nothing() {
    let service = Service::start_with(Roles::API, &[]).await;
    let url = service.receiver.url("/hook");
    let (long, large) = ("x".repeat(3000), vec![0; FILE_BYTES_MAX + 1]);
    let with = |part| parts(&url).into_iter().skip(1).chain([part]).collect::<Vec<_>>();
    let text = |name, value| vec![Part::Text("service_type", "multi-style"), Part::Text(name, value)];
    for (form, status, cure) in [
        (vec![], 400, "-F service_type"),
        (vec![Part::Text("service_type", "other")], 400, "multi-style"),
        (text("parameters", "{"), 400, "JSON object"),
        (text("parameters", "[]"), 400, "JSON object"),
        (text("parameters", r#"{"gender": "x"}"#), 400, "female, male"),
        (text("retry_count", "7"), 400, "callback_url"),
        (text("callback_url", &long), 413, "less"),
        (text("service_type", "multi-style"), 400, "once"),
        (with(Part::File("other", PICTURE)), 400, "image"),
        (with(Part::File("image", b"<svg>")), 400, "image/png"),
        (with(Part::File("image", &large)), 413, "smaller"),
        (parts(&url).into_iter().skip(1).collect(), 400, "-F image=@"),
    ] {
        let answer = service.submit(None, &form).await;
        let body = answer.json();
        assert_eq!(answer.status, status, "{body}");
        assert!(body["cure"].as_str().unwrap().contains(cure), "{cure:?} is missing in {body}");
    }
    let no_form =
        send(service.api(), "POST", "/jobs/file", &[("content-type", "text/plain")], b"x").await.unwrap();
    assert!(no_form.status == 400 && no_form.body.contains("multipart/form-data"), "{}", no_form.body);
    let stored = "SELECT (SELECT count(*) FROM comfy_jobs), (SELECT count(*) FROM fairlane_outbox)";
    assert_eq!(service.postgres.sql(stored), "0|0");
    let left = std::fs::read_dir(service.files().join("incoming")).unwrap().count();
    assert_eq!(left, 0, "refused uploads leave nothing behind");
    service.stop().await;
}

/// Erratum Q41. A customer's URL must not lead into the operator's network.
#[tokio::test(flavor = "multi_thread")]
async fn a_callback_to_a_private_address_is_refused_when_the_job_is_submitted() {
    let service = Service::start_with(Roles::API, &[]).await;
    for url in
        ["http://10.0.0.7/hook", "http://[::1]/", "http://169.254.169.254/", "file:///etc/passwd", "hook"]
    {
        let answer = service.submit(None, &parts(url)).await;
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("invalid-request")), "{url}");
        assert!(answer.body.contains("callback_url"), "{}", answer.body);
    }
    assert_eq!(service.submit(None, &parts("https://example.com/hook")).await.status, 200);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_idempotency_key_is_the_same_job() {
    let service = Service::start_with(Roles::API, &[]).await;
    let url = service.receiver.url("/hook");
    let (form, other_form) = (parts(&url), parts("https://example.com/hook"));
    let both = [service.submit(Some("key-1"), &form), service.submit(Some("key-1"), &form)];
    let both = futures_util::future::join_all(both).await;
    assert_eq!(both[0].json(), both[1].json());
    let replayed = both.iter().filter(|answer| answer.head.contains("idempotency-replayed")).count();
    assert_eq!(replayed, 1, "one of the two requests has made the job");
    let other = service.submit(Some("key-1"), &other_form).await;
    assert_eq!((other.status, &other.json()["code"]), (409, &json!("key-reused")));
    assert_eq!(service.submit(Some("key-2"), &form).await.status, 200);
    assert_eq!(service.submit(Some(""), &form).await.status, 400);
    assert_eq!(service.postgres.sql("SELECT count(*) FROM comfy_jobs"), "2");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_jobs_paths_and_methods_are_explained() {
    let service = Service::start_with(Roles::API, &[]).await;
    for (method, path, status) in [
        ("GET", "/jobs/7", 404),
        ("GET", "/jobs/seven", 400),
        ("POST", "/jobs/7/cancel", 404),
        ("GET", "/jobs/7/events", 404),
        ("GET", "/other", 404),
        ("DELETE", "/jobs/7", 405),
        ("GET", "/health", 200),
    ] {
        let answer = service.send(method, path).await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(status == 200, answer.json()["cure"].is_null(), "{}", answer.body);
    }
    service.stop().await;
}
