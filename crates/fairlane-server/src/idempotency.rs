//! Where ids come from, so that a repeated request finds the same jobs.
//!
//! Nothing is remembered: the ids of what a request adds are derived from the caller, the key, the group and the
//! position within the request, those of a stream into a bulk action from that and the line. So repeating works as long
//! as the jobs are kept, and from any server of the queue. Ids that were drawn are known to the server alone, which
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

/// Where the key stands.
pub const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// Most characters of a key.
const KEY_CHARS_MAX: usize = 255;
/// Bytes of the hash that stand in an id: 128 bits do not collide by chance.
const HASH_BYTES: usize = 16;
/// Pause before an engine that did not answer is asked again.
const PAUSE: Duration = Duration::from_millis(100);
/// What to do about something that may have been added under ids that were drawn.
pub const IN_DOUBT: &str = "what was sent may have been added all the same, and sending it again may add it twice; send \
                            ids or an Idempotency-Key to be able to repeat a request";

/// Where an id comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdFrom {
    /// The request names it.
    Request,
    /// What the request says: repeated as it was, it gives the same.
    Derived,
    /// Chance: repeated, the request gives another. So one that is there was added by this very request.
    Drawn,
}

/// The key of a request, if it came with one.
#[derive(Clone)]
pub struct Idempotency(pub Option<IdempotencyKey>);

/// A key that a caller gave to a request, to be able to repeat it.
#[derive(Clone)]
pub struct IdempotencyKey {
    /// The name of whoever asks: two of them may have chosen the same key.
    caller: Arc<str>,
    key: String,
}

impl IdempotencyKey {
    /// The id of a bulk action of this group that was given none.
    pub fn bulk_id(&self, group: &GroupId) -> String {
        self.stem(group)
    }

    /// The id of the job at this position, counted from 1, that was given none.
    pub fn job_id(&self, group: &GroupId, position: u64) -> String {
        format!("{}-{position}", self.stem(group))
    }

    /// What the ids of its jobs begin with, before `-` and the position.
    pub fn stem(&self, group: &GroupId) -> String {
        format!("idem-{}", hash(&[&self.caller, &self.key, group.escaped()]))
    }
}

/// What the ids of the jobs on a bulk action's lines begin with, before `-` and the line. Nobody names a job like that
/// by chance, so a job that is there under such an id came from that line.
pub fn line_stem(group: &GroupId, bulk: &BulkId) -> String {
    format!("line-{}", hash(&[group.escaped(), bulk.escaped()]))
}

fn hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // With its length before it, no part can be read as the end of another.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize()[..HASH_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asks under ids that were drawn, again and again while the engine does not answer: whoever sent the request cannot.
pub async fn insist<T, F>(app: &App, ask: impl Fn() -> F) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Error>>,
{
    let deadline = Instant::now() + app.settings.request_timeout;
    let mut is_in_doubt = false;
    loop {
        let error = match timeout_at(deadline, ask()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => return Err(in_doubt("the queue did not answer in time")),
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

/// Without a time to come back: a client that then repeats the request by itself would add it twice.
fn in_doubt(reason: &str) -> Problem {
    ProblemKind::Unavailable.because(format!("{reason}; {IN_DOUBT}"))
}

impl FromRequestParts<Shared> for Idempotency {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, Problem> {
        let mut named = parts.headers.get_all(HEADER).iter();
        let (first, second) = (named.next(), named.next());
        let Some(value) = first else { return Ok(Self(None)) };
        let is_visible = value.as_bytes().iter().all(u8::is_ascii_graphic);
        if second.is_some() || value.is_empty() || value.len() > KEY_CHARS_MAX || !is_visible {
            return Err(ProblemKind::Invalid.because(format!(
                "the header Idempotency-Key stands once and has 1 to {KEY_CHARS_MAX} visible ASCII characters, such as \
                 a UUID"
            )));
        }
        let key = value.to_str().map_err(|error| ProblemKind::Invalid.because(error.to_string()))?.to_owned();
        let caller = Caller::from_request_parts(parts, app).await?;
        Ok(Self(Some(IdempotencyKey { caller: caller.name, key })))
    }
}

/// The key was used for another job before.
pub fn reused(job: &JobRef, difference: Difference) -> Problem {
    ProblemKind::KeyReused.because(format!(
        "the job {} of {} is there with another {}: this idempotency key was used for another request; repeat a request as \
         it was, and use a new key for a new one",
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
