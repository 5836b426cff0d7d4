//! What one key may take of the server: requests a second, requests at once, long polls.
//!
//! A request beyond that is not refused at once, since a client that floods would only ask again: it is kept until
//! it would have been allowed, in line behind those kept before it. So refusals come no faster than the rate either.
//! So few are kept that a larger flood ends at the connection.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use fairlane::{Rate, rate_text};
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::{HOLD_MAX, closing, places};
use crate::access::Pace;
use crate::problem::{Problem, ProblemKind};
use crate::settings::ServerSettings;

/// Requests of one key that are kept back at once.
const KEPT_MAX: usize = 64;
/// One key's part of the long polls, and of the streams, so that no key can take them all.
const HELD_PART: usize = 4;
/// Least that a request beyond the rate is kept, and that its client is asked to wait: at high rates the next place
/// in line is free at once.
const HOLD_MIN: Duration = Duration::from_millis(100);

/// What one key may take.
pub(crate) struct Allowance {
    rate: Option<(Rate, DefaultDirectRateLimiter)>,
    brief: Arc<Semaphore>,
    held: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    kept: Semaphore,
}

impl Allowance {
    pub fn new(rate: Option<Rate>, settings: &ServerSettings) -> Self {
        Self {
            rate: rate.map(|rate| (rate, RateLimiter::direct(quota(rate)))),
            brief: places(settings.key_requests_max),
            held: places((settings.held_max / HELD_PART).max(1)),
            streams: places((settings.streams_max / HELD_PART).max(1)),
            kept: Semaphore::new(KEPT_MAX),
        }
    }

    /// Counts a request against the rate.
    pub async fn pass(&self) -> Result<(), Response> {
        let Some((rate, limiter)) = &self.rate else { return Ok(()) };
        let Err(refused) = limiter.check() else { return Ok(()) };
        let in_line = (KEPT_MAX - self.kept.available_permits()) as u32;
        let wait = refused.wait_time_from(DefaultClock::default().now()) + interval(*rate) * in_line;
        let problem = ProblemKind::RateLimited
            .because(format!("this key may send {} requests; wait and try again", rate_text(*rate)));
        Err(self.refuse(problem, wait).await)
    }

    /// A place among the key's requests. One that is worked on soon ends, and is waited for.
    pub async fn room(&self, pace: Pace) -> Result<OwnedSemaphorePermit, Response> {
        let (places, what) = match pace {
            Pace::Brief => (&self.brief, "requests at once as one key may have; wait for an answer first"),
            Pace::Held => (&self.held, "long polls and event streams as one key may have; end one first"),
            Pace::Stream => (&self.streams, "uploads and downloads as one key may have; wait for one to end"),
        };
        if let Ok(place) = places.clone().try_acquire_owned() {
            return Ok(place);
        }
        let problem =
            ProblemKind::RateLimited.because(format!("this key has as many {what}")).retry_after(HOLD_MAX);
        let Ok(_kept) = self.kept.try_acquire() else { return Err(closing(problem)) };
        match timeout(HOLD_MAX, places.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(problem.into_response()),
        }
    }

    async fn refuse(&self, problem: Problem, wait: Duration) -> Response {
        let Ok(_kept) = self.kept.try_acquire() else {
            return closing(problem.retry_after(wait.max(HOLD_MIN)));
        };
        // Those who are kept together are let go one by one: they would all come again at once, in everybody's way.
        let in_line = (KEPT_MAX - self.kept.available_permits()) as u32;
        let kept = (wait.max(HOLD_MIN) + HOLD_MIN * in_line / KEPT_MAX as u32).min(HOLD_MAX);
        tokio::time::sleep(kept).await;
        problem.retry_after(wait.saturating_sub(kept).max(HOLD_MIN)).into_response()
    }
}

fn quota(rate: Rate) -> Quota {
    let burst = u32::try_from(rate.burst()).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX);
    Quota::with_period(interval(rate)).expect("an interval is not zero").allow_burst(burst)
}

fn interval(rate: Rate) -> Duration {
    Duration::from_nanos((rate.period_ms() * 1_000_000 / rate.count()).max(1))
}
