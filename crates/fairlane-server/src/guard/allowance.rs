//! What one key may take of the server: requests a second and what they have done, requests at once, long polls, room
//! for bodies.
//!
//! A request beyond that is not refused at once, since a client that floods would only ask again: it is kept until it
//! would have been allowed, in line behind those kept before it.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use fairlane::{Rate, rate_text};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::budget::Budget;
use super::line::Line;
use super::purse::{Purse, Spending};
use super::{COME_BACK, places};
use crate::access::Pace;
use crate::bodies;
use crate::problem::ProblemKind;
use crate::settings::ServerSettings;

/// One key's part of the long polls, the streams and the room for bodies, so that no key can take them all.
const PART: usize = 4;
/// That of a key which is bound to groups: one customer among many.
const BOUND_PART: usize = 16;
/// Least that a request beyond the rate is kept, and that its client is asked to wait: at high rates the next place
/// in line is free at once.
const HOLD_MIN: Duration = Duration::from_millis(100);

/// What one key may take.
pub(crate) struct Allowance {
    rate: Option<(Rate, Arc<Spending>)>,
    refused: Line,
    brief: Arc<Semaphore>,
    held: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl Allowance {
    pub fn new(rate: Option<Rate>, is_bound: bool, settings: &ServerSettings) -> Self {
        let part = |all: usize| (all / if is_bound { BOUND_PART } else { PART }).max(1);
        Self {
            rate: rate.map(|rate| (rate, Arc::new(Spending::new(Budget::new(rate))))),
            refused: Line::default(),
            brief: places(settings.key_requests_max),
            held: places(part(settings.held_max)),
            streams: places(part(settings.streams_max)),
            // One body of any size has room.
            bodies: bodies::pieces(part(settings.bodies_bytes_max).max(settings.body_bytes_max)),
        }
    }

    /// Counts a request against the rate, and gives what it may spend.
    pub(super) async fn pass(&self, pace: Pace) -> Result<Option<Purse>, Response> {
        let Some((rate, spending)) = &self.rate else { return Ok(None) };
        let wait = match spending.budget.take(spending.budget.now()) {
            Ok(in_step) => {
                if !in_step.is_zero() {
                    tokio::time::sleep(in_step).await;
                }
                return Ok(Some(Purse::new(spending.clone(), pace)));
            }
            Err(wait) => wait,
        };
        let kept = self.refused.wait(wait.clamp(HOLD_MIN, COME_BACK)).await;
        let problem = ProblemKind::RateLimited.because(format!(
            "this key may send {} requests, of which large ones count for several; wait and try again",
            rate_text(*rate)
        ));
        Err(problem.retry_after(wait.saturating_sub(kept).max(HOLD_MIN)).into_response())
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
        // No more wait here than the rate lets in.
        match timeout(COME_BACK, places.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(ProblemKind::RateLimited
                .because(format!("this key has as many {what}"))
                .retry_after(COME_BACK)
                .into_response()),
        }
    }

    /// The key's part of the room for bodies.
    pub fn bodies(&self) -> &Arc<Semaphore> {
        &self.bodies
    }

    /// What its requests spend.
    pub(super) fn spending(&self) -> Option<&Arc<Spending>> {
        self.rate.as_ref().map(|(_, spending)| spending)
    }
}
