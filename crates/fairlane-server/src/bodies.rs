//! Memory for bodies that are read completely before they are parsed, over all requests.
//!
//! Invariant: no more than `bodies_bytes_max` is allocated for them, except for the first
//! [`FREE_BYTES`] of each, so that small requests pass however slowly others send large ones. One
//! key has a share of the memory, so that its large bodies do not keep out those of others. A body
//! takes memory as it arrives, not according to its Content-Length. It holds the memory until the
//! response is ready, because values parsed from it may live that long.
//!
//! - `bodies/drain_body.rs`: the rest of a body that no handler reads.

mod drain_body;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::Shared;
use crate::problem::{Problem, ProblemKind};
use drain_body::DrainBody;

/// Bytes of a body that take no memory from the budget: about what a connection reads ahead anyway.
pub(crate) const FREE_BYTES: usize = 16 * 1024;
/// The factor by which a body's memory grows when it is full. Growing copies the body on a thread
/// that serves other requests, so large bodies grow in few steps.
const GROWTH: usize = 4;
/// Memory is counted in blocks of this many bytes.
const BLOCK_BYTES: usize = 1024;
/// The `Retry-After` of a request that finds no memory for its body.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The memory for bodies of all requests.
pub(crate) struct Bodies(Arc<Semaphore>);

/// The blocks of one request, released when the last clone is dropped.
#[derive(Clone, Default)]
struct Taken {
    /// The blocks of the request's key.
    key_blocks: Option<Arc<Semaphore>>,
    blocks: Arc<Mutex<Blocks>>,
}

#[derive(Default)]
struct Blocks {
    count: usize,
    permits: Vec<OwnedSemaphorePermit>,
}

/// The memory of one body.
pub(crate) struct BodyMemory {
    blocks: Arc<Semaphore>,
    taken: Taken,
    bytes_max: usize,
}

/// Blocks for this many bytes.
pub(crate) fn blocks(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new((bytes / BLOCK_BYTES).min(Semaphore::MAX_PERMITS)))
}

/// Whether the body needs no memory from the budget; most do not.
fn is_small(request: &Request) -> bool {
    request.body().size_hint().upper().is_some_and(|bytes| bytes <= FREE_BYTES as u64)
}

/// The request with a body whose rest is drained if no handler reads it.
pub(crate) fn with_drain(app: &Shared, request: Request) -> Request {
    if is_small(&request) {
        return request;
    }
    let (head, body) = request.into_parts();
    let body = DrainBody::new(body, &head.headers, app.stopping.clone());
    Request::from_parts(head, Body::new(body))
}

/// Runs a request and holds the memory of its body until the response is ready.
pub(crate) async fn run(mut request: Request, next: Next, key_blocks: Option<&Arc<Semaphore>>) -> Response {
    if is_small(&request) {
        return next.run(request).await;
    }
    let taken = Taken { key_blocks: key_blocks.cloned(), ..Taken::default() };
    request.extensions_mut().insert(taken.clone());
    let response = next.run(request).await;
    drop(taken);
    response
}

impl Bodies {
    pub fn new(bytes_max: usize) -> Self {
        Self(blocks(bytes_max))
    }

    /// The memory of this request's body, which has at most `bytes_max`; nothing is taken yet.
    pub fn memory(&self, request: &Request, bytes_max: usize) -> BodyMemory {
        let taken = request.extensions().get::<Taken>().cloned().unwrap_or_default();
        // The Content-Length limits the memory of the body, but reserves none.
        let claimed = request.body().size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        BodyMemory { blocks: self.0.clone(), taken, bytes_max: claimed.unwrap_or(bytes_max).min(bytes_max) }
    }
}

impl BodyMemory {
    /// Reserves room for `more` bytes in `body`: the memory taken equals the memory allocated.
    pub fn reserve(&mut self, body: &mut Vec<u8>, more: usize) -> Result<(), Problem> {
        let needed = body.len() + more;
        if needed <= body.capacity() {
            return Ok(());
        }
        let roomy = (body.capacity() * GROWTH).max(FREE_BYTES).min(self.bytes_max);
        let bytes = roomy.max(needed);
        self.grow_to(bytes.saturating_sub(FREE_BYTES).div_ceil(BLOCK_BYTES))?;
        body.reserve_exact(bytes - body.len());
        Ok(())
    }

    fn grow_to(&self, count: usize) -> Result<(), Problem> {
        let mut taken = self.taken.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = u32::try_from(count.saturating_sub(taken.count)).unwrap_or(u32::MAX);
        let take = |from: &Arc<Semaphore>, problem: ProblemKind, owner: &str| {
            from.clone().try_acquire_many_owned(missing).map_err(|_| {
                problem
                    .because(format!("{owner} has reached its limit for large bodies in memory; try again"))
                    .retry_after(RETRY_AFTER)
            })
        };
        let key_blocks = self.taken.key_blocks.as_ref();
        let of_key =
            key_blocks.map(|blocks| take(blocks, ProblemKind::RateLimited, "this key")).transpose()?;
        let of_all = take(&self.blocks, ProblemKind::Overloaded, "the server")?;
        taken.permits.extend(of_key.into_iter().chain([of_all]));
        taken.count = taken.count.max(count);
        Ok(())
    }
}
