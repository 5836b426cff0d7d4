//! Posts signed requests to receivers that customers have chosen.
//!
//! Invariants: a delivery is never throttled, because that would slow those of others; receivers that
//! hang hold few slots; and a request connects only where [`AddressRule`](crate::AddressRule)
//! permits.

mod hanging;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairlane_core::{GroupId, JobId};
use fairlane_worker::Outcome;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use tokio::time::Instant;

use crate::addresses::{AddressRefused, RuledResolver};
use crate::call::{InHeader, child};
use crate::callbacks::CallbackSettings;
use crate::client::{BadTarget, Certificates, client, http_url, no_response};
use crate::response::{describe, drain, retry_after};
use crate::signature::signatures;
use hanging::HangingGroups;

/// The timeout of the first attempt: most receivers respond at once or not at all.
const FIRST_TIMEOUT: Duration = Duration::from_secs(5);

/// Delivers signed requests.
pub(crate) struct Delivery {
    client: Client,
    settings: CallbackSettings,
    hanging: HangingGroups,
}

/// One attempt at a delivery.
pub(crate) struct Attempt<'a> {
    /// The id of the message, the same in every attempt.
    pub id: &'a JobId,
    /// The customer, whose secrets sign the request.
    pub group: &'a GroupId,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// The `traceparent` of the job.
    pub trace: Option<&'a str>,
}

impl Delivery {
    /// A delivery with these settings; an error if they are invalid.
    pub fn new(settings: CallbackSettings) -> Result<Self, BadTarget> {
        settings.check()?;
        let rule = Arc::new(settings.addresses.clone());
        let client = client(settings.connect_timeout, settings.timeout, Certificates::Optional, |builder| {
            builder.dns_resolver(RuledResolver(rule.clone()))
        })?;
        Ok(Self { client, settings, hanging: HangingGroups::default() })
    }

    /// The URL of a receiver; the outcome of the attempt if it must not be called.
    pub fn receiver(&self, url: &str) -> Result<Url, Outcome> {
        let url = http_url(url).map_err(|error| Outcome::failed("bad_url", error.to_string()))?;
        self.settings.addresses.check_literal(&url).map_err(refused)?;
        Ok(url)
    }

    /// Posts the body to a receiver.
    pub async fn send(&self, url: Url, body: Vec<u8>, attempt: &Attempt<'_>) -> Outcome {
        let headers = self.signed_headers(&body, attempt);
        let Some(exchange) = self.hanging.begin(attempt.group) else {
            return self.postponed(attempt.number);
        };
        let first = if attempt.number == 1 { FIRST_TIMEOUT } else { Duration::MAX };
        let (started, timeout) = (Instant::now(), self.settings.timeout.min(first));
        let request = self.client.post(url).headers(headers).body(body).timeout(timeout);
        let (outcome, timed_out) = match request.send().await {
            Ok(response) => (self.outcome_of(response, attempt.number).await, false),
            Err(error) => {
                let timed_out = error.is_timeout();
                (self.no_response(error, attempt.number), timed_out)
            }
        };
        // A response whose body does not end in time counts as no response.
        if !timed_out && started.elapsed() < timeout {
            exchange.completed();
        }
        outcome
    }

    /// The outcome of an attempt that is postponed, because another delivery of the group waits for
    /// a receiver that may hang.
    fn postponed(&self, attempt: u32) -> Outcome {
        let reason =
            "not attempted: no receiver of this group has responded yet, so it has one request at a time";
        Outcome::retry("receiver_hangs", reason).after(self.settings.retry.delay(attempt))
    }

    fn signed_headers(&self, body: &[u8], attempt: &Attempt<'_>) -> HeaderMap {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (id, timestamp) = (attempt.id.in_header(), since_1970.as_secs());
        let signature = signatures(self.settings.secrets_of(attempt.group), &id, timestamp, body);
        let mut headers =
            HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        let signed = [
            ("webhook-id", id),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", signature),
        ];
        for (name, value) in signed.into_iter().chain(attempt.trace.map(|it| ("traceparent", child(it)))) {
            headers
                .insert(name, HeaderValue::try_from(value).expect("letters and digits are a header value"));
        }
        headers
    }

    async fn outcome_of(&self, response: Response, attempt: u32) -> Outcome {
        let status = response.status();
        if status.is_success() {
            drain(response).await;
            return Outcome::done(&serde_json::json!({ "status": status.as_u16() }));
        }
        if status == StatusCode::GONE {
            return Outcome::failed("gone", "the receiver responded that it is gone");
        }
        let requested = retry_after(response.headers(), SystemTime::now()).unwrap_or_default();
        let delay = self.settings.retry.delay(attempt).max(requested);
        Outcome::retry(format!("http_{}", status.as_u16()), describe(response).await).after(delay)
    }

    fn no_response(&self, error: reqwest::Error, attempt: u32) -> Outcome {
        match refusal(&error) {
            Some(refusal) => refused(refusal.clone()),
            None => no_response(error).after(self.settings.retry.delay(attempt)),
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("settings", &self.settings).finish_non_exhaustive()
    }
}

fn refused(error: AddressRefused) -> Outcome {
    let AddressRefused { host, address, kind } = &error;
    tracing::warn!(host, %address, kind, "a callback was refused because of its address");
    Outcome::failed("address_refused", error.to_string())
}

/// The refusal by the resolver, if that is what failed the request.
fn refusal(error: &reqwest::Error) -> Option<&AddressRefused> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(refusal) = error.downcast_ref() {
            return Some(refusal);
        }
        next = error.source();
    }
    None
}
