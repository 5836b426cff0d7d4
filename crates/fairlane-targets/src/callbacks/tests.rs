use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlane_core::TypeId;
use fairlane_core::queue::{
    Aggregation, CancelBulk, Enqueue, JobRef, LeaseBulks, NewJob, OpenBulk, SealBulk, Settings, SettleBulk,
};
use fairlane_engine::{Clock, EmbeddedEngine};
use fairlane_testkit::receiver::{ReceivedRequest, Receiver, response};
use fairlane_testkit::wait::until;
use fairlane_worker::{BulkPlan, CALLBACK_TYPE, CallbackPlan, Worker};
use serde_json::{Value, json};
use standardwebhooks::Webhook;
use tokio::io::AsyncReadExt;

use super::*;

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn settings(secrets: &[&str]) -> CallbackSettings {
    let addresses = AddressRule { allow_private: true, ..AddressRule::default() };
    let secrets = secrets.iter().map(|secret| secret.parse().unwrap()).collect();
    CallbackSettings { addresses, ..CallbackSettings::new(secrets) }
}

fn engine() -> Arc<dyn Engine> {
    Arc::new(EmbeddedEngine::new(Settings::default(), Clock::System).unwrap())
}

fn group() -> GroupId {
    GroupId::new("customer:A").unwrap()
}

fn bulk() -> BulkRef {
    BulkRef { group: group(), id: BulkId::new("may/invoices").unwrap() }
}

fn opening() -> OpenBulk {
    OpenBulk { bulk: bulk(), deadline_ms: None, failures_max: None, payload: Arc::from([]) }
}

/// Opens and seals a bulk action without jobs and leases its aggregation.
async fn begin(engine: &Arc<dyn Engine>) -> SettleBulk {
    engine.call(opening()).await.unwrap();
    engine.call(SealBulk { bulk: bulk(), expected: None }).await.unwrap();
    lease(engine).await
}

async fn lease(engine: &Arc<dyn Engine>) -> SettleBulk {
    let worker = fairlane_core::WorkerId::new("aggregator").unwrap();
    let command = LeaseBulks { worker, bulks_max: 1, lease_ms: 60_000 };
    let leased = engine.call(command).await.unwrap();
    let summary = br#"{"slowest_ms": 12}"#.as_slice().into();
    SettleBulk {
        bulk: bulk(),
        fence: leased.bulks[0].fence,
        summary,
        outcome: Aggregation::Done,
        callback: None,
    }
}

async fn view(engine: &Arc<dyn Engine>) -> BulkView {
    engine.call(InspectBulk { bulk: bulk() }).await.unwrap().expect("there is a bulk action")
}

/// Delivers the callback of the bulk action to this URL.
async fn deliver(engine: &Arc<dyn Engine>, settings: CallbackSettings, url: &str) -> Outcome {
    let id = JobId::new(callback_id(&view(engine).await)).unwrap();
    let payload = json!({"url": url, "group": "customer:A", "bulk": "may/invoices"}).to_string();
    let callbacks = Callbacks::new(engine.clone(), settings).unwrap();
    callbacks.deliver(&id, &group(), payload.as_bytes(), 1, Some(TRACE)).await.unwrap_or_else(|early| early)
}

async fn aggregated() -> Arc<dyn Engine> {
    let engine = engine();
    let settle = begin(&engine).await;
    engine.call(settle).await.unwrap();
    engine
}

/// Whether a receiver with this secret accepts the request.
fn verified(request: &ReceivedRequest, secret: &str) -> bool {
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let headers = names.into_iter().map(|name| {
        let value = request.header(name).unwrap().parse().unwrap();
        (reqwest::header::HeaderName::from_static(name), value)
    });
    Webhook::new(secret)
        .unwrap()
        .verify(&request.body, &reqwest::header::HeaderMap::from_iter(headers))
        .is_ok()
}

fn code(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Failed(problem) | Outcome::Retry { problem, .. } => &problem.code,
        other => panic!("no failure: {other:?}"),
    }
}

/// Erratum Q41.
#[tokio::test]
async fn a_receiver_gets_a_signed_report_of_how_a_bulk_action_ended() {
    let server = Receiver::responding(response("200 OK", &[], "thanks"));
    let engine = aggregated().await;
    let outcome = deliver(&engine, settings(&[NEW]), &server.url("/hook")).await;
    assert_eq!(outcome, Outcome::done(&json!({"status": 200})));
    let request = &server.requests()[0];
    assert!(request.head.starts_with("POST /hook "), "{}", request.head);
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("webhook-id"), Some(callback_id(&view(&engine).await).as_str()));
    assert!(verified(request, NEW) && !verified(request, OLD));
    let traced = request.header("traceparent").unwrap();
    assert!(traced.starts_with(&TRACE[..36]) && traced != TRACE, "{traced}");
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let finished_at = rfc_3339_of(&view(&engine).await);
    assert_eq!((&body["type"], &body["timestamp"]), (&"bulk.completed".into(), &finished_at.clone().into()));
    let data = &body["data"];
    assert_eq!((&data["group"], &data["id"]), (&"customer:A".into(), &"may/invoices".into()));
    assert_eq!((&data["state"], &data["cause"]), (&"completed".into(), &Value::Null));
    assert_eq!((&data["total"], &data["finished_at"]), (&0.into(), &finished_at.into()));
    assert_eq!(data["summary"], json!({"slowest_ms": 12}));
}

fn rfc_3339_of(view: &BulkView) -> String {
    crate::timestamps::rfc_3339(view.finished_at.unwrap())
}

#[tokio::test]
async fn during_a_key_rotation_receivers_with_either_secret_accept_a_callback() {
    let server = Receiver::responding(response("204 No Content", &[], ""));
    deliver(&aggregated().await, settings(&[NEW, OLD]), &server.url("/")).await;
    let request = &server.requests()[0];
    assert!(verified(request, OLD) && verified(request, NEW));
    let mut forged = request.clone();
    forged.body.push(b' ');
    assert!(!verified(&forged, OLD) && !verified(&forged, NEW));
}

#[tokio::test]
async fn callbacks_of_a_group_with_its_own_secrets_are_signed_with_those_only() {
    let server = Receiver::responding(response("204 No Content", &[], ""));
    let own =
        CallbackSettings { group_secrets: vec![(group(), vec![OLD.parse().unwrap()])], ..settings(&[NEW]) };
    deliver(&aggregated().await, own, &server.url("/")).await;
    assert!(verified(&server.requests()[0], OLD) && !verified(&server.requests()[0], NEW));
}

#[tokio::test]
async fn failed_and_cancelled_bulk_actions_have_their_own_event_names() {
    let server = Receiver::responding(response("204 No Content", &[], ""));
    for (cancel, expected) in [(false, "bulk.failed"), (true, "bulk.cancelled")] {
        let engine = engine();
        if cancel {
            engine.call(opening()).await.unwrap();
            engine.call(CancelBulk { bulk: bulk() }).await.unwrap();
        } else {
            engine.call(opening()).await.unwrap();
            engine.call(SealBulk { bulk: bulk(), expected: None }).await.unwrap();
        }
        let outcome = if cancel { Aggregation::Done } else { Aggregation::Failed };
        let settle = SettleBulk { outcome, summary: Arc::from(&b"no JSON"[..]), ..lease(&engine).await };
        engine.call(settle).await.unwrap();
        deliver(&engine, settings(&[NEW]), &server.url("/")).await;
        let body: Value = serde_json::from_slice(&server.requests().last().unwrap().body).unwrap();
        let cause = if cancel { Value::Null } else { "aggregation".into() };
        assert_eq!((&body["type"], &body["data"]["cause"]), (&expected.into(), &cause));
        assert_eq!(body["data"]["summary"], "no JSON");
    }
}

/// Erratum Q41.
#[tokio::test]
async fn every_failed_response_delays_only_its_own_callback() {
    let engine = aggregated().await;
    for (status, headers, requested) in [
        ("302 Found", &["location: http://127.0.0.1:1/"][..], 0),
        ("400 Bad Request", &[], 0),
        ("404 Not Found", &[], 0),
        ("429 Too Many Requests", &["retry-after: 45"], 45),
        ("429 Too Many Requests", &[], 0),
        ("500 Internal Server Error", &[], 0),
        ("503 Service Unavailable", &["retry-after: 99999999"], 60),
    ] {
        let server = Receiver::responding(response(status, headers, "words"));
        let outcome = deliver(&engine, settings(&[NEW]), &server.url("/")).await;
        let Outcome::Retry { after: Some(after), problem } = outcome else { panic!("{status}: {outcome:?}") };
        assert_eq!(problem.code, format!("http_{}", &status[..3]));
        let least = Duration::from_secs(requested);
        assert!((least..=least.max(Duration::from_secs(10))).contains(&after), "{status}: {after:?}");
        assert_eq!(server.connections(), 1);
    }
    let unreachable = deliver(&engine, settings(&[NEW]), "http://127.0.0.1:1/").await;
    assert!(
        matches!(unreachable, Outcome::Retry { after: Some(_), .. }) && code(&unreachable) == "connect",
        "{unreachable:?}"
    );
}

#[tokio::test]
async fn a_callback_to_a_receiver_that_is_gone_is_not_retried() {
    let server = Receiver::responding(response("410 Gone", &[], ""));
    let outcome = deliver(&aggregated().await, settings(&[NEW]), &server.url("/")).await;
    assert_eq!(outcome, Outcome::failed("gone", "the receiver responded that it is gone"));
}

/// Erratum Q41.
#[tokio::test]
async fn callbacks_do_not_connect_to_addresses_that_the_rule_forbids() {
    let server = Receiver::responding(response("200 OK", &[], ""));
    let engine = aggregated().await;
    let port = server.address().port();
    let strict = CallbackSettings { addresses: AddressRule::default(), ..settings(&[NEW]) };
    for host in ["127.0.0.1", "localhost", "0x7f.1", "[::ffff:127.0.0.1]", "LOCALHOST"] {
        let outcome = deliver(&engine, strict.clone(), &format!("http://{host}:{port}/")).await;
        assert_eq!(code(&outcome), "address_refused", "{host}: {outcome:?}");
        assert!(outcome.to_string().contains("allow_private"), "{outcome}");
        if host.eq_ignore_ascii_case("localhost") {
            let shown = outcome.to_string();
            assert!(!shown.contains("127.0.0.1") && !shown.contains("::1"), "the resolved address: {shown}");
        }
    }
    for url in ["ftp://example.com/", "file:///etc/passwd", "example.com/hook", ""] {
        assert_eq!(code(&deliver(&engine, strict.clone(), url).await), "bad_url", "{url}");
    }
    assert_eq!(server.connections(), 0);
    let addresses = AddressRule { allow_hosts: vec!["localhost".into()], ..AddressRule::default() };
    let listed = CallbackSettings { addresses, ..strict };
    let outcome = deliver(&engine, listed, &format!("http://localhost:{port}/")).await;
    assert_eq!(outcome.as_str(), "done");
}

#[tokio::test]
async fn a_callback_that_its_producer_enqueued_too_early_is_retried() {
    for cancel in [false, true] {
        let stuck = engine();
        begin(&stuck).await;
        if cancel {
            stuck.call(CancelBulk { bulk: bulk() }).await.unwrap();
        }
        let outcome = deliver(&stuck, settings(&[NEW]), "http://127.0.0.1:1/").await;
        assert!(matches!(outcome, Outcome::Retry { .. }) && code(&outcome) == "bulk_running", "{outcome:?}");
    }
}

#[tokio::test]
async fn a_callback_fails_if_its_bulk_action_is_gone_or_replaced() {
    let callbacks = Callbacks::new(engine(), settings(&[NEW])).unwrap();
    let id = JobId::new("bulk_0").unwrap();
    let payload = br#"{"url":"http://example.com/","group":"customer:A","bulk":"may/invoices"}"#;
    let gone = callbacks.deliver(&id, &group(), payload, 1, None).await.unwrap_err();
    assert_eq!(code(&gone), "bulk_gone");
    let reopened = Callbacks::new(aggregated().await, settings(&[NEW])).unwrap();
    let other = reopened.deliver(&id, &group(), payload, 1, None).await.unwrap_err();
    assert_eq!(code(&other), "bulk_gone");
}

#[tokio::test]
async fn a_customer_cannot_receive_a_callback_about_anothers_bulk_action() {
    let callbacks = Callbacks::new(aggregated().await, settings(&[NEW])).unwrap();
    let id = JobId::new("bulk_0").unwrap();
    let other_group = GroupId::new("customer:B").unwrap();
    for payload in [
        &br#"{"url":"http://example.com/","group":"customer:A","bulk":"may/invoices"}"#[..],
        b"{}",
        b"",
        b"x",
    ] {
        let refused = callbacks.deliver(&id, &other_group, payload, 1, None).await.unwrap_err();
        assert_eq!(code(&refused), "bad_payload");
    }
}

#[tokio::test]
async fn callbacks_need_a_secret_and_never_show_it() {
    let refused = Callbacks::new(engine(), settings(&[])).unwrap_err().to_string();
    assert!(refused.contains("secret"), "{refused}");
    let none = CallbackSettings { group_secrets: vec![(group(), Vec::new())], ..settings(&[NEW]) };
    assert!(Callbacks::new(engine(), none).unwrap_err().to_string().contains("customer:A"));
    let shown = format!("{:?}", Callbacks::new(engine(), settings(&[NEW])).unwrap());
    assert!(!shown.contains("C2FVs"), "{shown}");
}

/// Opens and seals a bulk action without jobs that asks for a callback.
async fn with_callback(engine: &Arc<dyn Engine>, group: &str, id: usize, url: String) {
    let bulk = BulkRef { group: GroupId::new(group).unwrap(), id: BulkId::new(id.to_string()).unwrap() };
    let plan = BulkPlan { callback: Some(CallbackPlan { url }), ..BulkPlan::default() };
    let opening = OpenBulk { bulk: bulk.clone(), payload: plan.to_bytes(), ..opening() };
    engine.call(opening).await.unwrap();
    engine.call(SealBulk { bulk, expected: None }).await.unwrap();
}

fn jobs(count: usize) -> Vec<NewJob> {
    let job = |number: usize| {
        NewJob::new(
            JobRef {
                group: GroupId::new("quiet").unwrap(),
                id: JobId::new(format!("job-{number}")).unwrap(),
            },
            TypeId::new("work").unwrap(),
            Arc::from([]),
        )
    };
    (0..count).map(job).collect()
}

/// Accepts every request and never responds; counts requests that wait, now and at most.
fn tarpit() -> (Receiver, Arc<Mutex<(usize, usize)>>) {
    let waiting = Arc::new(Mutex::new((0, 0)));
    let counts = waiting.clone();
    let server = Receiver::start(move |_, mut stream| {
        let counts = counts.clone();
        async move {
            {
                let mut counts = counts.lock().unwrap();
                counts.0 += 1;
                counts.1 = counts.1.max(counts.0);
            }
            let _ = stream.read(&mut [0; 1]).await;
            counts.lock().unwrap().0 -= 1;
            None
        }
    });
    (server, waiting)
}

/// The default worker: ten slots, and two for callbacks.
#[tokio::test]
async fn hanging_callbacks_of_one_customer_delay_neither_jobs_nor_callbacks_of_others() {
    const HANGING: usize = 200;
    let engine = engine();
    let (tarpit, waiting) = tarpit();
    let receiver = Receiver::responding(response("200 OK", &[], ""));
    for id in 0..HANGING {
        with_callback(&engine, "noisy", id, tarpit.url("/")).await;
    }
    let settings = CallbackSettings { timeout: Duration::from_secs(1), ..settings(&[NEW]) };
    let (done, count) = (Arc::new(AtomicUsize::new(0)), 150);
    let counter = done.clone();
    let pool = Worker::new(engine.clone())
        .processor_with(
            CALLBACK_TYPE,
            settings.type_options(),
            Callbacks::new(engine.clone(), settings).unwrap(),
        )
        .processor("work", move |_: Context| {
            counter.fetch_add(1, Ordering::SeqCst);
            std::future::ready(())
        })
        .start()
        .unwrap();
    until("callbacks hang", || waiting.lock().unwrap().0 > 0).await;
    engine.call(Enqueue { jobs: jobs(count) }).await.unwrap();
    with_callback(&engine, "quiet", 1, receiver.url("/")).await;
    until("the jobs of another customer ran", || done.load(Ordering::SeqCst) == count).await;
    until("its callback is delivered", || !receiver.requests().is_empty()).await;
    let most = waiting.lock().unwrap().1;
    assert!(most <= 2, "{most} callbacks hung at a time");
    let tried = tarpit.connections();
    assert!(tried <= 20, "{tried} of {HANGING} were tried before it");
    pool.stop().await;
}
