//! Room for the bodies that are read as a whole, in bytes, over all requests.
//!
//! Invariant: no more is allocated for them than `bodies_bytes_max`, but for the first [`FREE_BYTES`] of each: so
//! requests that are small pass, whoever sends large ones slowly. A body takes its room as it comes, not by what its
//! length claims, and keeps it until the request is answered, for what was read out of it lives as long.
//!
//! - `bodies/rest.rs`: what comes of a body that nobody reads any further.

mod rest;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::Shared;
use crate::problem::{Problem, ProblemKind};
use rest::Whole;

/// What a body may have without taking room: about what a connection reads ahead in any case.
const FREE_BYTES: usize = 16 * 1024;
/// Room is counted in pieces of this many bytes.
const PIECE_BYTES: usize = 1024;
/// When to come back.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The room there is.
pub(crate) struct Bodies(Arc<Semaphore>);

/// The pieces of one request, given back when the last who has them lets go.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

/// The room of one body.
pub(crate) struct Room {
    pieces: Arc<Semaphore>,
    taken: Taken,
    bytes_max: usize,
}

/// Answers a request; keeps the room of its body until the answer is there, and takes what is left of one that is refused.
pub(crate) async fn run(app: &Shared, request: Request, next: Next) -> Response {
    // Most bodies are so small that none of this is about them.
    if request.body().size_hint().upper().is_some_and(|bytes| bytes <= FREE_BYTES as u64) {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let body = Whole::new(body, &head.headers, app.stopping.clone());
    let mut request = Request::from_parts(head, Body::new(body));
    let taken = Taken::default();
    request.extensions_mut().insert(taken.clone());
    let response = next.run(request).await;
    drop(taken);
    response
}

impl Bodies {
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes_max / PIECE_BYTES).min(Semaphore::MAX_PERMITS))))
    }

    /// The room of this request's body, which has at most `bytes_max`; nothing is taken yet.
    pub fn room(&self, request: &Request, bytes_max: usize) -> Room {
        let taken = request.extensions().get::<Taken>().cloned().unwrap_or_default();
        Room { pieces: self.0.clone(), taken, bytes_max }
    }
}

impl Room {
    /// Makes `body` large enough for `more` bytes: what is allocated is what is taken.
    pub fn take(&mut self, body: &mut Vec<u8>, more: usize) -> Result<(), Problem> {
        let needed = body.len() + more;
        if needed <= body.capacity() {
            return Ok(());
        }
        let bytes = needed.next_power_of_two().max(FREE_BYTES).min(self.bytes_max).max(needed);
        self.grow_to(bytes.saturating_sub(FREE_BYTES).div_ceil(PIECE_BYTES))?;
        body.reserve_exact(bytes - body.len());
        Ok(())
    }

    fn grow_to(&self, pieces: usize) -> Result<(), Problem> {
        let mut taken = self.taken.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = pieces.saturating_sub(taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        let new = u32::try_from(missing).ok().and_then(|missing| {
            let pieces = self.pieces.clone();
            pieces.try_acquire_many_owned(missing).ok()
        });
        let Some(new) = new else {
            return Err(ProblemKind::Overloaded
                .because("the server has as many large bodies in hand as it takes; try again")
                .retry_after(RETRY_AFTER));
        };
        match &mut *taken {
            Some(taken) => taken.merge(new),
            None => *taken = Some(new),
        }
        Ok(())
    }
}
