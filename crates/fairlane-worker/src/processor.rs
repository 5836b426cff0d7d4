//! What is done with a job: a type, a closure over the context, or a closure over a typed payload.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;

pub use fairlane_engine::BoxFuture;

use crate::context::Context;
use crate::outcome::{IntoOutcome, Outcome};

/// Works on jobs of one type.
///
/// A closure from [`Context`] to a future is one; [`typed`] makes one that is given the payload as your type,
/// [`blocking`] one for code that blocks its thread.
pub trait Processor: Send + Sync + 'static {
    /// Works on one job. The future is dropped when the job's time is up or nobody wants it any more.
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

/// A processor that is given the payload as `P`, read from JSON. A payload that is none fails for good with the
/// code `bad_payload`.
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
        match read(&job) {
            Ok(payload) => {
                let working = (self.work)(payload, job);
                Box::pin(async move { working.await.into_outcome() })
            }
            Err(outcome) => Box::pin(async move { outcome }),
        }
    }
}

/// A processor for code that blocks: each job has a thread of its own. Such code cannot be stopped from outside;
/// long work should look at [`Context::is_cancelled`].
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
            let payload = match read::<P>(&job) {
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

fn read<P: DeserializeOwned>(job: &Context) -> Result<P, Outcome> {
    let payload: &[u8] = if job.payload().is_empty() { b"null" } else { job.payload() };
    serde_json::from_slice(payload)
        .map_err(|error| Outcome::failed("bad_payload", format!("its payload does not fit: {error}")))
}
