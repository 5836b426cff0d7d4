//! Callbacks, from opening a bulk action to the request at the receiver.

use fairlane::{AddressRule, CallbackSettings, Context, Fairlane};
use fairlane_testkit::receiver::{ReceivedRequest, Receiver};
use fairlane_testkit::wait::until;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[tokio::test]
async fn a_receiver_is_called_when_a_bulk_action_has_ended() {
    let receiver = Receiver::responding("HTTP/1.1 204 No Content\r\n\r\n");
    let url = receiver.url("/done");
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let mut settings = CallbackSettings::new(vec![SECRET.parse().unwrap()]);
    settings.addresses = AddressRule { allow_private: true, ..AddressRule::default() };
    let worker = fairlane.worker_with_callbacks(settings).await.unwrap();
    let pool = worker.process("mail", |_: u64, _: Context| async {}).start().unwrap();
    let bulk = fairlane.bulk("customer-7", "news").callback(&url).trace(TRACE).open().await.unwrap();
    let mut ingest = bulk.ingest();
    for number in 0..10 {
        ingest.push(bulk.job("mail", &number)).await.unwrap();
    }
    ingest.seal().await.unwrap();
    until("the callback arrives", || !receiver.requests().is_empty()).await;
    let ReceivedRequest { head, body } = receiver.requests().remove(0);
    assert!(head.contains("webhook-id: bulk_") && head.contains("webhook-signature: v1,"), "{head}");
    let traced = head.lines().find_map(|line| line.strip_prefix("traceparent: ")).unwrap();
    assert!(traced.starts_with(&TRACE[..36]) && traced.ends_with("-01") && traced != TRACE, "{traced}");
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&body["type"], &body["data"]["succeeded"]), (&"bulk.completed".into(), &10.into()));
    assert_eq!(body["data"]["summary"]["attempts"], 10);
    pool.stop().await;
}

#[tokio::test]
async fn a_bulk_action_with_an_invalid_trace_is_not_opened() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let wrong = fairlane.bulk("customer-7", "news").trace("00-1-1-01").open().await.err().unwrap();
    assert!(wrong.to_string().contains("a trace is a W3C traceparent"), "{wrong}");
    assert!(fairlane.bulk("customer-7", "news").opened_before().unwrap().view().await.is_err());
}

#[tokio::test]
async fn an_existing_retry_setting_of_callbacks_is_kept() {
    let fairlane = Fairlane::open("memory:").await.unwrap();
    let settings = || CallbackSettings::new(vec![SECRET.parse().unwrap()]);
    let retries = async || {
        let view = fairlane.job_type("fairlane-callback").view().await.unwrap().unwrap();
        view.settings.max_retry_count
    };
    fairlane.worker_with_callbacks(settings()).await.unwrap();
    assert_eq!(retries().await, Some(16));
    fairlane.job_type("fairlane-callback").max_retry_count(2).apply().await.unwrap();
    fairlane.worker_with_callbacks(settings()).await.unwrap();
    assert_eq!(retries().await, Some(2));
}
