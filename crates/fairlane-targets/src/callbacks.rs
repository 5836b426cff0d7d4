//! Delivers callbacks: notifies a receiver that a bulk action has ended. Requests are signed as
//! Standard Webhooks describes.
//!
//! A callback is a job of the type [`CALLBACK_TYPE`](fairlane_worker::CALLBACK_TYPE), so it is
//! stored, retried and scheduled like any other. A customer chooses its receiver, hence the
//! invariants: a callback is never throttled, because that would slow the callbacks of others;
//! receivers that hang hold few slots, and none of other types; a callback connects only where
//! [`AddressRule`] permits; and a customer is only notified of its own bulk actions. Left out on
//! purpose: order between callbacks, and disabling a receiver that has failed for long.

mod body;
mod hanging;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fairlane_core::queue::{BulkRef, BulkState, BulkView, InspectBulk};
use fairlane_core::{BulkId, GroupId, JobId};
use fairlane_engine::{Engine, EngineError};
use fairlane_worker::{BoxFuture, Context, Outcome, Processor, RetryPolicy, TypeOptions, callback_id};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, StatusCode, Url};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::addresses::{AddressRefused, AddressRule, RuledResolver};
use crate::call::{InHeader, child};
use crate::client::{BadTarget, Certificates, client, http_url, no_response};
use crate::response::{describe, drain, retry_after};
use crate::signature::{Secret, signatures};
use hanging::HangingGroups;

/// Retries of a callback, unless the type has its own setting: with the default policy half a day
/// on average, at most a day.
pub const CALLBACK_MAX_RETRY_COUNT: u32 = 16;

/// How much longer a job may take than its request.
const TIMEOUT_SLACK: Duration = Duration::from_secs(5);
/// Timeout of the first attempt's request: most receivers respond at once or not at all.
const FIRST_TIMEOUT: Duration = Duration::from_secs(5);

/// The payload of a callback's job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackJob {
    /// The URL of the receiver.
    pub url: String,
    /// The group of the bulk action.
    pub group: String,
    /// The id of the bulk action.
    pub bulk: String,
}

/// The settings for delivering callbacks.
#[derive(Debug, Clone)]
pub struct CallbackSettings {
    /// The signing secrets. Each of them signs, so that receivers can change from an old to a new
    /// one.
    pub secrets: Vec<Secret>,
    /// Secrets of single groups, used instead of `secrets`.
    pub group_secrets: Vec<(GroupId, Vec<Secret>)>,
    /// The addresses that callbacks may connect to.
    pub addresses: AddressRule,
    /// Timeout of connecting.
    pub connect_timeout: Duration,
    /// Timeout of the complete request, from connecting to the end of the response.
    pub timeout: Duration,
    /// Delays between attempts.
    pub retry: RetryPolicy,
}

impl CallbackSettings {
    /// The default settings with these secrets: a request timeout of 15 seconds, and delays from 10
    /// seconds to 4 hours.
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

    /// The worker's options for the callback type.
    pub fn type_options(&self) -> TypeOptions {
        let timeout = Some(self.timeout + TIMEOUT_SLACK);
        TypeOptions { own_slots: true, timeout, retry: Some(self.retry), concurrency: None }
    }

    /// Checks the settings.
    pub fn check(&self) -> Result<(), BadTarget> {
        if self.secrets.is_empty() {
            return Err(BadTarget(
                "callbacks need a secret to be signed with; receivers cannot verify them without one".into(),
            ));
        }
        match self.group_secrets.iter().find(|(_, secrets)| secrets.is_empty()) {
            Some((group, _)) => Err(BadTarget(format!("the list of secrets of {group} is empty"))),
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
    /// Delivers the callbacks of this engine's bulk actions; an error if the settings are invalid.
    pub fn new(engine: Arc<dyn Engine>, settings: CallbackSettings) -> Result<Self, BadTarget> {
        settings.check()?;
        let rule = Arc::new(settings.addresses.clone());
        let client = client(settings.connect_timeout, settings.timeout, Certificates::Optional, |builder| {
            builder.dns_resolver(RuledResolver(rule.clone()))
        })?;
        Ok(Self { engine, client, settings, hanging: HangingGroups::default() })
    }

    /// One attempt. An early return with `?` is an outcome too.
    async fn deliver(
        &self,
        id: &JobId,
        group: &GroupId,
        payload: &[u8],
        attempt: u32,
        trace: Option<&str>,
    ) -> Result<Outcome, Outcome> {
        let (url, bulk) = self.parse_payload(group, payload)?;
        let view = self.ended(&bulk, id).await?;
        let body = body::of(&view);
        let mut headers = self.signed_headers(id, group, &body);
        if let Some(trace) = trace {
            let value = HeaderValue::try_from(child(trace)).expect("digits and dashes are a header value");
            headers.insert("traceparent", value);
        }
        let Some(exchange) = self.hanging.begin(group) else { return Err(self.postponed(attempt)) };
        let first = if attempt == 1 { FIRST_TIMEOUT } else { Duration::MAX };
        let (started, timeout) = (Instant::now(), self.settings.timeout.min(first));
        let request = self.client.post(url).headers(headers).body(body).timeout(timeout);
        let (outcome, timed_out) = match request.send().await {
            Ok(response) => (self.outcome_of(response, attempt).await, false),
            Err(error) => {
                let timed_out = error.is_timeout();
                (self.no_response(error, attempt), timed_out)
            }
        };
        // A response whose body never ends counts as none.
        if !timed_out && started.elapsed() < timeout {
            exchange.completed();
        }
        Ok(outcome)
    }

    /// An attempt that is not made, because another callback of the group waits for a receiver
    /// that may hang.
    fn postponed(&self, attempt: u32) -> Outcome {
        let reason =
            "not attempted: no receiver of this group has responded yet, so it has one request at a time";
        Outcome::retry("receiver_hangs", reason).after(self.settings.retry.delay(attempt))
    }

    fn parse_payload(&self, group: &GroupId, payload: &[u8]) -> Result<(Url, BulkRef), Outcome> {
        let bad = |reason: String| Outcome::failed("bad_payload", reason);
        let job: CallbackJob = serde_json::from_slice(payload).map_err(|error| {
            bad(format!("the payload of a callback must have url, group and bulk: {error}"))
        })?;
        let owner = GroupId::new(&job.group).map_err(|error| bad(error.to_string()))?;
        if owner != *group {
            return Err(bad(format!("a callback of {group} cannot report a bulk action of {owner}")));
        }
        let id = BulkId::new(&job.bulk).map_err(|error| bad(error.to_string()))?;
        let url = http_url(&job.url).map_err(|error| Outcome::failed("bad_url", error.to_string()))?;
        self.settings.addresses.check_literal(&url).map_err(refused)?;
        Ok((url, BulkRef { group: owner, id }))
    }

    /// The bulk action that the callback with this id reports.
    async fn ended(&self, bulk: &BulkRef, id: &JobId) -> Result<BulkView, Outcome> {
        let found = self.engine.call(InspectBulk { bulk: bulk.clone() }).await;
        let view = found.map_err(|error| unreadable(&error))?.ok_or_else(|| gone(bulk))?;
        // A bulk action of the same name that was opened later has another callback.
        if callback_id(&view) != id.to_string() {
            return Err(gone(bulk));
        }
        // Its producer has enqueued this job; the callback itself is added at the end.
        if !is_aggregated(&view) {
            return Err(Outcome::retry("bulk_running", "the bulk action has not ended"));
        }
        Ok(view)
    }

    fn signed_headers(&self, id: &JobId, group: &GroupId, body: &[u8]) -> HeaderMap {
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

impl Processor for Callbacks {
    fn process(&self, job: Context) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let delivering = self.deliver(job.id(), job.group(), job.payload(), job.attempt(), job.trace());
            delivering.await.unwrap_or_else(|early| early)
        })
    }
}

/// Whether a bulk action is aggregated. A failed or cancelled one has its final state before that,
/// and a summary only after it.
fn is_aggregated(view: &BulkView) -> bool {
    view.state == BulkState::Completed || view.state.is_final() && !view.summary.is_empty()
}

fn refused(error: AddressRefused) -> Outcome {
    let AddressRefused { host, address, kind } = &error;
    tracing::warn!(host, %address, kind, "a callback was refused because of its address");
    Outcome::failed("address_refused", error.to_string())
}

fn gone(bulk: &BulkRef) -> Outcome {
    let message = format!("bulk action {} of {} is gone: it is past its retention", bulk.id, bulk.group);
    Outcome::failed("bulk_gone", message)
}

fn unreadable(error: &EngineError) -> Outcome {
    Outcome::retry("engine", format!("the bulk action could not be read: {error}"))
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

/// The event name that receivers can filter by.
fn event(state: BulkState) -> &'static str {
    match state {
        BulkState::Failed => "bulk.failed",
        BulkState::Cancelled => "bulk.cancelled",
        _ => "bulk.completed",
    }
}

#[cfg(test)]
mod tests;
