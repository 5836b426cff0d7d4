//! Room for the bodies that are read as a whole, in bytes, over all requests.
//!
//! Invariant: no more is allocated for them than `bodies_bytes_max`, but for the first [`FREE_BYTES`] of each: so
//! requests that are small pass, whoever sends large ones slowly. One key has a part of it, so that its large ones do not
//! keep those of others out. A body takes its room as it comes, not by what its length claims, and keeps it until the
//! request is answered, for what was read out of it lives as long.
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
pub(crate) const FREE_BYTES: usize = 16 * 1024;
/// Room is counted in pieces of this many bytes.
const PIECE_BYTES: usize = 1024;
/// When to come back.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The room there is.
pub(crate) struct Bodies(Arc<Semaphore>);

/// The pieces of one request, given back when the last who has them lets go.
#[derive(Clone, Default)]
struct Taken {
    /// Those of its key.
    of_key: Option<Arc<Semaphore>>,
    pieces: Arc<Mutex<Pieces>>,
}

#[derive(Default)]
struct Pieces {
    count: usize,
    held: Vec<OwnedSemaphorePermit>,
}

/// The room of one body.
pub(crate) struct Room {
    pieces: Arc<Semaphore>,
    taken: Taken,
    bytes_max: usize,
}

/// Room for so many bytes.
pub(crate) fn pieces(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new((bytes / PIECE_BYTES).min(Semaphore::MAX_PERMITS)))
}

/// Most bodies are so small that none of this is about them.
fn is_small(request: &Request) -> bool {
    request.body().size_hint().upper().is_some_and(|bytes| bytes <= FREE_BYTES as u64)
}

/// The request with a body whose rest is taken if it is refused.
pub(crate) fn whole(app: &Shared, request: Request) -> Request {
    if is_small(&request) {
        return request;
    }
    let (head, body) = request.into_parts();
    let body = Whole::new(body, &head.headers, app.stopping.clone());
    Request::from_parts(head, Body::new(body))
}

/// Answers a request; keeps the room of its body until the answer is there.
pub(crate) async fn run(mut request: Request, next: Next, of_key: Option<&Arc<Semaphore>>) -> Response {
    if is_small(&request) {
        return next.run(request).await;
    }
    let taken = Taken { of_key: of_key.cloned(), ..Taken::default() };
    request.extensions_mut().insert(taken.clone());
    let response = next.run(request).await;
    drop(taken);
    response
}

impl Bodies {
    pub fn new(bytes_max: usize) -> Self {
        Self(pieces(bytes_max))
    }

    /// The room of this request's body, which has at most `bytes_max`; nothing is taken yet.
    pub fn room(&self, request: &Request, bytes_max: usize) -> Room {
        let taken = request.extensions().get::<Taken>().cloned().unwrap_or_default();
        // What it claims to have is not taken, but no more either.
        let claimed = request.body().size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        Room { pieces: self.0.clone(), taken, bytes_max: claimed.unwrap_or(bytes_max).min(bytes_max) }
    }
}

impl Room {
    /// Makes `body` large enough for `more` bytes: what is allocated is what is taken.
    pub fn take(&mut self, body: &mut Vec<u8>, more: usize) -> Result<(), Problem> {
        let needed = body.len() + more;
        if needed <= body.capacity() {
            return Ok(());
        }
        let roomy = (body.capacity() + body.capacity() / 2).max(FREE_BYTES).min(self.bytes_max);
        let bytes = roomy.max(needed);
        self.grow_to(bytes.saturating_sub(FREE_BYTES).div_ceil(PIECE_BYTES))?;
        body.reserve_exact(bytes - body.len());
        Ok(())
    }

    fn grow_to(&self, count: usize) -> Result<(), Problem> {
        let mut taken = self.taken.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = u32::try_from(count.saturating_sub(taken.count)).unwrap_or(u32::MAX);
        let take = |from: &Arc<Semaphore>, problem: ProblemKind, whose: &str| {
            from.clone().try_acquire_many_owned(missing).map_err(|_| {
                problem
                    .because(format!("{whose} has as many large bodies in hand as it may; try again"))
                    .retry_after(RETRY_AFTER)
            })
        };
        let of_key = self.taken.of_key.as_ref();
        let own = of_key.map(|pieces| take(pieces, ProblemKind::RateLimited, "this key")).transpose()?;
        let of_all = take(&self.pieces, ProblemKind::Overloaded, "the server")?;
        taken.held.extend(own.into_iter().chain([of_all]));
        taken.count = taken.count.max(count);
        Ok(())
    }
}
