//! Processors: a type, a closure over the context, or a closure over a typed payload.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;

pub use fairlane_engine::BoxFuture;

use crate::context::Context;
use crate::outcome::{IntoOutcome, Outcome};

/// Processes jobs of one type.
///
/// A closure from [`Context`] to a future is a processor. [`typed`] makes one that receives the
/// deserialised payload, [`blocking`] one for code that blocks its thread.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a processor",
    note = "a processor is a closure such as `|job: Context| async move {{ Outcome::done(&1) }}`",
    note = "for a payload of type `T`, use `typed(|payload: T, job: Context| async move {{ … }})`, or \
            `blocking(|payload: T, job: Context| …)` if the code blocks its thread"
)]
pub trait Processor: Send + Sync + 'static {
    /// Processes one job. The future is dropped after the job's timeout or cancellation.
    fn process(&self, job: Context) -> BoxFuture<'_, Outcome>;
}

impl<F, Fut> Processor for F
where
    F: Fn(Context) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoOutcome,
{
    fn process(&self, job: Context) -> BoxFuture<'_, Outcome> {
        let working = self(job);
        Box::pin(async move { working.await.into_outcome() })
    }
}

/// A processor that receives the payload deserialised from JSON as `P`. A payload that is not a `P`
/// fails for good with the code `bad_payload`.
pub fn typed<P, F, Fut>(work: F) -> impl Processor
where
    P: DeserializeOwned + Send + 'static,
    F: Fn(P, Context) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoOutcome,
{
    Typed { work, payload: PhantomData::<fn() -> P> }
}

struct Typed<P, F> {
    work: F,
    payload: PhantomData<fn() -> P>,
}

impl<P, F, Fut> Processor for Typed<P, F>
where
    P: DeserializeOwned + Send + 'static,
    F: Fn(P, Context) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoOutcome,
{
    fn process(&self, job: Context) -> BoxFuture<'_, Outcome> {
        match read_payload(&job) {
            Ok(payload) => {
                let working = (self.work)(payload, job);
                Box::pin(async move { working.await.into_outcome() })
            }
            Err(outcome) => Box::pin(async move { outcome }),
        }
    }
}

/// A processor for blocking code: each job runs on a thread of its own. Blocking code cannot be
/// stopped from outside, so long work should check [`Context::is_cancelled`].
pub fn blocking<P, F, O>(work: F) -> impl Processor
where
    P: DeserializeOwned + Send + 'static,
    F: Fn(P, Context) -> O + Send + Sync + 'static,
    O: IntoOutcome,
{
    let work = Arc::new(work);
    move |job: Context| {
        let work = work.clone();
        async move {
            let payload = match read_payload::<P>(&job) {
                Ok(payload) => payload,
                Err(outcome) => return outcome,
            };
            let thread = job.enter_thread();
            let work = move || {
                let _thread = thread;
                work(payload, job).into_outcome()
            };
            match tokio::task::spawn_blocking(work).await {
                Ok(outcome) => outcome,
                Err(stopped) if stopped.is_panic() => std::panic::resume_unwind(stopped.into_panic()),
                Err(_) => Outcome::Released,
            }
        }
    }
}

fn read_payload<P: DeserializeOwned>(job: &Context) -> Result<P, Outcome> {
    let payload: &[u8] = if job.payload().is_empty() { b"null" } else { job.payload() };
    serde_json::from_slice(payload)
        .map_err(|error| Outcome::failed("bad_payload", format!("its payload cannot be read: {error}")))
}
