//! Ids derived from a request, so that a repeated request finds the same jobs.
//!
//! The server stores nothing: the ids of the jobs in a request are derived from the caller, the
//! idempotency key, the group and the position within the request, and those of a stream into a
//! bulk action from the bulk action and the line. So repeating a request works as long as the jobs
//! are kept, and through any server of the queue. Random ids are known to this server alone, which
//! therefore repeats the command itself.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::HeaderName;
use axum::http::request::Parts;
use fairlane::Error;
use fairlane_core::queue::{Difference, JobRef};
use fairlane_core::{BulkId, GroupId};
use fairlane_engine::EngineError;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout_at};

use crate::access::Caller;
use crate::app::{App, Shared};
use crate::problem::{Problem, ProblemKind};

/// The header that holds the key.
pub const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// The longest key, in characters.
const KEY_CHARS_MAX: usize = 255;
/// Bytes of the hash in an id: 128 bits do not collide by chance.
const HASH_BYTES: usize = 16;
/// The pause before a command is sent again to an engine that did not reply.
const PAUSE: Duration = Duration::from_millis(100);
/// The advice for a request with random ids whose outcome is unknown.
pub const IN_DOUBT: &str = "the request may have been carried out, and sending it again may add jobs twice; to be able \
                            to repeat a request, send ids or an Idempotency-Key";

/// Where an id comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdFrom {
    /// The request names it.
    Request,
    /// It is derived from the request: the same request gives the same id.
    Derived,
    /// It is random: the same request gives another id. So a job that exists with it was added by
    /// this very request.
    Random,
}

/// The idempotency key of a request, if it has one.
#[derive(Clone)]
pub struct Idempotency(pub Option<IdempotencyKey>);

/// An idempotency key, by which a caller can repeat a request.
#[derive(Clone)]
pub struct IdempotencyKey {
    /// The name of the caller: two callers may choose the same key.
    caller: Arc<str>,
    key: String,
}

impl IdempotencyKey {
    /// The id of a bulk action of this group, if the request names none.
    pub fn bulk_id(&self, group: &GroupId) -> String {
        self.stem(group)
    }

    /// The id of the job at this position, counted from 1, if the request names none.
    pub fn job_id(&self, group: &GroupId, position: u64) -> String {
        format!("{}-{position}", self.stem(group))
    }

    /// The prefix of the ids of its jobs, before `-` and the position.
    pub fn stem(&self, group: &GroupId) -> String {
        format!("idem-{}", hash(&[&self.caller, &self.key, group.escaped()]))
    }
}

/// The prefix of the ids of jobs streamed into a bulk action, before `-` and the line. No client
/// chooses such an id by chance, so a job with one came from that line.
pub fn line_stem(group: &GroupId, bulk: &BulkId) -> String {
    format!("line-{}", hash(&[group.escaped(), bulk.escaped()]))
}

fn hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // The length before each part separates it from the others.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize()[..HASH_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Retries an operation with random ids while the engine does not reply: its client cannot.
pub async fn retry_random_ids<T, F>(app: &App, operation: impl Fn() -> F) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Error>>,
{
    let deadline = Instant::now() + app.settings.request_timeout;
    let mut is_in_doubt = false;
    loop {
        let error = match timeout_at(deadline, operation()).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => error,
            Err(_) => return Err(in_doubt("the queue did not reply in time")),
        };
        let Error::Engine(EngineError::Unavailable { engine, reason }) = error else {
            let problem = Problem::from(error);
            return Err(if is_in_doubt { in_doubt(problem.detail()) } else { problem });
        };
        is_in_doubt = true;
        let is_over = tokio::select! {
            () = app.stopping.cancelled() => true,
            () = tokio::time::sleep_until(deadline.min(Instant::now() + PAUSE)) => Instant::now() >= deadline,
        };
        if is_over {
            return Err(in_doubt(&format!("{engine} cannot be reached: {reason}")));
        }
    }
}

/// A problem without `Retry-After`: a client that retries automatically would add the jobs twice.
fn in_doubt(reason: &str) -> Problem {
    ProblemKind::Unavailable.because(format!("{reason}; {IN_DOUBT}"))
}

impl FromRequestParts<Shared> for Idempotency {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Problem> {
        let mut values = parts.headers.get_all(HEADER).iter();
        let (first, second) = (values.next(), values.next());
        let Some(value) = first else { return Ok(Self(None)) };
        let is_visible = value.as_bytes().iter().all(u8::is_ascii_graphic);
        if second.is_some() || value.is_empty() || value.len() > KEY_CHARS_MAX || !is_visible {
            return Err(ProblemKind::Invalid.because(format!(
                "the header Idempotency-Key must appear once and have 1 to {KEY_CHARS_MAX} visible ASCII characters, \
                 such as a UUID"
            )));
        }
        let key = value.to_str().map_err(|error| ProblemKind::Invalid.because(error.to_string()))?.to_owned();
        let caller = Caller::from_request_parts(parts, app).await?;
        Ok(Self(Some(IdempotencyKey { caller: caller.name, key })))
    }
}

/// The problem of a key that was used for another job before.
pub fn reused(job: &JobRef, difference: Difference) -> Problem {
    ProblemKind::KeyReused.because(format!(
        "the job {} of {} exists with another {}: this idempotency key was used for another request; repeat a request \
         unchanged, and use a new key for a new request",
        job.id,
        job.group,
        difference.as_str()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(caller: &str, key: &str) -> IdempotencyKey {
        IdempotencyKey { caller: caller.into(), key: key.to_owned() }
    }

    #[test]
    fn an_id_depends_on_the_caller_the_key_the_group_and_the_position() {
        let group = |name: &str| GroupId::new(name).unwrap();
        let id = key("c", "k").job_id(&group("g"), 1);
        assert_eq!(id, key("c", "k").job_id(&group("g"), 1));
        assert!(id.starts_with("idem-") && id.ends_with("-1") && id.len() == 39, "{id}");
        for other in [
            key("d", "k").job_id(&group("g"), 1),
            key("c", "l").job_id(&group("g"), 1),
            key("c", "k").job_id(&group("h"), 1),
            key("c", "k").job_id(&group("g"), 2),
            key("ck", "").job_id(&group("g"), 1),
        ] {
            assert_ne!(id, other);
        }
    }
}
