//! A job from its upload to its callback.

use comfy_service::role::Roles;
use fairlane_testkit::wait::{WAIT_LIMIT, eventually, until, until_async};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{FAILURES, PICTURE, Service, service_with, verified};

/// Erratum Q41. The callback is signed.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_from_its_upload_to_its_signed_callback() {
    let service = Service::start().await;
    service.stand_in.hold(true);
    let id = service.portrait().await;
    until("the prompt is submitted", || service.stand_in.queued() == 1).await;
    let running = service.until(id, "running").await;
    assert!(running["started_at_ms"].is_i64() && running["result"].is_null(), "{running}");
    let queue_id = service.row(id).await["queue_id"].as_str().unwrap().to_owned();
    let leased = service.fairlane.job("default", &queue_id).view().await.unwrap().unwrap();
    let worker = leased.worker.expect("a job that runs has a worker").to_string();
    assert!(worker.starts_with("comfy-worker"), "{worker}");
    let uploaded: Vec<Vec<u8>> = service.stand_in.uploads().into_values().collect();
    assert_eq!(uploaded, [PICTURE.to_vec()], "the engine has the file");
    service.stand_in.hold(false);
    let job = service.until(id, "succeeded").await;
    assert_eq!(job["result"]["files"][0]["node"], "8", "{job}");
    let callback = &service.callbacks(1).await[0];
    let body = verified(callback);
    assert_eq!((&body["type"], &body["data"]["job_id"]), (&json!("job.succeeded"), &json!(id)));
    assert_eq!(body["data"]["result"], job["result"]);
    assert_eq!(callback.header("webhook-id").unwrap(), format!("{queue_id}-succeeded"));
    until_async("the delivery is known", async || service.job(id).await["callback_status"] == "succeeded")
        .await;
    assert_eq!(service.stand_in.runs().into_values().collect::<Vec<_>>(), [1]);
    service.stop().await;
}

/// Erratum Q41. A receiver that fails gets the same callback again, under the same id.
#[tokio::test(flavor = "multi_thread")]
async fn a_callback_is_repeated_under_one_id_until_its_receiver_accepts_it() {
    let service = Service::start().await;
    let id = service.job_with_callback("multi-style", &service.receiver.url("/failing")).await;
    let callbacks = service.callbacks(FAILURES + 1).await;
    let first = &callbacks[0];
    assert_eq!(verified(first)["data"]["job_id"], id);
    for callback in &callbacks {
        assert_eq!(
            (callback.header("webhook-id"), &callback.body),
            (first.header("webhook-id"), &first.body)
        );
        verified(callback);
    }
    until_async("it is delivered", async || service.job(id).await["callback_status"] == "succeeded").await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_is_reported_too() {
    let service = Service::start_with(Roles::ALL, &[("broken", &service_with("Fail"))]).await;
    let id = service.job_of("broken").await;
    let job = service.until(id, "failed").await;
    assert_eq!(job["error"]["code"], "node_failed", "{job}");
    let body = verified(&service.callbacks(1).await[0]);
    assert_eq!((&body["type"], &body["data"]["status"]), (&json!("job.failed"), &json!("failed")));
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_job_counts_its_retries() {
    let service = Service::start_with(Roles::ALL, &[("hungry", &service_with("OutOfMemory"))]).await;
    let id = service.job_of("hungry").await;
    let job = service.until(id, "succeeded").await;
    assert_eq!(job["retry_count"], 1, "{job}");
    assert_eq!(service.stand_in.freed(), 1);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_job_is_cancelled_and_its_customer_notified() {
    // Without a worker the job waits; the reconciler copies its end from the queue.
    let roles = Roles { worker: false, ..Roles::ALL };
    let service = Service::start_with(roles, &[]).await;
    let id = service.portrait().await;
    let answer = eventually(async || {
        // Until the relay has passed the job on, the answer may be 503.
        let answer = service.send("POST", &format!("/jobs/{id}/cancel")).await;
        if answer.status == 200 { Ok(answer.json()) } else { Err(answer) }
    });
    assert_eq!(answer.await, json!({"job_id": id, "status": "cancelled"}));
    assert_eq!(service.job(id).await["status"], "cancelled");
    until_async("the row has the end", async || service.row(id).await["status"] == "CANCELLED").await;
    let worker = comfy_service::role::start_on(
        comfy_service::role::Queue::opened(service.fairlane.clone()),
        Roles::WORKER,
        &service.options,
    );
    let worker = worker.await.unwrap();
    assert_eq!(verified(&service.callbacks(1).await[0])["type"], "job.cancelled");
    assert!(service.stand_in.runs().is_empty(), "nothing ran");
    worker.stop().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_cancelled_on_its_engine() {
    let service = Service::start().await;
    service.stand_in.hold(true);
    let id = service.portrait().await;
    until("the prompt is submitted", || service.stand_in.queued() == 1).await;
    let answer = service.send("POST", &format!("/jobs/{id}/cancel")).await;
    assert!(
        ["cancelling", "cancelled"].map(Into::into).contains(&answer.json()["status"]),
        "{}",
        answer.body
    );
    service.until(id, "cancelled").await;
    until("the engine has stopped it", || service.stand_in.queued() == 0).await;
    assert_eq!(verified(&service.callbacks(1).await[0])["type"], "job.cancelled");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_report_progress_and_end_with_the_job() {
    let service = Service::start().await;
    service.stand_in.hold(true);
    let id = service.portrait().await;
    until("the prompt is submitted", || service.stand_in.queued() == 1).await;
    until("the socket is open", || service.stand_in.listeners() == 1).await;
    service.stand_in.allow_nodes(2);
    let mut stream = TcpStream::connect(service.api()).await.unwrap();
    let request = format!("GET /jobs/{id}/events HTTP/1.1\r\nhost: api\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    while !text(&received).contains(r#""total":800"#) {
        let read = timeout(WAIT_LIMIT, stream.read_buf(&mut received)).await.expect("an event in time");
        assert!(read.unwrap() > 0, "the stream ended early: {}", text(&received));
    }
    let events = text(&received);
    assert!(events.contains("text/event-stream") && events.contains("event: state"), "{events}");
    assert!(!events.contains("event: ended"), "{events}");
    service.stand_in.hold(false);
    let ended = timeout(WAIT_LIMIT, stream.read_to_end(&mut received)).await;
    ended.expect("the stream ends with the job").unwrap();
    let events = text(&received);
    let (_, last) = events.rsplit_once("event: ended").expect("a last event");
    assert!(last.contains(r#""status":"succeeded""#), "{last}");
    service.stop().await;
}

/// Erratum Q39. The API needs the database only: a job that is accepted while the queue is down runs
/// when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_accepted_without_the_queue_and_runs_later() {
    let mut service = Service::start_with(Roles::API, &[]).await;
    let id = service.portrait().await;
    assert_eq!(service.job(id).await["status"], "queued");
    // The process ends after the commit; another one takes the job from the database.
    service.postgres.restart();
    let roles = Roles { api: false, ..Roles::ALL };
    let queue = comfy_service::role::Queue::opened(service.fairlane.clone());
    let others = comfy_service::role::start_on(queue, roles, &service.options).await.unwrap();
    until_async("it has run", async || service.job(id).await["status"] == "succeeded").await;
    others.stop().await;
    service.stop().await;
}
