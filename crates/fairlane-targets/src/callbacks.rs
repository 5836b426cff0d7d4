//! Delivers callbacks: tells a receiver that a bulk action has ended, signed after Standard Webhooks.
//!
//! A callback is a job of the type [`CALLBACK_TYPE`](fairlane_worker::CALLBACK_TYPE), and so is kept, retried
//! and shared out as any other. Its receiver is chosen by a customer, hence the invariants: it is never
//! throttled, because that would slow the callbacks of others; receivers that hang hold few slots, and none of
//! other types; it goes only where [`AddressRule`] allows; and a customer is told of its own bulk actions only.
//! Left out on purpose: order between callbacks, and turning a receiver off that has failed for long.

mod body;
mod hanging;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairlane_core::queue::{BulkRef, BulkState, BulkView, Inspect, Inspected};
use fairlane_core::{BulkId, GroupId, JobId};
use fairlane_engine::{Engine, EngineError};
use fairlane_worker::{BoxFuture, Context, Outcome, Processor, RetryPolicy, TypeOptions, callback_id};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::addresses::{AddressRefused, AddressRule, RuledResolver};
use crate::answer::{described, passed_over, retry_after};
use crate::call::{InHeader, child};
use crate::client::{BadTarget, Certificates, client, http_url, unanswered};
use crate::signature::{Secret, signatures};
use hanging::HangingGroups;

/// Retries of a callback, unless the type is set otherwise: with the default policy half a day on average, a day
/// at most.
pub const CALLBACK_MAX_RETRY_COUNT: u32 = 16;

/// The first attempt has no longer than this for an exchange: most receivers answer at once or not at all.
const FIRST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an attempt waits for an aggregation that has enqueued its callback and not yet ended.
const AGGREGATION_WAIT: Duration = Duration::from_secs(5);
/// How often it looks.
const AGGREGATION_POLL: Duration = Duration::from_millis(50);

/// The payload of a callback's job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackJob {
    /// Whom to tell.
    pub url: String,
    /// Whose bulk action …
    pub group: String,
    /// … and which.
    pub bulk: String,
}

/// How callbacks are delivered.
#[derive(Debug, Clone)]
pub struct CallbackSettings {
    /// Each signs: the new one and the old one while receivers change from one to the other.
    pub secrets: Vec<Secret>,
    /// Groups that have secrets of their own, used instead.
    pub group_secrets: Vec<(GroupId, Vec<Secret>)>,
    /// Where callbacks may go.
    pub addresses: AddressRule,
    /// How long a connection may take.
    pub connect_timeout: Duration,
    /// How long the whole exchange may take.
    pub timeout: Duration,
    /// Delays between attempts.
    pub retry: RetryPolicy,
}

impl CallbackSettings {
    /// Signed with these secrets; 15 seconds for an exchange, delays from 10 seconds to 4 hours.
    pub fn new(secrets: Vec<Secret>) -> Self {
        Self {
            secrets,
            group_secrets: Vec::new(),
            addresses: AddressRule::default(),
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(15),
            retry: RetryPolicy { base: Duration::from_secs(10), cap: Duration::from_secs(4 * 3600) },
        }
    }

    /// What a worker is to hold for their type: time for the aggregation and for the exchange.
    pub fn type_options(&self) -> TypeOptions {
        let slack = Duration::from_secs(5);
        let timeout = AGGREGATION_WAIT + self.timeout + slack;
        TypeOptions { own_slots: true, timeout: Some(timeout), retry: Some(self.retry), concurrency: None }
    }

    /// What is wrong with them, if anything is.
    pub fn check(&self) -> Result<(), BadTarget> {
        if self.secrets.is_empty() {
            return Err(BadTarget(
                "callbacks need a secret to be signed with; without one nobody can trust them".into(),
            ));
        }
        match self.group_secrets.iter().find(|(_, secrets)| secrets.is_empty()) {
            Some((group, _)) => Err(BadTarget(format!("the list of {group}'s secrets is empty"))),
            None => Ok(()),
        }
    }

    fn secrets_of(&self, group: &GroupId) -> &[Secret] {
        let own = self.group_secrets.iter().find(|(owner, _)| owner == group);
        own.map_or(&self.secrets, |(_, secrets)| secrets)
    }
}

/// Delivers callbacks; the processor of [`CALLBACK_TYPE`](fairlane_worker::CALLBACK_TYPE).
pub struct Callbacks {
    engine: Arc<dyn Engine>,
    client: Client,
    settings: CallbackSettings,
    hanging: HangingGroups,
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Callbacks {
    /// Delivers what happens in this engine, or says what is wrong with the settings.
    pub fn new(engine: Arc<dyn Engine>, settings: CallbackSettings) -> Result<Self, BadTarget> {
        settings.check()?;
        let rule = Arc::new(settings.addresses.clone());
        let client = client(settings.connect_timeout, settings.timeout, Certificates::Wanted, |builder| {
            builder.dns_resolver(RuledResolver(rule.clone()))
        })?;
        Ok(Self { engine, client, settings, hanging: HangingGroups::default() })
    }

    /// One attempt. Early ends are outcomes too, and leave by `?`.
    async fn deliver(
        &self,
        id: &JobId,
        group: &GroupId,
        payload: &[u8],
        attempt: u32,
        trace: Option<&str>,
    ) -> Result<Outcome, Outcome> {
        let (url, bulk) = self.addressed(group, payload)?;
        let view = self.ended(&bulk, id).await?;
        let body = body::of(&view);
        let mut headers = self.signed(id, group, &body);
        if let Some(trace) = trace {
            let value = HeaderValue::try_from(child(trace)).expect("digits and dashes are a header value");
            headers.insert("traceparent", value);
        }
        let Some(exchange) = self.hanging.begin(group) else { return Err(self.put_off(attempt)) };
        let first = if attempt == 1 { FIRST_TIMEOUT } else { Duration::MAX };
        let (started, timeout) = (Instant::now(), self.settings.timeout.min(first));
        let request = self.client.post(url).headers(headers).body(body).timeout(timeout);
        let (outcome, timed_out) = match request.send().await {
            Ok(response) => (self.judged(response, attempt).await, false),
            Err(error) => {
                let timed_out = error.is_timeout();
                (self.unanswered(error, attempt), timed_out)
            }
        };
        // An answer whose body never ends is none.
        if !timed_out && started.elapsed() < timeout {
            exchange.answered();
        }
        Ok(outcome)
    }

    /// An attempt that is not made, because another callback of the group waits for a receiver that may hang.
    fn put_off(&self, attempt: u32) -> Outcome {
        let reason = "not tried now: the receivers of this group are not known to answer, and an attempt of it is under way";
        Outcome::retry("receiver_hangs", reason).after(self.settings.retry.delay(attempt))
    }

    fn addressed(&self, group: &GroupId, payload: &[u8]) -> Result<(Url, BulkRef), Outcome> {
        let bad = |reason: String| Outcome::failed("bad_payload", reason);
        let job: CallbackJob = serde_json::from_slice(payload)
            .map_err(|error| bad(format!("the payload of a callback is url, group and bulk: {error}")))?;
        let owner = GroupId::new(&job.group).map_err(|error| bad(error.to_string()))?;
        if owner != *group {
            return Err(bad(format!("{group} is not told of a bulk action of {owner}")));
        }
        let id = BulkId::new(&job.bulk).map_err(|error| bad(error.to_string()))?;
        let url = http_url(&job.url).map_err(|error| Outcome::failed("bad_url", error.to_string()))?;
        self.settings.addresses.check_literal(&url).map_err(refused)?;
        Ok((url, BulkRef { group: owner, id }))
    }

    /// The bulk action when it has been aggregated. Its callback is enqueued a moment before that, so that it cannot be
    /// forgotten in between.
    async fn ended(&self, bulk: &BulkRef, id: &JobId) -> Result<BulkView, Outcome> {
        let started = Instant::now();
        loop {
            let view = self.view(bulk).await?.ok_or_else(|| gone(bulk))?;
            // One of the same name that was opened later has another callback.
            if callback_id(&view) != id.to_string() {
                return Err(gone(bulk));
            }
            if is_aggregated(&view) {
                return Ok(view);
            }
            if started.elapsed() > AGGREGATION_WAIT {
                return Err(Outcome::Released);
            }
            tokio::time::sleep(AGGREGATION_POLL).await;
        }
    }

    async fn view(&self, bulk: &BulkRef) -> Result<Option<BulkView>, Outcome> {
        match self.engine.inspect(Inspect::Bulk(bulk.clone())).await {
            Ok(Inspected::Bulk(view)) => Ok(view),
            Ok(_) => Err(Outcome::retry("engine", "the engine answered another question")),
            Err(error) => Err(unread(&error)),
        }
    }

    fn signed(&self, id: &JobId, group: &GroupId, body: &[u8]) -> HeaderMap {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (id, timestamp) = (id.in_header(), since_1970.as_secs());
        let signature = signatures(self.settings.secrets_of(group), &id, timestamp, body);
        let mut headers =
            HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        for (name, value) in [
            ("webhook-id", id),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", signature),
        ] {
            headers
                .insert(name, HeaderValue::try_from(value).expect("letters and digits are a header value"));
        }
        headers
    }

    async fn judged(&self, response: Response, attempt: u32) -> Outcome {
        let status = response.status();
        if status.is_success() {
            passed_over(response).await;
            return Outcome::done(&serde_json::json!({ "status": status.as_u16() }));
        }
        if status == StatusCode::GONE {
            return Outcome::failed("gone", "stopped: the receiver says it is gone");
        }
        let asked = retry_after(response.headers(), SystemTime::now()).unwrap_or_default();
        let delay = self.settings.retry.delay(attempt).max(asked);
        Outcome::retry(format!("http_{}", status.as_u16()), described(response).await).after(delay)
    }

    fn unanswered(&self, error: reqwest::Error, attempt: u32) -> Outcome {
        match refusal(&error) {
            Some(refusal) => refused(refusal.clone()),
            None => unanswered(error).after(self.settings.retry.delay(attempt)),
        }
    }
}

impl Processor for Callbacks {
    fn process(&self, job: Context) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let delivering = self.deliver(job.id(), job.group(), job.payload(), job.attempt(), job.trace());
            delivering.await.unwrap_or_else(|early| early)
        })
    }
}

/// One that failed or was cancelled has its last state before it is aggregated; its summary says when it was.
fn is_aggregated(view: &BulkView) -> bool {
    view.state == BulkState::Completed || view.state.is_final() && !view.summary.is_empty()
}

fn refused(error: AddressRefused) -> Outcome {
    let AddressRefused { host, address, kind } = &error;
    tracing::warn!(host, %address, kind, "a callback is refused for its address");
    Outcome::failed("address_refused", error.to_string())
}

fn gone(bulk: &BulkRef) -> Outcome {
    let message = format!("the bulk action {} of {} is gone: it is past its retention", bulk.id, bulk.group);
    Outcome::failed("bulk_gone", message)
}

fn unread(error: &EngineError) -> Outcome {
    Outcome::retry("engine", format!("the bulk action could not be read: {error}"))
}

/// The refusal of the resolver, if that is what stopped a request.
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

/// The event's name in words receivers can filter by.
fn event(state: BulkState) -> &'static str {
    match state {
        BulkState::Failed => "bulk.failed",
        BulkState::Cancelled => "bulk.cancelled",
        _ => "bulk.completed",
    }
}

#[cfg(test)]
mod tests;
