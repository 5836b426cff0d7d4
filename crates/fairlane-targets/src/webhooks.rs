//! Posts the body in the payload of each job to the URL in it, signed as Standard Webhooks
//! specifies.
//!
//! An application that notifies its customers enqueues one such job for each event. The id of the
//! job is the id of the message, in every attempt, so that receivers can ignore duplicates.

use fairlane_core::GroupId;
use fairlane_worker::{BoxFuture, Context, Outcome, Processor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::callbacks::CallbackSettings;
use crate::client::BadTarget;
use crate::delivery::{Attempt, Delivery};

/// The payload of a webhook's job.
///
/// ```
/// use fairlane_targets::WebhookJob;
///
/// let payload = r#"{"url": "https://example.com/hook", "body": {"type": "image.done"}}"#;
/// let job: WebhookJob = serde_json::from_str(payload)?;
/// assert_eq!(job.body.get(), r#"{"type": "image.done"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookJob {
    /// The URL of the receiver.
    pub url: String,
    /// The body, sent byte for byte.
    pub body: Box<RawValue>,
}

/// Delivers webhooks, under the rules of callbacks: signed, retried, to permitted addresses only. Use
/// it with the options of [`CallbackSettings::type_options`].
#[derive(Debug)]
pub struct Webhooks {
    delivery: Delivery,
}

impl Webhooks {
    /// Delivers with these settings; an error if they are invalid.
    pub fn new(settings: CallbackSettings) -> Result<Self, BadTarget> {
        Ok(Self { delivery: Delivery::new(settings)? })
    }

    async fn deliver(&self, payload: &[u8], attempt: &Attempt<'_>) -> Result<Outcome, Outcome> {
        let job: WebhookJob = serde_json::from_slice(payload).map_err(|error| {
            let message = format!("the payload of a webhook must have url and body: {error}");
            Outcome::failed("bad_payload", message)
        })?;
        let url = self.delivery.receiver(&job.url)?;
        Ok(self.delivery.send(url, job.body.get().as_bytes().to_vec(), attempt).await)
    }
}

impl Processor for Webhooks {
    fn process(&self, job: Context) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let group: &GroupId = job.group();
            let attempt = Attempt { id: job.id(), group, number: job.attempt(), trace: job.trace() };
            self.deliver(job.payload(), &attempt).await.unwrap_or_else(|early| early)
        })
    }
}

#[cfg(test)]
mod tests {
    use fairlane_core::JobId;
    use fairlane_testkit::receiver::{Receiver, response};
    use standardwebhooks::Webhook;

    use super::*;
    use crate::AddressRule;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    async fn deliver(addresses: AddressRule, payload: &str) -> Outcome {
        let settings = CallbackSettings { addresses, ..CallbackSettings::new(vec![SECRET.parse().unwrap()]) };
        let (id, group) = (JobId::new("event-1").unwrap(), GroupId::new("customer").unwrap());
        let attempt = Attempt { id: &id, group: &group, number: 1, trace: None };
        let webhooks = Webhooks::new(settings).unwrap();
        webhooks.deliver(payload.as_bytes(), &attempt).await.unwrap_or_else(|early| early)
    }

    /// Erratum Q41.
    #[tokio::test]
    async fn a_webhook_is_sent_byte_for_byte_and_signed_under_the_id_of_its_job() {
        let server = Receiver::responding(response("204 No Content", &[], ""));
        let body = r#"{"b": 1,  "a": "ü"}"#;
        let payload = format!(r#"{{"url": "{}", "body": {body}}}"#, server.url("/hook"));
        let rule = AddressRule { allow_private: true, ..AddressRule::default() };
        assert_eq!(deliver(rule, &payload).await, Outcome::done(&serde_json::json!({"status": 204})));
        let request = &server.requests()[0];
        assert_eq!((request.text(), request.header("webhook-id")), (body, Some("event-1")));
        let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
        let headers = names.map(|name| {
            let value = request.header(name).unwrap().parse().unwrap();
            (reqwest::header::HeaderName::from_static(name), value)
        });
        let verified = Webhook::new(SECRET).unwrap().verify(&request.body, &headers.into_iter().collect());
        assert!(verified.is_ok());
    }

    /// Erratum Q41.
    #[tokio::test]
    async fn a_webhook_does_not_connect_to_a_private_address() {
        let server = Receiver::responding(response("200 OK", &[], ""));
        let named = server.url("").replace("127.0.0.1", "localhost");
        for url in [server.url(""), named] {
            let payload = format!(r#"{{"url": "{url}", "body": {{}}}}"#);
            let outcome = deliver(AddressRule::default(), &payload).await;
            assert!(matches!(&outcome, Outcome::Failed(it) if it.code == "address_refused"), "{outcome:?}");
        }
        assert_eq!(server.connections(), 0);
    }

    #[tokio::test]
    async fn a_payload_without_a_url_or_a_body_fails() {
        for payload in ["{}", r#"{"url": "ftp://a", "body": 1}"#, "no JSON"] {
            let outcome = deliver(AddressRule::default(), payload).await;
            assert!(matches!(outcome, Outcome::Failed(_)), "{payload}: {outcome:?}");
        }
    }
}
