//! Delivers callbacks: notifies a receiver that a bulk action has ended. Requests are signed as
//! Standard Webhooks describes.
//!
//! A callback is a job of the type [`CALLBACK_TYPE`](fairlane_worker::CALLBACK_TYPE), so it is
//! stored, retried and scheduled like any other; `delivery.rs` sends it. Invariant: a customer is only
//! notified of its own bulk actions. Left out on purpose: order between callbacks, and disabling a
//! receiver that has failed for long.

mod body;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fairlane_core::queue::{BulkRef, BulkState, BulkView, InspectBulk};
use fairlane_core::{BulkId, GroupId, JobId};
use fairlane_engine::{Engine, EngineError};
use fairlane_worker::{BoxFuture, Context, Outcome, Processor, RetryPolicy, TypeOptions, callback_id};
use reqwest::Url;
use serde::{Deserialize, Serialize};

use crate::addresses::AddressRule;
use crate::client::BadTarget;
use crate::delivery::{Attempt, Delivery};
use crate::signature::Secret;

/// Retries of a callback, unless the type has its own setting: with the default policy half a day
/// on average, at most a day.
pub const CALLBACK_MAX_RETRY_COUNT: u32 = 16;

/// How much longer the timeout of a job is than that of its request.
const TIMEOUT_SLACK: Duration = Duration::from_secs(5);

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
    /// The timeout for connecting.
    pub connect_timeout: Duration,
    /// The timeout of the complete request, from connecting to the end of the response.
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

    /// The secrets that sign for this group.
    pub(crate) fn secrets_of(&self, group: &GroupId) -> &[Secret] {
        let own = self.group_secrets.iter().find(|(owner, _)| owner == group);
        own.map_or(&self.secrets, |(_, secrets)| secrets)
    }
}

/// Delivers callbacks; the processor of [`CALLBACK_TYPE`](fairlane_worker::CALLBACK_TYPE).
pub struct Callbacks {
    engine: Arc<dyn Engine>,
    delivery: Delivery,
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").field("delivery", &self.delivery).finish_non_exhaustive()
    }
}

impl Callbacks {
    /// Delivers the callbacks of this engine's bulk actions; an error if the settings are invalid.
    pub fn new(engine: Arc<dyn Engine>, settings: CallbackSettings) -> Result<Self, BadTarget> {
        Ok(Self { engine, delivery: Delivery::new(settings)? })
    }

    /// Makes one attempt. An early return with `?` is an outcome too.
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
        let attempt = Attempt { id, group, number: attempt, trace };
        Ok(self.delivery.send(url, body::of(&view), &attempt).await)
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
        let url = self.delivery.receiver(&job.url)?;
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
        // A producer has enqueued this job itself: the real callback is added when the bulk action
        // ends.
        if !is_aggregated(&view) {
            return Err(Outcome::retry("bulk_running", "the bulk action has not ended"));
        }
        Ok(view)
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

fn gone(bulk: &BulkRef) -> Outcome {
    let message = format!("bulk action {} of {} is gone: it is past its retention", bulk.id, bulk.group);
    Outcome::failed("bulk_gone", message)
}

fn unreadable(error: &EngineError) -> Outcome {
    Outcome::retry("engine", format!("the bulk action could not be read: {error}"))
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
