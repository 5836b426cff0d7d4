//! The limits of one key: requests a second and the work they cause, concurrent requests, long
//! polls, and memory for bodies.
//!
//! A request beyond the limits is not refused at once, since a client in a retry loop would only
//! send it again: the refusal is delayed until the request would have been admitted, behind the
//! refusals delayed before it.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use fairlane::{Rate, rate_text};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::refusal_pacer::RefusalPacer;
use super::{RETRY_AFTER, permits};
use crate::access::Pace;
use crate::bodies;
use crate::problem::ProblemKind;
use crate::quota::{KeyQuota, RequestQuota};
use crate::settings::ServerSettings;

/// The share of one key is a quarter of the long polls, the streams and the memory for bodies, so
/// that no key can take them all.
const SHARE: usize = 4;
/// The share of a key bound to groups is a sixteenth: it is one customer among many.
const BOUND_SHARE: usize = 16;
/// The shortest delay of a refusal, and the shortest `Retry-After`: at high rates the next request
/// could be admitted at once.
const DELAY_MIN: Duration = Duration::from_millis(100);

/// The limits of one key.
pub(crate) struct KeyLimits {
    rate: Option<(Rate, Arc<KeyQuota>)>,
    refusals: RefusalPacer,
    brief: Arc<Semaphore>,
    held: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl KeyLimits {
    pub fn new(rate: Option<Rate>, is_bound: bool, settings: &ServerSettings) -> Self {
        let share = |all: usize| (all / if is_bound { BOUND_SHARE } else { SHARE }).max(1);
        Self {
            rate: rate.map(|rate| (rate, Arc::new(KeyQuota::new(rate)))),
            refusals: RefusalPacer::default(),
            brief: permits(settings.key_requests_max),
            held: permits(share(settings.held_max)),
            streams: permits(share(settings.streams_max)),
            // One body of the largest size always fits.
            bodies: bodies::blocks(share(settings.bodies_bytes_max).max(settings.body_bytes_max)),
        }
    }

    /// Charges a request to the rate, and returns its quota.
    pub(super) async fn admit(&self, pace: Pace) -> Result<Option<RequestQuota>, Response> {
        let Some((rate, quota)) = &self.rate else { return Ok(None) };
        let wait = match quota.admit() {
            Ok(wait) => {
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                return Ok(Some(RequestQuota::new(quota.clone(), pace)));
            }
            Err(wait) => wait,
        };
        let delayed = self.refusals.wait(wait.clamp(DELAY_MIN, RETRY_AFTER)).await;
        let problem = ProblemKind::RateLimited.because(format!(
            "this key may send {} requests, and large requests count as several; wait and try again",
            rate_text(*rate)
        ));
        Err(problem.retry_after(wait.saturating_sub(delayed).max(DELAY_MIN)).into_response())
    }

    /// A permit for one more request of the key. It waits briefly for a permit, because most
    /// requests end soon.
    pub async fn permit(&self, pace: Pace) -> Result<OwnedSemaphorePermit, Response> {
        let (permits, limit) = match pace {
            Pace::Brief => (&self.brief, "the maximum of concurrent requests; wait for a response first"),
            Pace::Held => (&self.held, "the maximum of long polls and event streams; end one first"),
            Pace::Stream => (&self.streams, "the maximum of uploads and downloads; wait for one to end"),
        };
        if let Ok(permit) = permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        // The rate bounds how many requests wait here.
        match timeout(RETRY_AFTER, permits.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(ProblemKind::RateLimited
                .because(format!("this key has reached {limit}"))
                .retry_after(RETRY_AFTER)
                .into_response()),
        }
    }

    /// The key's share of the memory for bodies.
    pub fn bodies(&self) -> &Arc<Semaphore> {
        &self.bodies
    }

    /// The quota of the key, if it has a rate.
    pub(super) fn quota(&self) -> Option<&Arc<KeyQuota>> {
        self.rate.as_ref().map(|(_, quota)| quota)
    }
}
