//! Middleware: code around processors that measures, traces, rejects, or changes an outcome.

use std::future::Future;
use std::sync::Arc;

use crate::context::Context;
use crate::outcome::Outcome;
use crate::processor::{BoxFuture, Processor};

/// Wraps every attempt of a worker; the first middleware added is the outermost.
///
/// A closure is a middleware:
///
/// ```
/// use fairlane_worker::{Context, Next, Outcome};
///
/// let timed = |job: Context, next: Next| async move {
///     let started = std::time::Instant::now();
///     let outcome = next.run(job).await;
///     println!("{} after {:?}", outcome.as_str(), started.elapsed());
///     outcome
/// };
/// # fn is_middleware(_: impl fairlane_worker::Middleware) {}
/// # is_middleware(timed);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a middleware",
    note = "a middleware is a closure such as `|job: Context, next: Next| async move {{ next.run(job).await }}`"
)]
pub trait Middleware: Send + Sync + 'static {
    /// Runs code around `next.run(job)`, or instead of it.
    fn around(&self, job: Context, next: Next) -> BoxFuture<'_, Outcome>;
}

impl<F, Fut> Middleware for F
where
    F: Fn(Context, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    fn around(&self, job: Context, next: Next) -> BoxFuture<'_, Outcome> {
        Box::pin(self(job, next))
    }
}

/// The rest of the chain: the middlewares added later, and the processor at its end.
#[derive(Clone)]
pub struct Next {
    chain: Arc<Chain>,
    depth: usize,
}

struct Chain {
    layers: Vec<Arc<dyn Middleware>>,
    processor: Arc<dyn Processor>,
}

impl Next {
    pub(crate) fn outermost(layers: Vec<Arc<dyn Middleware>>, processor: Arc<dyn Processor>) -> Self {
        Self { chain: Arc::new(Chain { layers, processor }), depth: 0 }
    }

    /// Runs the rest of the chain.
    pub async fn run(self, job: Context) -> Outcome {
        self.start(job).await
    }

    /// The rest of the chain as a future.
    pub(crate) fn start(&self, job: Context) -> BoxFuture<'_, Outcome> {
        match self.chain.layers.get(self.depth) {
            Some(layer) => layer.around(job, Next { chain: self.chain.clone(), depth: self.depth + 1 }),
            None => self.chain.processor.process(job),
        }
    }
}
